"""Content_Keywords: quoted words that must occur, so often, or must not; of the whole or of items.

A keyword is what stands in quotes, so that the apostrophe of "'The Bard's Tale'" ends one and
begins another: the official scorer reads it so. The word "or" anywhere makes any one keyword
enough. A constraint without keywords is taken as followed; one on each item ("each", "every")
that does not say what the item must do is taken as broken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrtpo.verifiers.muldimif.items import (
    bulleted,
    column,
    layout_of,
    numbered,
    parts,
    read_json,
)
from mrtpo.verifiers.muldimif.kinds import Checker, Span
from mrtpo.verifiers.muldimif.numbers import ONE_TO_TEN, TO_A_HUNDRED, Limits, compound, keyword

_TIMES = {**ONE_TO_TEN, "once": 1, "twice": 2}
_EACH = re.compile(
    r"\b(?:each|every)\s+(.+?)\s+(?:must|should|needs to|has to)\s+(.*)", re.IGNORECASE
)
_INCLUDES = re.compile(r"includes?\s+the\s+keyword\s+[\"']([^\"']+)[\"']", re.IGNORECASE)
_AVOIDS = re.compile(r"avoids?\s+the\s+keyword\s+[\"']([^\"']+)[\"']", re.IGNORECASE)
_TOPIC = re.compile(
    r"If discussing\s+([^,]+),\s*the summary must include the keyword\s+[\"']([^\"']+)[\"']",
    re.IGNORECASE,
)
_SLASHED = re.compile(r"(.*\s)(\S+)/(\S+)(\s.*)")

_OUTER_QUOTES = re.compile(r'"+(.*[^"])"+')
_PERIOD = re.compile(r"must\s+end\s+with\s+(?:a\s+)?period", re.IGNORECASE)
_CAPITALISED = re.compile(r"must\s+use\s+capitalized\s+letters\s+for\s+each\s+word", re.IGNORECASE)
_LOW = re.compile(r"(?:at\s+least|minimum\s+of)\s+(\S+)\s+word", re.IGNORECASE)
_HIGH = re.compile(
    r"(?:not\s+exceed|at\s+most|no\s+more\s+than|maximum\s+of)\s+(\S+)\s+word", re.IGNORECASE
)
_SINGLE_WORD = re.compile(r"is\s+a\s+single\s+word", re.IGNORECASE)
_EXCLUDED = re.compile(r"avoid\s+using\s+(?:the\s+)?term|must\s+be\s+avoided", re.IGNORECASE)
_OR = re.compile(r"\bOR\b", re.IGNORECASE)
_OFTEN = re.compile(
    rf"at least (\d+|{'|'.join(_TIMES)})(?:\s+times?)?\b(?!\s+words\s+long)", re.IGNORECASE
)
_SEVERAL = re.compile(r"must appear multiple times", re.IGNORECASE)
_QUOTED = re.compile(r"[\"'「“]([^\"']+)[\"'」”]")
_TWICE_QUOTED = re.compile(r"[\"”]{2}([^\"“]+)[\"“]{2}")


class Rule:
    """What one constraint asks of a text. `words`: how many; `often`: times of each keyword."""

    def __init__(self, constraint: str) -> None:
        text = constraint.strip()
        while outer := _OUTER_QUOTES.fullmatch(text):
            text = outer[1]
        self.period = bool(_PERIOD.search(text))
        self.capitalised = bool(_CAPITALISED.search(text))
        self.words = Limits(*(
            compound(found[1], TO_A_HUNDRED) if found else None
            for found in (_LOW.search(text), _HIGH.search(text))
        ))  # fmt: skip
        if _SINGLE_WORD.search(text):
            self.words = Limits(1, 1)
        self.excluded = self.any_of = False
        self.often = 1
        if _EXCLUDED.search(text):
            quoted = re.search(r"[\"']([^\"']+)[\"']", text)
            self.excluded = quoted is not None
            self.keywords = [keyword(quoted[1])] if quoted else []
            return
        self.any_of = bool(_OR.search(text))
        if _SEVERAL.search(text):
            self.often = 2
        elif often := _OFTEN.search(text):
            count = often[1].lower()
            self.often = int(count) if count.isdecimal() else _TIMES[count]
        twice = _TWICE_QUOTED.findall(text)
        self.keywords = [keyword(found) for found in twice or _QUOTED.findall(text)]

    @property
    def says_nothing(self) -> bool:
        return not (self.keywords or self.words or self.period or self.capitalised)

    def holds(self, text: str) -> bool:
        if self.capitalised and not all(word[0].isupper() for word in text.split()):
            return False
        if self.period and not text.strip().endswith("."):
            return False
        if self.words and not self.words.hold(len(text.split())):
            return False
        if self.excluded:
            return not any(word.search(text) for word in self.keywords)
        found = (len(word.findall(text)) >= self.often for word in self.keywords)
        return any(found) if self.any_of else all(found)


class ContentKeywords(Checker):
    """The whole response."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.rule = Rule(constraint)
        self.unparsed = self.rule.says_nothing

    def check(self, response: str) -> bool:
        return self.rule.holds(response)

    def fulfils(self, response: str) -> Sequence[Span] | None:
        """Where the keywords stand."""
        return None if self.rule.excluded else self._found(response)

    def breaks(self, response: str) -> Sequence[Span] | None:
        """Where a keyword to avoid stands; what is absent has no place."""
        return self._found(response) if self.rule.excluded else None

    def _found(self, response: str) -> Sequence[Span] | None:
        spans = [match.span() for word in self.rule.keywords for match in word.finditer(response)]
        return sorted(spans) or None


