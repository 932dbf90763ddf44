"""Length_Sentences and Length_Paragraphs: how many, by plain counting rules.

A sentence is what ends in one of `.!?`, so that "e.g." counts twice. A paragraph is what blank
lines part. A constraint on sentences that is not understood is taken as followed, one on
paragraphs as broken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mrtpo.verifiers.muldimif.kinds import Checker, Span
from mrtpo.verifiers.muldimif.numbers import (
    CHINESE,
    ONE_TO_TEN,
    Limits,
    limits,
    number,
    one_of,
)

_SENTENCE_WORDS = {
    **ONE_TO_TEN, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30,
    "fifty": 50, "hundred": 100, "thousand": 1000, **CHINESE,
}  # fmt: skip
_PARAGRAPH_WORDS = {**ONE_TO_TEN, **CHINESE}
_N = one_of(_SENTENCE_WORDS)
_SENTENCES = " sentence"
_SENTENCES_CHINESE = "(?:个句子|個句子|句话|句)"
_P = one_of(ONE_TO_TEN)
_PARAGRAPHS = " paragraph"

# In the order in which they are tried; of one relation, what stands first in the text counts.
_SENTENCE_PHRASES = (
    ("exactly", rf"(?:exactly:?|(?:should|must) contain) {_N}{_SENTENCES}"),
    ("exactly", rf"exactly:? {_N} topic{_SENTENCES}"),
    ("one", r" be a single sentence|in a single sentence|consisting of (?:only )?one sentence"),
    ("at least", rf"(?:at least:?|a minimum of|no fewer than) {_N}{_SENTENCES}"),
    ("at least", rf"(?:至少|最少)(?:包含)?{_N}{_SENTENCES_CHINESE}"),
    (
        "at most",
        "(?:at most:?|not exceed|not exceeding|not to exceed|not surpass(?: a total of)?"
        rf"|no more than|no longer than|limited to|a maximum (?:length )?of) {_N}{_SENTENCES}",
    ),
    ("at most", rf"(?:至多|最多)(?:包含)?{_N}{_SENTENCES_CHINESE}"),
    ("between", rf"range:? {_N}-{_N}{_SENTENCES}"),
    ("between", rf"between {_N} (?:and|to) {_N}{_SENTENCES}"),
    (
        "between",
        "(?:into|a range of|be composed of|consists? of|consisting of)"
        rf" {_N} to {_N}{_SENTENCES}",
    ),
    ("between", rf"{_N}到{_N}{_SENTENCES_CHINESE}"),
)
_PARAGRAPH_PHRASES = (
    ("exactly", rf"(?:exactly|(?:should|must) contain) {_P}{_PARAGRAPHS}"),
    ("one", r" be a single paragraph"),
    ("at least", rf"(?:at least|least:|a minimum of) {_P}{_PARAGRAPHS}"),
    ("at least", rf"a minimum of {_P} distinct{_PARAGRAPHS}"),
    ("at most", rf"(?:at most|not exceeding|no more than) {_P}{_PARAGRAPHS}"),
    ("at most", rf"最多(?:分为)?{one_of(CHINESE)}个段落"),
    ("between", rf"range (\d+)-(\d+){_PARAGRAPHS}"),
    ("between", r"range: (\d+)-(\d+)"),
    ("between", rf"between (\d+) and (\d+){_PARAGRAPHS}"),
    ("between", rf"(\d+) to (\d+){_PARAGRAPHS}"),
)


def _read(constraint: str, phrases: Sequence[tuple[str, str]], words: Mapping[str, int]) -> Limits:
    text = constraint.lower().strip()
    for relation, phrase in phrases:
        if found := re.search(phrase, text):
            if relation == "one":
                return Limits(1, 1)
            return limits(relation, *(number(group, words) or 0 for group in found.groups()))
    return Limits()


class LengthSentences(Checker):
    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.limits = _read(constraint, _SENTENCE_PHRASES, _SENTENCE_WORDS)
        self.unparsed = not self.limits

    def check(self, response: str) -> bool:
        return self.limits.hold(sum(response.count(end) for end in ".!?"))


class LengthParagraphs(Checker):
    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.limits = _read(constraint, _PARAGRAPH_PHRASES, _PARAGRAPH_WORDS)
        self.unparsed = not self.limits

    def check(self, response: str) -> bool:
        count = sum(1 for part in response.split("\n\n") if part.strip())
        return bool(self.limits) and self.limits.hold(count)

    def breaks(self, response: str) -> Sequence[Span] | None:
        """What stands beyond the last paragraph that is allowed."""
        if self.limits.high is None:
            return None
        spans = [match.span() for match in re.finditer(r"\S(?:(?!\n\n).)*", response, re.DOTALL)]
        return spans[self.limits.high :] or None
