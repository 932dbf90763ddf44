"""Tables of the report: scores with intervals and by group, statuses, whether information helped,
methods compared.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mrtpo.report.curves import metric_columns
from mrtpo.report.results import PREDICTION_COLUMNS, Row
from mrtpo.report.text import ordered
from mrtpo.tracking import PastRun

Z = 1.959964  # 95 %
DIFFICULTIES = ("easy", "simple", "medium", "moderate", "hard", "challenging", "extra")


@dataclass(frozen=True)
class Share:
    """A mean score over `count` answers, with an interval if scores are 0 or 1.

    As benchmarks count, the `undecided` have not passed.
    """

    value: float
    count: int
    low: float | None = None
    high: float | None = None
    undecided: int = 0


def score_columns(rows: Sequence[Row]) -> list[str]:
    """Columns of predictions that hold scores, in their order."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [
        name
        for name in names
        if name not in PREDICTION_COLUMNS
        and any(isinstance(row.get(name), (int, float)) for row in rows)
    ]


def share(values: Iterable[Any]) -> Share | None:
    """Mean score with Wilson's 95 % interval for 0/1 scores; None where nothing was decided. NaN is
    the score of an answer that was not asked for it, and does not count."""
    scores = [v for v in values if v is None or not math.isnan(v)]
    present = [float(v) for v in scores if v is not None]
    if not present:
        return None
    count, undecided = len(scores), len(scores) - len(present)
    mean = sum(present) / count
    if set(present) - {0.0, 1.0}:
        return Share(mean, count, undecided=undecided)
    middle = (mean + Z * Z / (2 * count)) / (1 + Z * Z / count)
    spread = math.sqrt(mean * (1 - mean) / count + Z * Z / (4 * count * count))
    half = Z * spread / (1 + Z * Z / count)
    return Share(mean, count, max(0.0, middle - half), min(1.0, middle + half), undecided)


def by_group(
    rows: Sequence[Row], column: str, limit: int = 40
) -> list[tuple[str, int, dict[str, Share | None]]]:
    """(group, answers, score → share), easy before hard, else by name; the largest of many."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row.get(column) or "–"), []).append(row)
    largest = set(sorted(groups, key=lambda name: -len(groups[name]))[:limit])
    names = score_columns(rows)
    rank = {name: at for at, name in enumerate(DIFFICULTIES)}
    return [
        (group, len(groups[group]), {n: share(row.get(n) for row in groups[group]) for n in names})
        for group in sorted(largest, key=lambda group: (rank.get(group, len(rank)), group))
    ]


def statuses(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """How often each verifier status occurs, `ok` first, then by count."""
    counts = Counter(str(row.get("status") or "–") for row in rows)
    return sorted(counts.items(), key=lambda item: (item[0] != "ok", -item[1], item[0]))


def failures(rows: Sequence[Row], score: str) -> list[Row]:
    """Answers whose score is not reached, at most one of a kind before the next round of kinds.

    So the first n show what goes wrong across kinds rather than n of the most frequent.
    """
    wrong = [row for row in rows if not row.get(score)]
    turn: Counter[tuple[Any, Any]] = Counter()
    keyed = []
    for at, row in enumerate(wrong):
        kind = (row.get("kind"), row.get("status"))
        keyed.append((turn[kind], at, row))
        turn[kind] += 1
    return [row for _, _, row in sorted(keyed, key=lambda item: item[:2])]


def training_totals(history: pd.DataFrame) -> list[tuple[str, dict[str, float]]]:
    """(reward, {missing, timeout, error, refused: total, dead_groups: mean share})."""
    found = []
    for name in metric_columns(history, "reward/", "/mean"):
        reward = name.split("/")[1]
        totals = {}
        for what in ("missing", "timeout", "error", "refused", "dead_groups"):
            column = f"reward/{reward}/{what}"
            if column in history:
                values = history[column].dropna()
                totals[what] = float(values.mean() if what == "dead_groups" else values.sum())
        if totals:  # the weighted total has none
            found.append((reward, totals))
    return found


def gains(metrics: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The latest information gain check of each reward (fields of `mrtpo.gain.Gain`), in the order
    of interest; nothing where `metrics`, by stage, hold none because nothing was replayed.
    """
    found = metrics.get("train", {}).get("gain", {})
    return [found[reward] for reward in ordered([*found], "")]


