"""Curves of one or several runs: smoothed, and by method the median with quartiles over seeds.

A frame of curves has `step`, metric columns, and for several runs `method` and `seed`. Runs are
read from a record of `benchmarks.curves` (`curves.json`), or from MLflow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mrtpo.report import text
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


@dataclass(frozen=True)
class Comparison:
    """Runs of several methods and seeds on one task.

    `history` (while training) and `evaluations` (of prompts held out) are frames of curves, `tests`
    has method, seed and a column a score of the policy that a run kept; `where` says on what.
    """

    task: str
    history: pd.DataFrame
    evaluations: pd.DataFrame
    tests: pd.DataFrame
    where: str = "test prompts"

    @property
    def scores(self) -> list[str]:
        """Greedy scores of the evaluations by interest, without what only describes them."""
        left_out = ("sampled/", "undecided/", "gain/", "truncated", "response_length")
        names = [n for n in metric_columns(self.evaluations) if not n.startswith(left_out)]
        return text.ordered(names, "")

    @property
    def tested(self) -> str:
        """The score of the test that is shown: of those evaluated too, the first that is not a
        reward's own, else the first."""
        rewards = {n.split("/")[1] for n in metric_columns(self.history, "reward/", "/mean")}
        known = [n for n in self.scores if n in self.tests] or metric_columns(self.tests)
        return ([n for n in known if n not in rewards] or known)[0]


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


def read_comparison(file: Path) -> Comparison:
    """A record of `benchmarks.curves`. Raises FileNotFoundError, ValueError for another file."""
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; benchmarks.curves writes curves.json")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        task, runs = found["task"], found["runs"]
        history, evaluations = (frame_of_records(runs, n) for n in ("history", "evaluations"))
        tests = [{"method": r["method"], "seed": r["seed"], **r["test"]} for r in runs]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file}: no record of benchmarks.curves ({error!r})") from None
    return Comparison(task, history, evaluations, pd.DataFrame(tests))


def frame_of_records(runs: Sequence[Mapping[str, Any]], name: str) -> pd.DataFrame:
    """`history` or `evaluations` of all runs, one under the other, with their method and seed."""
    frames = [pd.DataFrame(r[name]).assign(method=r["method"], seed=r["seed"]) for r in runs]
    if not frames:
        raise ValueError("no runs")
    return pd.concat(frames, ignore_index=True)


def comparison_of_runs(task: str, runs: Sequence[PastRun]) -> Comparison:
    """Finished runs of MLflow. Raises ValueError where there are none."""
    if not runs:
        raise ValueError(f"no finished run of task {task} in this experiment of MLflow")
    frame = frame_of_runs(runs)
    valid = metric_columns(frame, "valid/")
    evaluations = frame[["step", "method", "seed", *valid]].dropna(subset=valid, how="all")
    tests = [
        {"method": run.method, "seed": run.seed,
         **{n.removeprefix("final/"): v for n, v in run.final.items() if n.startswith("final/")}}
        for run in runs
    ]  # fmt: skip
    renamed = evaluations.rename(columns=lambda name: str(name).removeprefix("valid/"))
    return Comparison(task, frame.drop(columns=valid), renamed, _scored(tests))


def _scored(tests: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Tests of the runs that have any; empty where none has."""
    return pd.DataFrame([row for row in tests if len(row) > 2])
