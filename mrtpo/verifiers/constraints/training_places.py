"""Kinds of IF-RLVR's training data on which word stands where (`training` has the source).

First and last words are pieces between blanks; the last one's punctuation does not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mrtpo.verifiers.constraints.kinds import POSITIVE, Argument, Kind, Span, Spans
from mrtpo.verifiers.constraints.text import (
    chunks,
    sentence_spans,
    sentences,
    token_spans,
    tokens,
)

_MARKS = re.compile(r"[^\w\s]")


def _first_of(value: Any) -> str | None:
    """Some rows of the data have a list with the word in it."""
    if isinstance(value, list | tuple) and value:
        value = value[0]
    return value.strip() or None if isinstance(value, str) else None


_ONE_WORD = Argument("a text that is not blank, or a list that begins with one", _first_of)


def _first(piece: str) -> str:
    return piece.lower()


def _last(piece: str) -> str:
    return _MARKS.sub("", piece).lower()


def _answer(response: str) -> list[Span]:
    return [(0, len(response))]


def _ends(response: str, parts: Callable[[str], list[Span]], at: int) -> list[Span]:
    """The piece at `at` (0 the first, -1 the last) of the answer or of each of its sentences."""
    found = []
    for start, end in parts(response):
        pieces = chunks(response[start:end])
        if pieces:
            a, b = pieces[at]
            found.append((start + a, start + b))
    return found


def _placed_at(name: str, each: bool, sentence: str) -> Kind:
    """The kind whose argument `name`, first_word or last_word, is each sentence's or the answer's
    first or last word."""
    at, bare = (0, _first) if name == "first_word" else (-1, _last)
    parts = sentence_spans if each else _answer

    def right(response: str, **given: str) -> Spans:
        return _ends(response, parts, at)

    def wrong(response: str, **given: str) -> list[Span]:
        wanted = given[name].lower()
        return [(a, b) for a, b in _ends(response, parts, at) if bare(response[a:b]) != wanted]

    def check(response: str, **given: str) -> bool:
        return (each or bool(right(response))) and not wrong(response, **given)

    needs = ("punkt_tab",) if each else ()
    return Kind(check, sentence, {name: _ONE_WORD}, fulfils=right, breaks=wrong, needs=needs)


def _placed(response: str, keyword: str, n: int, m: int) -> bool:
    found = sentences(response)
    return len(found) >= n and list(tokens(found[n - 1])[m - 1 : m]) == [keyword]


def _ends_as_it_begins(response: str) -> bool:
    found = tokens(response)
    return len(found) > 1 and found[0].lower() == found[-1].lower()


def _both_ends(response: str) -> Spans:
    found = token_spans(response) or []
    return [found[0], found[-1]] if found else None


KINDS = {
    "first_word:first_word_sent": _placed_at(
        "first_word", True, 'Begin every sentence with the word "{first_word}".'
    ),
    "first_word:first_word_answer": _placed_at(
        "first_word", False, 'Begin the answer with the word "{first_word}".'
    ),
    "last_word:last_word_sent": _placed_at(
        "last_word", True, 'End every sentence with the word "{last_word}", but for punctuation.'
    ),
    "last_word:last_word_answer": _placed_at(
        "last_word", False, 'End the answer with the word "{last_word}", but for punctuation.'
    ),
    "keywords:keyword_specific_position": Kind(
        _placed,
        'The word "{keyword}" must be word number {m} of sentence number {n}.',
        {"keyword": _ONE_WORD, "n": POSITIVE, "m": POSITIVE},
        needs=("punkt_tab",),
    ),
    "keywords:start_end": Kind(
        _ends_as_it_begins,
        "Begin and end the answer with the same word; nothing, not even a full stop, may follow.",
        fulfils=_both_ends,
        breaks=_both_ends,
        needs=("punkt_tab",),
    ),
}
