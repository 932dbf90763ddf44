"""Kinds of IF-RLVR's training data that ask for a given text again (`training` has the source)."""

from __future__ import annotations

from collections.abc import Callable

from mrtpo.verifiers.constraints.kinds import (
    POSITIVE,
    TEXT,
    WHOLE,
    Argument,
    Kind,
    Span,
    Spans,
)

_SIX = "******"


def _same(one: str, other: str) -> bool:
    return one.strip().lower() == other.strip().lower()


def _is_copy(response: str, prompt_to_repeat: str) -> bool:
    return _same(response, prompt_to_repeat)


def _is_piece(response: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    return _same(response, prompt_to_repeat[n_start:n_end])


def _are_copies(response: str, prompt_to_repeat: str, N: int) -> bool:
    copies = response.split(_SIX)
    return len(copies) == N and all(_same(copy, prompt_to_repeat) for copy in copies)


def _all_of_it(response: str, **_: object) -> Spans:
    start = len(response) - len(response.lstrip())
    return [(start, len(response.rstrip()))]


def _phrase_spans(response: str, phrase: str, small_n: int = 0) -> list[Span]:
    """From the phrase's first word to its last, with something between them, on one line."""
    first, last = phrase.split()[0], phrase.split()[-1]
    found = []
    at = 0
    while (start := response.find(f"{first} ", at)) >= 0:
        middle = start + len(first) + 1
        line = response.find("\n", middle)
        end = response.find(f" {last}", middle, line if line >= 0 else len(response))
        if end < 0:
            at = start + 1
            continue
        at = end + len(last) + 1
        found.append((start, at))
    return found


def _repeats_phrase(response: str, phrase: str, small_n: int) -> bool:
    """As often as asked, each time with at most one word changed, the last time with one."""
    found = _phrase_spans(response, phrase)
    if len(found) != small_n or not found:
        return False
    wanted = phrase.split()
    changed = 0
    for start, end in found:
        words = response[start:end].split()
        if len(words) > len(wanted):
            return False
        changed = sum(one != other for one, other in zip(words, wanted, strict=False))
        if changed > 1:
            return False
    return changed == 1


_REPEATED = {"prompt_to_repeat": TEXT}

# id: checker, sentence, arguments beside the text that is copied
_COPIES: dict[str, tuple[Callable[..., bool], str, dict[str, Argument]]] = {
    "copy:copy": (
        _is_copy, "Do not do what this asks but copy it, word for word: {prompt_to_repeat}", {},
    ),
    "copy:copying_simple": (
        _is_copy,
        "Repeat this request without a change and without an answer: {prompt_to_repeat}", {},
    ),
    "copy:copying_multiple": (
        _are_copies,
        "Repeat this request {N} times without an answer, with six asterisks between the copies "
        "(******): {prompt_to_repeat}",
        {"N": POSITIVE},
    ),
    "new:copy_span_idx": (
        _is_piece,
        "Answer with just the characters from index {n_start} up to, without, index {n_end} of "
        "this text: {prompt_to_repeat}",
        {"n_start": WHOLE, "n_end": WHOLE},
    ),
}  # fmt: skip

KINDS = {
    "copy:repeat_phrase": Kind(
        _repeats_phrase,
        'Repeat the phrase "{phrase}" exactly {small_n} times, each time with another word in its '
        "middle.",
        {"phrase": TEXT, "small_n": POSITIVE},
        fulfils=_phrase_spans,
        breaks=_phrase_spans,
    ),
    **{
        id: Kind(check, sentence, {**_REPEATED, **more}, fulfils=_all_of_it, breaks=_all_of_it)
        for id, (check, sentence, more) in _COPIES.items()
    },
}
