"""Constraints on sentences: their kinds, their lengths, how one leads to the next."""

from __future__ import annotations

from itertools import groupby, pairwise

from mrtpo.verifiers.constraints.kinds import WHOLE, Kind, Span, Spans
from mrtpo.verifiers.constraints.text import (
    ENDS,
    lines,
    sentence_spans,
    sentences,
    without_punctuation,
)

PUNKT = ("punkt_tab",)


def _ending(response: str, mark: str) -> int:
    return sum(sentence.endswith(mark) for sentence in sentences(response))


def _two_to_one(response: str) -> bool:
    # Neither kind passes, as in the original.
    return _ending(response, ".") == 2 * _ending(response, "?")


def _balanced(response: str) -> bool:
    return len({_ending(response, mark) for mark in ".?!"}) == 1


def _ends_of_sentences(response: str) -> Spans:
    return [(end - 1, end) for _, end in sentence_spans(response) if response[end - 1] in ".?!"]


def _three_of_equal_length(response: str) -> bool:
    # That all words differ is asked for, but the original does not look.
    found = sentences(response)
    return len(found) == 3 and len({len(sentence.strip()) for sentence in found}) == 1


def _alliteration(sentence: str) -> int:
    """Words that stand in runs of two or more with the same first letter."""
    stripped = (word.lstrip(ENDS) for word in sentence.lower().split())
    runs = [len(list(run)) for _, run in groupby(word[0] for word in stripped if word)]
    return sum(length for length in runs if length > 1)


def _longer_alliterations(response: str) -> bool:
    counts = [_alliteration(sentence) for sentence in sentences(response)]
    return all(a < b for a, b in pairwise(counts))


def _first_without_longer_alliteration(response: str) -> Spans:
    spans = sentence_spans(response)
    counts = [_alliteration(response[start:end]) for start, end in spans]
    return [spans[i] for i in range(1, len(spans)) if counts[i] <= counts[i - 1]][:1]


def _lengths(response: str) -> list[int]:
    return [len(without_punctuation(sentence).split()) for sentence in sentences(response)]


def _each_longer(response: str, small_n: int) -> bool:
    return all(b - a == small_n for a, b in pairwise(_lengths(response)))


def _first_not_longer(response: str, small_n: int) -> Spans:
    spans, lengths = sentence_spans(response), _lengths(response)
    wrong = [i for i in range(1, len(spans)) if lengths[i] - lengths[i - 1] != small_n]
    return [spans[i] for i in wrong[:1]]


def _linked(one: str, other: str) -> bool:
    last, first = one.rstrip(ENDS).split(), other.lstrip(ENDS).split()
    return bool(last and first) and last[-1].lower() == first[0].lower()


def _chained(response: str) -> bool:
    return all(_linked(one, other) for one, other in pairwise(sentences(response)))


def _links(response: str, linked: bool) -> list[Span]:
    """The words on both sides of the sentence breaks that are linked, or not."""
    found: list[Span] = []
    for (a, b), (c, d) in pairwise(sentence_spans(response)):
        one, other = response[a:b], response[c:d]
        if _linked(one, other) is not linked or not one.split() or not other.split():
            continue
        found += [(b - len(one.split()[-1]), b), (c, c + len(other.split()[0]))]
    return found


def _ends_as_it_starts(line: str) -> bool:
    found = line.strip().lower().strip(ENDS).split()
    return not found or found[0] == found[-1]


def _paragraphs_end_as_they_start(response: str) -> bool:
    return all(_ends_as_it_starts(line) for line in response.split("\n"))


def _paragraph_ends(response: str, right: bool) -> list[Span]:
    found: list[Span] = []
    for start, end in lines(response):
        pieces = response[start:end].split()
        if pieces and _ends_as_it_starts(response[start:end]) is right:
            first = response.index(pieces[0], start)
            last = response.rindex(pieces[-1], start, end)
            found += sorted({(first, first + len(pieces[0])), (last, last + len(pieces[-1]))})
    return found


def _has_emoji_at(text: str, *places: int) -> bool:
    import emoji

    return any(emoji.is_emoji(text[i]) for i in places if -len(text) <= i < len(text))


def _emoji_after(found: list[str], i: int) -> bool:
    """Whether sentence i ends in an emoji, or the next one begins with the one meant for it.

    The last character but one counts as well, since an emoji may be followed by a joiner.
    """
    if not found[i] or _has_emoji_at(found[i], -1, -2):
        return bool(found[i])
    return i + 1 < len(found) and _has_emoji_at(found[i + 1], 0)


def _emojis(response: str) -> bool:
    found = [without_punctuation(sentence).strip() for sentence in sentences(response)]
    return all(_emoji_after(found, i) for i in range(len(found)))


def _emoji_spans(response: str) -> Spans:
    import emoji

    return [(found["match_start"], found["match_end"]) for found in emoji.emoji_list(response)]


def _ends_without_emoji(response: str) -> Spans:
    spans = sentence_spans(response)
    found = [without_punctuation(response[start:end]).strip() for start, end in spans]
    return [(end - 1, end) for i, (_, end) in enumerate(spans) if not _emoji_after(found, i)]


KINDS = {
    "ratio:sentence_type": Kind(
        _two_to_one,
        "Write twice as many statements (ending in a full stop) as questions.",
        fulfils=_ends_of_sentences,
        breaks=_ends_of_sentences,
        needs=PUNKT,
    ),
    "ratio:sentence_balance": Kind(
        _balanced,
        "Write equally many statements, questions and exclamations.",
        fulfils=_ends_of_sentences,
        breaks=_ends_of_sentences,
        needs=PUNKT,
    ),
    "ratio:sentence_words": Kind(
        _three_of_equal_length,
        "Write exactly three sentences of the same number of characters, no word used twice.",
        needs=PUNKT,
    ),
    "sentence:alliteration_increment": Kind(
        _longer_alliterations,
        "Every sentence must have a longer run of words with the same first letter than the "
        "sentence before it.",
        breaks=_first_without_longer_alliteration,
        needs=PUNKT,
    ),
    "sentence:increment": Kind(
        _each_longer,
        "Every sentence must have exactly {small_n} more words than the sentence before it.",
        {"small_n": WHOLE},
        breaks=_first_not_longer,
        needs=PUNKT,
    ),
    "words:last_first": Kind(
        _chained,
        "Begin every sentence but the first with the last word of the sentence before it.",
        fulfils=lambda response: _links(response, True),
        breaks=lambda response: _links(response, False),
        needs=PUNKT,
    ),
    "words:paragraph_last_first": Kind(
        _paragraphs_end_as_they_start,
        "The first word of each paragraph must also be its last; put each paragraph on its own "
        "line.",
        fulfils=lambda response: _paragraph_ends(response, True),
        breaks=lambda response: _paragraph_ends(response, False),
    ),
    "format:emoji": Kind(
        _emojis,
        "End every sentence with an emoji.",
        fulfils=_emoji_spans,
        breaks=_ends_without_emoji,
        needs=PUNKT,
    ),
}
