"""Kinds that the composer draws from: arguments by chance, wordings, and which do not go together.

Words are drawn without repeats, so that no word is asked for and forbidden, or counted twice. What
two kinds ask may exclude each other whatever their arguments (`CONFLICTS`), or only in numbers
(`needs` and `limits`: a text of at most 60 words cannot have 20 sentences).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

# Everyday words, none of which is part of another one or of a language's small words.
WORDS = (
    "anchor", "basket", "blanket", "bridge", "candle", "castle", "cheese", "copper", "cotton",
    "crystal", "desert", "donkey", "dragon", "engine", "falcon", "feather", "ferry", "forest",
    "fountain", "galaxy", "garlic", "glacier", "hammer", "harbor", "helmet", "honey", "insect",
    "island", "jacket", "kettle", "lantern", "ladder", "lemon", "lizard", "magnet", "marble",
    "meadow", "mirror", "monkey", "mountain", "needle", "ocean", "orchard", "oxygen", "paddle",
    "parrot", "pebble", "pepper", "piano", "pillow", "planet", "pocket", "pumpkin", "rabbit",
    "ribbon", "river", "rocket", "saddle", "shadow", "shovel", "silver", "spider", "thunder",
    "tractor", "tunnel", "turtle", "umbrella", "valley", "velvet", "violin", "wagon", "whistle",
    "window", "winter", "yellow", "zebra",
)  # fmt: skip
END_PHRASES = (
    "That is all there is to it", "Tell me what you think of it", "More on this another time",
    "You know the rest", "Nothing more needs to be said",
)  # fmt: skip
FIRST_WORDS = ("Today", "Usually", "Perhaps", "Clearly", "Often", "Imagine", "Once", "Since")
LAST_WORDS = ("always", "together", "forever", "tomorrow", "again", "here")
POSTSCRIPTS = ("P.S.", "P.P.S")
SPLITTERS = ("Section", "Part", "Chapter")
LETTERS = "bcfgkpvwxz"
LANGUAGES = ("de", "es", "fr", "it", "pt", "nl")

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """`draw` makes arguments out of unused words; `wordings` are format strings over them, used
    beside the kind's own sentence."""

    draw: Callable[[random.Random, Iterator[str]], Arguments]
    wordings: tuple[str, ...]


def _none(rng: random.Random, words: Iterator[str]) -> Arguments:
    return {}


def _some(words: Iterator[str], count: int) -> list[str]:
    return [next(words) for _ in range(count)]


def _number(name: str, low: int, high: int, **more: Any) -> Callable[..., Arguments]:
    return lambda rng, words: {name: rng.randint(low, high), **more}


def _one(name: str, choices: tuple[str, ...] | str) -> Callable[..., Arguments]:
    return lambda rng, words: {name: rng.choice(choices)}


def _word(name: str, **more: Any) -> Callable[..., Arguments]:
    return lambda rng, words: {name: next(words), **more}


def _words_limit(rng: random.Random, words: Iterator[str]) -> Arguments:
    relation = rng.choice(("at least", "less than"))
    return {"relation": relation, "num_words": rng.randrange(80, 260, 10)}


def _words_range(rng: random.Random, words: Iterator[str]) -> Arguments:
    low = rng.randrange(60, 200, 10)
    return {"min_words": low, "max_words": low + rng.choice((30, 40, 60))}


def _sentences_limit(rng: random.Random, words: Iterator[str]) -> Arguments:
    relation = rng.choice(("at least", "less than"))
    low, high = (5, 12) if relation == "at least" else (9, 15)
    return {"relation": relation, "num_sentences": rng.randint(low, high)}


def _sentences_range(rng: random.Random, words: Iterator[str]) -> Arguments:
    low = rng.randint(5, 9)
    return {"min_sentences": low, "max_sentences": low + rng.randint(2, 5)}


def _capitals(rng: random.Random, words: Iterator[str]) -> Arguments:
    relation = rng.choice(("at least", "less than"))
    return {"capital_relation": relation, "capital_frequency": rng.randint(3, 6)}


