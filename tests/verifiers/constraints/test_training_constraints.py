"""The kinds of IF-RLVR's training data."""

import pytest
from constraint_cases import Case, examine, named, need_data

from mrtpo.verifiers.constraints import check

ASK = {"prompt_to_repeat": "Tell me more"}

CASES = [
    Case(
        "copy:repeat_phrase", "the old cat, the red cat.", "the old cat and the cat",
        {"phrase": "the old cat", "small_n": 2},
        fulfils=["the old cat", "the red cat"], breaks=["the old cat"],
    ),
    Case(
        "copy:copy", " tell me More ", "Tell me more.", ASK,
        fulfils=["tell me More"], breaks=["Tell me more."],
    ),
    Case(
        "copy:copying_simple", "Tell me more", "Tell me", ASK,
        fulfils=["Tell me more"], breaks=["Tell me"],
    ),
    Case(
        "copy:copying_multiple", "Tell me more\n******\ntell me more", "Tell me more",
        {**ASK, "N": 2}, fulfils=["Tell me more\n******\ntell me more"], breaks=["Tell me more"],
    ),
    Case(
        "new:copy_span_idx", " ell", "ell m", {**ASK, "n_start": 1, "n_end": 5},
        fulfils=["ell"], breaks=["ell m"],
    ),
    Case("detectable_format:sentence_hyphens", "So it is.-It was.", "So it is. - It was."),
    Case(
        "detectable_format:square_brackets", "[So] [it]", "[So] it",
        fulfils=["[So]", "[it]"], breaks=["it"],
    ),
    Case(
        "detectable_format:bigram_wrapping", "<<So it>> <<is then>> now", "<<So it>> is then",
        fulfils=["<<So it>>", "<<is then>>"], breaks=["is then"],
    ),
    Case("keywords:no_adjacent_consecutive", "a cat eats", "a big cat", breaks=["big", "cat"]),
    Case(
        "keywords:word_once", "Tea, please", "tea or steam", {"keyword": "tea"},
        fulfils=["Tea"], breaks=["tea", "tea"],
    ),
    Case(
        "keywords:word_count_different_numbers", "tea and Tea", "tea",
        {"keyword": "tea", "frequency": 2, "relation": "at least"}, fulfils=["tea", "Tea"],
    ),
    Case(
        "keywords:exclude_word_harder", "tea is fine", "no tea here", {"keyword": "tea"},
        breaks=["tea"],
    ),
    Case("keywords:palindrome", "a level crossing", "the crossing", fulfils=["a", "level"]),
    Case(
        "keywords:keyword_specific_position", "So. It is tea.", "So. Tea it is.",
        {"keyword": ["tea"], "n": 2, "m": 3},
    ),
    Case(
        "keywords:start_end", "Tea is tea", "Tea is tea.",
        fulfils=["Tea", "tea"], breaks=["Tea", "."],
    ),
    Case(
        "paragraphs:paragraphs", "One\n***\nTwo", "One *** Two *** Three",
        fulfils=["***"], breaks=["***", "***"],
    ),
    Case(
        "paragraphs:paragraphs2", "One\n\nTwo", "One\n\nTwo\n\nThree",
        fulfils=["\n\n"], breaks=["\n\n", "\n\n"],
    ),
    Case(
        "first_word:first_word_sent", "So it is. so it was.", "So it is. It was.",
        {"first_word": "so"}, fulfils=["So", "so"], breaks=["It"],
    ),
    Case(
        "first_word:first_word_answer", "So it is", "So, it is", {"first_word": ["so", "it"]},
        fulfils=["So"], breaks=["So,"],
    ),
    Case(
        "last_word:last_word_sent", "It is so. Is it so?", "It is so. It is.",
        {"last_word": "so"}, fulfils=["so.", "so?"], breaks=["is."],
    ),
    Case(
        "last_word:last_word_answer", "Is it so?", "So it is", {"last_word": "so"},
        fulfils=["so?"], breaks=["is"],
    ),
    Case("punctuation:punctuation_dot", "So", "So. It", breaks=["."]),
    Case("punctuation:punctuation_exclamation", "So.", "So!", breaks=["!"]),
    Case("count:lowercase_counting", "So it is", "so it is", {"N": 2}, breaks=["is"]),
    Case("letters:letter_counting", "ab 1", "abc", {"N": 3, "relation": "less than"}),
    Case(
        "letters:letter_counting2", "abba", "abc",
        {"letter": "B", "let_frequency": 2, "let_relation": "at least"}, fulfils=["b", "b"],
    ),
    Case(
        "count:counting_composition",
        "Go on. Go in. *** Go on. Go in. *** Go on. Go in.", "Go on. Go in. *** Go on. Go in.",
        {"n_sent": 2, "n_words": 3},
    ),
    Case("count:count_unique", "So it is.", "So it is it", breaks=["it"]),
    Case(
        "count:count_increment_word", "tea, cake and cake", "tea and cake",
        {"keyword1": "tea", "keyword2": "cake"},
        fulfils=["tea", "cake", "cake"], breaks=["tea", "cake"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_is_checked_and_located(case):
    examine(case)


@pytest.mark.parametrize(
    "response", ["the old cat and the old cat", "the very old cat, the red cat", "the red cat"]
)
def test_a_phrase_is_repeated_as_often_and_with_one_word_changed_at_the_end(response):
    given = {"phrase": "the old cat", "small_n": 2}
    assert check("copy:repeat_phrase", given, response).passed is False


@pytest.mark.parametrize(("response", "passed"), [("***One***Two***", True), ("One***", False)])
def test_a_divider_may_stand_before_the_first_paragraph_and_after_the_last(response, passed):
    assert check("paragraphs:paragraphs", {}, response).passed is passed


def test_three_paragraphs_with_an_empty_one_are_not_three():
    need_data(["count:counting_composition"])
    given = {"n_sent": 1, "n_words": 3}
    assert check("count:counting_composition", given, "Go on.***Go on.***Go on.").passed
    assert not check("count:counting_composition", given, "Go on.***   ***Go on.").passed
