"""Kinds about words and letters: case, language, letters, syllables, numbers."""

import pytest
from constraint_cases import Case, examine, named, need_data

from mrtpo.verifiers.constraints import check

TEN = "level radar civic kayak rotor madam refer tenet stats noon noon level, deed"

CASES = [
    Case(
        "change_case:capital_word_frequency", "We LOVE this A lot", "We love this A lot",
        {"capital_frequency": 2, "capital_relation": "at least"}, fulfils=["LOVE", "A"],
    ),
    Case(
        "change_case:english_capital", "THE WEATHER IS VERY NICE TODAY, SO WE WILL WALK.",
        "THE WEATHER is very NICE TODAY, SO WE WILL WALK.", breaks=["is", "very"],
    ),
    Case(
        "change_case:english_lowercase", "the weather is very nice today, so we will walk.",
        "The weather is very NICE today, so we will walk.", breaks=["The", "NICE"],
    ),
    Case(
        "language:response_language", "Das Wetter ist heute schön, wir gehen spazieren.",
        "The weather is nice today, we go for a walk.", {"language": "de"},
    ),
    Case("words:alphabet", "Yes, zebras are beautiful.", "A big dog.", breaks=["dog."]),
    Case("words:vowel", "Go to bed, Ted, go.", "Go in, buy tea."),
    Case(
        "words:consonants", "Strong winds blow", "Strong air blows",
        fulfils=["Strong", "winds", "blow"], breaks=["air"],
    ),
    Case(
        "words:palindrome", TEN, TEN.replace("kayak", "canoe"),
        fulfils=[w for w in TEN.split() if len(w) > 4],
    ),
    Case("words:prime_lengths", "We run, happy", "Once we run", breaks=["Once"]),
    Case("words:start_verb", "Take this home.", "This is home.", fulfils=["Take"], breaks=["This"]),
    Case("words:repeats", "go on go", "Go on, go. Go!", {"small_n": 2.0}, breaks=["Go!"]),
    Case("words:odd_even_syllables", "The open door", "The door opens"),
    Case("words:no_consecutive", "Big cats bathe", "Big bears eat", breaks=["bears"]),
    Case(
        "count:words_japanese", "One ねこ two いぬ", "One ねこ two dogs", {"N": 2.0},
        fulfils=["ねこ", "いぬ"], breaks=["dogs"],
    ),
    Case(
        "count:numbers", "We paid 1,000.50 for 3.", "We paid 1 for 2 and 3.", {"N": 2.0},
        fulfils=["1,000.50", "3"], breaks=["1", "2", "3"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_tells_good_from_bad_and_where(case):
    examine(case)


def test_a_language_that_cannot_be_told_counts_as_followed():
    # As in the original; whoever trains with it must know.
    assert check("language:response_language", {"language": "hi"}, "123 456").passed is True
    assert check("change_case:english_capital", {}, "123 456").passed is False


def test_the_language_found_is_the_same_every_time():
    text = "SHELDON SPEAKS IN NUMBERS, LOVES SCIENCE, AND NEVER MISSES A FACT."
    verdicts = {check("change_case:english_capital", {}, text) for _ in range(20)}
    assert len(verdicts) == 1


@pytest.mark.parametrize("start", ["Run", "Write it down. Then go.", "Consider the case of"])
def test_the_first_three_tokens_give_the_tag_that_the_whole_text_gives(start):
    need_data(["words:start_verb"])
    import nltk

    text = f"{start} and what follows, however long it is, does not change this."
    tag = nltk.pos_tag(nltk.word_tokenize(text))[0][1]
    assert check("words:start_verb", {}, text).passed is ("VB" in tag)
