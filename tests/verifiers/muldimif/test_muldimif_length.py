"""Length constraints: how the texts are read, and what is counted."""

import pytest

from mrtpo.verifiers.muldimif import checker_of, judge
from mrtpo.verifiers.muldimif.length import LengthParagraphs, LengthSentences
from mrtpo.verifiers.muldimif.numbers import Limits
from mrtpo.verifiers.muldimif.words import LengthWords, LengthWordsEach, length_words


def passes(subcategory: str, constraint: str, response: str) -> bool | None:
    return judge("Length", subcategory, constraint, response).passed


@pytest.mark.parametrize(
    ("constraint", "low", "high"),
    [
        ("Use exactly four sentences", 4, 4),
        ("It must contain twelve sentences", 12, 12),
        ("The reply must be a single sentence.", 1, 1),
        ("a story consisting of only one sentence", 1, 1),
        ("At least: 7 sentences", 7, None),
        ("no fewer than three sentences", 3, None),
        ("It should not exceed 9 sentences", None, 9),
        ("limited to two sentences", None, 2),
        ("with a maximum length of 6 sentences", None, 6),
        ("Range: 2-4 sentences", 2, 4),
        ("between three and five sentences", 3, 5),
        ("it consists of 2 to 3 sentences", 2, 3),
        ("至少包含三句话", 3, None),
        ("最多5个句子", None, 5),
        ("由3到6句话组成", 3, 6),
    ],
)
def test_limits_on_sentences_are_read(constraint, low, high):
    checker = LengthSentences(constraint)
    assert checker.limits == Limits(low, high)
    assert not checker.unparsed


def test_a_sentence_is_what_ends_in_a_mark():
    assert passes("Sentences", "At most 2 sentences", "Yes. No! And the rest")
    assert not passes("Sentences", "At most 2 sentences", "For example, e.g. this.")
    assert not passes("Sentences", "At least 1 sentences", "no end")


def test_sentences_that_are_not_understood_pass_and_are_flagged():
    verdict = judge("Length", "Sentences", "at least one complete sentence", "")
    assert (verdict.passed, verdict.unparsed) == (True, True)


@pytest.mark.parametrize(
    ("constraint", "low", "high"),
    [
        ("exactly two paragraphs", 2, 2),
        ("The text must be a single paragraph", 1, 1),
        ("At least: 3 paragraphs", 3, None),
        ("a minimum of four distinct paragraphs", 4, None),
        ("no more than 5 paragraphs", None, 5),
        ("最多分为两个段落", None, 2),
        ("between 3 and 5 paragraphs", 3, 5),
        ("a range of 2 to 6 paragraphs", 2, 6),
        ("Range: 2-3", 2, 3),
    ],
)
def test_limits_on_paragraphs_are_read(constraint, low, high):
    checker = LengthParagraphs(constraint)
    assert checker.limits == Limits(low, high)
    assert not checker.unparsed


def test_paragraphs_are_parted_by_blank_lines():
    assert passes("Paragraphs", "exactly two paragraphs", "one\nstill one\n\n\n\ntwo")
    assert not passes("Paragraphs", "exactly two paragraphs", "one\ntwo")


def test_paragraphs_that_are_not_understood_fail_and_are_flagged():
    verdict = judge("Length", "Paragraphs", "a few paragraphs", "one\n\ntwo")
    assert (verdict.passed, verdict.unparsed) == (False, True)


def test_paragraphs_beyond_the_last_allowed_are_responsible():
    response = "one\n\ntwo\n\nthree"
    assert LengthParagraphs("at most one paragraph").breaks(response) == [(5, 8), (10, 15)]
    assert LengthParagraphs("at least 4 paragraphs").breaks(response) is None