@dataclass(frozen=True)
class Spread:
    """Median and quartiles over seeds."""

    middle: float
    low: float
    high: float
    best: bool = False


@dataclass(frozen=True)
class MethodRow:
    method: str
    runs: int
    seeds: str
    figures: dict[str, Spread | None]
    seconds: Spread | None = None  # a step


def own_run(runs: Sequence[PastRun], origin: dict[str, str]) -> PastRun | None:
    """The run that made this policy."""
    wanted = origin.get("fingerprint")
    return next((run for run in runs if wanted and run.tags.get("fingerprint") == wanted), None)


def comparable(runs: Sequence[PastRun], origin: dict[str, str]) -> list[PastRun]:
    """Runs on the same data and model as the run of this policy (as the newest, if unknown)."""
    if not runs:
        return []
    own = own_run(runs, origin) or runs[-1]
    keys = ("data_hash", "model")
    return [run for run in runs if all(run.tags.get(k) == own.tags.get(k) for k in keys)]


def methods(runs: Sequence[PastRun], wanted: Sequence[str]) -> list[MethodRow]:
    """One row a method: test figures of the scores `wanted`, and of the first of them the mean over
    all evaluations while training, which tells how fast a method got there. The best are marked.
    """
    rows = []
    for method in dict.fromkeys(run.method for run in runs):
        own = [run for run in runs if run.method == method]
        figures: dict[str, Spread | None] = {}
        for name in wanted:
            tested = [run.final[f"final/{name}"] for run in own if f"final/{name}" in run.final]
            figures[f"{name}, test"] = _spread(tested)
        for name in wanted[:1]:
            along = [
                statistics.fmean(value for _, value in run.history[f"valid/{name}"])
                for run in own
                if run.history.get(f"valid/{name}")
            ]
            figures[f"{name}, over training"] = _spread(along)
        seeds = ", ".join(str(seed) for seed in sorted({run.seed for run in own}))
        seconds = _spread([value for run in own if (value := _seconds(run)) is not None])
        rows.append(MethodRow(method, len(own), seeds, figures, seconds))
    return _mark_best(rows)


def _seconds(run: PastRun) -> float | None:
    """Mean time of a step, all phases together."""
    phases = [points for name, points in run.history.items() if name.startswith("time/") and points]
    return sum(statistics.fmean(value for _, value in points) for points in phases) or None


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def _mark_best(rows: list[MethodRow]) -> list[MethodRow]:
    best = {}
    for name in dict.fromkeys(name for row in rows for name in row.figures):
        found = [spread.middle for row in rows if (spread := row.figures.get(name))]
        if len(found) > 1:
            best[name] = max(found)
    marked = []
    for row in rows:
        figures = {
            name: spread and dataclasses.replace(spread, best=spread.middle == best.get(name))
            for name, spread in row.figures.items()
            if any(other.figures.get(name) for other in rows)
        }
        marked.append(dataclasses.replace(row, figures=figures))
    return marked


@dataclass(frozen=True)
class Public:
    """A public benchmark: its scores that are shares, and the headline score by group."""

    name: str
    questions: int
    scores: dict[str, float | None]
    groups: list[tuple[str, float | None]]


def public(metrics: Mapping[str, Any]) -> list[Public]:
    """Of `metrics/benchmark.json`, one a benchmark."""
    return [
        Public(
            name,
            values["questions"],
            {key: v for key, v in values["scores"].items() if v is None or 0 <= v <= 1},
            [(group, v) for members in values["groups"].values() for group, v in members.items()],
        )
        for name, values in metrics.items()
        if isinstance(values, Mapping)
    ]
