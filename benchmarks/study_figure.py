"""A task of the study as a figure: the main reward while training, and areas beside GDPO's."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.study_table import (
    RIVAL,
    WINDOW,
    interval,
    main_area,
    methods_of,
    paired,
    trailing,
)
from mrtpo.report.curve_figures import METHOD_COLOURS, OTHER_COLOURS
from mrtpo.report.figures import FAINT, INK, STYLE, new_figure

Row = Mapping[str, Any]
SIZE = (10.2, 3.4)


def overview(rows: Sequence[Row], about: Mapping[str, Any], drawn: Sequence[str]) -> Figure:
    """Left: the main reward of the methods in `drawn`, mean of `WINDOW` training steps, median and
    quartiles over seeds, with the task's thresholds. Right: of every method with a run, area minus
    GDPO's: a dot a seed, mean and 95 % bootstrap interval where three seeds are paired."""
    methods = methods_of(rows)
    shown = [method for method in drawn if method in methods]
    with matplotlib.rc_context(STYLE):
        figure = new_figure(SIZE)
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        for at, method in enumerate(shown):
            tint = METHOD_COLOURS.get(method, OTHER_COLOURS[at % len(OTHER_COLOURS)])
            _curve(
                left, [row["main_curve"] for row in rows if row["method"] == method], method, tint
            )
        for threshold in about["thresholds"]:
            left.axhline(threshold, color=FAINT, lw=0.6, ls=":")
        left.set(title=f"{about['main']}, training, mean of {WINDOW} steps", xlabel="step")
        left.margins(x=0.02)
        if shown:
            left.legend(frameon=False, fontsize=8, loc="lower right")
        _differences(right, rows, [method for method in methods if method != RIVAL])
        right.set(title=f"area under it, minus {RIVAL}'s")
        figure.tight_layout()
    return figure


def _curve(axes: Axes, runs: Sequence[Sequence[float]], method: str, tint: str) -> None:
    frame = pd.DataFrame([trailing(pd.Series(run, dtype=float).ffill()) for run in runs])
    steps = range(1, frame.shape[1] + 1)
    low, middle, high = (frame.quantile(q) for q in (0.25, 0.5, 0.75))
    axes.fill_between(steps, low, high, color=tint, alpha=0.16, lw=0)
    axes.plot(steps, middle, color=tint, lw=1.6, label=f"{method}, {len(runs)} seeds")


def _differences(axes: Axes, rows: Sequence[Row], methods: Sequence[str]) -> None:
    for at, method in enumerate(methods):
        found = paired(rows, method, main_area)
        axes.scatter(found, [at] * len(found), s=10, color=FAINT, linewidths=0)
        if bounds := interval(found):
            axes.hlines(at, *bounds, color=INK, lw=1.4)
            axes.scatter([statistics.fmean(found)], [at], s=20, color=INK, zorder=3)
    axes.axvline(0, color=FAINT, lw=0.8)
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
