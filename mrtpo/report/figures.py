"""Figures as matplotlib draws them: token heat maps, share by part, training curves.

Pure functions return a Figure made without pyplot (no global state, no display). `save` writes PNG
and SVG whose bytes depend on the figure alone: no dates, no random ids.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mrtpo.report.credit import (
    Row,
    even_credit,
    full_colour,
    part_shares,
    token_credit,
    top_shares,
    with_credit,
)
from mrtpo.report.curves import Curve, curves, metric_columns

METHOD_COLOURS = {"grpo": "#7a8190", "gdpo": "#d9822b", "mrtpo": "#2563a8"}
OTHER_COLOURS = ("#2f8f6b", "#8a5cc2", "#b8495a", "#3d9bb3", "#9a7b1f")
INK, FAINT, BLUE, RED, ORANGE = "#1f2430", "#8b93a1", "#2166ac", "#b2182b", "#e8590c"
STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.edgecolor": FAINT, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "text.color": INK,
    "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "axes.titlesize": 9.5, "axes.titlelocation": "left", "axes.grid": True,
    "grid.color": "#e6e8ec", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "text.parse_math": False,  # a response may well hold two dollar signs
}  # fmt: skip
FONT, LINE = 8.0, 1.62  # points; line height in font sizes
SHADE = 0.75
CHARACTER = 0.602  # width of DejaVu Sans Mono in font sizes


def save(figure: Figure, path: Path) -> list[Path]:
    """Write `path`.png and `path`.svg; returns both."""
    path.parent.mkdir(parents=True, exist_ok=True)
    png, svg = path.with_name(f"{path.name}.png"), path.with_name(f"{path.name}.svg")
    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(png, dpi=160, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]


def token_heat_map(
    tokens: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float]]],
    title: str,
    kind: Literal["credit", "weight"] = "credit",
    columns: int = 1,
    width: int = 68,
    peak: float | None = None,
) -> Figure:
    """A response as coloured boxes, once for each (label, values) row, on one colour scale.

    `credit`: red below 0, blue above, equally strong for the same size. `weight`: white at 0 to
    orange. Colour grows a little faster at first, so that small values are still seen. `width` is
    in characters; newlines are drawn as ↵ and kept. Values from `peak` on, by default the largest,
    are drawn in full colour.
    """
    boxes = layout(tokens, width)
    lines = 1 + max((line for _, line, _, _ in boxes), default=0)
    largest = max((abs(v) for _, values in rows for v in values), default=0.0)
    peak = peak or largest or 1.0
    character, line_height = FONT * CHARACTER / 72, FONT * LINE / 72
    panel_rows = math.ceil(len(rows) / columns)
    gap, head, foot, side = 0.3, 0.38, 0.55, 0.25
    panel = (width * character, lines * line_height + 0.3)
    size = (
        columns * panel[0] + (columns - 1) * gap + 2 * side,
        panel_rows * panel[1] + (panel_rows - 1) * 0.12 + head + foot,
    )
    with matplotlib.rc_context(STYLE):
        figure = _figure(size)
        figure.text(side / size[0], 1 - 0.2 / size[1], title, fontsize=11, weight="bold", va="top")
        for at, (label, values) in enumerate(rows):
            row, column = divmod(at, columns)
            left = side + column * (panel[0] + gap)
            bottom = size[1] - head - (row + 1) * panel[1] - row * 0.12
            place = (left / size[0], bottom / size[1], panel[0] / size[0], panel[1] / size[1])
            axes = figure.add_axes(place)
            axes.set(xlim=(0, width), ylim=(lines + 0.02, -0.3 / line_height))
            axes.axis("off")
            axes.text(0, -0.55, label, fontsize=8.5, color=INK, weight="bold", va="bottom")
            _draw_boxes(axes, boxes, values, peak, kind)
        _colour_bar(
            figure, size, side, peak, kind, ", full colour beyond" if largest > peak else ""
        )
    return figure


def layout(tokens: Sequence[str], width: int) -> list[tuple[int, int, int, str]]:
    """Boxes (token, line, column, text): tokens set one after the other, wrapped at `width`."""
    boxes: list[tuple[int, int, int, str]] = []
    line = column = 0
    for token, text in enumerate(tokens):
        for piece in _printable(text).replace("\n", "↵\n").splitlines(keepends=True) or [" "]:
            shown = piece.rstrip("\n")
            if column and column + len(shown) > width:
                line, column = line + 1, 0
            while len(shown) > width:
                boxes.append((token, line, 0, shown[:width]))
                line, shown = line + 1, shown[width:]
            boxes.append((token, line, column, shown))
            column += len(shown)
            if piece.endswith("\n"):
                line, column = line + 1, 0
    return boxes


def _printable(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    return "".join(c if c == "\n" or unicodedata.category(c)[0] != "C" else "·" for c in text)


def colour(value: float, peak: float, kind: str) -> tuple[float, float, float]:
    """The colour of one token; white at 0."""
    strength = min(1.0, abs(value) / peak) ** SHADE
    red, green, blue = to_rgb(ORANGE if kind == "weight" else BLUE if value > 0 else RED)
    return (1 - strength * (1 - red), 1 - strength * (1 - green), 1 - strength * (1 - blue))


def _draw_boxes(
    axes: Axes,
    boxes: Iterable[tuple[int, int, int, str]],
    values: Sequence[float],
    peak: float,
    kind: str,
) -> None:
    for token, line, column, text in boxes:
        fill = colour(values[token], peak, kind)
        box = Rectangle((column + 0.06, line + 0.07), max(len(text), 0.4) - 0.12, 0.86,
                        facecolor=fill, edgecolor="#d9dce2", linewidth=0.35)  # fmt: skip
        box.set_gid(f"token-{token}")
        axes.add_patch(box)
        light = 0.299 * fill[0] + 0.587 * fill[1] + 0.114 * fill[2]
        ink = "white" if light < 0.55 else INK
        axes.text(column, line + 0.52, text, family="DejaVu Sans Mono", fontsize=FONT, color=ink,
                  va="center_baseline")  # fmt: skip


def _colour_bar(
    figure: Figure, size: tuple[float, float], side: float, peak: float, kind: str, more: str
) -> None:
    axes = figure.add_axes((side / size[0], 0.26 / size[1], 1.8 / size[0], 0.11 / size[1]))
    low = 0.0 if kind == "weight" else -peak
    count = 61
    values = [low + (peak - low) * at / (count - 1) for at in range(count)]
    axes.imshow([[colour(v, peak, kind) for v in values]], aspect="auto", extent=(low, peak, 0, 1))
    axes.set(yticks=[], xticks=[low, peak] if kind == "weight" else [low, 0, peak])
    axes.set_xticklabels([f"{x:+.2g}" if kind == "credit" and x else f"{x:.2g}"
                          for x in axes.get_xticks()])  # fmt: skip
    axes.tick_params(length=0, labelsize=7.5, pad=2)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    name = "credit of a token" if kind == "credit" else "weight of a token (mean 1)"
    axes.text(
        1.06, 0.5, name + more, transform=axes.transAxes, va="center", fontsize=8, color=FAINT
    )


def rollout_heat_map(rows: Sequence[Row], title: str) -> Figure:
    """One rollout, a line of panels per reward with credit: GDPO's even spread beside MRTPO's."""
    panels: list[tuple[str, Sequence[float]]] = []
    if quiet := [row["reward"] for row in rows if not row["advantage"]]:
        title = f"{title}   (no contrast in the group: {', '.join(quiet)})"
    for row in with_credit(rows) or rows:
        value = "missing" if _absent(row["value"]) else f"{row['value']:g}"
        spread = f"replay skipped: {row['reason']}" if row["skipped"] else "by replay"
        panels.append((f"{row['reward']} = {value} · GDPO, even", even_credit(row)))
        panels.append((f"{row['reward']} = {value} · MRTPO, {spread}", token_credit(row)))
    return token_heat_map(rows[0]["tokens"], panels, title, columns=2, peak=full_colour(rows))


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def share_by_part(table: pd.DataFrame | Iterable[Row]) -> Figure:
    """Share of each reward's replay distance by part of the response, against uniform.

    Bars are the share, black ticks what a uniform spread would give; the last panel is the share
    that the top 10 % of tokens hold.
    """
    rows = table if isinstance(table, pd.DataFrame) else list(table)
    shares, tops = part_shares(rows), top_shares(rows)
    rewards = list(dict.fromkeys(shares["reward"]))
    parts = list(dict.fromkeys(shares["part"]))
    with matplotlib.rc_context(STYLE):
        figure = _figure((2.1 + 2.15 * (len(rewards) + 1), 1.35 + 0.27 * max(len(parts), 3)))
        axes = figure.subplots(1, len(rewards) + 1, squeeze=False)[0]
        limit = max([0.3, *shares["share"], *shares["uniform"]]) * 1.12
        for at, reward in enumerate(rewards):
            chosen = shares[shares["reward"] == reward]
            _share_bars(axes[at], chosen["share"], chosen["uniform"], parts if at == 0 else None)
            axes[at].set(title=f"{reward}  (n={chosen['replays'].iloc[0]})", xlim=(0, limit))
        last = axes[len(rewards)]
        if rewards:
            _share_bars(last, tops["share"], tops["uniform"], list(tops["reward"]))
        else:
            last.text(0.5, 0.5, "no replay found a distance", ha="center", transform=last.transAxes)
        last.set(title="top 10 % of tokens", xlim=(0, 1))
        figure.suptitle("Share of replay distance", x=0.01, ha="left", weight="bold", fontsize=11)
        figure.text(0.99, 0.975, "bar: share    tick: if spread evenly", ha="right", va="top",
                    fontsize=8, color=FAINT)  # fmt: skip
        figure.tight_layout(rect=(0, 0, 1, 0.97), w_pad=1.4)
    return figure


def _share_bars(
    axes: Axes, share: pd.Series, uniform: pd.Series, names: Sequence[str] | None
) -> None:
    at = range(len(share))
    above = [BLUE if s >= u else "#a9bdd6" for s, u in zip(share, uniform, strict=True)]
    axes.barh(at, share, height=0.62, color=above)
    axes.vlines(list(uniform), [y - 0.4 for y in at], [y + 0.4 for y in at], color=INK, lw=1.4)
    axes.set_yticks(list(at), names if names is not None else [""] * len(share))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def training_curves(history: pd.DataFrame, evaluations: pd.DataFrame) -> Figure:
    """Rewards while training, evaluations, length, gradient norm, time; methods by colour.

    One run: thin line as measured, thick line averaged over neighbouring steps. Several seeds of a
    method: median and quartiles.
    """
    panels = [(history, [name], name.split("/")[1] + ", training", True)
              for name in metric_columns(history, "reward/", "/mean")]  # fmt: skip
    panels += [(evaluations, [name], f"{name.removeprefix('valid/')}, evaluation", False)
               for name in metric_columns(evaluations) if "undecided/" not in name]  # fmt: skip
    panels += [(history, [name], text, True) for name, text in (
        ("response/length", "response length, tokens"), ("policy/grad_norm", "gradient norm"),
    ) if name in metric_columns(history)]  # fmt: skip
    phases = metric_columns(history, "time/")
    if phases and "method" not in history:
        panels.append((history, phases, "seconds a step", True))
    down = max(1, math.ceil(len(panels) / 3))
    with matplotlib.rc_context(STYLE):
        figure = _figure((10.2, 2.25 * down + 0.3))
        grid = figure.subplots(down, 3, squeeze=False).ravel()
        for axes, (frame, columns, title, smoothed) in zip(grid, panels, strict=False):
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
                axes.legend(
                    frameon=False, fontsize=7.5, ncols=2, handlelength=1.2, loc="upper left"
                )
        for at, axes in enumerate(grid):
            axes.set_xlabel("step" if len(panels) - 3 <= at < len(panels) else "", fontsize=8)
            axes.set_axis_on() if at < len(panels) else axes.set_axis_off()
        legend = _method_legend(figure, grid)
        figure.tight_layout(rect=(0, 0, 1, 1 - (0.32 / (2.25 * down + 0.3) if legend else 0)))
    return figure


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


def _figure(size: tuple[float, float]) -> Figure:
    figure = Figure(figsize=size, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def attribution_figures(
    table: pd.DataFrame | Iterable[Row], folder: Path, chosen: Iterable[Sequence[Row]]
) -> list[Path]:
    """Write `shares` and one `rollout-<n>` for each chosen rollout; returns the PNG files."""
    rows = table if isinstance(table, pd.DataFrame) else list(table)
    written = save(share_by_part(rows), folder / "shares")
    for number, rollout in enumerate(chosen, 1):
        title = f"{rollout[0]['prompt_id']}, response {rollout[0]['sample']}"
        written += save(rollout_heat_map(rollout, title), folder / f"rollout-{number}")
    return [path for path in written if path.suffix == ".png"]
