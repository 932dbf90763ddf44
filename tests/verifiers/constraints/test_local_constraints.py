"""The kinds of the embedded task: decided at a place that can be told."""

import pytest
from constraint_cases import Case, examine, named

from mrtpo.verifiers.constraints import check, spans

CASES = [
    Case(
        "local:first_word", "1 RAIN falls.\n2 Snow", "1 rain\n2 RAIN",
        {"line": 1, "word": "RAIN"}, fulfils=["RAIN"], breaks=["rain"],
    ),
    Case(
        "local:bullet", "1. rain\n\n 2) owl", "1) rain\n2. owl",
        {"line": 2, "mark": ")"}, fulfils=[")"], breaks=["."],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_is_checked_and_located(case):
    examine(case)


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_line_that_is_not_there_keeps_nothing_and_nothing_is_to_blame(case):
    given = {**case.arguments, "line": 9}
    assert check(case.id, given, "1. rain owl.").passed is False
    assert spans(case.id, given, "1. rain owl.") is None


@pytest.mark.parametrize("text", ["rain", "1", "- rain"])
def test_a_line_without_a_mark_behind_a_number_has_no_bullet(text):
    assert check("local:bullet", {"line": 1, "mark": "-"}, text).passed is False
    assert not spans("local:bullet", {"line": 1, "mark": "-"}, text)
