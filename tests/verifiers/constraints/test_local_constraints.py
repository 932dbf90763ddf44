"""The kinds of the embedded task: decided at a place that can be told."""

import pytest
from constraint_cases import Case, examine, named

from mrtpo.verifiers.constraints import check, spans

CASES = [
    Case(
        "local:first_word", "1) Rain falls.\n2) Snow", "1) snow\n2) rain",
        {"line": 1, "word": "rain"}, fulfils=["Rain"], breaks=["snow"],
    ),
    Case(
        "local:last_word", "a\n\nb rain.", "a rain\nrain b", {"line": 2, "word": "rain"},
        fulfils=["rain"], breaks=["b"],
    ),
    Case(
        "local:has_word", "a\nb rain b", "rain\nb c", {"line": 2, "word": "rain"},
        fulfils=["rain"], breaks=["b", "c"],
    ),
    Case("local:no_word", "rainy", "a rain\nRAIN", {"word": "rain"}, breaks=["rain", "RAIN"]),
    Case(
        "local:pair", "a owl rain\nowl RAIN", "owl rain owl sun\nowl",
        {"word": "owl", "follower": "rain"},
        fulfils=["owl rain", "owl RAIN"], breaks=["owl sun", "owl"],
    ),
    Case(
        "local:word_frequency", "owl a\nOwl", "owl", {"word": "owl", "count": 2},
        fulfils=["owl", "Owl"], breaks=["owl"],
    ),
    Case(
        "local:words", "1) a owl.\nb", "1) a owl b.\nb", {"line": 1, "count": 2},
        fulfils=["owl.\n"], breaks=["b.\n"],
    ),
    Case(
        "local:capitals", "a OWL b", "A owl b", {"line": 1, "place": 2},
        fulfils=["OWL"], breaks=["owl"],
    ),
    Case(
        "local:end_mark", "a\nb?", "a?\nb!", {"line": 2, "mark": "?"}, fulfils=["?"], breaks=["!"],
    ),
    Case(
        "local:number_mark", "1: a", "1) a", {"line": 1, "mark": ":"}, fulfils=[":"], breaks=[")"],
    ),
    Case("local:lines", "a\nb\n", "a\nb\nc", {"count": 2}, fulfils=["\n"], breaks=["\n"]),
    Case(
        "local:same_start", "1) owl\n2) Owl a", "1) owl\n2) a owl", {"line": 2, "other": 1},
        fulfils=["Owl"], breaks=["a"],
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
    assert check(id, {**given, "line": 9}, "1) rain owl.").passed is False
    assert spans(id, {**given, "line": 9}, "1) rain owl.") is None


def test_too_many_lines_are_the_fault_of_the_breaks_behind_the_last_that_is_asked_for():
    response = "a\nb\nc\nd"
    found = spans("local:lines", {"count": 2}, response)
    assert found == [(3, 4), (5, 6)]
    assert spans("local:lines", {"count": 5}, response) is None