RECIPES: dict[str, Recipe] = {
    "keywords:existence": Recipe(
        lambda rng, words: {"keywords": _some(words, rng.randint(1, 3))},
        ("The answer must contain {keywords}.", "Make sure that {keywords} can be found in it."),
    ),
    "keywords:forbidden_words": Recipe(
        lambda rng, words: {"forbidden_words": _some(words, rng.randint(2, 4))},
        ("Leave these words out: {forbidden_words}.", "Do without {forbidden_words}."),
    ),
    "keywords:frequency": Recipe(
        lambda rng, words: {"keyword": next(words), "frequency": rng.randint(2, 4),
                            "relation": "at least"},
        ('Say "{keyword}" {relation} {frequency} times.',),
    ),
    "keywords:word_once": Recipe(
        _word("keyword"), ('"{keyword}" should come up exactly once.',)
    ),
    "keywords:letter_frequency": Recipe(
        lambda rng, words: {"letter": rng.choice(LETTERS), "let_frequency": rng.randint(2, 5),
                            "let_relation": "at least"},
        ("The letter {letter} has to turn up {let_relation} {let_frequency} times.",),
    ),
    "change_case:english_capital": Recipe(_none, ("Use English and capital letters only.",)),
    "change_case:english_lowercase": Recipe(
        _none, ("Use English and no capital letters at all.",)
    ),
    "change_case:capital_word_frequency": Recipe(
        _capitals,
        ("The number of words in all capitals must be {capital_relation} {capital_frequency}.",),
    ),
    "language:response_language": Recipe(
        _one("language", LANGUAGES), ("The whole answer has to be in {language}.",)
    ),
    "punctuation:no_comma": Recipe(_none, ("Avoid commas.", "There must not be a single comma.")),
    "punctuation:punctuation_exclamation": Recipe(_none, ("Avoid exclamation marks.",)),
    "punctuation:punctuation_dot": Recipe(_none, ("There must not be a single full stop.",)),
    "count:punctuation": Recipe(
        _none, ("Every one of these marks has to occur: . , ! ? ; : and ?!",)
    ),
    "length_constraints:number_words": Recipe(
        _words_limit, ("The answer must have {relation} {num_words} words.",)
    ),
    "count:word_count_range": Recipe(
        _words_range, ("Keep to between {min_words} and {max_words} words.",)
    ),
    "length_constraints:number_sentences": Recipe(
        _sentences_limit, ("The answer must have {relation} {num_sentences} sentences.",)
    ),
    "exact:sentence_range": Recipe(
        _sentences_range, ("Use between {min_sentences} and {max_sentences} sentences.",)
    ),
    "length_constraints:number_paragraphs": Recipe(
        _number("num_paragraphs", 2, 4),
        ("There must be {num_paragraphs} paragraphs, with *** on a line between any two.",),
    ),
    "paragraphs:paragraphs2": Recipe(
        _none, ("Two paragraphs, please, and one empty line between them.",)
    ),
    "detectable_format:number_bullet_lists": Recipe(
        _number("num_bullets", 2, 5),
        ('Give exactly {num_bullets} points as a list, "* " before each.',),
    ),
    "detectable_format:number_highlighted_sections": Recipe(
        _number("num_highlights", 1, 4),
        ("Put at least {num_highlights} pieces of the text in asterisks, *as here*.",),
    ),
    "detectable_format:multiple_sections": Recipe(
        lambda rng, words: {"section_spliter": rng.choice(SPLITTERS),
                            "num_sections": rng.randint(2, 4)},
        ("There must be {num_sections} sections; each starts with {section_spliter} and a number, "
         "as in {section_spliter} 1.",),
    ),
    "detectable_format:title": Recipe(
        _none, ("There must be a title, in double angle brackets: <<title>>",)
    ),
    "detectable_content:number_placeholders": Recipe(
        _number("num_placeholders", 1, 3),
        ("Leave at least {num_placeholders} gaps to fill in, in square brackets, as [place].",),
    ),
    "detectable_content:postscript": Recipe(
        _one("postscript_marker", POSTSCRIPTS),
        ("Close with a postscript after {postscript_marker}",),
    ),
    "count:numbers": Recipe(_number("N", 1, 4), ("There must be exactly {N} numbers, in digits.",)),
    "startend:quotation": Recipe(_none, ("Double quotation marks must go around all of it.",)),
    "startend:end_checker": Recipe(
        _one("end_phrase", END_PHRASES), ('Finish with exactly this: "{end_phrase}"',)
    ),
    "first_word:first_word_answer": Recipe(
        _one("first_word", FIRST_WORDS), ('"{first_word}" must be the first word.',)
    ),
    "last_word:last_word_answer": Recipe(
        _one("last_word", LAST_WORDS), ('"{last_word}" must be the last word.',)
    ),
}  # fmt: skip

