"""All kinds alike: every one has an example and a sentence; arguments, blank and hostile texts."""

import math
import random
import string
import time
from pathlib import Path

import pytest
import test_custom_constraints
import test_exact_constraints
import test_format_constraints
import test_keyword_constraints
import test_layout_constraints
import test_length_constraints
import test_local_constraints
import test_muldimif_kinds
import test_sentence_constraints
import test_training_constraints
import test_word_constraints
from constraint_cases import need_data

from mrtpo.verifiers.constraints import (
    KINDS,
    MOST_CHARACTERS,
    ConstraintError,
    MissingDataError,
    check,
    constraint,
    require_data_of,
    sentence,
    spans,
)

CASES = {
    case.id: case
    for module in (
        test_custom_constraints,
        test_exact_constraints,
        test_format_constraints,
        test_keyword_constraints,
        test_layout_constraints,
        test_length_constraints,
        test_local_constraints,
        test_muldimif_kinds,
        test_sentence_constraints,
        test_training_constraints,
        test_word_constraints,
    )
    for case in module.CASES
}

# Kinds whose checker alone is content with nothing, since nothing breaks them.
CONTENT_WITH_NOTHING = {
    "keywords:forbidden_words": "no word occurs",
    "punctuation:no_comma": "no comma occurs",
    "count:words_japanese": "there is no Nth word",
    "format:emoji": "no sentence lacks one",
    "format:newline": "no line has two words",
    "format:line_indent": "no line stands too far out",
    "format:no_whitespace": "no blank occurs",
    "format:quote_unquote": "nothing is quoted",
    "format:sub-bullets": "no bullet lacks its own",
    "format:title_case": "no word is small",
    "language:response_language": "its language cannot be told",
    "length_constraints:number_words": "it has fewer words",
    "ratio:sentence_balance": "none of each",
    "ratio:sentence_type": "none of either",
    "count:count_unique": "no word is repeated",
    "count:lowercase_counting": "no word is small",
    "detectable_format:bigram_wrapping": "no two words",
    "detectable_format:sentence_hyphens": "no sentence follows another",
    "detectable_format:square_brackets": "no word lacks brackets",
    "exact:no_text": "no text occurs",
    "first_word:first_word_sent": "no sentence begins otherwise",
    "keywords:exclude_word_harder": "no word occurs",
    "keywords:no_adjacent_consecutive": "no word follows another",
    "last_word:last_word_sent": "no sentence ends otherwise",
    "letters:letter_counting": "it has fewer letters",
    "muldimif:Length_Paragraphs": "it has fewer paragraphs",
    "muldimif:Length_Sentences": "it has fewer sentences",
    "muldimif:Length_Words": "it has fewer words",
    "punctuation:punctuation_dot": "no full stop occurs",
    "punctuation:punctuation_exclamation": "no exclamation mark occurs",
    "sentence:alliteration_increment": "no sentence follows another",
    "sentence:increment": "no sentence follows another",
    "words:consonants": "no word lacks them",
    "words:last_first": "no sentence follows another",
    "words:no_consecutive": "no word follows another",
    "words:odd_even_syllables": "no word follows another",
    "words:paragraph_last_first": "no paragraph ends otherwise",
    "words:prime_lengths": "no word has another length",
    "words:repeats": "no word is repeated",
    "words:vowel": "no vowel occurs",
}


def test_there_are_all_kinds_and_each_has_an_example():
    assert len(KINDS) == 25 + 58 + 29 + 6 + 12 + 2
    assert sorted(CASES) == sorted(KINDS)


def test_a_checker_is_content_with_nothing_only_where_nothing_breaks_its_rule():
    need_data(list(KINDS))
    content = {
        id for id, case in CASES.items()
        if KINDS[id].check("", **constraint(id, case.arguments).arguments)
    }  # fmt: skip
    assert content == set(CONTENT_WITH_NOTHING)


