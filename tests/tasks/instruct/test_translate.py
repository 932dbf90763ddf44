"""Rules of RLVR-IFeval and RECAST as kinds."""

import pytest

from mrtpo.tasks.instruct.translate import of_function, of_recast
from mrtpo.verifiers.constraints import Constraint, ConstraintError

EMPTY = {"N": None, "quantifier": None, "keyword_list": None, "word": None}


@pytest.mark.parametrize(
    ("rule", "id", "arguments"),
    [
        ({"func_name": "verify_keywords", "keyword_list": ["tea"]},
         "keywords:existence", {"keywords": ("tea",)}),
        ({"func_name": "verify_keyword_frequency", "word": "tea", "N": 3},
         "exact:word_frequency", {"keyword": "tea", "frequency": 3}),
        ({"func_name": "validate_forbidden_words", "forbidden_words": ["tea"]},
         "exact:no_text", {"forbidden_words": ("tea",)}),
        ({"func_name": "verify_letter_frequency", "letter": "T", "N": 2},
         "exact:text_frequency", {"text": "T", "frequency": 2}),
        ({"func_name": "validate_word_constraint", "N": 50, "quantifier": "at most"},
         "length_constraints:number_words", {"num_words": 51, "relation": "less than"}),
        ({"func_name": "validate_word_constraint", "N": 50, "quantifier": "around"},
         "count:word_count_range", {"min_words": 45, "max_words": 55}),
        ({"func_name": "verify_sentence_constraint", "N": 4, "quantifier": "at least"},
         "length_constraints:number_sentences", {"num_sentences": 4, "relation": "at least"}),
        ({"func_name": "verify_sentence_constraint", "N": 4, "quantifier": "around"},
         "exact:sentence_range", {"min_sentences": 3, "max_sentences": 5}),
        ({"func_name": "validate_frequency_capital_words", "N": 4, "quantifier": "at most"},
         "change_case:capital_word_frequency",
         {"capital_frequency": 5, "capital_relation": "less than"}),
        ({"func_name": "validate_sections", "N": 3, "section_splitter": "Part"},
         "detectable_format:multiple_sections", {"section_spliter": "Part", "num_sections": 3}),
        ({"func_name": "validate_paragraphs", "N": 2, "i": 1, "first_word": "So"},
         "length_constraints:nth_paragraph_first_word",
         {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "So"}),
        ({"func_name": "validate_no_commas"}, "punctuation:no_comma", {}),
    ],
)  # fmt: skip
def test_a_function_becomes_a_kind_of_the_same_meaning(rule, id, arguments):
    assert of_function(rule["func_name"], {**EMPTY, **rule}) == Constraint(id, arguments)


@pytest.mark.parametrize(
    ("name", "given", "fault"),
    [
        ("verify_taste", {}, "unknown function 'verify_taste'"),
        ("validate_word_constraint", {"N": 5, "quantifier": "nearly"}, "unknown quantifier"),
        ("validate_word_constraint", {"N": None, "quantifier": "at most"}, "does not take"),
        ("verify_keyword_frequency", {"word": "tea"}, "does not take: 'N'"),
        ("validate_choice", {"options": ["A"]}, "unknown function"),
    ],
)
def test_what_has_no_kind_says_why(name, given, fault):
    with pytest.raises(ConstraintError, match=fault):
        of_function(name, given)


@pytest.mark.parametrize(
    ("name", "inputs", "found"),
    [
        ("evaluate_word_length", ["", [80, 120], 100, None, 0],
         [("count:word_count_range", {"min_words": 80, "max_words": 120})]),
        ("evaluate_word_length", ["", None, None, 90, 1],
         [("length_constraints:number_words", {"num_words": 91, "relation": "less than"})]),
        ("evaluate_word_length", ["", [70, 90], None, None, 2],
         [("count:word_count_range", {"min_words": 70, "max_words": 90})]),
        ("evaluate_sentence_length", ["", 0, 5, None],
         [("exact:sentence_range", {"min_sentences": 5, "max_sentences": 5})]),
        ("evaluate_sentence_length", ["", 1, 1, None],
         [("exact:sentence_range", {"min_sentences": 0, "max_sentences": 3})]),
        ("evaluate_sentence_length", ["", 2, 5, None],
         [("exact:sentence_range", {"min_sentences": 0, "max_sentences": 7})]),
        ("evaluate_sentence_length", ["", 3, None, [4, 6]],
         [("exact:sentence_range", {"min_sentences": 4, "max_sentences": 6})]),
        ("evaluate_keyword", ["", "tea", 2],
         [("exact:text_frequency", {"text": "tea", "frequency": 2})]),
        ("evaluate_keyword", ["", {"tea": 2, "cake": 1}, {}],
         [("exact:text_frequency", {"text": "tea", "frequency": 2}),
          ("exact:text_frequency", {"text": "cake", "frequency": 1})]),
        ("evaluate_start_with", ["", "Tea"], [("exact:first_word", {"word": "Tea"})]),
        ("evaluate_end_with", ["", "tea"], [("exact:last_word", {"word": "tea"})]),
        ("contains_no_punctuation", [""], [("punctuation:no_comma", {})]),
        ("check_english_lowercase", [""], [("change_case:english_lowercase", {})]),
    ],
)  # fmt: skip
def test_a_rule_of_recast_becomes_kinds(name, inputs, found):
    assert of_recast(name, inputs) == [Constraint(*one) for one in found]


@pytest.mark.parametrize(
    ("name", "inputs"),
    [("evaluate_format", [None, ""]), ("evaluate_word_length", [""]),
     ("evaluate_sentence_length", ["", 3, None, None]), ("evaluate_keyword", ["", {"": 1}])],
)  # fmt: skip
def test_a_rule_of_recast_that_cannot_be_checked_says_so(name, inputs):
    with pytest.raises(ConstraintError):
        of_recast(name, inputs)
