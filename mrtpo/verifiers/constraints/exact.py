"""Kinds for the rules of older training sets that ask for exact numbers and plain texts.

RLVR-IFeval (allenai/RLVR-IFeval, `func_name`) and RECAST-30K (`rule_evaluate_dict`) name functions;
`tasks.instruct.translate` says which kind of ours each becomes. Those here are the ones that
neither IFEval nor IFBench has.
"""

from __future__ import annotations

import re

from mrtpo.verifiers.constraints.kinds import TEXT, TEXTS, WHOLE, WORD, Kind, Spans
from mrtpo.verifiers.constraints.text import anywhere, occurrences, sentences, word_spans, words

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def _word_count(response: str, keyword: str, frequency: int) -> bool:
    return sum(word.lower() == keyword.lower() for word in words(response)) == frequency


def _that_word(response: str, keyword: str, frequency: int) -> Spans:
    spans = word_spans(response)
    return [(a, b) for a, b in spans if response[a:b].lower() == keyword.lower()]


def _text_count(response: str, text: str, frequency: int) -> bool:
    return response.count(text) == frequency


def _that_text(response: str, text: str, frequency: int) -> Spans:
    return occurrences(re.compile(re.escape(text)), response)


def _none_of(response: str, forbidden_words: tuple[str, ...]) -> bool:
    return not any(anywhere(word).search(response) for word in forbidden_words)


def _any_of(response: str, forbidden_words: tuple[str, ...]) -> Spans:
    return [span for word in forbidden_words for span in occurrences(anywhere(word), response)]


def _sentences_in_range(response: str, min_sentences: int, max_sentences: int) -> bool:
    return min_sentences <= len(sentences(response)) <= max_sentences


def _first(response: str, word: str) -> bool:
    found = _WORD.search(response)
    return found is not None and found[0] == word


def _last(response: str, word: str) -> bool:
    found = occurrences(_WORD, response)[-1:]
    return [response[a:b] for a, b in found] == [word]


def _first_word(response: str, word: str) -> Spans:
    return occurrences(_WORD, response)[:1]


def _last_word(response: str, word: str) -> Spans:
    return occurrences(_WORD, response)[-1:]


KINDS = {
    "exact:word_frequency": Kind(
        _word_count,
        'The word "{keyword}" must occur exactly {frequency} times.',
        {"keyword": WORD, "frequency": WHOLE},
        fulfils=_that_word,
        breaks=_that_word,
    ),
    "exact:text_frequency": Kind(
        _text_count,
        'The text "{text}", in this case, must occur exactly {frequency} times.',
        {"text": TEXT, "frequency": WHOLE},
        fulfils=_that_text,
        breaks=_that_text,
    ),
    "exact:no_text": Kind(
        _none_of,
        "None of these may occur, not even inside a word: {forbidden_words}.",
        {"forbidden_words": TEXTS},
        breaks=_any_of,
    ),
    "exact:sentence_range": Kind(
        _sentences_in_range,
        "Write no fewer than {min_sentences} and no more than {max_sentences} sentences.",
        {"min_sentences": WHOLE, "max_sentences": WHOLE},
        needs=("punkt_tab",),
    ),
    "exact:first_word": Kind(
        _first,
        'The very first word must be "{word}", in this case.',
        {"word": WORD},
        fulfils=_first_word,
        breaks=_first_word,
    ),
    "exact:last_word": Kind(
        _last,
        'The very last word must be "{word}", in this case.',
        {"word": WORD},
        fulfils=_last_word,
        breaks=_last_word,
    ),
}
