"""Kinds of IF-RLVR's training data on words and letters (`training` has the source)."""

from __future__ import annotations

import re
from itertools import pairwise

from mrtpo.verifiers.constraints.keywords import KINDS as KEYWORDS
from mrtpo.verifiers.constraints.kinds import RELATION, WHOLE, WORD, Kind, Span, Spans, related
from mrtpo.verifiers.constraints.text import anywhere, chunks, occurrences, token_spans, tokens

_LETTER = re.compile("[a-zA-Z]")
_LOWER_WORD = re.compile(r"\b[a-z]+\b")


def _follow(one: str, other: str) -> bool:
    """Whether the first letters follow each other in the alphabet."""
    first, second = one[0].lower(), other[0].lower()
    return len(first) != 1 or len(second) != 1 or ord(second) - ord(first) == 1


def _no_neighbours(response: str) -> bool:
    return not any(_follow(one, other) for one, other in pairwise(response.split()))


def _neighbours(response: str) -> Spans:
    pairs = pairwise(chunks(response))
    return [(c, d) for (a, b), (c, d) in pairs if _follow(response[a:b], response[c:d])]


def _once(response: str, keyword: str) -> bool:
    return len(anywhere(keyword).findall(response)) == 1


def _all_of(response: str, keyword: str) -> list[Span]:
    return occurrences(anywhere(keyword), response)


def _between_blanks(response: str, keyword: str) -> list[Span]:
    found = re.finditer(re.escape(f" {keyword} "), response)
    return [(match.start() + 1, match.end() - 1) for match in found]


def _excluded(response: str, keyword: str) -> bool:
    return not _between_blanks(response, keyword)


def _palindromes(response: str) -> list[Span]:
    return [(a, b) for a, b in chunks(response) if response[a:b] == response[a:b][::-1]]


def _has_palindrome(response: str) -> bool:
    return bool(_palindromes(response))


def _few_lower(response: str, N: int) -> bool:
    return len(_LOWER_WORD.findall(response)) <= N


def _lower_beyond(response: str, N: int) -> Spans:
    return occurrences(_LOWER_WORD, response)[N:]


def _letters(response: str, N: int, relation: str) -> bool:
    return related(len(_LETTER.findall(response)), relation, N)


def _unique(response: str) -> bool:
    found = tokens(response)
    return len(found) == len(set(found))


def _repeated(response: str) -> Spans:
    seen: set[str] = set()
    again = []
    for start, end in token_spans(response) or ():
        if response[start:end] in seen:
            again.append((start, end))
        seen.add(response[start:end])
    return again


def _once_and_twice(response: str, keyword1: str, keyword2: str) -> bool:
    return _once(response, keyword1) and len(_all_of(response, keyword2)) == 2


def _both(response: str, keyword1: str, keyword2: str) -> Spans:
    return [*_all_of(response, keyword1), *_all_of(response, keyword2)]


def _as(id: str, sentence: str) -> Kind:
    """IFEval's kind under another name and in other words."""
    same = KEYWORDS[id]
    return Kind(same.check, sentence, same.arguments, fulfils=same.fulfils, breaks=same.breaks)


KINDS = {
    "keywords:no_adjacent_consecutive": Kind(
        _no_neighbours,
        "A word must not begin with the letter that follows, in the alphabet, the first letter of "
        "the word before it.",
        breaks=_neighbours,
    ),
    "keywords:word_once": Kind(
        _once,
        'Use the word "{keyword}" once and only once.',
        {"keyword": WORD},
        fulfils=_all_of,
        breaks=_all_of,
    ),
    "keywords:word_count_different_numbers": _as(
        "keywords:frequency",
        'In the answer, "{keyword}" must be there {relation} {frequency} times.',
    ),
    "keywords:exclude_word_harder": Kind(
        _excluded,
        'Leave out the word "{keyword}".',
        {"keyword": WORD},
        breaks=_between_blanks,
    ),
    "keywords:palindrome": Kind(
        _has_palindrome,
        "Use a word that reads the same backwards.",
        fulfils=_palindromes,
    ),
    "count:lowercase_counting": Kind(
        _few_lower,
        "Write at most {N} words in small letters only.",
        {"N": WHOLE},
        breaks=_lower_beyond,
    ),
    "letters:letter_counting": Kind(
        _letters, "Write {relation} {N} letters.", {"N": WHOLE, "relation": RELATION}
    ),
    "letters:letter_counting2": _as(
        "keywords:letter_frequency",
        'In the answer, the letter "{letter}" must be there {let_relation} {let_frequency} times.',
    ),
    "count:count_unique": Kind(
        _unique, "Use no word and no mark twice.", breaks=_repeated, needs=("punkt_tab",)
    ),
    "count:count_increment_word": Kind(
        _once_and_twice,
        'Use "{keyword1}" exactly once and "{keyword2}" exactly twice.',
        {"keyword1": WORD, "keyword2": WORD},
        fulfils=_both,
        breaks=_both,
    ),
}
