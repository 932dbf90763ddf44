"""Kinds about how many words, sentences and paragraphs there are, and about shares."""

from constraint_cases import Case, examine, named

from mrtpo.verifiers.constraints import check

CASES = [
    Case(
        "length_constraints:number_words", "one two", "one two three, four",
        {"num_words": 3, "relation": "less than"}, breaks=["three, four"],
    ),
    Case(
        "length_constraints:number_sentences", "One here. Two there.", "Only one here.",
        {"num_sentences": 2, "relation": "at least"},
    ),
    Case(
        "length_constraints:number_paragraphs", "One.\n***\nTwo.", "One. *** Two. *** Three.",
        {"num_paragraphs": 2}, fulfils=["***"], breaks=["***", "***"],
    ),
    Case(
        "length_constraints:nth_paragraph_first_word", "A.\n\n\"Then, B.", "Then.\n\nNow B.",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        fulfils=["\"Then,"], breaks=["Now"],
    ),
    Case(
        "count:word_count_range", "one two three", "one two three four",
        {"min_words": 2.0, "max_words": 3.0}, breaks=["four"],
    ),
    Case(
        "count:unique_word_count", "a b c a", "a b, B a", {"N": 3.0}, fulfils=["a", "b", "c"],
    ),
    Case(
        "ratio:stop_words", "Dogs chase the cats", "The dog and it", {"percentage": 25.0},
        breaks=["The", "and", "it"],
    ),
    Case(
        "ratio:overlap", "abcdxyz", "abcdx", {"reference_text": "abcd", "percentage": 40.0},
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_tells_good_from_bad_and_where(case):
    examine(case)


def test_numbers_are_bounds_as_the_relation_says():
    words = "one two three"
    at_least = {"num_words": 3, "relation": "at least"}
    assert check("length_constraints:number_words", at_least, words).passed is True
    at_least = {"num_words": 4, "relation": "at least"}
    assert check("length_constraints:number_words", at_least, words).passed is False
    few = {"min_words": 4, "max_words": 9}
    assert check("count:word_count_range", few, words).passed is False


def test_dividers_at_the_ends_make_no_paragraphs_but_those_between_do():
    two = {"num_paragraphs": 2}
    id = "length_constraints:number_paragraphs"
    assert check(id, two, "***\nOne.\n***\nTwo.\n***").passed is True
    assert check(id, two, "One.\n***\n***\nTwo.").passed is False


def test_the_first_word_needs_its_paragraph_and_their_number():
    id = "length_constraints:nth_paragraph_first_word"
    given = {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "b"}
    assert check(id, given, "A.\n\nB.\n\nC.").passed is False
    assert check(id, given, "A.").passed is False
    assert check(id, given, "A.\n\n\n\nB.").passed is False  # the second is blank
