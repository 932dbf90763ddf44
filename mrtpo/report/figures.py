"""Figures as matplotlib draws them: the style of all, and heat maps of a response (Fig. 1).

Pure functions return a Figure made without pyplot (no global state, no display). `save` writes PNG
and SVG whose bytes depend on the figure alone: no dates, no random ids.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mrtpo.report.credit import (
    Row,
    even_credit,
    full_colour,
    heading,
    kept_tokens,
    most_credit,
    token_credit,
    with_credit,
)

REWARD_COLOURS = (
    "#2563a8", "#d9822b", "#2f8f6b", "#8a5cc2", "#b8495a", "#3d9bb3", "#9a7b1f", "#7a8190",
)  # fmt: skip
INK, GREY, FAINT, BLUE, RED, ORANGE = (
    "#1f2430", "#5a6270", "#8b93a1", "#2166ac", "#b2182b", "#e8590c",
)  # fmt: skip
STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.edgecolor": FAINT, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "text.color": INK,
    "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "axes.titlesize": 9.5, "axes.titlelocation": "left", "axes.grid": True,
    "grid.color": "#e6e8ec", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "text.parse_math": False,  # a response may well hold two dollar signs
}  # fmt: skip
_STYLE = re.compile(r' style="[^"]*"')
_ALIKE = re.compile(r'<use [^>]* style="([^"]*)"/>\n(?:<use [^>]* style="\1"/>\n)+')
FONT, LINE = 8.0, 1.62  # points; line height in font sizes
SHADE = 0.75
REWARDS_SHOWN, TOKENS_SHOWN = 4, 500  # of one response; tokens over all its rewards
NOTE = 0.17  # inches of a line of notes
PROPORTIONAL = 0.58  # width of DejaVu Sans in font sizes, on average
CHARACTER = 0.602  # width of DejaVu Sans Mono in font sizes


def save(figure: Figure, path: Path) -> list[Path]:
    """Write `path`.png and `path`.svg; returns both."""
    path.parent.mkdir(parents=True, exist_ok=True)
    png, svg = path.with_name(f"{path.name}.png"), path.with_name(f"{path.name}.svg")
    figure.savefig(png, dpi=160, metadata={"Software": None})
    save_svg(figure, svg)
    return [png, svg]


def save_svg(figure: Figure, file: Path) -> None:
    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": file.stem}):
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    file.write_text(compact(drawn.getvalue()), encoding="utf-8")


def compact(svg: str) -> str:
    """A drawing of matplotlib's in half the characters: numbers to a hundredth, glyphs by short
    names, no comments, no indentation, equal styles of neighbours said once."""
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"\b([1-9]\d*\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r'(id="|"#)DejaVuSans(Mono|-Bold)?-', lambda m: f"{m[1]}{(m[2] or '-')[:2]}", svg)
    svg = re.sub(r'transform="translate\(([\d.-]+) 0\)"/>', r'x="\1"/>', svg)
    svg = re.sub(r"\s*\n\s*", "\n", svg).strip() + "\n"
    return _ALIKE.sub(lambda m: f'<g style="{m[1]}">\n{_STYLE.sub("", m[0])}</g>\n', svg)


def token_heat_map(
    tokens: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float]]],
    title: str,
    kind: Literal["credit", "weight"] = "credit",
    columns: int = 1,
    width: int = 68,
    peak: float | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """A response as coloured boxes, once for each (label, values) row, on one colour scale.

    `credit`: red below 0, blue above, equally strong for the same size. `weight`: white at 0 to
    orange. Colour grows a little faster at first, so that small values are still seen. `width` is
    in characters; newlines are drawn as ↵ and kept. Values from `peak` on, by default the largest,
    are drawn in full colour. `notes` stand below the title.
    """
    boxes = layout(tokens, width)
    lines = 1 + max((line for _, line, _, _ in boxes), default=0)
    largest = max((abs(v) for _, values in rows for v in values), default=0.0)
    peak = peak or largest or 1.0
    character, line_height = FONT * CHARACTER / 72, FONT * LINE / 72
    panel_rows = math.ceil(len(rows) / columns)
    gap, foot, side = 0.3, 0.55, 0.25
    panel = (width * character, lines * line_height + 0.3)
    across = columns * panel[0] + (columns - 1) * gap
    told = note_lines(notes, across)
    head = 0.38 + NOTE * len(told)
    size = (
        across + 2 * side,
        panel_rows * panel[1] + (panel_rows - 1) * 0.12 + head + foot,
    )
    with matplotlib.rc_context(STYLE):
        figure = new_figure(size)
        figure.text(side / size[0], 1 - 0.2 / size[1], title, fontsize=11, weight="bold", va="top")
        draw_lines(figure, told, side, 0.41)
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


def note_lines(notes: Sequence[str], width: float) -> list[str]:
    """Notes in lines that fit into so many inches, two at most of each; the rest is cut."""
    room = int(width * 72 / (8 * PROPORTIONAL))
    return [
        line
        for note in notes
        for line in textwrap.wrap(" ".join(note.split()), room, max_lines=2, placeholder=" …")
    ]


def draw_lines(figure: Figure, lines: Sequence[str], left: float, top: float) -> None:
    """Lines of small text from (left, top), in inches."""
    width, height = figure.get_size_inches()
    for at, line in enumerate(lines):
        figure.text(left / width, 1 - (top + NOTE * at) / height, line, fontsize=8, color=GREY,
                    va="top")  # fmt: skip


def layout(tokens: Sequence[str], width: int) -> list[tuple[int, int, int, str]]:
    """Boxes (token, line, column, text): tokens set one after the other, wrapped at `width`."""
    boxes: list[tuple[int, int, int, str]] = []
    line = column = 0
    for token, text in enumerate(tokens):
        for piece in printable(text).replace("\n", "↵\n").splitlines(keepends=True) or [" "]:
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


def printable(text: str) -> str:
    """Text without tabs and control characters, newlines kept."""
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
        box.set(gid=f"token-{token}", clip_on=False)
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


def rollout_heat_map(
    rows: Sequence[Row], title: str, notes: Sequence[str] = (), most: int = REWARDS_SHOWN
) -> Figure:
    """One rollout, a line of panels per reward with credit: GDPO's even spread beside MRTPO's.

    At most `most` rewards, and of a long response the stretches with most credit.
    """
    shown = most_credit(rows, most)
    tokens, places = stretches(shown, TOKENS_SHOWN // len(shown))
    panels: list[tuple[str, Sequence[float]]] = []
    if quiet := [heading(row) for row in rows if not row["advantage"]]:
        title = f"{title}   (no contrast in the group: {_listed(quiet)})"
    if left := len(with_credit(rows) or rows) - len(shown):
        title = f"{title}   ({left} more rewards)"
    for row in shown:
        value = "missing" if _absent(row["value"]) else f"{row['value']:g}"
        spread = f"replay skipped: {row['reason']}" if row["skipped"] else "by replay"
        name = shortened(heading(row), 30)
        for label, credit in (
            (f"{name} = {value} · GDPO, even", even_credit(row)),
            (f"{name} = {value} · MRTPO, {spread}", token_credit(row)),
        ):
            panels.append((label, [0.0 if t is None else credit[t] for t in places]))
    return token_heat_map(tokens, panels, title, columns=2, peak=full_colour(rows), notes=notes)


def stretches(rows: Sequence[Row], most: int) -> tuple[list[str], list[int | None]]:
    """At most `most` tokens of a response and their places; what is left out between them stands
    as one text with the place None."""
    credits_RT = [token_credit(row) for row in rows]
    scores = [max(map(abs, credit_R)) for credit_R in zip(*credits_RT, strict=True)]
    tokens: list[str] = []
    places: list[int | None] = []
    before = -1
    for place in [*kept_tokens(scores, most), len(scores)]:
        if place > before + 1:
            tokens.append(f" … {place - before - 1} tokens … ")
            places.append(None)
        if place < len(scores):
            tokens.append(rows[0]["tokens"][place])
            places.append(place)
        before = place
    return tokens, places


def shortened(text: str, most: int) -> str:
    """Text in one line of at most `most` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{len(names)} rewards"


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure without pyplot: no global state, no display."""
    figure = Figure(figsize=size, facecolor="white")
    FigureCanvasAgg(figure)
    return figure
