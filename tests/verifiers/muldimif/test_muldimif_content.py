"""Content constraints: keywords, closing punctuation, identifiers and the like."""

import os

import pytest

from mrtpo.verifiers.muldimif import judge, spans
from mrtpo.verifiers.muldimif.keywords import ContentKeywords, Rule
from mrtpo.verifiers.muldimif.punctuation import ContentPunctuation

needs_nltk = pytest.mark.skipif(
    not {"MRTPO_DATA", "NLTK_DATA"} & set(os.environ), reason="needs NLTK's sentence model"
)


def passes(subcategory: str, constraint: str, response: str) -> bool | None:
    return judge("Content", subcategory, constraint, response).passed


@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("Include the keyword 'tide'", "The TIDE turns", True),
        ("Include the keyword 'tide'", "tides turn", False),
        ("Include the keywords 'tide', 'moon'", "the moon pulls the tide", True),
        ("Include the keywords 'tide' and 'moon'", "only the moon", False),
        ("Include 'tide' or 'moon'", "only the moon", True),
        ("Include 'tide' or 'moon'", "only the sun", False),
        ('"Include the keyword ""C++"""', "I write C++, mostly", True),
        ("Include 'tide' at least twice", "tide and tide", True),
        ("Include 'tide' at least three times", "tide and tide", False),
        ("'tide' must appear multiple times", "tide once", False),
        ("Avoid using the term 'tide'", "no such word", True),
        ("Avoid using the term 'tide'", "a tide here", False),
        ("the keyword 'tide' must be avoided", "a tide here", False),
        ("include the word 'tide' and do not exceed 3 words", "the high tide", True),
        ("include the word 'tide', at most two words", "the high tide", False),
        ("it is a single word that includes 'tide'", "tide", True),
        ("include 'tide' and it must end with a period", "the tide.", True),
        ("include 'tide' and it must end with a period", "the tide", False),
        ("must use capitalized letters for each word and include 'tide'", "The Tide", True),
        ("must use capitalized letters for each word and include 'tide'", "The tide", False),
        ("该句必须包含「月亮」", "今晚月亮很圆", True),
        ("该句必须包含「月亮」", "今晚太阳很圆", False),
        ("It includes the keyword 'Sun' and avoids the keyword 'rain'", "Sun and wind", True),
        ("It includes the keyword 'Sun' and avoids the keyword 'rain'", "sun and wind", False),
        ("It includes the keyword 'Sun' and avoids the keyword 'rain'", "Sun, rainy", False),
        (
            "If discussing sea/lake fishing, the summary must include the keyword 'net'",
            "On lake fishing with a rod",
            False,
        ),
        (
            "If discussing sea/lake fishing, the summary must include the keyword 'net'",
            "On river fishing with a rod",
            True,
        ),
    ],
)
def test_keywords_in_and_out(constraint, response, passed):
    assert passes("Keywords", constraint, response) is passed


TABLE = "| Day | Meal plan |\n|---|---|\n| One | rice and fish |\n| Two | fish soup |"


@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("Each meal must include the keyword 'fish'", TABLE, True),
        ("Each meal must include the keyword 'rice'", TABLE, False),
        ("Each thing must include the keyword 'fish'", TABLE, True),  # the wordiest column
        ("Every item should include 'fish'", "1. fish\n2. fish soup", True),
        ("Every item should include 'fish'", "- fish\n- soup", False),
        ("Each entry must include 'fish'", '{"a": "fish", "b": "no fish"}', True),
        ("Each entry must include 'fish'", '["fish", "soup"]', False),
        ("Each part must include 'fish'", "a fish\n---\nfish again\n***", True),
        ("Each part must include 'fish'", "a fish\n---\nsoup", False),
        ("Each part must include 'fish'", "", False),
    ],
)
def test_keywords_of_each_item(constraint, response, passed):
    assert passes("Keywords", constraint, response) is passed


def test_keywords_that_are_not_understood_are_flagged():
    nothing = judge("Content", "Keywords", "Name the key players", "no one")
    each = judge("Content", "Keywords", "make sure each one includes 'fish'", "fish")
    assert (nothing.passed, nothing.unparsed) == (True, True)
    assert (each.passed, each.unparsed) == (False, True)


def test_an_apostrophe_ends_a_keyword_as_in_the_official_scorer():
    found = [
        word.pattern for word in Rule("Include 'The Bard's Tale' in the 'Name' column").keywords
    ]
    assert found == [r"(?<!\w)The\ Bard(?!\w)", r"(?<!\w)\ in\ the\ (?!\w)"]


def test_keywords_are_responsible():
    asked = ("Content", "Keywords", "Include 'tide' and 'moon'")
    assert spans(*asked, "tide, moon, tide") == [(0, 4), (6, 10), (12, 16)]
    assert spans(*asked, "tide") is None
    avoided = ("Content", "Keywords", "Avoid using the term 'tide'")
    assert spans(*avoided, "a tide") == [(2, 6)]
    assert ContentKeywords("Avoid using the term 'tide'").fulfils("a") is None


