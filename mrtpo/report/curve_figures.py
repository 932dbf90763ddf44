"""Training curves as figures: of one run, and of methods over seeds (Fig. 4 and 5 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrtpo.report.curves import Comparison, Curve, curves, metric_columns
from mrtpo.report.figures import FAINT, STYLE, new_figure

METHOD_COLOURS = {"grpo": "#7a8190", "gdpo": "#d9822b", "mrtpo": "#2563a8"}
OTHER_COLOURS = ("#2f8f6b", "#8a5cc2", "#b8495a", "#3d9bb3", "#9a7b1f")
ACROSS = 3
MOST_REWARDS = 5
Panel = tuple[pd.DataFrame, Sequence[str], str, bool]
"""Frame, columns, title, whether lines are smoothed."""


def training_curves(history: pd.DataFrame, evaluations: pd.DataFrame) -> Figure:
    """One run: rewards while training, evaluations, length, gradient norm, time.

    Thin line as measured, thick line averaged over neighbouring steps.
    """
    panels = _reward_panels(history)
    panels += [(evaluations, [name], f"{name}, evaluation", False)
               for name in metric_columns(evaluations) if "undecided/" not in name]  # fmt: skip
    panels += [(history, [name], text, True) for name, text in (
        ("response/length", "response length, tokens"), ("policy/grad_norm", "gradient norm"),
    ) if name in metric_columns(history)]  # fmt: skip
    if phases := metric_columns(history, "time/"):
        panels.append((history, phases, "seconds a step", True))
    return _drawn(panels)


def method_curves(found: Comparison) -> Figure:
    """Methods compared: rewards while training, greedy evaluations, response length, and the scores
    of the policies that were kept. Median and quartiles over seeds. Of more than `MOST_REWARDS`
    rewards the total stands for all."""
    history, evaluations = found.history, found.evaluations
    panels, scores = _reward_panels(history), list(found.scores)
    if len(panels) > MOST_REWARDS + 1:
        rewards = {title.removesuffix(", training") for _, _, title, _ in panels}
        panels = [panel for panel in panels if panel[1] == ["reward/total/mean"]]
        scores = [name for name in scores if name not in rewards] or scores
    panels += [(evaluations, [name], f"{name}, evaluation", False) for name in scores]
    if "response/length" in metric_columns(history):
        panels.append((history, ["response/length"], "response length, tokens", True))
    return _drawn(panels, found)


def _reward_panels(history: pd.DataFrame) -> list[Panel]:
    names = metric_columns(history, "reward/", "/mean")
    return [(history, [name], name.split("/")[1] + ", training", True) for name in names]


def _drawn(panels: Sequence[Panel], compared: Comparison | None = None) -> Figure:
    tested = compared is not None and not compared.tests.empty
    count = len(panels) + tested
    down = max(1, math.ceil(count / ACROSS))
    height = 2.25 * down + 0.3
    with matplotlib.rc_context(STYLE):
        figure = new_figure((10.2, height))
        grid = figure.subplots(down, ACROSS, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _draw_panel(axes, *panel)
        for at, axes in enumerate(grid):
            last_of_column = count - ACROSS <= at < len(panels)
            axes.set_xlabel("step" if last_of_column else "", fontsize=8)
            axes.set_axis_on() if at < count else axes.set_axis_off()
        if tested and compared is not None:
            _draw_tests(grid[len(panels)], compared)
        legend = _method_legend(figure, grid)
        figure.tight_layout(rect=(0, 0, 1, 1 - (0.32 / height if legend else 0)))
    return figure


def _draw_panel(
    axes: Axes, frame: pd.DataFrame, columns: Sequence[str], title: str, smoothed: bool
) -> None:
    for at, column in enumerate(columns):
        phase = column.split("/", 1)[1] if len(columns) > 1 else None
        _draw_curves(axes, curves(frame, column, smoothed), phase, at)
    top = max(frame[name].max() for name in columns)
    if min(frame[name].min() for name in columns) >= 0:
        share = top <= 1 and len(columns) == 1
        axes.set_ylim(0, 1.02 if share else top * (1.5 if len(columns) > 1 else 1.12) or 1)
    axes.set(title=title)
    axes.margins(x=0.02)
    if len(columns) > 1:
        axes.legend(frameon=False, fontsize=7.5, ncols=2, handlelength=1.2, loc="upper left")


def _draw_curves(axes: Axes, found: dict[str, Curve], phase: str | None, at: int) -> None:
    for method, curve in found.items():
        tint = method_colour(method, at if phase else 0)
        if curve.raw:
            axes.plot(curve.steps, curve.raw, color=tint, lw=0.7, alpha=0.35)
        if curve.runs > 1:
            axes.fill_between(curve.steps, curve.low, curve.high, color=tint, alpha=0.16, lw=0)
        marker = "o" if len(curve.steps) < 12 else None
        name = f"{method}, {curve.runs} seeds" if curve.runs > 1 else method
        axes.plot(curve.steps, curve.middle, color=tint, lw=1.7, marker=marker, ms=3,
                  label=phase or name)  # fmt: skip


def _draw_tests(axes: Axes, found: Comparison) -> None:
    """The first score on the test prompts: a dot a seed, a line at the median, by method."""
    score = found.tested
    methods = list(dict.fromkeys(found.tests["method"]))
    for at, method in enumerate(methods):
        values = found.tests.loc[found.tests["method"] == method, score].dropna().sort_values()
        places = [at + 0.12 * (n - (len(values) - 1) / 2) for n in range(len(values))]
        axes.scatter(places, values, s=16, color=method_colour(method), alpha=0.8, linewidths=0)
        axes.hlines(values.median(), at - 0.3, at + 0.3, color=method_colour(method), lw=1.7)
    axes.set(title=f"{score}, {found.where}")
    axes.set_xticks(range(len(methods)), methods)
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.margins(y=0.25)
    axes.grid(axis="x", visible=False)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("dot: a seed; line: median", fontsize=8, color=FAINT)


def method_colour(method: str, at: int = 0) -> str:
    """The colour of a method, the same in every figure; others by a fixed rule on the name."""
    if at or method not in ("", *METHOD_COLOURS):
        return OTHER_COLOURS[(at - 1 if at else sum(map(ord, method))) % len(OTHER_COLOURS)]
    return METHOD_COLOURS.get(method, METHOD_COLOURS["mrtpo"])


def _method_legend(figure: Figure, grid: Iterable[Axes]) -> bool:
    """One legend of methods for all panels, if there are several; says whether there is."""
    lines: dict[str, Any] = {}
    for axes in grid:
        if axes.get_legend() is None:
            handles, names = axes.get_legend_handles_labels()
            lines |= {name: handle for name, handle in zip(names, handles, strict=True) if name}
    if lines:
        figure.legend(
            handles=list(lines.values()), labels=list(lines), loc="upper left", ncols=len(lines),
            frameon=False, bbox_to_anchor=(0.005, 1.0), fontsize=9,
        )  # fmt: skip
    return bool(lines)