@pytest.mark.parametrize("response", ["", " \n\t\u2003"])
def test_a_blank_response_follows_no_constraint(response):
    for id, case in CASES.items():
        verdict = check(id, case.arguments, response)
        assert (verdict.status, verdict.passed) == ("ok", False), id
        assert spans(id, case.arguments, response) is None


def test_a_sentence_states_every_argument():
    for id, case in CASES.items():
        stated = sentence(id, case.arguments)
        assert "{" not in stated.replace("{ }", ""), id
        assert (stated[0].isupper() or stated[0].isdigit()) and stated == stated.strip()
        for name, value in constraint(id, case.arguments).arguments.items():
            assert KINDS[id].arguments[name].shown(value) in stated, (id, name)
    assert '"cat", "mat"' in sentence("keywords:existence", {"keywords": ["cat", "mat"]})


def test_two_constraints_of_a_kind_never_share_a_sentence_unless_they_are_equal():
    one = sentence("keywords:frequency", {"keyword": "a", "frequency": 1, "relation": "at least"})
    other = sentence("keywords:frequency", {"keyword": "a", "frequency": 2, "relation": "at least"})
    assert one != other
    assert len({sentence(id, case.arguments) for id, case in CASES.items()}) == len(CASES)


@pytest.mark.parametrize(
    ("id", "given", "message"),
    [
        ("keywords:exists", {}, "unknown constraint 'keywords:exists'"),
        ("count:numbers", {}, "count:numbers needs the argument 'N': a whole number, 0 or more"),
        ("count:numbers", None, "needs the argument 'N'"),
        ("count:numbers", {"N": None}, "needs the argument 'N'"),
        ("count:numbers", {"N": 2.5}, "'N' must be a whole number, 0 or more: 2.5"),
        ("count:numbers", {"N": -1}, "'N' must be a whole number"),
        ("count:numbers", {"N": math.inf}, "'N' must be a whole number"),
        ("count:numbers", {"N": True}, "'N' must be a whole number"),
        ("count:numbers", {"N": "3"}, "'N' must be a whole number, 0 or more: '3'"),
        ("count:words_japanese", {"N": 0}, "'N' must be a whole number, 1 or more"),
        ("count:numbers", {"N": 1, "n": 1}, r"count:numbers has no argument 'n' \(it has N\)"),
        ("punctuation:no_comma", {"N": 1}, r"no argument 'N' \(it has none\)"),
        ("ratio:stop_words", {"percentage": 101}, "'percentage' must be a number between 0 and"),
        ("ratio:stop_words", {"percentage": math.nan}, "'percentage' must be a number between"),
        ("keywords:existence", {"keywords": []}, "'keywords' must be a list of texts"),
        ("keywords:existence", {"keywords": "cat"}, "'keywords' must be a list of texts"),
        ("keywords:existence", {"keywords": ["cat", " "]}, "'keywords' must be a list of texts"),
        ("keywords:existence", {"keywords": ["cat", 1]}, "'keywords' must be a list of texts"),
        ("startend:end_checker", {"end_phrase": " "}, "'end_phrase' must be a text"),
        ("language:response_language", {"language": "zh"}, "'language' must be a language code"),
        ("keywords:letter_frequency",
         {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "a single character"),
        ("length_constraints:number_words", {"num_words": 3, "relation": "at most"},
         "'relation' must be \"at least\" or \"less than\": 'at most'"),
    ],
)  # fmt: skip
def test_what_a_kind_cannot_be_checked_with_is_an_error_and_never_passes(id, given, message):
    for refuse in (constraint, sentence):
        with pytest.raises(ConstraintError, match=message):
            refuse(id, given)
    verdict = check(id, given, "Any text.")
    assert (verdict.status, verdict.passed) == ("error", None)
    assert spans(id, given, "Any text.") is None


def test_nulls_among_the_arguments_are_no_arguments():
    given = {"N": 1.0, "keyword": None, "relation": None}
    assert constraint("count:numbers", given).arguments == {"N": 1}
    assert check("count:numbers", given, "only 1").passed is True


def test_a_checker_that_crashes_gives_a_status(monkeypatch):
    def crash(response):
        raise ZeroDivisionError("no")

    broken = {**KINDS, "words:vowel": type(KINDS["words:vowel"])(crash, "x", breaks=crash)}
    monkeypatch.setattr("mrtpo.verifiers.constraints.KINDS", broken)
    verdict = check("words:vowel", {}, "text")
    assert (verdict.status, verdict.passed) == ("error", None)
    assert verdict.detail == "ZeroDivisionError: no"
    assert spans("words:vowel", {}, "text") is None


def test_deep_recursion_is_a_status():
    verdict = check("detectable_format:json_format", {}, "[" * 50_000)
    assert (verdict.status, verdict.passed) == ("error", None)
    assert "Recursion" in verdict.detail


def test_a_response_that_is_too_long_is_refused():
    assert check("punctuation:no_comma", {}, "a" * MOST_CHARACTERS).passed is True
    verdict = check("punctuation:no_comma", {}, "a" * (MOST_CHARACTERS + 1))
    assert (verdict.status, verdict.passed) == ("refused", False)


def test_missing_data_is_named_with_what_to_do(monkeypatch):
    nltk = pytest.importorskip("nltk")
    monkeypatch.setattr(nltk.data, "path", ["/nowhere"])
    with pytest.raises(MissingDataError, match=r"punkt_tab is not installed.*make nltk-data"):
        require_data_of(["count:pronouns"])
    require_data_of(["punctuation:no_comma"])


def hostile_texts(size):
    rng = random.Random(11)
    units = [
        "a", " ", "\n", "\t", ".", ". ", "a. ", "?!", '"', "'", "`", "(", ")", "[", "]", "{", "<<",
        ">>", "*", "**a", "***", "-", "* \n", "- ", "p. ", "P.P.S ", "Question 1", "<i>", ",", ";:",
        "1", "1,", "a1", "A", "é", "ß", "İ", "\u200b", "\u0300", "漢", "か", "ك", "😀",
        "\x00", "\ufeff", "\ud800", "\u2028", "\r", "\r\n", "\x85", "\\", "aa bb ", "Mr. A. ", "“",
        "http://a", "a@", "```json", "x\n\n", "level ", "“a.” B ", "\U000e0001", "٣", "...  ",
    ]  # fmt: skip
    for unit in units:
        yield (unit * size)[:size]
        yield "Start. " + (unit * size)[: size // 2] + " end, it is."
    for _ in range(20):
        yield "".join(rng.choices(units, k=size // 4))
        yield "".join(chr(rng.randrange(1, 0x2FFF)) for _ in range(size // 4))
    yield string.printable * (size // 100)


def test_no_hostile_text_raises_or_takes_long():
    need_data(list(KINDS))
    for response in hostile_texts(800):
        for id, case in CASES.items():
            start = time.monotonic()
            verdict = check(id, case.arguments, response)
            found = spans(id, case.arguments, response)
            assert time.monotonic() - start < 3, (id, response[:40])
            assert verdict.status == "ok" or "Recursion" in verdict.detail, (id, response[:40])
            places = [place for span in found or [] for place in span]
            assert places == sorted(places) and (not places or places[-1] <= len(response))
            assert all(a < b for a, b in found or [])


def test_the_page_of_kinds_tells_of_each_its_arguments_and_spans():
    page = (Path(__file__).parents[3] / "docs" / "instructions.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")] for line in page.splitlines()]
    told = {row[1].strip("`"): row[2:4] for row in rows if len(row) == 6 and row[1][1:-1] in KINDS}
    assert told == {
        id: [
            ", ".join(f"`{name}`" for name in kind.arguments) or "–",
            ", ".join(n for n, f in (("kept", kind.fulfils), ("broken", kind.breaks)) if f) or "–",
        ]
        for id, kind in KINDS.items()
    }
