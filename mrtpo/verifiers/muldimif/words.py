"""Length_Words: how many words, of the whole response or of each item.

Words are what spaces part; where there are Chinese characters (their punctuation included), those
are counted instead. A constraint on the whole response that is not understood is taken as
followed, one on each item as broken. A hyphen between two numbers makes a range of them, as
officially: "at most twenty-five words" is read as 5 to 20. "Fewer than" is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrtpo.verifiers.muldimif.items import (
    bulleted,
    layout_of,
    named_cells,
    numbered,
    read_json,
)
from mrtpo.verifiers.muldimif.kinds import Checker, Span
from mrtpo.verifiers.muldimif.numbers import TO_A_HUNDRED, Limits, compound, keyword, limits

_WIDE = re.compile("[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\u3000-\u303f\uff00-\uffef]")
_WORDS = {"zero": 0, **TO_A_HUNDRED}

# A number of several words, one that ends at the first word boundary, and one of a single word.
_MANY = r"([a-z0-9\-– ]+?)"
_SHORT = r"([a-z0-9\-– ]+?)(?=\s*word|$|\b)"
_ONE = r"(\b[a-z0-9\-–]+\b)"
_TO = r"\s+to\s+"
_DASH = r"\s*[-–]\s*"
# Tried in this order, until one gives two numbers; the last that matches counts for what it gives.
_RANGES = tuple(
    map(
        re.compile,
        (
            rf"between\s+{_MANY}{_TO}{_SHORT}",
            rf"between\s+{_MANY}\s+and\s+{_SHORT}",
            rf"range:?\s*{_MANY}{_TO}{_SHORT}",
            rf"range:?\s*{_MANY}{_DASH}{_SHORT}",
            rf"{_ONE}{_TO}{_ONE}(?=\s*word|$|\b)",
            rf"{_ONE}{_DASH}{_ONE}(?=\s*word|$|\b)",
            r"(\d+)\s*到\s*(\d+)(?=\s*个|字)",
        ),
    )
)
_EXACTLY = re.compile(r"exactly\s+([a-z0-9\-, ]+?)\s+\S")
_LOWS = (r"(?:at least|minimum (?:length )?of|no less than) (\S+) word",)
_HIGHS = (
    r"(?:not exceed|not exceeding|not surpass|at most|no more than|no longer than"
    r"|maximum (?:length )?of|limit of|within(?: a)?) (\S+) word",
    r"最多([0-9]+)[个字]",
    r"在([0-9]+)\s*(?:个单词以内|个字以内|字以内|单词以内|词以内|字)",
)
_SENTENCE_LOWS = (r"(?:at least|minimum of) (\S+) sentence",)
_SENTENCE_HIGHS = (
    r"(?:not exceed|at most|no more than|no longer than|maximum (?:length )?of) (\S+) sentence",
)
_ENDS = re.compile(r"[.!?]+")
_QUOTED = re.compile(r"[\"']([^']*)[\"']")

_ITEM = re.compile(
    r"(?:each entry in the|each|the)\s+(.+?)\s+"
    r"(?:is|in the table|column|must|consists of|contain|should|have)",
    re.IGNORECASE,
)
_ITEM_PHRASES = (
    ("between", r"between (\d+) and (\d+) words"),
    ("between", r"range: (\d+)-(\d+) words"),
    ("at least", r"(?:at least|a minimum (?:length )?of) (\d+) words"),
    ("at most", r"at most (\d+) words"),
    ("exactly", r"exactly (\d+) words"),
    (
        "at most",
        r"(?:no more than|not exceed|not exceeding|a maximum (?:length )?of|limit of|less than)"
        r" (\d+) words",
    ),
)
_CHARACTERS = re.compile(rf"must be (at most|at least) (\d+|{'|'.join(_WORDS)}) characters")


class LengthWords(Checker):
    """The whole response: words, sentences (ends like `...` count once), quoted keywords in."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        text = re.sub(r"\s+", " ", constraint.lower().strip('"').strip())
        for written, read in (("-word", " word"), ("a total of ", ""), ("words", "word"),
                              ("a single", "exactly one")):  # fmt: skip
            text = text.replace(written, read)
        text = text.strip()
        exact = _EXACTLY.search(text)
        count = compound(exact[1], _WORDS) if exact else None
        if count is not None:
            self.words, self.sentences, self.keywords = Limits(count, count), Limits(), []
            return
        low, high = _range(text)
        self.words = Limits(
            _first(text, _LOWS) if low is None else low,
            _first(text, _HIGHS) if high is None else high,
        )
        self.sentences = Limits(_first(text, _SENTENCE_LOWS), _first(text, _SENTENCE_HIGHS))
        self.keywords = [keyword(found) for found in _QUOTED.findall(text)]
        self.unparsed = not (self.words or self.sentences or self.keywords)

    def check(self, response: str) -> bool:
        wide = len(_WIDE.findall(response))
        return (
            self.words.hold(wide or len(response.split()))
            and (not self.sentences or self.sentences.hold(len(_ENDS.findall(response))))
            and all(word.search(response) for word in self.keywords)
        )

    def breaks(self, response: str) -> Sequence[Span] | None:
        """The words beyond the last that is allowed, as one span."""
        words = _WIDE if _WIDE.search(response) else re.compile(r"\S+")
        spans = [match.span() for match in words.finditer(response)]
        if self.words.high is None or len(spans) <= self.words.high:
            return None
        return [(spans[self.words.high][0], spans[-1][1])]


