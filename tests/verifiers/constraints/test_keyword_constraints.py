"""Kinds about which words or letters occur, how often and where."""

import pytest
from constraint_cases import Case, examine, named, need_data

from mrtpo.verifiers.constraints import check

FIVE = {f"keyword{i}": word for i, word in enumerate(["ant", "bee", "cow", "dog", "elk"], 1)}

CASES = [
    Case(
        "keywords:existence", "The Cat sat on a mat.", "A cat sat.", {"keywords": ["cat", "mat"]},
        fulfils=["Cat", "mat"],
    ),
    Case(
        "keywords:forbidden_words", "Concatenate them.", "The cat and the Cat.",
        {"forbidden_words": ["cat", "dog"]}, breaks=["cat", "Cat"],
    ),
    Case(
        "keywords:frequency", "Go, go. A mango!", "Go, go.",
        {"keyword": " go", "frequency": 3, "relation": "at least"}, fulfils=["Go", "go", "go"],
    ),
    Case(
        "keywords:letter_frequency", "Bab", "cab",
        {"letter": "B", "let_frequency": 2, "let_relation": "at least"}, fulfils=["B", "b"],
    ),
    Case(
        "count:keywords_multiple",
        "ant bee bee cow cow cow" + " dog" * 5 + " elk" * 7,
        "ant ant bee bee cow cow cow" + " dog" * 5 + " elk" * 7,
        FIVE,
        fulfils=["ant"] + ["bee"] * 2 + ["cow"] * 3 + ["dog"] * 5 + ["elk"] * 7,
        breaks=["ant", "ant"],
    ),
    Case(
        "count:person_names", "Emma met Liam and Emma's dog.", "Emma met Emma and Liamson.",
        {"N": 2.0}, fulfils=["Emma", "Liam", "Emma"],
    ),
    Case(
        "count:pronouns", "She/her saw it.", "Dogs saw it.", {"N": 3.0},
        fulfils=["She", "her", "it"],
    ),
    Case(
        "count:conjunctions", "This and that, so yet another.", "This and that and those.",
        {"small_n": 3.0}, fulfils=["and", "so", "yet"],
    ),
    Case(
        "sentence:keyword", "One. A big Horse ran.", "A horse. One cow. Horse.",
        {"word": "horse", "N": 2.0}, fulfils=["Horse"], breaks=["One cow."],
    ),
    Case(
        "words:keywords_specific_position", "Go on. We saw birds today.", "Go. We birds saw today.",
        {"keyword": "birds", "n": 2, "m": 3}, fulfils=["birds"], breaks=["saw"],
    ),
    Case(
        "words:words_position", "In May we leave May behind.", "In May we leave town behind.",
        {"keyword": "may"}, fulfils=["May", "May"], breaks=["May", "town"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_tells_good_from_bad_and_where(case):
    examine(case)


@pytest.mark.parametrize(
    ("id", "arguments", "good", "bad"),
    [
        ("keywords:frequency", {"keyword": "go", "frequency": 2, "relation": "less than"},
         "Go.", "Go, go."),
        ("keywords:letter_frequency",
         {"letter": "#", "let_frequency": 1, "let_relation": "less than"}, "none", "one #"),
        # Keywords are texts, not patterns.
        ("keywords:existence", {"keywords": ["c++ (new)"]}, "In C++ (new) we", "ccc new"),
        ("keywords:forbidden_words", {"forbidden_words": ["a.b"]}, "a-b", "see a.b."),
    ],
)  # fmt: skip
def test_relations_and_marks(id, arguments, good, bad):
    assert check(id, arguments, good).passed is True
    assert check(id, arguments, bad).passed is False


def test_two_words_have_a_second_and_a_last_but_one():
    need_data(["words:words_position"])
    assert check("words:words_position", {"keyword": "a"}, "b a").passed is False
    assert check("words:words_position", {"keyword": "a"}, "a").passed is False
    assert check("words:words_position", {"keyword": "a"}, "a.").passed is False
    assert check("words:words_position", {"keyword": "a"}, "b a c").passed is True
