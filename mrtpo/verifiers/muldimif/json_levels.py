"""Format_Json: how deep the response's JSON is nested.

The JSON is the first ```json block, else the whole response. Level 1 is an object or list of plain
values; empty ones add no level. JSON that cannot be read is a failure, as is a constraint that is
not understood. Of numbers, digits, "two" and "three" are understood.
"""

from __future__ import annotations

import re
from typing import Any

from mrtpo.verifiers.muldimif.items import read_json
from mrtpo.verifiers.muldimif.kinds import Checker
from mrtpo.verifiers.muldimif.numbers import Limits, number, one_of

_WORDS = {"two": 2, "three": 3}
_N = one_of(_WORDS)
_FENCE = "```json"

# Punctuation is off. Exact ones are tried in their order; of the others all count, the strictest.
_EXACT = (
    rf"exactly {_N} levels? of nesting",
    rf"json example with exactly {_N} levels?",
    rf"object nesting levels must be {_N}",
    rf"nesting level of {_N}",
    rf"be limited to {_N} levels of nesting",
)
_HIGHS = (
    rf"not exceed {_N} levels",
    rf"must not exceed {_N} level of nesting",
    rf"no more than {_N} level",
    rf"maximum of {_N} (?:(?:object )?nesting )?levels",
    rf"levels not exceeding {_N}",
    rf"with the structure not exceeding {_N} levels",
    rf"object nesting levels must not exceed {_N}",
    rf"and at most {_N}",
)
_LOWS = (
    rf"at least {_N} levels? (?:of nesting|deep)",
    rf"must include a json object with at least {_N} level",
    rf"and at least {_N}",
)


class FormatJson(Checker):
    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        text = re.sub(r"[^\w\s]", "", constraint.lower())
        exact = next((found for phrase in _EXACT for found in _numbers(text, phrase)), None)
        if exact is not None:
            self.levels = Limits(exact, exact)
        else:
            lows = [found for phrase in _LOWS for found in _numbers(text, phrase)]
            highs = [found for phrase in _HIGHS for found in _numbers(text, phrase)]
            self.levels = Limits(max(lows, default=None), min(highs, default=None))
        self.unparsed = not self.levels

    def check(self, response: str) -> bool:
        start = response.find(_FENCE)
        end = response.find("```", start + len(_FENCE)) if start >= 0 else -1
        if end >= 0:
            response = response[start + len(_FENCE) : end].strip()
        try:
            found = read_json(response)
        except ValueError:
            return False
        return found is not None and bool(self.levels) and self.levels.hold(_depth(found))


def _numbers(text: str, phrase: str) -> list[int]:
    return [value for found in re.findall(phrase, text)
            if (value := number(found, _WORDS)) is not None]  # fmt: skip


def _depth(found: Any) -> int:
    """Levels of the deepest value, without recursion."""
    deepest = 0
    level = [found]
    while level:
        inside = [
            value
            for item in level
            if isinstance(item, dict | list)
            for value in (item.values() if isinstance(item, dict) else item)
        ]
        deepest += bool(inside)
        level = inside
    return deepest
