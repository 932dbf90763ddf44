"""Constraints on which words or letters occur, how often, and where."""

from __future__ import annotations

import re
from itertools import islice

from mrtpo.verifiers.constraints.kinds import (
    LETTER,
    POSITIVE,
    RELATION,
    TEXT,
    TEXTS,
    WHOLE,
    WORD,
    Kind,
    Span,
    Spans,
    related,
)
from mrtpo.verifiers.constraints.text import (
    ENDS,
    PUNCTUATION,
    anywhere,
    chunks,
    occurrences,
    sentence_spans,
    sentences,
    token_spans,
    tokens,
    whole_word,
)

# The names that IFBench's prompt lists.
NAMES = [
    "Emma", "Liam", "Sophia", "Jackson", "Olivia", "Noah", "Ava", "Lucas", "Isabella", "Mason",
    "Mia", "Ethan", "Charlotte", "Alexander", "Amelia", "Benjamin", "Harper", "Leo", "Zoe",
    "Daniel", "Chloe", "Samuel", "Lily", "Matthew", "Grace", "Owen", "Abigail", "Gabriel", "Ella",
    "Jacob", "Scarlett", "Nathan", "Victoria", "Elijah", "Layla", "Nicholas", "Audrey", "David",
    "Hannah", "Christopher", "Penelope", "Thomas", "Nora", "Andrew", "Aria", "Joseph", "Claire",
    "Ryan", "Stella", "Jonathan",
]  # fmt: skip
PRONOUNS = frozenset([
    "i", "me", "we", "us", "you", "he", "him", "she", "her", "it", "they", "them", "my", "mine",
    "our", "ours", "your", "yours", "his", "hers", "its", "their", "theirs", "myself", "ourselves",
    "yourself", "yourselves", "himself", "herself", "itself", "themselves", "this", "that", "these",
    "those", "who", "whom", "whose", "which", "what", "whoever", "whomever", "whatever",
    "whichever", "anybody", "anyone", "anything", "everybody", "everyone", "everything", "nobody",
    "nothing", "somebody", "someone", "something", "each", "either", "neither", "both", "all",
    "some", "any", "none",
])  # fmt: skip
CONJUNCTIONS = frozenset(["and", "but", "for", "nor", "or", "so", "yet"])
TIMES = (1, 2, 3, 5, 7)  # how often each of five keywords is asked for

_NAME = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")


def _all_occur(response: str, keywords: tuple[str, ...]) -> bool:
    return all(anywhere(keyword).search(response) for keyword in keywords)


def _any_of(response: str, keywords: tuple[str, ...]) -> Spans:
    return [span for keyword in keywords for span in occurrences(anywhere(keyword), response)]


def _none_occurs(response: str, forbidden_words: tuple[str, ...]) -> bool:
    return not any(whole_word(word).search(response) for word in forbidden_words)


def _forbidden(response: str, forbidden_words: tuple[str, ...]) -> Spans:
    return [span for word in forbidden_words for span in occurrences(whole_word(word), response)]


def _occurs_so_often(response: str, keyword: str, frequency: int, relation: str) -> bool:
    return related(len(anywhere(keyword).findall(response)), relation, frequency)


def _enough(response: str, keyword: str, frequency: int, relation: str) -> Spans:
    return occurrences(anywhere(keyword), response) if relation == "at least" else None


def _too_many(response: str, keyword: str, frequency: int, relation: str) -> Spans:
    return occurrences(anywhere(keyword), response) if relation == "less than" else None


def _letters(response: str, letter: str) -> list[Span]:
    return [(i, i + 1) for i, character in enumerate(response) if character.lower() == letter]