class LengthWordsEach(Checker):
    """Each item: lines, list items, cells of a column, fields of JSON; or each single word."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.characters: Limits | None = None
        self.limits = Limits()
        if re.search("each word must be", constraint, re.IGNORECASE):
            if found := _CHARACTERS.search(constraint.lower()):
                self.characters = limits(found[1], compound(found[2], _WORDS) or 0)
            self.unparsed = self.characters is None
            return
        digits = re.sub(
            rf"\b({'|'.join(_WORDS)})\b",
            lambda word: str(_WORDS[word[0].lower()]),
            constraint,
            flags=re.IGNORECASE,
        )
        item = _ITEM.search(digits)
        self.item = re.sub("[\"']", "", item[1].lower()) if item else None
        for relation, phrase in _ITEM_PHRASES:
            if match := re.search(phrase, digits, re.IGNORECASE):
                self.limits = limits(relation, *map(int, match.groups()))
                break
        self.unparsed = not self.limits

    def check(self, response: str) -> bool:
        if self.characters is not None:
            return all(self.characters.hold(len(word)) for word in response.split(" "))
        items = self._items(response) if self.limits else []
        return bool(items) and all(self.limits.hold(len(item.split())) for item in items)

    def _items(self, response: str) -> list[str]:
        layout = layout_of(response)
        if layout == "table":
            return named_cells(response, "cells" if self.item is None else self.item)
        if layout == "json":
            return self._fields(response)
        if layout == "numbered":
            return [_after(".", _after(":", line)).strip() for line in numbered(response)]
        if layout == "bullets":
            return bulleted(response)
        lines = [line.strip() for line in response.split("\n")]
        return [
            line.lstrip("#").strip()
            for line in lines
            if line
            and not line.strip("*#'\"").endswith(":")
            and not (len(line) > 1 and line[0] == line[-1] == "|")
        ]

    def _fields(self, response: str) -> list[str]:
        """Every field's value where the constraint is on entries, else the field of that name."""
        try:
            found = read_json(response)
        except ValueError:
            return []
        if not isinstance(found, dict) or not self.item or not self.item.split():
            return []
        if "entry" in self.item:
            return [str(value) for value in found.values()]
        return [str(found.get(self.item.split()[-1], ""))]


def length_words(constraint: str) -> Checker:
    """The checker of a constraint on words, which "each" in its text makes one on items."""
    each = re.search(r"\beach\b", constraint, re.IGNORECASE)
    return LengthWordsEach(constraint) if each else LengthWords(constraint)


def _after(mark: str, text: str) -> str:
    """What follows the first mark; all where there is none."""
    return text.split(mark, 1)[-1]


def _range(text: str) -> tuple[int | None, int | None]:
    low = high = None
    for pattern in _RANGES:
        if found := pattern.search(text):
            low, high = compound(found[1], _WORDS), compound(found[2], _WORDS)
            if low is not None and high is not None:
                return min(low, high), max(low, high)
    return low, high


def _first(text: str, phrases: Sequence[str]) -> int | None:
    for phrase in phrases:
        found = re.search(phrase, text)
        count = compound(found[1], _WORDS) if found else None
        if count is not None:
            return count
    return None
