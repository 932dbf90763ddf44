"""Content_Others and Format_Others: identifiers, citations, blurbs, attributes of XML, bullets.

Each is a list of rules, of which the first whose text the constraint has decides. Texts that no
rule has are failures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from mrtpo.verifiers.muldimif.kinds import Checker
from mrtpo.verifiers.muldimif.numbers import ONE_TO_TEN, Limits, limits, number, one_of

Check = Callable[[str], bool]

_N = one_of(ONE_TO_TEN)
_SHORT = 200  # characters of a short blurb
_MEDIUM = 400
_XML_FENCE = "```xml"
_TAG = re.compile(r"<\s*+[a-zA-Z_:][\w:.-]*+(?:\s++[a-zA-Z_:][\w:.-]*+=['\"][^'\"]*+['\"])*\s*+/?>")
_ATTRIBUTE = re.compile(r"\w=['\"][^'\"]*['\"]")
_BULLET = re.compile(r"^[^\S\n]*+[-*]", re.MULTILINE)
_NUMBER_POINT = re.compile(r"^[^\S\n]*+\d+\.", re.MULTILINE)
_NUMBERED = re.compile(r"^[^\S\n]*+\d+\.\s", re.MULTILINE)
_QUOTE_LINE = re.compile(r"^>", re.MULTILINE)
_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_RULER = re.compile(r"\|(?:\s*-+\s*\|)+")
_APA = re.compile(r"\(\s*+\w++,\s*+\d{4}\s*+\)")
_CITATION = re.compile(r"\[\d+\]|\([A-Za-z]++, \d{4}\)")
_EMOJI = re.compile("[\u24c2-\U0010ffff]+")  # wide: other scripts and symbols count too
_QUOTE_MARK = re.compile("[\"“”‘’']")


def _attributes(count: Limits) -> Check:
    """Every tag of the first ```xml block, else of the response; an open block has none."""

    def check(response: str) -> bool:
        if _XML_FENCE in response:
            block, closed, _ = response.partition(_XML_FENCE)[2].partition("```")
            if not closed:
                return False
            response = block
        return all(count.hold(len(_ATTRIBUTE.findall(tag[0]))) for tag in _TAG.finditer(response))

    return check


def _rows(response: str, most: int) -> bool:
    rows = [row for row in _ROW.findall(response) if not _RULER.fullmatch(row)]
    return len(rows) <= most and response.lower().count("<tr>") <= most


def _starts(response: str, start: str) -> bool:
    return response.lstrip(" #").lower().startswith(start.lower())


def _ends_with_sources(response: str) -> bool:
    """ "Sources:" in the last line, or before it with nothing between."""
    before, _, last = response.rstrip().rpartition("\n")
    return bool(last.partition("Sources:")[2]) or (
        bool(last.strip()) and before.rstrip().endswith("Sources:")
    )


def _emojis(response: str) -> bool:
    sentences = re.split(r"(?<=[.!?])\s+(?=\S)", response)
    return all(len(_EMOJI.findall(part)) >= 3 for part in map(str.strip, sentences) if part)


def _short(response: str) -> bool:
    return len(response) <= _SHORT


def _always(response: str) -> bool:
    return True


def _n(text: str) -> int:
    value = number(text, ONE_TO_TEN)
    assert value is not None, text
    return value


def _phrase(text: str) -> Check:
    pattern = re.compile(rf"\b{re.escape(text)}\b", re.IGNORECASE)
    return lambda response: bool(pattern.search(response))


Rules = Sequence[tuple[re.Pattern[str], Callable[..., Check]]]


def _rules(flags: int, *rules: tuple[str, Callable[..., Check]]) -> Rules:
    return [(re.compile(pattern, flags), made) for pattern, made in rules]


def _found(pattern: re.Pattern[str]) -> Callable[..., Check]:
    return lambda: lambda response: bool(pattern.search(response))


def _missing(pattern: re.Pattern[str]) -> Callable[..., Check]:
    return lambda: lambda response: not pattern.search(response)


