"""Words and numbers of the report: names of scores, numbers as people write them, what differs."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from typing import Any

THIN = "\u202f"  # a narrow space that does not break
NAMES = {
    "spider_exec": ("Right result", "Spider’s test, the rows of the reference"),
    "bird_ex": ("Right result, BIRD", "BIRD’s test, the same set of rows"),
    "executability": ("Runs", "the query runs on the database without an error"),
    "format": ("Well formed", "the answer keeps the tags and holds one SQL block"),
    "execution": ("Execution reward", "the reward of training"),
    "tag_count": ("Tags", "the share of the four tags that stand once, on lines of their own"),
    "cell_precision": ("Cells that are right", "the share of the result’s cells that are wanted"),
    "cell_recall": ("Cells found", "the share of the wanted cells that the result has"),
    "tuple_cardinality": ("Number of rows", "the smaller number of rows over the larger"),
}
"""Scores as people read them, in the order of interest: name, and what it means."""


def name_of(score: str) -> str:
    return NAMES[score][0] if score in NAMES else score.replace("_", " ")


def ordered(scores: Sequence[str], first: str) -> list[str]:
    """The score `first`, then known scores, then others."""
    rank = {name: at for at, name in enumerate(NAMES)} | {first: -1}
    return sorted(scores, key=lambda name: rank.get(name, len(NAMES)))


def number(value: float, share: bool = False) -> str:
    """A number as people write it: `72.0 %` for a share, else three significant digits."""
    if share:
        text = f"{100 * value:.1f}{THIN}%" if 0 < value < 1 else f"{100 * value:.0f}{THIN}%"
    elif abs(value) >= 1000:
        text = f"{value:,.0f}".replace(",", THIN)
    else:
        text = f"{value:.3g}"
    return text.replace("-", "−")


def share(value: float | None) -> str:
    return "–" if value is None else number(value, share=True)


def plain(value: float | None) -> str:
    return "–" if value is None else number(value)


def signed(value: float) -> str:
    return f"+{number(value)}" if value > 0 else number(value)


def mark(value: float | None) -> str:
    """A reward in a sign: passed, failed, else its value; – where it is missing."""
    return {1.0: "✓", 0.0: "✗"}.get(value, number(value)) if value is not None else "–"


def present(value: Any) -> float | None:
    """A number, or None for what is missing or not a number."""
    return None if value is None or math.isnan(value) else float(value)


Pieces = list[tuple[str, bool]]


def difference(first: str, second: str) -> tuple[Pieces, Pieces]:
    """Both texts in pieces, each with whether the other text lacks it; case and space aside."""
    left, right = (re.findall(r"\s+|\w+|[^\w\s]", text) for text in (first, second))
    words = [["" if p.isspace() else p.lower() for p in side] for side in (left, right)]
    matcher = difflib.SequenceMatcher(a=words[0], b=words[1], autojunk=False)
    marked: tuple[Pieces, Pieces] = ([], [])
    for what, a, b, c, d in matcher.get_opcodes():
        for side, pieces in zip(marked, (left[a:b], right[c:d]), strict=True):
            if pieces:
                side.append(("".join(pieces), what != "equal"))
    return marked
