"""Kinds that one or a few tokens decide, at a place that can be told: for the embedded task.

Lines are those with more than blanks, counted from 1. Words are runs of letters, alike in any case.
A rule on a word that does not occur is broken, and nothing is to blame. Sentences look like what
they ask for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from mrtpo.verifiers.constraints.kinds import POSITIVE, WORD, Argument, Kind, Span, Spans

MARKS = (".", "!", "?", ";")

_WORD = re.compile(r"[^\W\d_]+")


def _mark(marks: Sequence[str]) -> Argument:
    what = " or ".join(f'"{mark}"' for mark in marks)
    return Argument(what, lambda value: value if value in marks else None)


def line_spans(response: str) -> list[Span]:
    """Where the lines stand, without the blanks around them."""
    found, start = [], 0
    for text in response.split("\n"):
        if kept := text.strip():
            at = start + len(text) - len(text.lstrip())
            found.append((at, at + len(kept)))
        start += len(text) + 1
    return found


def _words(response: str, span: Span) -> list[Span]:
    return [m.span() for m in _WORD.finditer(response, *span)]


def _is(response: str, span: Span, word: str) -> bool:
    return response[slice(*span)].lower() == word.lower()


def _first_spans(response: str, line: int, **_: object) -> list[Span]:
    found = line_spans(response)
    return _words(response, found[line - 1])[:1] if line <= len(found) else []


def _first(response: str, line: int, word: str) -> bool:
    return any(_is(response, span, word) for span in _first_spans(response, line))


def _occurrences(response: str, word: str) -> list[Span]:
    return [span for span in _words(response, (0, len(response))) if _is(response, span, word)]


def _absent(response: str, word: str) -> bool:
    return not _occurrences(response, word)


def _pairs(response: str, word: str, follower: str) -> list[tuple[Span, bool]]:
    """What follows each `word`, the word after it in its line or its own end, and whether that is
    `follower`."""
    found = []
    for line in line_spans(response):
        words = _words(response, line)
        for at, span in enumerate(words):
            if _is(response, span, word):
                after = words[at + 1] if at + 1 < len(words) else (span[1], span[1] + 1)
                found.append((after, _is(response, after, follower)))
    return found


def _marks(response: str, word: str, mark: str) -> list[tuple[Span, bool]]:
    """The character behind each `word`, and whether it is `mark`."""
    return [
        ((end, end + 1), response[end : end + 1] == mark) for _, end in _occurrences(response, word)
    ]


def _capitals(response: str, word: str) -> list[tuple[Span, bool]]:
    """Each `word`, and whether it is in capitals."""
    found = _occurrences(response, word)
    return [(span, response[slice(*span)].isupper()) for span in found]


def _kind(places: Callable[..., list[tuple[Span, bool]]], sentence: str, **arguments: Argument
          ) -> Kind:  # fmt: skip
    """A rule on every occurrence of a word, of which there must be one."""

    def check(response: str, **given: Any) -> bool:
        found = places(response, **given)
        return bool(found) and all(right for _, right in found)

    def fulfils(response: str, **given: Any) -> Spans:
        return [(a, min(b, len(response))) for (a, b), _ in places(response, **given)]

    def breaks(response: str, **given: Any) -> Spans:
        wrong = [span for span, right in places(response, **given) if not right]
        return [(a, min(b, len(response))) for a, b in wrong if a < len(response)] or None

    return Kind(check, sentence, {"word": WORD, **arguments}, fulfils=fulfils, breaks=breaks)


KINDS = {
    "local:first_word": Kind(
        _first,
        "{line} {word}",
        {"line": POSITIVE, "word": WORD},
        fulfils=_first_spans,
        breaks=_first_spans,
    ),
    "local:pair": _kind(_pairs, "Always {word} {follower}", follower=WORD),
    "local:mark_after": _kind(_marks, "Always {word}{mark}", mark=_mark(MARKS)),
    "local:in_capitals": _kind(_capitals, "Always {word}"),
    "local:no_word": Kind(_absent, "Never {word}", {"word": WORD}, breaks=_occurrences),
}  # fmt: skip
