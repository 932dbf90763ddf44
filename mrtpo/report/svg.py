"""Small line charts as inline SVG, coloured by the page's style so that they follow light and dark.

Colours are CSS variables (`--k`), text inherits the page's font, and every column of the chart
shows its numbers as a native tooltip. Nothing is loaded and no script runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from mrtpo.report.curves import Curve
from mrtpo.report.text import THIN, number

WIDTH, HEIGHT = 330.0, 178.0
LEFT, RIGHT, TOP, BOTTOM = 38.0, 8.0, 8.0, 20.0
MOST_POINTS = 240


@dataclass(frozen=True)
class Line:
    """A named curve and the CSS colour it is drawn in."""

    name: str
    colour: str
    curve: Curve


def chart(lines: Sequence[Line], label: str, share: bool = False) -> Markup:
    """A chart of lines over steps: from 0 to 100 % for shares, else from 0 (or the least) up."""
    values = [v for line in lines for v in (*line.curve.high, *line.curve.low, *line.curve.raw)]
    values = [value for value in values if math.isfinite(value)]
    steps = [step for line in lines for step in line.curve.steps]
    if not values:
        return Markup()
    share = share and min(values) >= 0 and max(values) <= 1
    ticks = [0, 0.25, 0.5, 0.75, 1.0] if share else nice_ticks(min(0.0, *values), max(values))
    low, high = ticks[0], ticks[-1]
    first, last = min(steps), max(steps)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / ((last - first) or 1)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / ((high - low) or 1))

    parts = [_axes(ticks, share, nice_ticks(first, last, 5, whole=True), (first, last), x, y)]
    for line in lines:
        parts.append(_line(thin(line.curve), line.colour, x, y))
    parts.append(_tips(lines, share, x))
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(f"{WIDTH:g}", f"{HEIGHT:g}", label, Markup("").join(parts))


def spark(curve: Curve) -> Markup:
    """A word-sized line without axes, for shares from 0 to 1."""
    if len(curve.steps) < 2:
        return Markup()
    span = (curve.steps[-1] - curve.steps[0]) or 1
    points = " ".join(
        f"{2 + 76 * (s - curve.steps[0]) / span:.1f},{20 - 18 * v:.1f}"
        for s, v in zip(curve.steps, curve.middle, strict=True)
    )
    end = points.rpartition(" ")[2].split(",")
    return Markup(
        '<svg class="spark" viewBox="0 0 80 22" aria-hidden="true"><polyline points="{}"/>'
        '<circle cx="{}" cy="{}" r="2.4"/></svg>'
    ).format(points, *end)


def nice_ticks(low: float, high: float, wanted: int = 4, whole: bool = False) -> list[float]:
    """Round (or whole) numbers from at or below `low` to at or above `high`."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    if whole:
        step = max(1.0, math.ceil(step))
    start, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [at * step for at in range(start, end + 1)]


def thin(curve: Curve) -> Curve:
    """At most `MOST_POINTS` points, first and last among them: more cannot be seen."""
    count = len(curve.steps)
    if count <= MOST_POINTS:
        return curve
    keep = sorted({round(at * (count - 1) / (MOST_POINTS - 1)) for at in range(MOST_POINTS)})
    pick = [[column[at] for at in keep] if column else [] for column in
            (curve.steps, curve.middle, curve.low, curve.high, curve.raw)]  # fmt: skip
    return Curve(pick[0], pick[1], pick[2], pick[3], curve.runs, pick[4])


def _axes(ticks, share, steps, span, x, y) -> Markup:  # type: ignore[no-untyped-def]
    parts = []
    for tick in ticks:
        unit = f"{THIN}%" if tick == ticks[-1] else ""
        text = f"{100 * tick:.0f}{unit}" if share else number(tick)
        parts.append(Markup(
            '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
            '<text x="{}" y="{}" text-anchor="end">{}</text>'
        ).format(f"{LEFT:g}", f"{WIDTH - RIGHT:g}", f"{y(tick):.1f}", f"{y(tick):.1f}",
                 f"{LEFT - 6:g}", f"{y(tick) + 3.5:.1f}", text))  # fmt: skip
    for step in steps:
        if span[0] <= step <= span[1]:
            parts.append(Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                f"{x(step):.1f}", f"{HEIGHT - 5:g}", number(step)))  # fmt: skip
    return Markup("").join(parts)


def _line(curve: Curve, colour: str, x, y) -> Markup:  # type: ignore[no-untyped-def]
    def points(values: Sequence[float]) -> str:
        pairs = zip(curve.steps, values, strict=True)
        return " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in pairs if math.isfinite(v))

    parts = []
    if curve.runs > 1:
        back = " ".join(reversed(points(curve.low).split(" ")))
        band = Markup('<polygon class="band" points="{} {}"/>').format(points(curve.high), back)
        parts.append(band)
    if curve.raw:
        parts.append(Markup('<polyline class="raw" points="{}"/>').format(points(curve.raw)))
    parts.append(Markup('<polyline class="line" points="{}"/>').format(points(curve.middle)))
    if len(curve.steps) <= 14:
        for spot in points(curve.middle).split(" "):
            parts.append(Markup('<circle cx="{}" cy="{}" r="2.4"/>').format(*spot.split(",")))
    return Markup('<g style="--k:{}">{}</g>').format(colour, Markup("").join(parts))


def _tips(lines: Sequence[Line], share: bool, x) -> Markup:  # type: ignore[no-untyped-def]
    """Invisible columns, one a step, whose title holds the numbers."""
    at: dict[float, list[str]] = {}
    for line in lines:
        curve = thin(line.curve)
        for step, value in zip(curve.steps, curve.middle, strict=True):
            text = number(value, share)
            at.setdefault(step, []).append(f"{line.name}: {text}" if line.name else text)
    steps = sorted(at)
    edges = [(x(a) + x(b)) / 2 for a, b in pairwise(steps)]
    parts = []
    for step, left, right in zip(steps, [LEFT, *edges], [*edges, WIDTH - RIGHT], strict=True):
        text = escape(f"step {step:g}\n" + "\n".join(at[step]))
        parts.append(Markup(
            '<rect class="tip" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
        ).format(f"{left:.1f}", f"{TOP:g}", f"{max(right - left, 0.1):.1f}",
                 f"{HEIGHT - TOP - BOTTOM:g}", text))  # fmt: skip
    return Markup("").join(parts)
