"""The kinds of the embedded task: decided at a place that can be told."""

import pytest
from constraint_cases import Case, examine, named

from mrtpo.verifiers.constraints import check, spans

CASES = [
    Case(
        "local:first_word", "1 Rain falls.\n2 Snow", "1 snow\n2 rain",
        {"line": 1, "word": "rain"}, fulfils=["Rain"], breaks=["snow"],
    ),
    Case("local:no_word", "rainy", "a rain\nRAIN", {"word": "rain"}, breaks=["rain", "RAIN"]),
    Case(
        "local:pair", "a owl rain\nowl RAIN", "owl rain owl sun\nowl.",
        {"word": "owl", "follower": "rain"}, fulfils=["rain", "RAIN"], breaks=["sun", "."],
    ),
    Case(
        "local:mark_after", "a owl! b\nOwl!", "owl! owl, owl\n",
        {"word": "owl", "mark": "!"}, fulfils=["!", "!"], breaks=[",", "\n"],
    ),
    Case(
        "local:in_capitals", "a OWL b", "A owl OWL b", {"word": "OWL"},
        fulfils=["OWL"], breaks=["owl"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_is_checked_and_located(case):
    examine(case)


@pytest.mark.parametrize(
    "id", [case.id for case in CASES if "line" in case.arguments],
)  # fmt: skip
def test_a_line_that_is_not_there_keeps_nothing(id):
    given = next(case.arguments for case in CASES if case.id == id)
    assert check(id, {**given, "line": 9}, "1 rain owl.").passed is False
    assert spans(id, {**given, "line": 9}, "1 rain owl.") is None


@pytest.mark.parametrize("id", ["local:pair", "local:mark_after", "local:in_capitals"])
def test_a_rule_on_a_word_that_does_not_occur_is_broken_and_nothing_is_to_blame(id):
    given = next(case.arguments for case in CASES if case.id == id)
    assert check(id, given, "nothing of it").passed is False
    assert spans(id, given, "nothing of it") is None
