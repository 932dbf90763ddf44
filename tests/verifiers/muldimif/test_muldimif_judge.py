"""Spellings of kinds, statuses, hostile responses."""

import time

import pytest

from mrtpo.verifiers.muldimif import CLASSES, KINDS, checker_of, judge, kind_of
from mrtpo.verifiers.muldimif.kinds import CHECKERS, SUBCATEGORIES, Checker

ONE_OF_EACH = {
    "Content_Keywords": ("Content", "Keywords", "Include the keywords 'keyword' and 'a'"),
    "Content_Keywords each": ("Content", "Keywords", "Each row must include the keyword 'a'"),
    "Content_Punctuation": ("Content", "Punctuation", "Each paragraph must end with a period"),
    "Content_Others": ("Content", "Sources", "The response must include sources that are cited"),
    "Format_Json": ("Format", "Json", "at least two levels of nesting"),
    "Format_Markdown": ("Format", "Markdown", "Use bold, bullet points and two level 2 headings"),
    "Format_Table": ("Format", "Table", 'exactly 2 rows and 2 columns, columns for "a"'),
    "Format_Others": ("Format", "XML", "Each XML element has at least 2 attributes"),
    "Language_English": ("Language", "English", "Headings must be capitalized"),
    "Language_Chinese": ("Language", "Chinese", "must use Traditional Chinese characters"),
    "Length_Words": ("Length", "Words", "between 2 and 4 words and at most 3 sentences"),
    "Length_Words each": ("Length", "Words", "Each row must contain at most 5 words"),
    "Length_Sentences": ("Length", "Sentences", "at most 3 sentences"),
    "Length_Paragraphs": ("Length", "Paragraphs", "at most 3 paragraphs"),
}
SIZE = 99_000
HOSTILE = {
    "spaces": "a" + " " * SIZE + "b",
    "newlines": "\n" * SIZE,
    "hashes": "#" * SIZE,
    "spaced heading": "# a" + " " * SIZE + "b",
    "bars": "|" * SIZE,
    "rows": "| a | b |\n" * (SIZE // 10),
    "open tags": '<a b="' * (SIZE // 6),
    "spaced tag": "<a " + " " * SIZE,
    "stars": "*" * SIZE,
    "digits": "[" + "1" * SIZE + "]",
    "deep lists": "[" * SIZE,
    "deep objects": '{"a":' * (SIZE // 6) + "1" + "}" * (SIZE // 6),
    "sources": "Sources:" * (SIZE // 8) + "\n.",
    "bullets": "- a\n" * (SIZE // 4),
    "ruler": "|" + "-|" * (SIZE // 2),
    "parentheses": "(" * SIZE,
    "no characters": "\0\ud800" * 100,
    "Chinese": "汉" * SIZE,
}


def test_the_twelve_classes_and_subcategories():
    assert set(CLASSES) == set(CHECKERS) == {kind.checker for kind in KINDS.values()}
    assert {kind.subcategory for kind in KINDS.values()} == set(SUBCATEGORIES)
    assert {kind.category for kind in KINDS.values()} == {"Content", "Format", "Language", "Length"}


@pytest.mark.parametrize(
    ("category", "subcategory", "checker", "reported"),
    [
        ("Table", "Row limit", "Format_Table", "Format_Table"),
        ("Format", "Table: Row limit", "Format_Table", "Format_Table"),
        ("Format", "XML", "Format_Others", "Format_XML"),
        ("Format", "Blurb", "Format_Others", "Length_Words"),
        ("Markdown", "Block quotes", "Format_Markdown", "Format_Markdown"),
        ("Format", "Markdown: Block quotes", "Format_Others", "Format_Markdown"),
    ],
)
def test_spellings(category, subcategory, checker, reported):
    kind = kind_of(category, subcategory)
    assert kind is not None
    assert (kind.checker, kind.subcategory) == (checker, reported)


def test_an_unknown_kind_is_an_error_and_never_passes():
    verdict = judge("Tone", "Humour", "Be funny", "Ha")
    assert (verdict.passed, verdict.status) == (None, "error")
    assert "'Tone', 'Humour'" in verdict.detail
    with pytest.raises(ValueError, match="no such kind"):
        checker_of("Tone", "Humour", "Be funny")


def test_a_response_or_a_constraint_that_is_too_long_is_not_looked_at():
    long = judge("Length", "Words", "at least 5 words", "word " * 100_000)
    assert (long.passed, long.status) == (False, "refused")
    assert judge("Length", "Words", "at least 5 words" * 1000, "word").status == "error"


def test_a_fault_in_a_checker_is_an_error_and_never_passes(monkeypatch):
    class Broken(Checker):
        def check(self, response: str) -> bool:
            raise IndexError("no such word")

    monkeypatch.setitem(CLASSES, "Length_Words", Broken)
    verdict = judge("Length", "Words", "a constraint of this test", "word")
    assert (verdict.passed, verdict.status) == (None, "error")
    assert verdict.detail == "IndexError: no such word"


@pytest.mark.parametrize("response", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_no_response_takes_long_or_ends_a_run(kind, response):
    if kind == "Language_Chinese":
        pytest.importorskip("zhconv")
    started = time.process_time()
    verdict = judge(*ONE_OF_EACH[kind], response)
    assert time.process_time() - started < 3
    assert verdict.status in ("ok", "refused"), verdict
    assert verdict.passed is False or verdict.status == "ok"


def test_a_response_of_very_many_sentences_is_refused_by_those_that_part_it():
    asked = ("Content", "Punctuation", "Each sentence must end with a period")
    assert judge(*asked, "a. " * 30_000).status == "refused"
