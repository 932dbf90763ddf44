"""Language_English (letter case) and Language_Chinese (simplified, traditional).

English: a constraint on a table, on JSON or on headings looks at those alone where the response
has them. A word is capitalised unless it begins with one of `a-z`. An empty response, and a
constraint that is not understood ("entirely in uppercase"), fail.

Chinese: characters are told by conversion with zhconv, the table that the official scorer uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from mrtpo.verifiers.muldimif.kinds import Checker, Span

_UPPER = re.compile(r"\ball[- ]?uppercase\b|in capitalized form")
_HEADING = re.compile(r"^#+\s*(.+)$", re.MULTILINE)
_KEY = re.compile(r'"([^"]+)"\s*+:')
_VALUE = re.compile(r':\s*+"([^"]+)"')


def _upper(text: str) -> bool:
    return text == text.upper()


def _lower(text: str) -> bool:
    return text == text.lower()


def _capitalised(text: str) -> bool:
    return not any("a" <= word[0] <= "z" for word in text.split())


class LanguageEnglish(Checker):
    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        text = constraint.strip().lower()
        self.part = _part(text)
        self.case = _case(text)
        self.unparsed = self.case is None

    def check(self, response: str) -> bool:
        if self.case is None or not response.strip():
            return False
        return self.case(self.part(response))

    def breaks(self, response: str) -> Sequence[Span] | None:
        """The words in the wrong case, where all of the response is looked at."""
        if self.case is None or self.part is not _whole:
            return None
        words = re.finditer(r"\S+", response)
        return [word.span() for word in words if not self.case(word[0])] or None


def _case(text: str) -> Callable[[str], bool] | None:
    if _UPPER.search(text):
        return _upper
    if (
        "each word in" in text
        or re.search(r"\bcapitalized\b", text)
        or ("capital" in text and "each" in text)
    ):
        return _capitalised
    if re.search(r"\blowercase\b", text):
        return _lower
    return (lambda response: True) if "written as a short blurb" in text else None


def _part(text: str) -> Callable[[str], str]:
    if "table" in text:
        if "headings" in text:
            return _cells
        if "header" in text:
            return _first_row
        return _later_rows if "entries" in text else _cells
    if "json" in text:
        if "keys" in text:
            return _matches(_KEY)
        return _matches(_VALUE) if "values" in text else _whole
    return _headings if "heading" in text else _whole


def _whole(response: str) -> str:
    return response


def _rows(response: str) -> list[str]:
    """Every line that is not blank, bars out, if there is a bar."""
    if "|" not in response:
        return []
    rows = [row.split("|") for row in response.split("\n") if row.strip()]
    return [" ".join(cell.strip() for cell in row if cell.strip()) for row in rows]


def _cells(response: str) -> str:
    return " ".join(_rows(response)) if "|" in response else response


def _first_row(response: str) -> str:
    rows = _rows(response)
    return rows[0] if rows else response


def _later_rows(response: str) -> str:
    rows = _rows(response)
    return " ".join(rows[1:]) if len(rows) > 1 else response


def _headings(response: str) -> str:
    return " ".join(_HEADING.findall(response)) or response


def _matches(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def part(response: str) -> str:
        found = pattern.findall(response) if "{" in response and "}" in response else []
        return " ".join(found) or response

    return part


# In the order in which they are tried; any other text with "simplified" asks for such characters.
_PHRASE = re.compile(r"must include the phrase \"{1,2}(.+?)\"{1,2}", re.IGNORECASE)
_NAME = 'must write the name "shen lim" in simplified chinese'
_ALL_TRADITIONAL = re.compile(
    "must (?:use|convert into|be converted into) traditional chinese characters"
)
_TRADITIONAL = re.compile("(?:include|use) .*?traditional chinese characters|使用繁體中文")
_SIMPLIFIED = re.compile(
    "(?:必须|请|需要) ?(?:用|使用|提供|书写|翻译为|将文本翻译为) ?简体中文|用中文简体描述"
)


class LanguageChinese(Checker):
    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        text = constraint.lower()
        self._check: Callable[[str], bool] | None = None
        if phrase := _PHRASE.search(constraint):
            self._check = lambda response: phrase[1] in response
        elif _NAME in text:
            self._check = lambda response: "沈林" in response
        elif _ALL_TRADITIONAL.search(text):
            self._check = lambda response: _entirely(response, "zh-tw")
        elif _TRADITIONAL.search(text):
            self._check = lambda response: _has_other_than(response, "zh-cn")
        elif "must translate the text into simplified chinese" in text:
            self._check = lambda response: _entirely(response, "zh-cn")
        elif "simplified" in text or _SIMPLIFIED.search(text):
            self._check = lambda response: _has_other_than(response, "zh-tw")
        self.unparsed = self._check is None

    def check(self, response: str) -> bool:
        return self._check is not None and self._check(response)


def _entirely(text: str, variant: str) -> bool:
    """No Latin letter, and nothing that conversion to the variant changes."""
    return not re.search("[A-Za-z]", text) and _convert(text, variant) == text


def _has_other_than(text: str, variant: str) -> bool:
    """A character that the variant writes differently."""
    return any(_convert(character, variant) != character for character in sorted(set(text)))


def _convert(text: str, variant: str) -> Any:
    try:
        from zhconv import convert
    except ImportError as error:
        raise ImportError(
            "Chinese constraints need the package zhconv: install mrtpo[chinese]"
        ) from error
    return convert(text, variant)
