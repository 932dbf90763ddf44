"""Constraints on how many words, sentences and paragraphs there are, and on shares of the text."""

from __future__ import annotations

import functools
import re

from mrtpo.verifiers.constraints.kinds import (
    PERCENTAGE,
    POSITIVE,
    RELATION,
    TEXT,
    WHOLE,
    WORD,
    Kind,
    Spans,
    related,
)
from mrtpo.verifiers.constraints.text import (
    ENDS,
    chunks,
    occurrences,
    sentences,
    stop_words,
    word_spans,
    words,
)

_DIVIDER = re.compile(r"\*\*\*")
_SPACED_DIVIDER = re.compile(r"\s?\*\*\*\s?")
_WORD_ENDS = frozenset(".,?!'\"")


def _number_of_words(response: str, num_words: int, relation: str) -> bool:
    return related(len(words(response)), relation, num_words)


def _words_too_many(response: str, num_words: int, relation: str) -> Spans:
    if relation == "at least":
        return None
    return _rest(word_spans(response), num_words - 1, len(response))


def _number_of_sentences(response: str, num_sentences: int, relation: str) -> bool:
    return related(len(sentences(response)), relation, num_sentences)


def _rest(spans: list[tuple[int, int]], allowed: int, end: int) -> Spans:
    """From the first piece that is one too many to the end."""
    return [(spans[max(allowed, 0)][0], end)] if len(spans) > max(allowed, 0) else None


def _words_in_range(response: str, min_words: int, max_words: int) -> bool:
    return min_words <= len(words(response)) <= max_words


def _words_beyond_range(response: str, min_words: int, max_words: int) -> Spans:
    return _rest(word_spans(response), max_words, len(response))


def _number_of_paragraphs(response: str, num_paragraphs: int) -> bool:
    paragraphs = _SPACED_DIVIDER.split(response)
    blank = [i for i, paragraph in enumerate(paragraphs) if not paragraph.strip()]
    if set(blank) - {0, len(paragraphs) - 1}:
        return False
    return len(paragraphs) - len(blank) == num_paragraphs


def _dividers(response: str, num_paragraphs: int) -> Spans:
    return occurrences(_DIVIDER, response)


def _nth_paragraph(response: str, nth_paragraph: int) -> str:
    """Its text. Blank pieces count for the place but not for the number, as in the original."""
    paragraphs = response.split("\n\n")
    present = sum(1 for paragraph in paragraphs if paragraph.strip())
    return paragraphs[nth_paragraph - 1].strip() if nth_paragraph <= present else ""


def _first_word(response: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    paragraph = _nth_paragraph(response, nth_paragraph)
    if not paragraph:
        return False
    word = paragraph.split(maxsplit=1)[0].lstrip("'").lstrip('"')
    end = next((i for i, letter in enumerate(word) if letter in _WORD_ENDS), len(word))
    present = sum(1 for piece in response.split("\n\n") if piece.strip())
    return present == num_paragraphs and word[:end].lower() == first_word.lower()


def _first_word_spans(
    response: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> Spans:
    if not _nth_paragraph(response, nth_paragraph):
        return None
    start = sum(len(p) + 2 for p in response.split("\n\n")[: nth_paragraph - 1])
    match = re.compile(r"\s*(\S+)").match(response, start)
    return match and [match.span(1)]


def _unique_words(response: str, N: int) -> bool:
    # As in the original, a piece of nothing but marks counts as one word, the empty one.
    return len({word.strip(ENDS) for word in response.lower().split()}) >= N


def _first_uses(response: str, N: int) -> Spans:
    seen: dict[str, tuple[int, int]] = {}
    for start, end in chunks(response):
        seen.setdefault(response[start:end].lower().strip(ENDS), (start, end))
    return list(seen.values())


def _stop_word_share(response: str, percentage: float) -> bool:
    found = words(response)
    number = sum(word.lower() in stop_words() for word in found)
    return bool(found) and number / len(found) * 100 <= percentage


def _stop_word_spans(response: str, percentage: float) -> Spans:
    return [(a, b) for a, b in word_spans(response) if response[a:b].lower() in stop_words()]


def _trigrams(text: str) -> set[str]:
    return {text[i : i + 3] for i in range(len(text) - 2)}


_reference_trigrams = functools.lru_cache(maxsize=64)(_trigrams)


def _overlap(response: str, reference_text: str, percentage: float) -> bool:
    # Trigrams of characters, as in the original (the sentence lets one expect words).
    own = _trigrams(response)
    if not own:
        return False
    share = len(own & _reference_trigrams(reference_text)) / len(own) * 100
    return percentage - 2 <= share <= percentage + 2


KINDS = {
    "length_constraints:number_words": Kind(
        _number_of_words,
        "Write {relation} {num_words} words.",
        {"num_words": WHOLE, "relation": RELATION},
        breaks=_words_too_many,
    ),
    "length_constraints:number_sentences": Kind(
        _number_of_sentences,
        "Write {relation} {num_sentences} sentences.",
        {"num_sentences": WHOLE, "relation": RELATION},
        needs=("punkt_tab",),
    ),
    "length_constraints:number_paragraphs": Kind(
        _number_of_paragraphs,
        "Write exactly {num_paragraphs} paragraphs, divided by lines of three asterisks: ***",
        {"num_paragraphs": WHOLE},
        fulfils=_dividers,
        breaks=_dividers,
    ),
    "length_constraints:nth_paragraph_first_word": Kind(
        _first_word,
        "Write exactly {num_paragraphs} paragraphs with an empty line between them; the first word "
        'of paragraph {nth_paragraph} must be "{first_word}".',
        {"num_paragraphs": POSITIVE, "nth_paragraph": POSITIVE, "first_word": WORD},
        fulfils=_first_word_spans,
        breaks=_first_word_spans,
    ),
    "count:word_count_range": Kind(
        _words_in_range,
        "Write no fewer than {min_words} and no more than {max_words} words.",
        {"min_words": WHOLE, "max_words": WHOLE},
        breaks=_words_beyond_range,
    ),
    "count:unique_word_count": Kind(
        _unique_words,
        "Use at least {N} different words.",
        {"N": WHOLE},
        fulfils=_first_uses,
    ),
    "ratio:stop_words": Kind(
        _stop_word_share,
        "At most {percentage}% of the words may be stop words.",
        {"percentage": PERCENTAGE},
        breaks=_stop_word_spans,
        needs=("stopwords",),
    ),
    "ratio:overlap": Kind(
        _overlap,
        "Of your trigrams, {percentage}% (give or take 2%) must also occur in this text: "
        "{reference_text}",
        {"reference_text": TEXT, "percentage": PERCENTAGE},
    ),
}
