"""Kinds about sentences: what they end in, how they follow each other."""

from constraint_cases import Case, examine, named, need_data

from mrtpo.verifiers.constraints import check

CASES = [
    Case(
        "ratio:sentence_type", "It is. It was. Is it?", "It is. Is it?",
        fulfils=[".", ".", "?"], breaks=[".", "?"],
    ),
    Case(
        "ratio:sentence_balance", "It is. Is it? It is!", "It is. Is it?",
        fulfils=[".", "?", "!"], breaks=[".", "?"],
    ),
    Case("ratio:sentence_words", "Cows eat. Dogs run. Cats nap.", "Cows eat. Dogs bark. Cats nap."),
    Case(
        "sentence:alliteration_increment", "We ran. Big bears eat. Red rats run.",
        "Big bears bathe. We ran.", breaks=["We ran."],
    ),
    Case(
        "sentence:increment", "Go on. We go on now.", "Go on. We go on. We go.", {"small_n": 2.0},
        breaks=["We go on."],
    ),
    Case(
        "words:last_first", "We saw dogs. Dogs bark.", "We saw dogs. Cats sleep.",
        fulfils=["dogs.", "Dogs"], breaks=["dogs.", "Cats"],
    ),
    Case(
        "words:paragraph_last_first", "Time flies in no time.\nDogs!",
        "Time flies.\nDogs like dogs.",
        fulfils=["Time", "time.", "Dogs!"], breaks=["Time", "flies."],
    ),
    Case(
        "format:emoji", "We won! 😀 So good. 🎉", "We won! 😀 So good.",
        fulfils=["😀", "🎉"], breaks=["."],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_tells_good_from_bad_and_where(case):
    examine(case)


def test_alliteration_counts_words_in_runs():
    need_data(["sentence:alliteration_increment"])
    id = "sentence:alliteration_increment"
    assert check(id, {}, "Big bears are. Big bears and red rats. ").passed is True
    assert check(id, {}, "Big bears are. Red rats be.").passed is False


def test_one_sentence_is_balanced_with_nothing_only_where_the_original_says_so():
    need_data(["ratio:sentence_balance", "ratio:sentence_type"])
    assert check("ratio:sentence_type", {}, "No end").passed is True  # neither kind
    assert check("ratio:sentence_type", {}, "An end.").passed is False
    assert check("ratio:sentence_balance", {}, "No end").passed is True
