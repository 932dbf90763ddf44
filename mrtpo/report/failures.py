"""The page of a benchmark's failures: what was expected beside what was given, with both results.

Self-contained as the report is: no network, no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mrtpo.benchmarks.base import Judged, Summary
from mrtpo.report import text
from mrtpo.report.page import render

MOST = 500  # failures on one page


def failures_page(summary: Summary, judged: Sequence[Judged], main: str) -> str:
    """The page; an answer has failed if its score `main` is not its full 1."""
    wrong = [verdict for verdict in judged if (verdict.scores.get(main) or 0.0) < 1.0]
    facts = [(name, _shown(value)) for name, value in summary.scores.items()]
    return render(
        "failures.html.j2",
        title=f"{summary.benchmark}: failures",
        main=main,
        wrong=len(wrong),
        count=len(judged),
        facts=facts,
        failures=[_failure(verdict) for verdict in wrong[:MOST]],
    )


def _shown(value: float | None) -> str:
    return text.share(value) if value is None or 0 <= value <= 1 else text.number(value)


def _failure(verdict: Judged) -> dict[str, Any]:
    if verdict.alike:
        expected, given = text.difference(verdict.expected, verdict.given)
    else:
        expected, given = [(verdict.expected, False)], [(verdict.given, False)]
    about = [f"{k} {v}" for k, v in verdict.row.items() if isinstance(v, str | int) and k in _KEYS]
    scores = [(k, None if v is None else float(v)) for k, v in verdict.scores.items()]
    return {
        "asked": verdict.asked, "expected": expected, "given": given, "detail": verdict.detail,
        "results": verdict.results, "scores": scores, "about": " · ".join(about),
    }  # fmt: skip


_KEYS = ("index", "id", "key", "question_id", "sample", "db_id", "category", "status", "error")
