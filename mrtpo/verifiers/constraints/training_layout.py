"""Kinds of IF-RLVR's training data on form: brackets, paragraphs, marks.

`training` has the source. Sentences are NLTK's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrtpo.verifiers.constraints.kinds import POSITIVE, Kind, Span, Spans
from mrtpo.verifiers.constraints.text import chunks, occurrences, sentences, tokens

_DIVIDER = re.compile(r"\s?\*\*\*\s?")


def _hyphenated(response: str) -> bool:
    """Each piece between hyphens is a sentence, without blanks around it."""
    found = zip(response.split("-"), sentences(response.replace("-", " ")), strict=False)
    return all(piece == sentence == piece.strip() for piece, sentence in found)


def _bracketed(response: str) -> bool:
    return not _without_brackets(response)


def _without_brackets(response: str) -> list[Span]:
    return [
        (start, end)
        for start, end in chunks(response)
        if not (response[start] == "[" and response[end - 1] == "]")
    ]


def _bigrams(response: str) -> list[tuple[Span, bool]]:
    """Pairs of words, and whether each is wrapped; an odd last word is in no pair."""
    spans = chunks(response)
    return [
        ((a, d), response.startswith("<<", a) and response.endswith(">>", c, d))
        for (a, _), (c, d) in zip(spans[::2], spans[1::2], strict=False)
    ]


def _wrapped(response: str) -> bool:
    return all(right for _, right in _bigrams(response))


def _pairs(response: str) -> Spans:
    return [span for span, _ in _bigrams(response)]


def _not_wrapped(response: str) -> Spans:
    return [span for span, right in _bigrams(response) if not right]


def _two_paragraphs(pieces: Sequence[str]) -> bool:
    """Two that are not blank; only the first piece and the last may be."""
    inner = pieces[1:-1]
    return all(map(str.strip, inner)) and sum(1 for piece in pieces if piece.strip()) == 2


def _two_divided(response: str) -> bool:
    return _two_paragraphs(_DIVIDER.split(response))


def _two_spaced(response: str) -> bool:
    return _two_paragraphs(response.split("\n\n"))


def _dividers(response: str) -> Spans:
    return occurrences(re.compile(r"\*\*\*"), response)


def _gaps(response: str) -> Spans:
    return occurrences(re.compile("\n\n"), response)


def _composed(response: str, n_sent: int, n_words: int) -> bool:
    paragraphs = _DIVIDER.split(response)
    inner = [p for i, p in enumerate(paragraphs) if p.strip() or i not in (0, len(paragraphs) - 1)]
    return len(inner) == 3 and all(
        len(sentences(paragraph)) == n_sent
        and all(len(tokens(sentence)) == n_words for sentence in sentences(paragraph))
        for paragraph in inner
    )


def _without(mark: str, name: str) -> Kind:
    pattern = re.compile(re.escape(mark))
    return Kind(
        lambda response: mark not in response,
        f"Use no {name} anywhere.",
        breaks=lambda response: occurrences(pattern, response),
    )


KINDS = {
    "detectable_format:sentence_hyphens": Kind(
        _hyphenated, "Put hyphens and no blanks between the sentences.", needs=("punkt_tab",)
    ),
    "detectable_format:square_brackets": Kind(
        _bracketed,
        "Put every [word] in square brackets.",
        fulfils=chunks,
        breaks=_without_brackets,
    ),
    "detectable_format:bigram_wrapping": Kind(
        _wrapped,
        "Put every two words in double angle brackets, <<like this>> <<all along>>",
        fulfils=_pairs,
        breaks=_not_wrapped,
    ),
    "paragraphs:paragraphs": Kind(
        _two_divided,
        "Write two paragraphs with a line of three asterisks between them: ***",
        fulfils=_dividers,
        breaks=_dividers,
    ),
    "paragraphs:paragraphs2": Kind(
        _two_spaced,
        "Write two paragraphs with an empty line between them.",
        fulfils=_gaps,
        breaks=_gaps,
    ),
    "count:counting_composition": Kind(
        _composed,
        "Write three paragraphs with lines of three asterisks between them (***), each of exactly "
        "{n_sent} sentences, each of which has exactly {n_words} words (a mark counts as one).",
        {"n_sent": POSITIVE, "n_words": POSITIVE},
        needs=("punkt_tab",),
    ),
    "punctuation:punctuation_dot": _without(".", "full stop"),
    "punctuation:punctuation_exclamation": _without("!", "exclamation mark"),
}
