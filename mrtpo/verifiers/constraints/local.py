"""Kinds that one or a few tokens decide, at a place that can be told: for the embedded task.

Lines are those with more than blanks, counted from 1. Words are runs of letters, alike in any case.
A line that is not there keeps nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrtpo.verifiers.constraints.kinds import POSITIVE, WHOLE, WORD, Argument, Kind, Span, Spans

END_MARKS = (".", "!", "?", ";")
NUMBER_MARKS = (")", ":", "-", "/")

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d*")


def _mark(marks: Sequence[str]) -> Argument:
    what = " or ".join(f'"{mark}"' for mark in marks)
    return Argument(what, lambda value: value if value in marks else None)


END_MARK, NUMBER_MARK = _mark(END_MARKS), _mark(NUMBER_MARKS)


def line_spans(response: str) -> list[Span]:
    """Where the lines stand, without the blanks around them."""
    found, start = [], 0
    for text in response.split("\n"):
        if kept := text.strip():
            at = start + len(text) - len(text.lstrip())
            found.append((at, at + len(kept)))
        start += len(text) + 1
    return found


def _line(response: str, line: int) -> Span | None:
    found = line_spans(response)
    return found[line - 1] if line <= len(found) else None


def _words(response: str, span: Span | None) -> list[Span]:
    return [m.span() for m in _WORD.finditer(response, *span)] if span else []


def _is(response: str, span: Span, word: str) -> bool:
    return response[slice(*span)].lower() == word.lower()


def _first_spans(response: str, line: int, **_: object) -> list[Span]:
    return _words(response, _line(response, line))[:1]


def _last_spans(response: str, line: int, **_: object) -> list[Span]:
    return _words(response, _line(response, line))[-1:]


def _first(response: str, line: int, word: str) -> bool:
    return any(_is(response, span, word) for span in _first_spans(response, line))


def _last(response: str, line: int, word: str) -> bool:
    return any(_is(response, span, word) for span in _last_spans(response, line))


def _has_spans(response: str, line: int, word: str) -> list[Span]:
    found = _words(response, _line(response, line))
    return [span for span in found if _is(response, span, word)]


def _has(response: str, line: int, word: str) -> bool:
    return bool(_has_spans(response, line, word))


def _line_words(response: str, line: int, word: str) -> Spans:
    return _words(response, _line(response, line))


def _word_spans(response: str, word: str, **_: object) -> list[Span]:
    return [span for span in _words(response, (0, len(response))) if _is(response, span, word)]


def _absent(response: str, word: str) -> bool:
    return not _word_spans(response, word)


def _frequency(response: str, word: str, count: int) -> bool:
    return len(_word_spans(response, word)) == count


def _pairs(response: str, word: str, follower: str) -> list[tuple[Span, bool]]:
    """Each `word` with what follows it in its line, and whether that is `follower`."""
    found = []
    for line in line_spans(response):
        words = _words(response, line)
        for at, span in enumerate(words):
            if _is(response, span, word):
                after = words[at + 1 : at + 2]
                right = any(_is(response, other, follower) for other in after)
                found.append(((span[0], after[0][1] if after else span[1]), right))
    return found


def _pair(response: str, word: str, follower: str) -> bool:
    found = _pairs(response, word, follower)
    return bool(found) and all(right for _, right in found)


def _right_pairs(response: str, word: str, follower: str) -> Spans:
    return [span for span, right in _pairs(response, word, follower) if right]


def _wrong_pairs(response: str, word: str, follower: str) -> Spans:
    return [span for span, right in _pairs(response, word, follower) if not right]


def _word_number(response: str, line: int, count: int) -> bool:
    span = _line(response, line)
    return span is not None and len(_words(response, span)) == count


def _line_end(response: str, line: int, count: int) -> Spans:
    """From the last word of a line to its break: there it was decided to go on or to stop."""
    span = _line(response, line)
    words = _words(response, span)
    return [(words[-1][0], min(span[1] + 1, len(response)))] if span and words else None


def _nth(response: str, line: int, place: int) -> list[Span]:
    return _words(response, _line(response, line))[place - 1 : place]


def _capitals(response: str, line: int, place: int) -> bool:
    return any(response[slice(*span)].isupper() for span in _nth(response, line, place))


def _last_character(response: str, line: int, mark: str) -> list[Span]:
    span = _line(response, line)
    return [(span[1] - 1, span[1])] if span else []


def _ends(response: str, line: int, mark: str) -> bool:
    return any(response[slice(*s)] == mark for s in _last_character(response, line, mark))


def _behind_number(response: str, line: int, mark: str) -> Spans:
    span = _line(response, line)
    if span is None:
        return None
    number = _NUMBER.match(response, *span)
    assert number is not None
    return [(number.end(), min(number.end() + 1, len(response)))]


def _numbered(response: str, line: int, mark: str) -> bool:
    span = _line(response, line)
    return span is not None and response.startswith(f"{line}{mark}", span[0])


def _lines(response: str, count: int) -> bool:
    return len(line_spans(response)) == count


def _breaks_from(response: str, number: int) -> Spans:
    """The breaks behind the lines from `number` on; not that behind the last."""
    found = line_spans(response)
    return [(end, end + 1) for _, end in found[number - 1 : -1]]


def _all_breaks(response: str, count: int) -> Spans:
    return _breaks_from(response, 1)


def _extra_breaks(response: str, count: int) -> Spans:
    return _breaks_from(response, max(count, 1))


def _alike(response: str, line: int, other: int) -> bool:
    ours, theirs = _first_spans(response, line), _first_spans(response, other)
    return bool(ours and theirs) and _is(response, ours[0], response[slice(*theirs[0])])


KINDS = {
    "local:first_word": Kind(
        _first,
        "Line {line} begins {word}.",
        {"line": POSITIVE, "word": WORD},
        fulfils=_first_spans,
        breaks=_first_spans,
    ),
    "local:last_word": Kind(
        _last,
        "Line {line} ends {word}.",
        {"line": POSITIVE, "word": WORD},
        fulfils=_last_spans,
        breaks=_last_spans,
    ),
    "local:has_word": Kind(
        _has,
        "Line {line} has {word}.",
        {"line": POSITIVE, "word": WORD},
        fulfils=_has_spans,
        breaks=_line_words,
    ),
    "local:no_word": Kind(
        _absent, "Never {word}.", {"word": WORD}, breaks=_word_spans
    ),
    "local:pair": Kind(
        _pair,
        "Always {word} {follower}.",
        {"word": WORD, "follower": WORD},
        fulfils=_right_pairs,
        breaks=_wrong_pairs,
    ),
    "local:word_frequency": Kind(
        _frequency,
        "Use {count} times {word}.",
        {"word": WORD, "count": WHOLE},
        fulfils=_word_spans,
        breaks=_word_spans,
    ),
    "local:words": Kind(
        _word_number,
        "Line {line} takes {count} words.",
        {"line": POSITIVE, "count": POSITIVE},
        fulfils=_line_end,
        breaks=_line_end,
    ),
    "local:capitals": Kind(
        _capitals,
        "Line {line} capitals {place}.",
        {"line": POSITIVE, "place": POSITIVE},
        fulfils=_nth,
        breaks=_nth,
    ),
    "local:end_mark": Kind(
        _ends,
        "Line {line} closes {mark}",
        {"line": POSITIVE, "mark": END_MARK},
        fulfils=_last_character,
        breaks=_last_character,
    ),
    "local:number_mark": Kind(
        _numbered,
        "Number {line}{mark}",
        {"line": POSITIVE, "mark": NUMBER_MARK},
        fulfils=_behind_number,
        breaks=_behind_number,
    ),
    "local:lines": Kind(
        _lines,
        "Write {count} lines.",
        {"count": POSITIVE},
        fulfils=_all_breaks,
        breaks=_extra_breaks,
    ),
    "local:same_start": Kind(
        _alike,
        "Line {line} begins as line {other}.",
        {"line": POSITIVE, "other": POSITIVE},
        fulfils=_first_spans,
        breaks=_first_spans,
    ),
}  # fmt: skip
