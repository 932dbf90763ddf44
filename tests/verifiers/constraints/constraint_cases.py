"""A response that follows a constraint, one that does not, and the texts that decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from mrtpo.verifiers.constraints import KINDS, MissingDataError, check, require_data_of, spans


@dataclass(frozen=True)
class Case:
    """`fulfils` and `breaks` are the texts of the spans, None where they cannot be told."""

    id: str
    good: str
    bad: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    fulfils: Sequence[str] | None = None
    breaks: Sequence[str] | None = None


def named(cases: Sequence[Case]) -> Any:
    """Parametrize a test with cases, by the kinds' ids."""
    return pytest.mark.parametrize("case", cases, ids=[case.id for case in cases])


def need_data(ids: Sequence[str]) -> None:
    """Skip the test where NLTK data that it needs is not installed."""
    if not any(KINDS[id].needs for id in ids):
        return
    try:
        require_data_of(ids)
    except MissingDataError as error:
        pytest.skip(str(error))


def examine(case: Case) -> None:
    need_data([case.id])
    for response, passed, expected in (
        (case.good, True, case.fulfils), (case.bad, False, case.breaks)
    ):  # fmt: skip
        verdict = check(case.id, case.arguments, response)
        assert (verdict.status, verdict.passed) == ("ok", passed), response
        found = spans(case.id, case.arguments, response)
        assert (found and [response[a:b] for a, b in found]) == expected, response