class ContentKeywordsEach(Checker):
    """Each item: list items, cells of a column, values of JSON, parts between rules."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.item = ""
        self.rule: Rule | None = None
        if found := _EACH.search(constraint):
            self.item, self.rule = found[1].lower(), Rule(found[2])
        self.unparsed = self.rule is None or self.rule.says_nothing

    def check(self, response: str) -> bool:
        if self.rule is None:
            return False
        items = self._items(response)
        return bool(items) and all(map(self.rule.holds, items))

    def _items(self, response: str) -> list[str]:
        layout = layout_of(response)
        if layout == "table":
            return column(response, self.item)
        if layout == "json":
            try:
                found = read_json(response)
            except ValueError:
                return []
            return [str(value) for value in (found.values() if isinstance(found, dict) else found)]
        if layout == "numbered":
            return [line.partition(".")[2].strip() for line in numbered(response)]
        return bulleted(response) if layout == "bullets" else parts(response)


class IncludesAndAvoids(Checker):
    """One keyword in and one out, both wherever they occur, in the case given."""

    def __init__(self, constraint: str, included: str, avoided: str) -> None:
        super().__init__(constraint)
        self.included, self.avoided = included, avoided

    def check(self, response: str) -> bool:
        return self.included in response and self.avoided not in response


class TopicKeywords(Checker):
    """A keyword for each topic that the response is on."""

    def __init__(self, constraint: str, topics: Sequence[tuple[str, str]]) -> None:
        super().__init__(constraint)
        self.topics = [(_spellings(topic), word) for topic, word in topics]

    def check(self, response: str) -> bool:
        return all(
            word in response
            for topics, word in self.topics
            if any(topic in response for topic in topics)
        )


def content_keywords(constraint: str) -> Checker:
    if re.search(r"\b(?:each|every)\b", constraint, re.IGNORECASE) and (
        "for each word" not in constraint
    ):
        return ContentKeywordsEach(constraint)
    included, avoided = _INCLUDES.search(constraint), _AVOIDS.search(constraint)
    if included and avoided:
        return IncludesAndAvoids(constraint, included[1], avoided[1])
    if topics := _TOPIC.findall(constraint):
        return TopicKeywords(constraint, topics)
    return ContentKeywords(constraint)


def _spellings(topic: str) -> list[str]:
    """ "housing/property laws" is on housing laws or on property laws."""
    if "/" not in topic:
        return [topic]
    if found := _SLASHED.match(topic):
        before, one, other, after = found.groups()
        return [before + one + after, before + other + after]
    return [part.strip() for part in topic.split("/")]
