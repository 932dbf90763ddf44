"""Figures along the tokens of one response.

Fig. 2 of the paper: its advantages, GDPO's beside MRTPO's. Fig. 3, 7 and 8: its
replays, log-probability of each token with and without what the verifier checks, distance, weight.
Of a long response, the stretches with most credit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from mrtpo.report.credit import Row, even_credit, heading, most_credit, token_credit, weights
from mrtpo.report.curve_figures import METHOD_COLOURS
from mrtpo.report.figures import (
    BLUE,
    FAINT,
    INK,
    NOTE,
    RED,
    REWARDS_SHOWN,
    STYLE,
    draw_lines,
    new_figure,
    note_lines,
    printable,
    shortened,
    stretches,
)

MOST_TOKENS = 104
TOKEN_INCHES, MARGIN_INCHES, NARROWEST = 0.132, 1.25, 8.0
HALF = 0.39  # a bar's half width, of the room that a token has
LABEL = 14  # characters of a token that stand at the axis
LOWEST = -12.0  # log-probabilities below it are drawn there
Places = Sequence[int | None]


def advantage_figure(
    rows: Sequence[Row], title: str, notes: Sequence[str] = (), most: int = REWARDS_SHOWN
) -> Figure:
    """A panel a reward with credit, and one of their sum: what each token is given."""
    shown = most_credit(rows, most)
    tokens, places = stretches(shown, MOST_TOKENS)
    panels = [(heading(row), even_credit(row), token_credit(row)) for row in shown]
    if len(panels) > 1:
        name = "together" if len(shown) == len(rows) else "together, of those shown"
        even, placed = ([sum(v) for v in zip(*(p[at] for p in panels), strict=True)]
                        for at in (1, 2))  # fmt: skip
        panels.append((name, even, placed))

    def draw(axes: Axes, panel: tuple[str, list[float], list[float]]) -> None:
        name, even, placed = panel
        _draw_bars(axes, placed, places, METHOD_COLOURS["mrtpo"])
        axes.step(range(-1, len(places) + 1), [_at(even, place) for place in (places[0], *places,
                  places[-1])], where="mid", color=METHOD_COLOURS["gdpo"], lw=1.4)  # fmt: skip
        axes.axhline(0, color=FAINT, lw=0.6)
        _name(axes, name)

    handles = [_key(METHOD_COLOURS["gdpo"], "GDPO, even"), _key(METHOD_COLOURS["mrtpo"], "MRTPO")]
    return _along_tokens(tokens, places, panels, draw, f"{title}: advantage of each token", notes,
                         handles, 0.95)  # fmt: skip


def replay_figure(
    rows: Sequence[Row], title: str, notes: Sequence[str] = (), most: int = 3
) -> Figure:
    """Three panels a replay: log-probabilities with and without, distance, weight.

    Shown are at most `most` replays with credit, those of the largest distance.
    """
    shown = [row for row in most_credit(rows, most) if not row["skipped"]]
    if not shown:
        raise ValueError(f"{rows[0]['prompt_id']}, response {rows[0]['sample']}: no replay to draw")
    tokens, places = stretches(shown, MOST_TOKENS)
    panels = [(row, what) for row in shown for what in ("log p", "distance", "weight")]

    def draw(axes: Axes, panel: tuple[Row, str]) -> None:
        row, what = panel
        tint = BLUE if row["advantage"] > 0 else RED
        if what == "log p":
            _draw_probabilities(axes, row, places)
            verdict = f"{shortened(heading(row), 70)}, advantage {row['advantage']:+.2f}"
            axes.set_title(verdict, fontsize=9, pad=3, weight="bold")
        else:
            values = list(row["distance"]) if what == "distance" else weights(row)
            _draw_bars(axes, values, places, tint)
            axes.set_ylim(0, 1.1 * max([v for v in values if math.isfinite(v)], default=0.0) or 1)
            if what == "weight":
                axes.axhline(1.0, color=METHOD_COLOURS["gdpo"], lw=1.0)
        axes.set_ylabel(what, fontsize=8, rotation=0, ha="right", va="center")

    handles = [
        Line2D([], [], color=BLUE, marker="o", ls="", ms=4, label="told what the verifier checks"),
        Line2D([], [], color=INK, marker="o", ls="", ms=4, mfc="white", label="not told"),
        _key(BLUE, "credit"), _key(RED, "penalty"), _key(METHOD_COLOURS["gdpo"], "even weight"),
    ]  # fmt: skip
    return _along_tokens(tokens, places, panels, draw, f"{title}: replay", notes,
                         handles, 0.62, groups=3)  # fmt: skip


def _draw_probabilities(axes: Axes, row: Row, places: Places) -> None:
    xs = [x for x, place in enumerate(places) if place is not None]
    told, untold = (
        [max(LOWEST, row[name][place]) for place in places if place is not None]
        for name in ("logprob_with", "logprob_without")
    )
    axes.vlines(xs, told, untold, color=FAINT, lw=1.0)
    axes.plot(xs, untold, ls="", marker="o", ms=3, color=INK, mfc="white", mew=0.7)
    axes.plot(xs, told, ls="", marker="o", ms=2.6, color=BLUE)
    low = min([*told, *untold, -1.0])
    axes.set_ylim(low * 1.15, -low * 0.15)


def _along_tokens(
    tokens: Sequence[str],
    places: Places,
    panels: Sequence[Any],
    draw: Callable[[Axes, Any], None],
    title: str,
    notes: Sequence[str],
    handles: Sequence[Line2D],
    panel_inches: float,
    groups: int = 1,
) -> Figure:
    """Panels below each other over one axis of tokens; every `groups` of them stand closer."""
    width = max(NARROWEST, MARGIN_INCHES + TOKEN_INCHES * len(tokens))
    told = note_lines(notes, width - 0.4)
    head, foot, gap, near = 0.64 + NOTE * len(told), 0.9, 0.3, 0.1
    blocks = len(panels) // groups
    height = head + foot + len(panels) * panel_inches
    height += (blocks - 1) * gap + blocks * (groups - 1) * near
    with matplotlib.rc_context(STYLE):
        figure = new_figure((width, height))
        top = height - head
        for at, panel in enumerate(panels):
            bottom = top - panel_inches
            left = (MARGIN_INCHES - 0.3) / width
            axes = figure.add_axes((left, bottom / height, 1 - left - 0.2 / width,
                                    panel_inches / height))  # fmt: skip
            draw(axes, panel)
            axes.set_xlim(-0.7, len(tokens) - 0.3)
            axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(3))
            axes.tick_params(axis="y", labelsize=7, length=0)
            axes.grid(axis="x", visible=False)
            axes.set_xticks([])
            for x, place in enumerate(places):
                if place is None:
                    axes.axvline(x, color=FAINT, lw=0.8, ls=":")
            top = bottom - (near if (at + 1) % groups else gap)
        labels = [_label(text, place) for text, place in zip(tokens, places, strict=True)]
        axes.set_xticks(range(len(tokens)), labels, rotation=90, fontsize=6.5,
                        family="DejaVu Sans Mono")  # fmt: skip
        axes.tick_params(axis="x", length=0, pad=2)
        figure.text(0.2 / width, 1 - 0.08 / height, title, va="top", weight="bold", fontsize=10.5)
        draw_lines(figure, told, 0.2, 0.29)
        below = 1 - (0.29 + NOTE * len(told)) / height
        figure.legend(
            handles=handles, loc="upper left", ncols=len(handles), frameon=False, fontsize=8,
            handlelength=1.2, columnspacing=1.4, borderaxespad=0, borderpad=0,
            bbox_to_anchor=(0.2 / width, below),
        )  # fmt: skip
    return figure


def _label(text: str, place: int | None) -> str:
    if place is None:
        return text.strip()
    shown = printable(text).replace("\n", "↵")
    shown = shown.strip() or shown.replace(" ", "␣")
    return shown if len(shown) <= LABEL else shown[: LABEL - 1] + "…"


def _name(axes: Axes, name: str) -> None:
    axes.set_title(shortened(name, 80), fontsize=9, pad=3)


def _at(values: Sequence[float], place: int | None) -> float:
    return float("nan") if place is None else values[place]


def _draw_bars(axes: Axes, values: Sequence[float], places: Places, colour: str) -> None:
    """Bars as one shape: a drawing of some hundred bars stays small."""
    corners = [
        [(x - HALF, 0.0), (x - HALF, values[place]), (x + HALF, values[place]), (x + HALF, 0.0)]
        for x, place in enumerate(places)
        if place is not None
    ]
    shape = Path.make_compound_path(*(Path(four, closed=False) for four in corners))
    axes.add_patch(PathPatch(shape, facecolor=colour, linewidth=0))
    axes.autoscale_view()


def _key(colour: str, label: str) -> Line2D:
    return Line2D([], [], color=colour, lw=3, label=label)
