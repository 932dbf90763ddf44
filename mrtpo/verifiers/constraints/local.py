"""Kinds that one token decides, at a place that every text has: for the embedded task.

Lines are those with more than blanks, counted from 1. Words are runs of letters.
A rule on a line that is not there is broken, and nothing is to blame. Sentences look like what
they ask for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mrtpo.verifiers.constraints.kinds import POSITIVE, WORD, Argument, Kind, Span, Spans

BULLETS = (".", ")", ":", "-")

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"[0-9]+")


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


def _first_spans(response: str, line: int, **_: object) -> list[Span]:
    found = line_spans(response)
    return _words(response, found[line - 1])[:1] if line <= len(found) else []


def _first(response: str, line: int, word: str) -> bool:
    return any(response[slice(*span)] == word for span in _first_spans(response, line))


def _bullet_spans(response: str, line: int, **_: object) -> list[Span]:
    """The character behind the number that the line begins with."""
    found = line_spans(response)
    if line > len(found) or not (number := _NUMBER.match(response, found[line - 1][0])):
        return []
    return [(number.end(), min(number.end() + 1, len(response)))]


def _bullet(response: str, line: int, mark: str) -> bool:
    return any(response[slice(*span)] == mark for span in _bullet_spans(response, line))


def _kind(
    check: Callable[..., bool], sentence: str, spans: Callable[..., Spans], **arguments: Argument
) -> Kind:
    """A rule on one place of a line, which it is about whether it is kept or broken."""
    return Kind(check, sentence, {"line": POSITIVE, **arguments}, fulfils=spans, breaks=spans)


KINDS = {
    "local:first_word": _kind(_first, "{line:0>2} {word}", _first_spans, word=WORD),
    "local:bullet": _kind(_bullet, "{line:0>2}{mark}", _bullet_spans, mark=_mark(BULLETS)),
}