_CASES = ("change_case:english_capital", "change_case:english_lowercase")
_ENDINGS = (
    "startend:end_checker", "last_word:last_word_answer", "detectable_content:postscript",
)  # fmt: skip
_ENGLISH = (
    *_CASES, "keywords:existence", "keywords:frequency", "keywords:word_once",
    "startend:end_checker", "last_word:last_word_answer", "first_word:first_word_answer",
)  # fmt: skip

# Why, and the kinds of which each excludes every other; or those of the first part each of the
# second.
_EXCLUSIVE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("letters have one case", (*_CASES, "change_case:capital_word_frequency")),
    ("the end is one thing", _ENDINGS),
    ("words are limited once", ("length_constraints:number_words", "count:word_count_range")),
    (
        "sentences are limited once",
        ("length_constraints:number_sentences", "exact:sentence_range"),
    ),
    (
        "paragraphs are divided in one way",
        ("length_constraints:number_paragraphs", "paragraphs:paragraphs2"),
    ),
)
_AGAINST: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("English is asked for", ("language:response_language",), _ENGLISH),
    (
        "its mark has capitals and small letters",
        _CASES, ("detectable_format:multiple_sections", "detectable_content:postscript"),
    ),
    (
        "every mark is asked for",
        ("count:punctuation",),
        (
            "punctuation:no_comma", "punctuation:punctuation_exclamation",
            "punctuation:punctuation_dot",
        ),
    ),
    (
        "its mark has full stops",
        ("punctuation:punctuation_dot",), ("detectable_content:postscript",),
    ),
    ("sections are numbered", ("count:numbers",), ("detectable_format:multiple_sections",)),
    (
        "something else comes first",
        ("first_word:first_word_answer",),
        ("startend:quotation", "detectable_format:title", "detectable_format:multiple_sections"),
    ),
)  # fmt: skip
CONFLICTS: dict[frozenset[str], str] = {
    **{frozenset(pair): why for why, kinds in _EXCLUSIVE for pair in combinations(kinds, 2)},
    **{frozenset((a, b)): why for why, one, other in _AGAINST for a in one for b in other},
}
"""Pairs of kinds that are never asked for together, with the reason."""


def words_needed(id: str, given: Mapping[str, Any]) -> int:
    """How many words a text needs, about, to follow a constraint in good style."""
    counts = {
        "keywords:existence": lambda: 4 * len(given["keywords"]),
        "keywords:frequency": lambda: 4 * given["frequency"],
        "keywords:letter_frequency": lambda: 2 * given["let_frequency"],
        "change_case:capital_word_frequency": lambda: 2 * given["capital_frequency"],
        "length_constraints:number_paragraphs": lambda: 12 * given["num_paragraphs"],
        "detectable_format:number_bullet_lists": lambda: 4 * given["num_bullets"],
        "detectable_format:number_highlighted_sections": lambda: 3 * given["num_highlights"],
        "detectable_format:multiple_sections": lambda: 12 * given["num_sections"],
        "detectable_content:number_placeholders": lambda: 2 * given["num_placeholders"],
        "length_constraints:number_sentences": lambda: 6 * sentence_limits(id, given)[0],
        "exact:sentence_range": lambda: 6 * sentence_limits(id, given)[0],
    }  # fmt: skip
    return counts[id]() if id in counts else 3


def sentences_needed(id: str) -> int:
    """Marks that end a sentence need sentences to end; what comes at the end is one of its own."""
    return 4 if id == "count:punctuation" else int(id in _ENDINGS)


def word_limits(id: str, given: Mapping[str, Any]) -> tuple[int, float]:
    """How many words a text may have, both included."""
    if id == "count:word_count_range":
        return given["min_words"], given["max_words"]
    if id == "length_constraints:number_words":
        return _limits(given["relation"], given["num_words"])
    return 0, float("inf")


def sentence_limits(id: str, given: Mapping[str, Any]) -> tuple[int, float]:
    """How many sentences a text may have, both included."""
    if id == "exact:sentence_range":
        return given["min_sentences"], given["max_sentences"]
    if id == "length_constraints:number_sentences":
        return _limits(given["relation"], given["num_sentences"])
    return 0, float("inf")


def _limits(relation: str, threshold: int) -> tuple[int, float]:
    return (threshold, float("inf")) if relation == "at least" else (0, threshold - 1)