def _letter_so_often(response: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    return related(response.lower().count(letter), let_relation, let_frequency)


def _enough_letters(response: str, letter: str, let_frequency: int, let_relation: str) -> Spans:
    return _letters(response, letter) if let_relation == "at least" else None


def _too_many_letters(response: str, letter: str, let_frequency: int, let_relation: str) -> Spans:
    return _letters(response, letter) if let_relation == "less than" else None


def _five_so_often(response: str, **keywords: str) -> bool:
    lower = response.lower()
    return all(lower.count(w.lower()) == n for w, n in zip(keywords.values(), TIMES, strict=True))


def _the_five(response: str, **keywords: str) -> Spans:
    return _any_of(response, tuple(keywords.values()))


def _too_many_of_five(response: str, **keywords: str) -> Spans:
    found = [occurrences(anywhere(word), response) for word in keywords.values()]
    return [s for spans, n in zip(found, TIMES, strict=True) if len(spans) > n for s in spans]


def _names(response: str, N: int) -> bool:
    return len(set(_NAME.findall(response))) >= N


def _pronouns(response: str, N: int) -> bool:
    spaced = response.replace("/", " ").lower()
    return sum(token in PRONOUNS for token in tokens(spaced)) >= N


def _pronoun_spans(response: str, N: int) -> Spans:
    found = re.finditer(r"[A-Za-z]+", response)
    return [match.span() for match in found if match.group().lower() in PRONOUNS]


def _conjunction_spans(response: str, small_n: int) -> list[Span]:
    return [
        (start, end)
        for start, end in chunks(response)
        if response[start:end].strip(ENDS).lower() in CONJUNCTIONS
    ]


def _conjunctions(response: str, small_n: int) -> bool:
    # As the original counts: "and", "And" and "and," are three.
    spans = _conjunction_spans(response, small_n)
    return len({response[start:end] for start, end in spans}) >= small_n


def _in_sentence(response: str, word: str, N: int) -> bool:
    return bool(whole_word(word).search("".join(islice(sentences(response), N - 1, N))))


def _sentence_of_word(response: str, word: str, N: int) -> Spans:
    return list(islice(sentence_spans(response), N - 1, N))


def _word_in_sentence(response: str, word: str, N: int) -> Spans:
    return [
        (start + match.start(), start + match.end())
        for start, end in islice(sentence_spans(response), N - 1, N)
        for match in whole_word(word).finditer(response[start:end])
    ]


def _nth_token(response: str, n: int, m: int) -> Span | None:
    for start, end in islice(sentence_spans(response), n - 1, n):
        sentence = response[start:end]
        spans = token_spans(sentence) or []
        spans = [(a, b) for a, b in spans if any(map(str.isalnum, sentence[a:b]))]
        return next(((start + a, start + b) for a, b in spans[m - 1 : m]), None)
    return None


def _at_place(response: str, keyword: str, n: int, m: int) -> bool:
    for sentence in islice(sentences(response), n - 1, n):
        words = [token for token in tokens(sentence) if any(map(str.isalnum, token))]
        return len(words) >= m and words[m - 1].lower() == keyword.lower()
    return False


def _place(response: str, keyword: str, n: int, m: int) -> Spans:
    span = _nth_token(response, n, m)
    return span and [span]


def _last_but_one(found: tuple[str, ...]) -> int:
    """Its place from the end: a final mark is no word."""
    return -3 if found[-1] in PUNCTUATION else -2


def _second_and_last_but_one(response: str, keyword: str) -> bool:
    found = tokens(response)
    if len(found) < 2 or len(found) < -_last_but_one(found):
        return False
    return found[1].lower() == found[_last_but_one(found)].lower() == keyword.lower()


def _two_places(response: str, keyword: str) -> Spans:
    found, spans = tokens(response), token_spans(response)
    if not spans or len(found) < 2 or len(found) < -_last_but_one(found):
        return None
    return sorted({spans[1], spans[_last_but_one(found)]})


KINDS = {
    "keywords:existence": Kind(
        _all_occur,
        "Use each of these words or phrases at least once: {keywords}.",
        {"keywords": TEXTS},
        fulfils=_any_of,
    ),
    "keywords:forbidden_words": Kind(
        _none_occurs,
        "Never use any of these words: {forbidden_words}.",
        {"forbidden_words": TEXTS},
        breaks=_forbidden,
    ),
    "keywords:frequency": Kind(
        _occurs_so_often,
        'The word "{keyword}" must occur {relation} {frequency} times.',
        {"keyword": WORD, "frequency": WHOLE, "relation": RELATION},
        fulfils=_enough,
        breaks=_too_many,
    ),
    "keywords:letter_frequency": Kind(
        _letter_so_often,
        'The character "{letter}" must occur {let_relation} {let_frequency} times.',
        {"letter": LETTER, "let_frequency": WHOLE, "let_relation": RELATION},
        fulfils=_enough_letters,
        breaks=_too_many_letters,
    ),
    "count:keywords_multiple": Kind(
        _five_so_often,
        'Use the word "{keyword1}" exactly once, "{keyword2}" exactly 2 times, "{keyword3}" '
        'exactly 3 times, "{keyword4}" exactly 5 times and "{keyword5}" exactly 7 times.',
        {f"keyword{i}": WORD for i in range(1, 6)},
        fulfils=_the_five,
        breaks=_too_many_of_five,
    ),
    "count:person_names": Kind(
        _names,
        f"Name at least {{N}} different people, with first names out of: {', '.join(NAMES)}.",
        {"N": WHOLE},
        fulfils=lambda response, N: occurrences(_NAME, response),
    ),
    "count:pronouns": Kind(
        _pronouns,
        "Use at least {N} pronouns.",
        {"N": WHOLE},
        fulfils=_pronoun_spans,
        needs=("punkt_tab",),
    ),
    "count:conjunctions": Kind(
        _conjunctions,
        "Use at least {small_n} different coordinating conjunctions.",
        {"small_n": WHOLE},
        fulfils=_conjunction_spans,
    ),
    "sentence:keyword": Kind(
        _in_sentence,
        'Sentence number {N} must contain the word "{word}".',
        {"word": TEXT, "N": POSITIVE},
        fulfils=_word_in_sentence,
        breaks=_sentence_of_word,
        needs=("punkt_tab",),
    ),
    "words:keywords_specific_position": Kind(
        _at_place,
        'Word number {m} of sentence number {n} must be "{keyword}".',
        {"keyword": WORD, "n": POSITIVE, "m": POSITIVE},
        fulfils=_place,
        breaks=_place,
        needs=("punkt_tab",),
    ),
    "words:words_position": Kind(
        _second_and_last_but_one,
        'The second word and the last word but one must both be "{keyword}".',
        {"keyword": WORD},
        fulfils=_two_places,
        breaks=_two_places,
        needs=("punkt_tab",),
    ),
}
