"""EHRSQL's scores for a system that may abstain: F1 of answering, and of answering rightly.

Source: EHRSQL (arXiv 2301.07695), section on evaluation. Of answerable and unanswerable questions:

    ans    precision = answered and answerable / answered    recall = the same / answerable
    exec   precision = answered rightly / answered           recall = the same / answerable

Only an answerable question can be answered rightly. An abstention is the text `null`, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """`right` is None where it could not be decided; it then counts as wrong."""

    answerable: bool
    answered: bool
    right: bool | None


def abstains(sql: str) -> bool:
    return sql.strip().rstrip(";").strip().lower() in ("", "null")


def reliability(replies: Sequence[Reply]) -> dict[str, float | None]:
    """`f1_ans` and `f1_exec`; the latter is None if nothing that was answered could be decided."""
    answered = [reply for reply in replies if reply.answered]
    answerable = sum(reply.answerable for reply in replies)
    fitting = [reply for reply in answered if reply.answerable]
    right = sum(reply.right is True for reply in fitting)
    decided = not fitting or any(reply.right is not None for reply in fitting)
    return {
        "f1_ans": _f1(len(fitting), len(answered), answerable),
        "f1_exec": _f1(right, len(answered), answerable) if decided else None,
    }


def _f1(hits: int, given: int, wanted: int) -> float:
    """Harmonic mean of hits/given and hits/wanted; 0 without hits."""
    return 2 * hits / (given + wanted) if hits else 0.0