@pytest.mark.parametrize(
    ("constraint", "low", "high"),
    [
        ("The note must be exactly 1,250 words long", 1250, 1250),
        ("The answer must be a single word.", 1, 1),
        ("between thirty five and fifty words", 35, 50),
        ("The reply should run between 80 and 20 words", 20, 80),
        ("Range: 100-150 words", 100, 150),
        ("a count in the range of 10 to 12 words", 10, 12),
        ("composed of 15 to 25 words", 15, 25),
        ("no less than 40 words", 40, None),
        ("it should be a minimum length of 30 words", 30, None),
        ("not exceeding a total of 90 words", None, 90),
        ("keep it within a 60-word limit", None, 60),
        ("no longer than twenty words", None, 20),
        ("Up to five words", None, 5),
        ("at most twenty-five words", 5, 20),  # taken for "from twenty to five", as officially
        ("最多120个字", None, 120),
        ("必须在50字以内", None, 50),
        ("需介於20到40字之間", 20, 40),
    ],
)
def test_limits_on_words_are_read(constraint, low, high):
    checker = LengthWords(constraint)
    assert checker.words == Limits(low, high)
    assert not checker.unparsed


def test_words_are_parted_by_space_and_chinese_is_counted_by_character():
    assert passes("Words", "at most 3 words", "one two-three four")
    assert not passes("Words", "at most 3 words", "a b c d")
    assert passes("Words", "最多4个字", "你好世界")
    assert not passes("Words", "最多4个字", "你好，世界")


def test_words_sentences_and_keywords_of_one_constraint_all_count():
    constraint = "At least 3 words, at most 2 sentences, with the word 'Sea'"
    assert passes("Words", constraint, "The sea is calm. Indeed...")
    assert not passes("Words", constraint, "The sea. Is. Calm.")
    assert not passes("Words", constraint, "The seaside is calm")
    assert not passes("Words", constraint, "sea")


def test_words_that_are_not_understood_pass_and_are_flagged():
    verdict = judge("Length", "Words", "Fewer than five words", "one two three four five six")
    assert (verdict.passed, verdict.unparsed) == (True, True)


def test_the_words_beyond_the_limit_are_responsible():
    assert LengthWords("at most 2 words").breaks("one two three  four") == [(8, 19)]
    assert LengthWords("at least 9 words").breaks("one two") is None


TABLE = "| Name | Note |\n|---|---|\n| Ann | tall and thin |\n| Bo | short |"


@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("Each note must contain at most 3 words", TABLE, True),
        ("Each note must contain at most two words", TABLE, False),
        ("Each colour must contain at most 2 words", TABLE, False),  # no such column: every cell
        ("Each item must be at most 2 words", "1. red\n2. light blue", True),
        ("Each item must be at most 2 words", "1. red\n2. a very light blue", False),
        ("Each item must be at most 2 words", "1. Colour: sky blue\n2. Tone: dark", True),
        ("Each item must be at most 2 words", "- red\n- light blue", True),
        ("Each item must be at most 2 words", "- red\n- a light blue", False),
        ("Each entry must contain between 1 and 2 words", '{"a": "one two", "b": 3}', True),
        ("Each entry must contain between 1 and 2 words", '{"a": "one two three"}', False),
        ("Each title must be at most 1 words", '{"title": "two words"}', False),
        ("Each title must be at most 1 words", '["two words"]', False),
        ("Each title must be at most 1 words", "{not json", False),
        ("Each line must be exactly 2 words", "# Head:\nsky blue\n\n## so dark", True),
        ("Each line must be exactly 2 words", "sky blue\nso very dark", False),
        ("Each word must be at most 5 characters", "all short words", True),
        ("Each word must be at most five characters", "some longer words", False),
        ("Each word must be at least 3 characters", "one of", False),
    ],
)
def test_each_item_is_counted_by_layout(constraint, response, passed):
    assert passes("Words", constraint, response) is passed


def test_each_without_a_number_fails_and_is_flagged():
    verdict = judge("Length", "Words", "Each item must be short", "- a")
    assert (verdict.passed, verdict.unparsed) == (False, True)
    assert isinstance(length_words("Each item must be short"), LengthWordsEach)


def test_checkers_are_kept():
    first = checker_of("Length", "Words", "at most 2 words")
    assert checker_of("Length", "Words", "at most 2 words") is first
