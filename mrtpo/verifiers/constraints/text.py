"""How checkers see a text: words, sentences, tokens, language, and where these stand.

NLTK is imported on first use (seconds). Its data is found through its own search path
(`nltk.data.path`: the environment variable NLTK_DATA, `nltk_data` in the home folder and in the
Python environment); besides, `$MRTPO_DATA/nltk_data` is looked at last. Nothing is ever downloaded
here. langdetect runs with a fixed seed and without touching its global one.
"""

from __future__ import annotations

import functools
import os
import re
import string
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from mrtpo.verifiers.constraints.kinds import Span

PUNCTUATION = string.punctuation
ENDS = PUNCTUATION + " "  # what is stripped from words and options

# What NLTK calls its packages, and where they stand below its data folder.
NLTK_PACKAGES = {
    "punkt_tab": "tokenizers/punkt_tab/english/",
    "stopwords": "corpora/stopwords",
    "averaged_perceptron_tagger_eng": "taggers/averaged_perceptron_tagger_eng/",
}
MOST_DETECTED = 50_000  # characters that the language detector is given; it looks at 10,000

_WITHOUT_PUNCTUATION = str.maketrans("", "", PUNCTUATION)
_WORD = re.compile(r"\w+")


class MissingDataError(LookupError):
    """A package of NLTK data is not installed."""


def answer_start(response: str) -> int:
    """Where the answer begins: behind the think part and the line breaks after it.

    A think part that is not closed leaves no answer.
    """
    closed = response.rfind("</think>")
    if closed < 0:
        return len(response) if response.lstrip().startswith("<think>") else 0
    rest = response[closed + len("</think>") :]
    return len(response) - len(rest.lstrip("\r\n"))


def without_punctuation(text: str) -> str:
    return text.translate(_WITHOUT_PUNCTUATION)


def words(text: str) -> list[str]:
    """Runs of word characters."""
    return _WORD.findall(text)


def word_spans(text: str) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text)]


def chunks(text: str) -> list[Span]:
    """Where the pieces of `text.split()` stand."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def lines(text: str) -> list[Span]:
    """Where the pieces of `text.split("\\n")` stand."""
    ends = [-1, *(match.start() for match in re.finditer("\n", text)), len(text)]
    return [(start + 1, end) for start, end in pairwise(ends)]


def occurrences(pattern: re.Pattern[str], text: str) -> list[Span]:
    return [match.span() for match in pattern.finditer(text)]


@functools.lru_cache(maxsize=256)
def anywhere(text: str) -> re.Pattern[str]:
    """The text itself, wherever it occurs, in any case."""
    return re.compile(re.escape(text), re.IGNORECASE)


@functools.lru_cache(maxsize=256)
def whole_word(text: str) -> re.Pattern[str]:
    """The text itself between word boundaries, in any case."""
    return re.compile(rf"\b{re.escape(text)}\b", re.IGNORECASE)


def require_data(packages: Iterable[str]) -> None:
    """Raises MissingDataError, saying how to get them, if packages of NLTK data are not there."""
    data = _nltk().data
    for name in sorted(set(packages)):
        try:
            data.find(NLTK_PACKAGES[name])
        except LookupError:
            raise MissingDataError(
                f"the NLTK data package {name} is not installed. `make nltk-data` fetches it, as "
                f"does `python -m nltk.downloader {' '.join(NLTK_PACKAGES)}`; a folder that holds "
                f"it can be named by NLTK_DATA. Looked in: {', '.join(data.path)}"
            ) from None


def load(packages: Iterable[str]) -> None:
    """Load these packages and the language detector now, not at the first text that needs them.

    Raises MissingDataError as `require_data` does.
    """
    loaders: dict[str, Callable[[], Any]] = {
        "punkt_tab": lambda: tokens("One word."),
        "stopwords": stop_words,
        "averaged_perceptron_tagger_eng": _tagger,
    }
    for name in packages:
        loaders[name]()
    detected_language("One word.")


@functools.lru_cache(maxsize=64)
def sentences(text: str) -> tuple[str, ...]:
    """English sentences by NLTK's Punkt model."""
    return tuple(_sentence_tokenizer().tokenize(text))


def sentence_spans(text: str) -> list[Span]:
    return list(_sentence_tokenizer().span_tokenize(text))


@functools.lru_cache(maxsize=64)
def tokens(text: str) -> tuple[str, ...]:
    """NLTK's word tokens, of the sentences one after the other."""
    tokenizer = _word_tokenizer()
    return tuple(token for sentence in sentences(text) for token in tokenizer.tokenize(sentence))


def token_spans(text: str) -> list[Span] | None:
    """Where the tokens stand; None where NLTK cannot tell, as after rewritten quotes."""
    spans = []
    try:
        for start, end in sentence_spans(text):
            found = _word_tokenizer().span_tokenize(text[start:end])
            spans += [(start + a, start + b) for a, b in found]
    except (ValueError, StopIteration, RuntimeError):
        return None
    return spans if len(spans) == len(tokens(text)) else None


def first_tag(text: str) -> str:
    """The part-of-speech tag of the first token; "" without one.

    The tagger looks at two tokens to the right, so that three give what the whole text gives.
    """
    start: list[str] = []
    for begin, end in _sentence_tokenizer().span_tokenize(text):
        start += _word_tokenizer().tokenize(text[begin:end])
        if len(start) >= 3:
            break
    if not start:
        return ""
    return str(_tagger().tag(start[:3])[0][1])


@functools.cache
def stop_words() -> frozenset[str]:
    """NLTK's English stop words."""
    require_data(["stopwords"])
    return frozenset(_nltk().corpus.stopwords.words("english"))


def detected_language(text: str) -> str | None:
    """The language that langdetect finds (seed 0); None where it finds none."""
    from langdetect.lang_detect_exception import LangDetectException

    detector = _language_detectors().create()
    detector.append(text[:MOST_DETECTED])
    try:
        return str(detector.detect())
    except LangDetectException:
        return None


@functools.cache
def _nltk() -> Any:
    import nltk

    if root := os.environ.get("MRTPO_DATA"):
        folder = os.path.join(root, "nltk_data")
        if folder not in nltk.data.path:
            nltk.data.path.append(folder)
    return nltk


@functools.cache
def _sentence_tokenizer() -> Any:
    require_data(["punkt_tab"])
    return _nltk().tokenize.punkt.PunktTokenizer("english")


@functools.cache
def _word_tokenizer() -> Any:
    return _nltk().tokenize.NLTKWordTokenizer()


@functools.cache
def _tagger() -> Any:
    require_data(["averaged_perceptron_tagger_eng"])
    return _nltk().tag.PerceptronTagger(lang="eng")


@functools.cache
def _language_detectors() -> Any:
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.seed = 0
    return factory
