"""Curves of one or several runs: smoothed, and by method the median with quartiles over seeds.

A frame of curves has `step`, metric columns, and for several runs `method` and `seed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mrtpo.tracking import PastRun

KEYS = ("step", "method", "seed")


@dataclass(frozen=True)
class Curve:
    """One line: median over `runs` runs, and the quartiles around it (all equal for one run)."""

    steps: list[float]
    middle: list[float]
    low: list[float]
    high: list[float]
    runs: int
    raw: list[float]  # unsmoothed, of a single run; empty otherwise


def metric_columns(frame: pd.DataFrame, prefix: str = "", suffix: str = "") -> list[str]:
    """Columns of numbers that have any, in their order, by how their name begins and ends."""
    return [
        str(name)
        for name in frame.columns
        if name not in KEYS
        and str(name).startswith(prefix)
        and str(name).endswith(suffix)
        and pd.api.types.is_numeric_dtype(frame[name])
        and frame[name].notna().any()
    ]


def smooth(values: pd.Series, window: int) -> pd.Series:
    """Centred rolling mean over what is present; gaps stay gaps."""
    if window <= 1:
        return values
    return values.rolling(window, center=True, min_periods=1).mean().where(values.notna())


def window_for(count: int) -> int:
    """How many points to average: none under 20, then about a fifteenth of them, odd."""
    return 1 if count < 20 else count // 15 * 2 // 2 | 1


def curves(frame: pd.DataFrame, column: str, smoothed: bool = True) -> dict[str, Curve]:
    """The curve of each method (of "" where there is one run), in order of first appearance."""
    if column not in frame:
        return {}
    several = "method" in frame
    found = {}
    groups = frame.groupby("method", sort=False) if several else [("", frame)]
    for method, rows in groups:
        seeds = rows.groupby("seed") if "seed" in rows else [(0, rows)]
        lines = []
        raw = pd.Series(dtype=float)
        for _, run in seeds:
            line = run.dropna(subset=[column]).set_index("step")[column].astype(float).sort_index()
            if line.empty:
                continue
            raw = line
            lines.append(smooth(line, window_for(len(line))) if smoothed else line)
        if lines:
            found[str(method)] = _curve(pd.concat(lines, axis=1), raw if smoothed else None)
    return found


def _curve(lines: pd.DataFrame, raw: pd.Series | None) -> Curve:
    low, middle, high = np.nanpercentile(lines.to_numpy(), [25, 50, 75], axis=1)
    single = lines.shape[1] == 1 and raw is not None and not raw.equals(lines.iloc[:, 0])
    return Curve(
        steps=[float(step) for step in lines.index],
        middle=middle.tolist(), low=low.tolist(), high=high.tolist(),
        runs=lines.shape[1],
        raw=raw.tolist() if single and raw is not None else [],
    )  # fmt: skip


def frame_of_runs(runs: Iterable[PastRun]) -> pd.DataFrame:
    """One frame of the curves of finished runs: step, method, seed, and the metrics kept."""
    frames = []
    for run in runs:
        series = {name: pd.Series(dict(points)) for name, points in run.history.items() if points}
        if series:
            frame = pd.DataFrame(series).rename_axis("step").reset_index()
            frames.append(frame.assign(method=run.method, seed=run.seed))
    if not frames:
        return pd.DataFrame(columns=list(KEYS))
    return pd.concat(frames, ignore_index=True)