_FORMATS = _rules(
    re.IGNORECASE,
    (f"no more than {_N} attribute", lambda n: _attributes(limits("at most", _n(n)))),
    (f"must not exceed {_N}.*attribute", lambda n: _attributes(limits("at most", _n(n)))),
    ("Limit the number of attributes to two", lambda: _attributes(Limits(2, 2))),
    (
        f"Number of attributes must be exactly {_N}",
        lambda n: _attributes(limits("exactly", _n(n))),
    ),
    (
        f"must (?:have|include) exactly {_N} attribute",
        lambda n: _attributes(limits("exactly", _n(n))),
    ),
    (f"at least {_N} attribute", lambda n: _attributes(limits("at least", _n(n)))),
    ("Must include '(.*?)'", _phrase),
    ("Must be (?:in|provided in) APA format", _found(_APA)),
    ("No bullet points", _missing(_BULLET)),
    ("Must be listed as bullet points|is structured as bullet points", _found(_BULLET)),
    (
        "block quotes format|be formatted in block quotes",
        lambda: lambda text: bool(_QUOTE_LINE.search(text)) or "<blockquote>" in text.lower(),
    ),
    (
        f"(?:no more than|a table, which is limited to a maximum of) {_N} rows",
        lambda n: lambda text: _rows(text, _n(n)),
    ),
    ("full sentences", lambda: _always),
    ("short blurb", lambda: _short),
    (
        f"The answer must include at least {_N} reference",
        lambda n: lambda text: len(_CITATION.findall(text)) >= _n(n),
    ),
    ("No lists", _missing(_NUMBERED)),
    ("No number points", _missing(_NUMBER_POINT)),
    (
        "Response must be written at medium length",
        lambda: lambda text: _SHORT < len(text) <= _MEDIUM,
    ),
)
_CONTENTS = _rules(
    0,
    (r"\AKeep it a paragraph long\Z", lambda: lambda text: "\n" not in text),
    (
        r"\A(?=.*Each example must start with)Start identifier(?: must be|:).*\s'([^']+)'",
        lambda start: lambda text: start in text,
    ),
    (
        r"\AStart identifier(?: must be|:).*\s'([^']+)'",
        lambda start: lambda text: _starts(text, start),
    ),
    (
        "(?i:(?:start|begin) (?:with|by) the (?:identifier|phrase) '?([^']+))",
        lambda start: lambda text: _starts(text, start),
    ),
    (
        r"\A(?:End identifier: Sources must be cited at the end of the response|make sure to "
        r"conclude your response by citing your sources, as this is a crucial part of the "
        r"answer)\Z",
        lambda: _ends_with_sources,
    ),
    (
        r"\AThe name of the showroom must start with the letter '([A-Za-z])'\.",
        lambda letter: lambda text: bool(re.search(rf"\b{letter.upper()}[a-zA-Z]*+\b", text)),
    ),
    (
        r"\A(?:Response must be written as a short blurb|ensure that the response is written as a "
        r"short blurb|ensure the response is a short blurb|The response must be short and "
        r"simple)\Z",
        lambda: _short,
    ),
    (
        r"\AThe response should be concise, with a maximum of 50 words\Z",
        lambda: lambda text: len(text.split()) <= 50,
    ),
    (r"\AEach sentence must include at least three emojis\.\Z", lambda: _emojis),
    (
        "[Mm]ust mention (.+) and the (.+)",
        lambda one, other: lambda text: one in text and f"the {other}" in text,
    ),
    (
        r"\A(?:Must include quotes from the sources|with quotes from these sources)\Z",
        _found(_QUOTE_MARK),
    ),
    (
        r"\A(?:Must provide|The response must include) sources that are cited\Z",
        lambda: lambda text: _ends_with_sources(text) and bool(re.search(r"\[\d+\]", text)),
    ),
    (r"\AIt must include in-text citations\Z", _found(_CITATION)),
    ("be in full sentences", lambda: _always),
)


class _FirstRule(Checker):
    rules: Rules

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self._check: Any = None
        for pattern, made in self.rules:
            if found := pattern.search(constraint):
                self._check = made(*found.groups())
                break
        self.unparsed = self._check is None

    def check(self, response: str) -> bool:
        return self._check is not None and self._check(response)


class ContentOthers(_FirstRule):
    rules = _CONTENTS


class FormatOthers(_FirstRule):
    rules = _FORMATS
