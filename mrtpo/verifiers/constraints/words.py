"""Constraints on the words and letters themselves: case, language, letters, syllables, numbers."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

from mrtpo.verifiers.constraints.kinds import (
    LANGUAGE,
    POSITIVE,
    RELATION,
    WHOLE,
    Kind,
    Span,
    Spans,
    related,
)
from mrtpo.verifiers.constraints.text import (
    ENDS,
    chunks,
    detected_language,
    first_tag,
    occurrences,
    token_spans,
    tokens,
    without_punctuation,
)

ALPHABET = string.ascii_lowercase
PRIMES = frozenset(n for n in range(2, 100) if all(n % d for d in range(2, n)))

_CLUSTER = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")  # kana and kanji
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(rf"\d(?:[\d{re.escape(string.punctuation)}]*\d)?")


def _plain_words(response: str) -> Iterator[tuple[str, Span]]:
    """Pieces between blanks, in lower case and without punctuation, those left empty left out."""
    for start, end in chunks(response):
        if word := without_punctuation(response[start:end]).lower():
            yield word, (start, end)


def _capital_words(response: str, capital_frequency: int, capital_relation: str) -> bool:
    number = sum(token.isupper() for token in tokens(response))
    return related(number, capital_relation, capital_frequency)


def _capital_spans(response: str) -> Spans:
    return [(a, b) for a, b in token_spans(response) or () if response[a:b].isupper()]


def _enough_capitals(response: str, capital_frequency: int, capital_relation: str) -> Spans:
    return _capital_spans(response) if capital_relation == "at least" else None


def _too_many_capitals(response: str, capital_frequency: int, capital_relation: str) -> Spans:
    return _capital_spans(response) if capital_relation == "less than" else None


def _in_language(response: str, language: str) -> bool:
    # Where no language can be told, the original takes it as followed.
    return detected_language(response) in (language, None)


def _english_capitals(response: str) -> bool:
    return response.isupper() and _in_language(response, "en")


def _english_lowercase(response: str) -> bool:
    return response.islower() and _in_language(response, "en")


def _cased(response: str, wrong: Any) -> Spans:
    found = [(a, b) for a, b in chunks(response) if any(map(wrong, response[a:b]))]
    return found or None


def _next_letters(response: str) -> bool:
    found = without_punctuation(response).split()
    if not found or (letter := found[0][0].lower()) not in ALPHABET:
        return False
    for word in found[1:]:
        letter = ALPHABET[(ALPHABET.index(letter) + 1) % 26]
        if word[0].lower() != letter:
            return False
    return True


def _first_out_of_order(response: str) -> Spans:
    found = list(_plain_words(response))
    for (one, _), (other, span) in pairwise(found):
        if one[0] not in ALPHABET:
            return None
        if other[0] != ALPHABET[(ALPHABET.index(one[0]) + 1) % 26]:
            return [span]
    return None


def _three_vowels(response: str) -> bool:
    stripped = response.strip()
    return "\n" not in stripped and len(set(stripped.lower()) & set("aeiou")) <= 3


def _clusters(response: str) -> bool:
    return all(_CLUSTER.search(word) for word in response.lower().split())


def _cluster_spans(response: str, right: bool) -> list[Span]:
    return [
        (start, end)
        for start, end in chunks(response)
        if bool(_CLUSTER.search(response[start:end].lower())) is right
    ]


def _palindrome(word: str) -> bool:
    return len(word) >= 5 and word == word[::-1]


def _palindromes(response: str) -> bool:
    return sum(map(_palindrome, without_punctuation(response).lower().split())) >= 10


def _palindrome_spans(response: str) -> Spans:
    return [span for word, span in _plain_words(response) if _palindrome(word)]


def _prime_lengths(response: str) -> bool:
    return all(len(word) in PRIMES for word in without_punctuation(response).split())


def _not_prime(response: str) -> Spans:
    return [span for word, span in _plain_words(response) if len(word) not in PRIMES]


def _starts_with_verb(response: str) -> bool:
    return "VB" in first_tag(response)


def _first_chunk(response: str) -> Spans:
    return list(islice(chunks(response), 1))


def _few_repeats(response: str, small_n: int) -> bool:
    counts = Counter(without_punctuation(response.lower()).split())
    return all(count <= small_n for count in counts.values())


def _repeats(response: str, small_n: int) -> Spans:
    """The uses of each word beyond those allowed."""
    seen: Counter[str] = Counter()
    found = []
    for word, span in _plain_words(response):
        seen[word] += 1
        if seen[word] > small_n:
            found.append(span)
    return found


def _odd_and_even(response: str) -> bool:
    import syllapy

    found = without_punctuation(response).lower().split()
    return all(a != b for a, b in pairwise(syllapy.count(word) % 2 for word in found))


def _no_shared_first_letters(response: str) -> bool:
    found = without_punctuation(response.lower()).split()
    return all(one[0] != other[0] for one, other in pairwise(found))


def _shared_first_letters(response: str) -> Spans:
    pairs = pairwise(_plain_words(response))
    return [other for (one, _), (word, other) in pairs if one[0] == word[0]]


def _nth_words(response: str, N: int) -> Iterator[tuple[bool, Span]]:
    """Every Nth word that is not a number, and whether it has Japanese characters."""
    for start, end in chunks(response)[N - 1 :: N]:
        word = response[start:end].strip(ENDS)
        if word and not word.isdigit():
            yield bool(_JAPANESE.search(word)), (start, end)


def _japanese(response: str, N: int) -> bool:
    return all(japanese for japanese, _ in _nth_words(response, N))


def _japanese_spans(response: str, N: int) -> Spans:
    return [span for japanese, span in _nth_words(response, N) if japanese]


def _not_japanese(response: str, N: int) -> Spans:
    return [span for japanese, span in _nth_words(response, N) if not japanese]


def _numbers(response: str, N: int) -> bool:
    # Punctuation goes first: "1,000.5" is one number, and so is "10-20".
    return len(_DIGITS.findall(without_punctuation(response))) == N


def _number_spans(response: str, N: int) -> Spans:
    return occurrences(_NUMBER, response)


def _numbers_beyond(response: str, N: int) -> Spans:
    spans = _number_spans(response, N) or []
    return spans if len(spans) > N else None


KINDS = {
    "change_case:capital_word_frequency": Kind(
        _capital_words,
        "Write {capital_relation} {capital_frequency} words in capital letters only.",
        {"capital_frequency": WHOLE, "capital_relation": RELATION},
        fulfils=_enough_capitals,
        breaks=_too_many_capitals,
        needs=("punkt_tab",),
    ),
    "change_case:english_capital": Kind(
        _english_capitals,
        "Answer in English, in capital letters only.",
        breaks=lambda response: _cased(response, str.islower),
    ),
    "change_case:english_lowercase": Kind(
        _english_lowercase,
        "Answer in English, in small letters only; no capital letter may occur.",
        breaks=lambda response: _cased(response, str.isupper),
    ),
    "language:response_language": Kind(
        _in_language,
        "Answer in {language} only.",
        {"language": LANGUAGE},
    ),
    "words:alphabet": Kind(
        _next_letters,
        "Each word must begin with the letter that follows, in the alphabet, the first letter of "
        "the word before it; after Z comes A.",
        breaks=_first_out_of_order,
    ),
    "words:vowel": Kind(
        _three_vowels,
        "Write a single paragraph in which at most three of the five vowels occur.",
    ),
    "words:consonants": Kind(
        _clusters,
        "Each word must have two or more consonants in a row.",
        fulfils=lambda response: _cluster_spans(response, True),
        breaks=lambda response: _cluster_spans(response, False),
    ),
    "words:palindrome": Kind(
        _palindromes,
        "Use at least 10 words of five or more letters that read the same backwards.",
        fulfils=_palindrome_spans,
    ),
    "words:prime_lengths": Kind(
        _prime_lengths,
        "Use only words whose number of letters is prime.",
        breaks=_not_prime,
    ),
    "words:start_verb": Kind(
        _starts_with_verb,
        "The first word must be a verb.",
        fulfils=_first_chunk,
        breaks=_first_chunk,
        needs=("punkt_tab", "averaged_perceptron_tagger_eng"),
    ),
    "words:repeats": Kind(
        _few_repeats,
        "Use no word more than {small_n} times.",
        {"small_n": WHOLE},
        breaks=_repeats,
    ),
    "words:odd_even_syllables": Kind(
        _odd_and_even,
        "Words with an odd and words with an even number of syllables must take turns.",
    ),
    "words:no_consecutive": Kind(
        _no_shared_first_letters,
        "A word must not begin with the same letter as the word before it.",
        breaks=_shared_first_letters,
    ),
    "count:words_japanese": Kind(
        _japanese,
        "Of every {N} words, the last must be Japanese.",
        {"N": POSITIVE},
        fulfils=_japanese_spans,
        breaks=_not_japanese,
    ),
    "count:numbers": Kind(
        _numbers,
        "Write exactly {N} numbers, in digits.",
        {"N": WHOLE},
        fulfils=_number_spans,
        breaks=_numbers_beyond,
    ),
}
