"""Numbers in a constraint's text. Which number words are known differs between the checkers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ONE_TO_TEN = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5,
    "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
}  # fmt: skip
TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100,
}  # fmt: skip
TO_A_HUNDRED = {
    **ONE_TO_TEN, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, **TENS,
}  # fmt: skip
CHINESE = {
    "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5,
    "六": 6, "七": 7, "八": 8, "九": 9, "十": 10,
}  # fmt: skip

_CJK = re.compile("[\u4e00-\u9fff]")


@dataclass(frozen=True)
class Limits:
    """From `low` to `high`, both included; None is no limit."""

    low: int | None = None
    high: int | None = None

    def hold(self, count: int) -> bool:
        return (self.low is None or count >= self.low) and (self.high is None or count <= self.high)

    def __bool__(self) -> bool:
        return self.low is not None or self.high is not None


def limits(relation: str, *numbers: int) -> Limits:
    """The limits that `exactly`, `at least`, `at most` or `between` give with their numbers."""
    first, last = numbers[0], numbers[-1]
    return Limits(
        low=None if relation == "at most" else first,
        high=None if relation == "at least" else last,
    )


def one_of(words: Iterable[str]) -> str:
    """A pattern of one number: digits or one of the words."""
    return rf"(\d+|{'|'.join(words)})"


def number(text: str, words: Mapping[str, int]) -> int | None:
    """A number in digits or as a single word."""
    text = text.strip().lower()
    return int(text) if text.isdecimal() else words.get(text)


def compound(text: str, words: Mapping[str, int]) -> int | None:
    """A number in digits, with or without thousands commas, or in words ("twenty-five")."""
    text = text.strip().replace(",", "").lower()
    if text.isdecimal():
        return int(text)
    total = part = 0
    for word in re.split(r"[\s-]+", text):
        if word not in words:
            return None
        if words[word] >= 100:
            total, part = total + max(part, 1) * words[word], 0
        else:
            part += words[word]
    return total + part


def is_chinese(text: str) -> bool:
    return _CJK.search(text) is not None


def keyword(text: str) -> re.Pattern[str]:
    """A keyword as a whole word in any case; one with Chinese characters wherever it occurs."""
    if is_chinese(text):
        return re.compile(re.escape(text))
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
