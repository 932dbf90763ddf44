"""Format_Markdown: levels and titles of headings, block quotes, bold, bullets.

A constraint is read as one rule on the headings. With "each" or "any" in it (as letters: "many"
has them) every heading must follow the rule by itself, and there must be one. A constraint that
gives no rule asks for nothing, or for a heading where it has "each" or "any".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrtpo.verifiers.muldimif.kinds import Checker, Span
from mrtpo.verifiers.muldimif.numbers import ONE_TO_TEN, Limits, limits, number

_N = rf"(\b(?:{'|'.join(ONE_TO_TEN)}|\d+)\b)"
_USED = re.compile(
    "includ(?:e|ing)|us(?:e|ing)|formatted|presented|organized|structured|feature|should be"
    "|incorporate"
)
_AT_LEAST_QUOTES = re.compile(rf"{_N} block quotes", re.IGNORECASE)
_SOME_QUOTES = (
    "use block quotes", "using block quotes", "include a block quote",
    "using markdown block quotes", "employ block quotes",
    "present the headline as a block quote",
)  # fmt: skip
_SOME_HEADINGS = (
    "include headings", "includes headings", "use heading levels", "using heading levels",
    "presented under a separate heading", "separated with headings", "with headings",
)  # fmt: skip
_TWO_LEVELS = (
    "be structured using a minimum of two heading levels", "include headings at two levels",
)  # fmt: skip
_MAIN_AND_SUB = (
    "include headings at two levels: main and subheadings",
    "be structured with a main heading and subheadings",
)  # fmt: skip
_QUESTIONS = "Questions must be organized under a level 2 heading."
_POINTS = (
    "format the response using Markdown, employing '##' for main points and '###' for subpoints "
    "to clearly organize the information"
)
_BOLD = re.compile(r"\*\*.*?\*\*|__.*?__")
_BULLET = re.compile(r"\s*[-*+]\s")


@dataclass(frozen=True)
class Heading:
    level: int
    title: str
    span: Span


Rule = Callable[[Sequence[Heading]], bool]


def headings_of(response: str) -> list[Heading]:
    """Lines of one or more `#`, white space and a title; more than six `#` are a level too."""
    found = []
    start = 0
    for line in response.split("\n"):
        text = line.strip()
        title = text.lstrip("#")
        level = len(text) - len(title)
        if level and title[:1].isspace():
            found.append(Heading(level, title.strip(), (start, start + len(line))))
        start += len(line) + 1
    return found


def _has(*levels: int) -> Rule:
    return lambda headings: set(levels) <= {h.level for h in headings}


def _some(headings: Sequence[Heading]) -> bool:
    return bool(headings)


def _different(count: Limits) -> Rule:
    return lambda headings: count.hold(len({h.level for h in headings}))


def _titled(level: int, title: str) -> Rule:
    return lambda headings: any(h.level == level and h.title == title for h in headings)


def _none_deeper(level: int) -> Rule:
    return lambda headings: bool(headings) and all(h.level <= level for h in headings)


def _first(level: int) -> Rule:
    return lambda headings: bool(headings) and headings[0].level == level


def _one_of_level(level: int) -> Rule:
    return lambda headings: sum(h.level == level for h in headings) == 1


def _questions(headings: Sequence[Heading]) -> bool:
    return bool(headings) and all(h.level == 2 for h in headings if "?" in h.title)


class FormatMarkdown(Checker):
    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        text = constraint.lower()
        self.quotes = _quoted_lines(constraint) if "block quotes" in text else None
        self.bold = "bold" in text
        self.bullets = "bullet points" in text
        self.each = "each" in text or "any" in text
        # A comma between two word characters parts two constraints; ", " does not.
        clauses = re.split(r"\b,\b", constraint)
        self.rules = [rule for clause in clauses if (rule := _rule(clause, constraint))]
        self.unparsed = not (self.rules or self.quotes or self.bold or self.bullets)

    def check(self, response: str) -> bool:
        lines = response.split("\n")
        if self.quotes is not None and not self.quotes(lines):
            return False
        if self.bold and not _BOLD.search(response):
            return False
        if self.bullets and not any(map(_BULLET.match, lines)):
            return False
        headings = headings_of(response)
        if self.each:
            return bool(headings) and all(rule([h]) for h in headings for rule in self.rules)
        return all(rule(headings) for rule in self.rules)

    def fulfils(self, response: str) -> Sequence[Span] | None:
        """The headings, where the constraint has a rule on them."""
        return [h.span for h in headings_of(response)] or None if self.rules else None

    def breaks(self, response: str) -> Sequence[Span] | None:
        """The headings that break a rule by themselves, of a constraint on each."""
        wrong = [h.span for h in headings_of(response)
                 if self.each and not all(rule([h]) for rule in self.rules)]  # fmt: skip
        return wrong or None


def _quoted_lines(constraint: str) -> Callable[[list[str]], bool]:
    def quoted(lines: list[str]) -> int:
        return sum(line.strip().startswith(">") for line in lines)

    text = constraint.lower()
    if "at least" in text:
        found = _AT_LEAST_QUOTES.search(constraint)
        count = _n(found[1]) if found else None
        return lambda lines: count is not None and quoted(lines) >= count
    if any(phrase in text for phrase in _SOME_QUOTES):
        return lambda lines: quoted(lines) > 0
    return lambda lines: quoted(lines) == len(lines)


def _rule(clause: str, constraint: str) -> Rule | None:
    """The first rule that a clause gives; some are told by the whole constraint."""
    whole = constraint.lower()
    if any(phrase in whole for phrase in _MAIN_AND_SUB):
        return _has(1, 2)
    if constraint == _QUESTIONS:
        return _questions
    if "include a single level 1 heading" in whole:
        return _one_of_level(1)
    if any(phrase in whole for phrase in _TWO_LEVELS):
        return _different(Limits(low=2))
    if constraint == _POINTS:
        return _has(2, 3)
    return (
        _named_levels(clause)
        or _heading_titled(clause.strip().rstrip("."))
        or _level_or_count(clause.strip().lower().rstrip("."))
        or (_some if any(phrase in whole for phrase in _SOME_HEADINGS) else None)
    )


def _named_levels(clause: str) -> Rule | None:
    for pattern in (f"use heading levels {_N} and {_N}",
                    rf"use heading levels.*?level\s*{_N}.*?level\s*{_N}"):  # fmt: skip
        if found := re.search(pattern, clause, re.IGNORECASE):
            return _has(_n(found[1]), _n(found[2]))
    for pattern in (f"a heading level {_N}", r"H(\d+)", f"Level {_N} for"):
        if levels := re.findall(pattern, clause, re.IGNORECASE):
            stated = "must include" in clause or "should" in clause
            return _has(*map(_n, levels)) if stated else None
    return None


def _heading_titled(clause: str) -> Rule | None:
    if "titled" not in clause:
        return None
    for pattern in (rf"level {_N} heading titled [\"'](.*?)[\"']",
                    rf"level {_N} heading with the text [\"'](.*?)[\"']"):  # fmt: skip
        if found := re.search(pattern, clause, re.IGNORECASE):
            return _titled(_n(found[1]), found[2])
    return None


def _level_or_count(clause: str) -> Rule | None:
    """A level that must occur, a number of levels, the deepest, the first."""
    if _USED.search(clause):
        for pattern in (
            rf"(?:a|at least \d+) heading level {_N}",
            rf"(?:a|at least one|{'|'.join(list(ONE_TO_TEN)[1:])}|\d+) level {_N} heading",
            r"must use a heading level of h(\d+)",
        ):
            if found := re.search(pattern, clause):
                return _has(_n(found[1]))
        how_many = r"(at least|at most|exactly|up to|a maximum of|under)"
        for pattern in (f"{how_many} {_N} heading level", f"{how_many} {_N} level"):
            if found := re.search(pattern, clause):
                relation = found[1] if found[1] in ("at least", "exactly") else "at most"
                return _different(limits(relation, _n(found[2])))
    if found := re.search(rf" must (?:not exceed|be limited to)\s+(?:level\s+)?{_N}", clause):
        return _none_deeper(_n(found[1]))
    if found := re.search(f"must begin with a level {_N} heading", clause):
        return _first(_n(found[1]))
    if found := re.search(f"use heading level {_N}", clause):
        return _has(_n(found[1]))
    return None


def _n(text: str) -> int:
    value = number(text, ONE_TO_TEN)
    assert value is not None, text
    return value
