"""What the study's rows say: thresholds, areas, differences paired by seed, tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mrtpo.report.quality import bootstrap

WINDOW = 5  # training steps that a threshold is judged by
RIVAL = "gdpo"

Row = Mapping[str, Any]


def trailing(values: pd.Series) -> pd.Series:
    """Mean of each step and the four before it; there is none before the fifth."""
    return values.rolling(WINDOW, min_periods=1).mean().where(np.arange(len(values)) >= WINDOW - 1)


def steps_to(values: pd.Series, threshold: float) -> int | None:
    """The first step, from 1, at which the trailing mean is at the threshold; None: never."""
    reached = (trailing(values) >= threshold).to_numpy()
    return int(reached.argmax()) + 1 if reached.any() else None


def area(values: pd.Series) -> float:
    """Mean over the training steps, those without a value left out."""
    return float(values.mean())


def methods_of(rows: Sequence[Row]) -> list[str]:
    """The methods of runs, in the order of the first run of each."""
    return list(dict.fromkeys(row["method"] for row in rows))


def main_area(row: Row) -> float:
    return float(row["main_area"])


def paired(rows: Sequence[Row], method: str, of: Callable[[Row], float | None]) -> list[float]:
    """Differences to GDPO of the seeds that both have a value for."""
    sides: list[dict[int, float]] = []
    for name in (method, RIVAL):
        own = {row["seed"]: of(row) for row in rows if row["method"] == name}
        sides.append({seed: value for seed, value in own.items() if value is not None})
    mine, theirs = sides
    return [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]


def steps_to_rival(rows: Sequence[Row], method: str) -> list[tuple[int | None, int]]:
    """By seed: steps until the trailing mean of the method, and of GDPO, is at GDPO's largest.
    Seeds with fewer steps than such a mean is of are left out."""
    curves = [
        {row["seed"]: pd.Series(row["main_curve"], dtype=float).ffill() for row in rows
         if row["method"] == name}
        for name in (method, RIVAL)
    ]  # fmt: skip
    mine, theirs = curves
    found = []
    for seed in sorted(mine.keys() & theirs.keys()):
        best = float(trailing(theirs[seed]).max())
        own = steps_to(theirs[seed], best)
        if own is not None:
            found.append((steps_to(mine[seed], best), own))
    return found


def interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """95 % percentile bootstrap interval of the mean over seeds; None under three of them."""
    if len(differences) < 3:
        return None
    found = bootstrap(differences, range(len(differences)))
    return found.low, found.high


def page(tasks: Mapping[str, Any]) -> str:
    """The tables of all tasks."""
    parts: list[str] = []
    for task, found in tasks.items():
        parts += ["", f"### {task}", "", *start_table(found), "", *method_table(found)]
    return "\n".join(parts).strip()


def start_table(found: Mapping[str, Any]) -> list[str]:
    """The start by what it is told."""
    start = found["start"]
    names = [n for n in start["train"] if n not in ("truncated", "response_length")
             and not n.startswith("undecided/")]  # fmt: skip
    cells = [("as asked", start["train"])]
    cells += [(f"told {w}", start["told"][w]) for w in ("all", "nothing") if w in start["told"]]
    return [
        f"| start, train prompts sampled | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|",
        *(f"| {label} | {' | '.join(f'{scores[n]:.3f}' for n in names)} |"
          for label, scores in cells),
    ]  # fmt: skip


def method_table(found: Mapping[str, Any]) -> list[str]:
    """A line a method: rate, steps to thresholds, area and test score with differences to GDPO."""
    rows, main = found["runs"], found["about"]["main"]
    thresholds = [str(t) for t in found["about"]["thresholds"]]
    head = ["method", "seeds", "rate", *(f"steps to {t}" for t in thresholds),
            f"steps to {RIVAL}'s best", f"area of {main}",
            f"− {RIVAL} [95 %]", f"test {main}, sampled", f"− {RIVAL} [95 %]",
            "length", "gradient norm", "N_eff/T"]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for method in methods_of(rows):
        own = [row for row in rows if row["method"] == method]

        def tested(row: Row) -> float:
            return float(row["test"][f"sampled/{main}"])

        spread = [row["n_eff_share"] for row in own if row["n_eff_share"] is not None]
        lines.append(
            "| " + " | ".join([
                method, str(len(own)), f"{own[0]['rate']:g}",
                *(_reached([row["steps_to"][t] for row in own]) for t in thresholds),
                _overtaken(rows, method),
                _quartiles([main_area(row) for row in own]), _difference(rows, method, main_area),
                _quartiles([tested(row) for row in own]), _difference(rows, method, tested),
                f"{statistics.median(row['response_length'] for row in own):.1f}",
                f"{statistics.median(row['grad_norm'] for row in own):.2f}",
                f"{statistics.median(spread):.2f}" if spread else "–",
            ]) + " |"
        )  # fmt: skip
    return lines


def _reached(steps: Sequence[int | None]) -> str:
    """Median of the seeds, those that never get there counted as later than all others."""
    ordered = sorted(float("inf") if step is None else step for step in steps)
    middle = statistics.median_high(ordered)
    shown = "never" if middle == float("inf") else f"{middle:.0f}"
    never = steps.count(None)
    return f"{shown} ({never} of {len(steps)} never)" if never and shown != "never" else shown


def _overtaken(rows: Sequence[Row], method: str) -> str:
    """Steps to the best of GDPO with the same seed, and the median of their ratios to its own."""
    if not (found := steps_to_rival(rows, method)):
        return "–"
    shown = _reached([mine for mine, _ in found])
    if method == RIVAL or shown == "never":
        return shown
    ratios = sorted(float("inf") if mine is None else mine / theirs for mine, theirs in found)
    return f"{shown}, × {statistics.median_high(ratios):.2f}"


def _quartiles(values: Sequence[float]) -> str:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:.3f} ({low:.3f}–{high:.3f})"


def _difference(rows: Sequence[Row], method: str, of: Callable[[Row], float | None]) -> str:
    if method == RIVAL:
        return ""
    differences = paired(rows, method, of)
    if not differences:
        return "–"
    bounds = interval(differences)
    shown = f"{statistics.fmean(differences):+.3f}"
    return f"{shown} [{bounds[0]:+.3f}, {bounds[1]:+.3f}]" if bounds else shown
