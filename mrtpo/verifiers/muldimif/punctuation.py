"""Content_Punctuation: with which mark the response, or each part of it, ends.

Parts are lines where the constraint speaks of paragraphs or sections, sentences (NLTK's) where it
has "each", "any" or "all", cells where it has "table" or "cell". All of these are looked for as
letters, not as words: "finally" has "all". No part at all is taken as followed; a mark that is not
known (only four are) as broken.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from mrtpo.verifiers.constraints.text import sentences
from mrtpo.verifiers.muldimif.kinds import Checker, Span, TooMuchError

MOST_ENDS = 20_000  # of sentences; NLTK takes about 0.1 ms for each

_MARKS = {"period": ".", "question mark": "?", "exclamation mark": "!", "semicolon": ";"}
_NAMED = re.compile(rf"\b({'|'.join(_MARKS)}|punctuation mark)s?\b")
_FOLLOWED = re.compile(rf"({'|'.join(_MARKS)})\s+followed by a `([^`]+)`")
_NEGATIVE = re.compile(r"\b(?:must not|avoid|exclude|not end with|do not use)\b")
_BULLETS = re.compile(r"^[-*•]\s.*$", re.MULTILINE)
_LONG_SPACE = re.compile(r"(\s{100})\s+")  # NLTK's time grows with the square of it


class ContentPunctuation(Checker):
    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        text = constraint.strip().lower().rstrip(".")
        self.lines = "paragraph" in text or "section" in text
        self.sentences = any(word in text for word in ("each", "any", "all"))
        self.cells = "table" in text or "cell" in text
        self.bullets = "bullet point" in text
        self.negative = bool(_NEGATIVE.search(text))
        names = _NAMED.findall(text)
        if self.bullets:
            marks = [mark for name, mark in _MARKS.items() if name in text][:1]
            self.ends = tuple(marks or string.punctuation)
        elif followed := _FOLLOWED.search(text):
            self.ends = (_MARKS[followed[1]] + followed[2],)
            self.negative = False
        elif "punctuation mark" in names:
            self.ends = tuple(string.punctuation)
        else:
            self.ends = tuple(_MARKS[name] for name in names)
            self.unparsed = not names

    def check(self, response: str) -> bool:
        parts = self._parts(response.strip())
        if self.bullets:
            return all(part.endswith(self.ends) for part in parts)
        return all(self._right(part) for part in parts)

    def breaks(self, response: str) -> Sequence[Span] | None:
        """The last character, where the whole response is one part."""
        whole = not (self.lines or self.sentences or self.cells or self.bullets)
        end = len(response.rstrip())
        return [(end - 1, end)] if whole and end else None

    fulfils = breaks

    def _right(self, part: str) -> bool:
        if not part:
            return self.negative
        return part.endswith(self.ends) != self.negative

    def _parts(self, text: str) -> Sequence[str]:
        if self.bullets:
            points = _BULLETS.findall(text)
            return [part.strip() for point in points for part in _sentences(point)]
        if self.cells:
            rows = text.split("\n")
            cells = [
                cell.strip()
                for row in (rows[2:] if len(rows) > 1 else rows)
                for cell in row.split("|")
            ]
            return [cell for cell in cells if cell.strip("-")]
        if self.lines:
            return [line.strip() for line in text.split("\n") if line.strip()]
        return _sentences(text) if self.sentences else [text]


def _sentences(text: str) -> Sequence[str]:
    if sum(map(text.count, ".!?")) > MOST_ENDS:
        raise TooMuchError(f"more than {MOST_ENDS} ends of sentences")
    return sentences(_LONG_SPACE.sub(r"\1", text))
