"""MulDimIF's classes as kinds."""

import pytest
from constraint_cases import Case, examine, named

from mrtpo.verifiers.constraints import KINDS, check, sentence
from mrtpo.verifiers.muldimif.kinds import CHECKERS

TABLE = "| A |\n|---|\n| 1 |\n| 2 |"

CASES = [
    Case(
        "muldimif:Content_Keywords", "Tea, please", "Steam", {"text": "Include the keyword 'tea'"},
        fulfils=["Tea"],
    ),
    Case(
        "muldimif:Content_Punctuation", "So.", "So!", {"text": "It must end with a period"},
        fulfils=["."], breaks=["!"],
    ),
    Case(
        "muldimif:Content_Others", "As said [1]", "As said",
        {"text": "It must include in-text citations"},
    ),
    Case(
        "muldimif:Format_Json", '{"a": [1]}', "[1]", {"text": "At least two levels of nesting"},
    ),
    Case(
        "muldimif:Format_Markdown", "## A", "# A", {"text": "Each part must use a level 2 heading"},
        fulfils=["## A"], breaks=["# A"],
    ),
    Case(
        "muldimif:Format_Table", TABLE.replace("\n| 2 |", ""), TABLE,
        {"text": "A table with no more than 1 rows"},
        fulfils=["| A |", "|---|", "| 1 |"], breaks=["| 2 |"],
    ),
    Case(
        "muldimif:Format_Others", "So (Ho, 2020)", "So", {"text": "Must be in APA format"},
    ),
    Case(
        "muldimif:Language_English", "So It Is", "So it Is", {"text": "Capitalize each word"},
        breaks=["it"],
    ),
    Case(
        "muldimif:Language_Chinese", "说：你好", "说",
        {"text": 'Must include the phrase "你好"'},
    ),
    Case(
        "muldimif:Length_Words", "one two", "one two three", {"text": "At most 2 words"},
        breaks=["three"],
    ),
    Case("muldimif:Length_Sentences", "So. It.", "So. It. Is.", {"text": "At most 2 sentences"}),
    Case(
        "muldimif:Length_Paragraphs", "So\nit", "So\n\nit", {"text": "At most one paragraph"},
        breaks=["it"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_is_checked_and_located(case):
    examine(case)


def test_every_class_is_a_kind_and_states_its_own_text():
    assert {id.removeprefix("muldimif:") for id in KINDS if id[:9] == "muldimif:"} == set(CHECKERS)
    assert sentence("muldimif:Length_Words", {"text": "At most 9 words."}) == "At most 9 words."


@pytest.mark.parametrize("text", [" ", "x" * 10_001, 3])
def test_a_text_that_cannot_be_asked_is_an_error(text):
    assert check("muldimif:Length_Words", {"text": text}, "one").status == "error"