@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("The answer must end with a period", "Done. ", True),
        ("The answer must end with a period", "Done!", False),
        ("The answer must end with a period", "", False),
        ("It must end with a question mark or a semicolon", "So;", True),
        ("Titles must not end with a period", "Done", True),
        ("Titles must not end with a period", "Done.", False),
        ("Avoid using exclamation marks", "Well!", False),
        ("It must not end with punctuation marks", "Well,", False),
        ("It must end with a period followed by a `#`", "Well.#", True),
        ("It must end with a period followed by a `#`", "Well.", False),
        ("Each paragraph must end with a period", "One.\n\nTwo.", True),
        ("Each paragraph must end with a period", "One\n\nTwo.", False),
        ("The cells must end with a period", "| A |\n|---|\n| x. |\n| y. |", True),
        ("The cells must end with a period", "| A |\n|---|\n| x. |\n| y |", False),
        ("It must end with an interrobang", "What?!", False),
    ],
)
def test_closing_punctuation(constraint, response, passed):
    assert passes("Punctuation", constraint, response) is passed


@needs_nltk
@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("Each sentence must end with a period", "Dr. Ho came. He left.", True),
        ("Each sentence must end with a period", "He came. Did he leave?", False),
        ("Each sentence must end with a period or a question mark", "He came. Did he go?", True),
        ("Each bullet point must end with a period", "- One.\n- Two.", True),
        ("Each bullet point must end with a period", "- One.\n- Two", False),
        ("Each bullet point must end with a period", "no bullets", True),
        ("All bullet points need a mark at the end", "- One,", True),
        ("Each sentence must end with a period", "", True),
    ],
)
def test_closing_punctuation_of_sentences(constraint, response, passed):
    assert passes("Punctuation", constraint, response) is passed


def test_a_mark_that_is_not_known_is_flagged():
    assert ContentPunctuation("It must end with an interrobang").unparsed
    assert not ContentPunctuation("It must end with a period").unparsed


def test_the_last_character_is_responsible():
    asked = ("Content", "Punctuation", "The answer must end with a period")
    assert spans(*asked, "Done. \n") == [(4, 5)]
    assert spans(*asked, "Done!") == [(4, 5)]
    assert spans(*asked, "") is None


@pytest.mark.parametrize(
    ("subcategory", "constraint", "response", "passed"),
    [
        ("Length", "Keep it a paragraph long", "one line", True),
        ("Length", "Keep it a paragraph long", "two\nlines", False),
        ("Identifiers", "Start identifier must be 'Well then:'", "# well then: yes", True),
        ("Identifiers", "Start identifier must be 'Well then:'", "yes", False),
        (
            "Identifiers",
            "Start identifier: Each example must start with the word 'Case:'",
            "Here. Case: one",
            True,
        ),
        ("Identifiers", "begin with the phrase 'To wit' at once", "To wit, this", True),
        ("Identifiers", "begin with the phrase 'To wit' at once", "That is, this", False),
        (
            "Identifiers",
            "The name of the showroom must start with the letter 'q'.",
            "the Quartz hall",
            True,
        ),
        (
            "Sources",
            "End identifier: Sources must be cited at the end of the response",
            "Text.\nSources:\n  a book",
            True,
        ),
        (
            "Sources",
            "End identifier: Sources must be cited at the end of the response",
            "Sources: a book\nMore text.",
            False,
        ),
        (
            "Sources",
            "The response must include sources that are cited",
            "[1]. Sources: [1] x",
            True,
        ),
        ("Sources", "The response must include sources that are cited", "Sources: x", False),
        ("Quotes", "Must include quotes from the sources", "He said “so”", True),
        ("Quotes", "Must include quotes from the sources", "He said so", False),
        ("Mention", "It must mention red kites and the old oak", "red kites by the old oak", True),
        ("Mention", "It must mention red kites and the old oak", "kites by the old oak", False),
        ("Length", "The response must be short and simple", "x" * 200, True),
        ("Length", "The response must be short and simple", "x" * 201, False),
        ("Length", "The response should be concise, with a maximum of 50 words", "w " * 51, False),
        ("Identifiers", "Each sentence must include at least three emojis.", "😀 a 😀 b 😀!", True),
        ("Identifiers", "Each sentence must include at least three emojis.", "😀 a 😀 b.", False),
    ],
)
def test_other_contents(subcategory, constraint, response, passed):
    assert passes(subcategory, constraint, response) is passed


def test_citations_in_the_text():
    asked = ("Citations", "In-text", "It must include in-text citations")
    assert judge(*asked, "as shown (Ho, 2021)").passed
    assert not judge(*asked, "as shown (2021)").passed


def test_other_contents_that_are_not_understood_fail_and_are_flagged():
    verdict = judge("Content", "Identifiers", "Be nice", "I am")
    assert (verdict.passed, verdict.unparsed) == (False, True)
