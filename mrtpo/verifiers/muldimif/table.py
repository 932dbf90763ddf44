"""Format_Table: rows, columns and headers of a Markdown table.

The table is all from the first bar to the last, so that text between two tables counts as rows.
Without a bar, a constraint that has no "table" in it is followed, one that begins with a condition
("if a table is used") too, any other is broken. The first line is the header; a second line with
`---` is no row. Some words of a constraint give headers that the table must have, by rules as
crude as the official ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrtpo.verifiers.muldimif.kinds import Checker, Span
from mrtpo.verifiers.muldimif.numbers import TO_A_HUNDRED, Limits, limits, number

_N = rf"(\d+|\b(?:{'|'.join(TO_A_HUNDRED)})\b)"

# In the order in which they are tried.
_ROWS = (
    ("exactly", rf"exactly\s+{_N}\s+row"),
    ("at most", rf"no\s+more\s+than\s+{_N}\s+row"),
    ("at most", rf"not\s+have\s+more\s+than\s+{_N}\s+row"),
    ("at most", rf"not\s+exceed\s+{_N}\s+row"),
    ("at most", rf"not\s+exceeding\s+{_N}\s+row"),
    ("at most", rf"row\s+limit\s+of\s+{_N}"),
    ("exactly", rf"{_N}\s+rows?\s+must\s+be\s+included"),
    ("exactly", rf"exactly\s+.+and {_N}\s+row"),
    ("at most", rf"not exceed\s+.+and {_N}\s+row"),
    ("at most", rf"a maximum of\s+{_N}\s+rows"),
    ("at most", rf"limited to\s+{_N}\s+rows"),
    ("at most", rf"a maximum of\s+.+and {_N}\s+row"),
    ("at most", rf"limit the number of rows to\s+{_N}"),
    ("at most", rf"limit (?:it|the table) to\s+{_N}\s+rows"),
    ("at most", rf"the number of rows in each table does not exceed\s+{_N}"),
)
_COLUMNS = (
    ("exactly", rf"exactly\s+{_N}\s+column"),
    ("at most", rf"no\s+more\s+than\s+{_N}\s+column"),
    ("at most", rf"not\s+have\s+more\s+than\s+{_N}\s+column"),
    ("at most", rf"not\s+exceed\s+{_N}\s+column"),
    ("at most", rf"not\s+exceeding\s+{_N}\s+column"),
    ("at most", rf"column\s+limit\s+of\s+{_N}"),
    ("exactly", rf"exactly\s+.+and {_N}\s+column"),
    ("exactly", rf"in\s+{_N}\s+columns"),
    ("at most", rf"not exceed\s+.+and {_N}\s+column"),
    ("at most", rf"maximum of\s+{_N}\s+columns"),
    ("at most", rf"maximum\s+{_N}\s+columns"),
    ("at most", rf"at most\s+{_N}\s+columns"),
    ("at most", rf"limited to\s+{_N}\s+columns"),
    ("at most", rf"a maximum of\s+.+and {_N}\s+column"),
    ("at most", rf"limit the number of columns to\s+{_N}"),
    ("at most", rf"limit (?:it|the table) to\s+{_N}\s+columns"),
    ("at most", rf"the number of columns in each table does not exceed\s+{_N}"),
)
_TITLE = rf"title\s+must\s+not\s+exceed\s+{_N}\s+words"
_A_TABLE = r"(?:a |any )?(?:tables?|tabular data)"
_A_FORMAT = r"(?:a |any )?(?:tables?|tabular data|table format)"
_MAKE = "(?:include|use|utilize|incorporate|present)"
_MADE = "(?:used|included|utilized|incorporated|presented|chosen)"
_IF_ANY = re.compile(
    rf"if you (?:(?:decide|choose|opt) to )?{_MAKE} {_A_TABLE}"
    rf"|if (?:there (?:is|are) {_A_FORMAT}|{_A_FORMAT} (?:is|are)) {_MADE}"
)
_LISTED = (
    r"columns?\s+should\s+be\s+([\w\s,]+)",
    r"columns:\s+([\w\s,']+)",
)
_SEPARATORS = "[,、，和and]"  # characters: the letters a, n and d part words, as officially
_EACH = r"each (?:entry|row|item|game|series)"
_CONTENTS = (
    rf"{_EACH} must include (?:the\s+)?([\w\s,]+(?:\s+and\s+(?:its|their)\s+[\w\s,]+)?)",
    rf"{_EACH} should (?:be )?(?:present|include|contain|show)(?:ed)? (?:in|with)?\s+([\w\s,]+)",
)
_QUOTED = re.compile('"([^"]+)"')


class FormatTable(Checker):
    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        text = self.text = constraint.lower()
        self.rows = _limits(text, _ROWS)
        self.columns = _limits(text, _COLUMNS)
        self.title = _limits(text, (("at most", _TITLE),)) if "title" in text else Limits()
        self.markdown = "markdown" in text
        self.series = all(word in text for word in ("series must include", "title", "author"))
        self.film = "film title" in text and "release year" in text
        self.headers: list[str] = []
        self.contents: list[str] = []
        quoted = [name.strip().rstrip(",").strip() for name in _QUOTED.findall(text)]
        quoted = [name for name in quoted if name]
        self.loosely = "columns for" in text and bool(quoted)
        if not self.loosely and "single column" in text:
            self.columns = Limits(1, 1)
        if self.loosely:
            self.headers, self.title = quoted, Limits()
        else:
            self.headers = _listed_headers(text) or quoted
            self.contents = _contents(text)
            if self.series:
                self.contents += ["title", "author", "year"]
        self.if_any = "table" not in text or bool(_IF_ANY.search(text))
        self.unparsed = not (
            self.rows or self.columns or self.title or self.headers or self.contents
            or self.markdown or self.series or self.film
        )  # fmt: skip

    def check(self, response: str) -> bool:
        if "|" not in response:
            return self.if_any
        lines = [line for line, _ in _table(response)]
        if self.markdown and not lines:
            return False
        ruled = len(lines) > 1 and "---" in lines[1]
        if not self.rows.hold(len(lines) - 1 - ruled):
            return False
        if self.columns and not (lines and self.columns.hold(len(lines[0].split("|")) - 2)):
            return False
        if self.title and not (lines and self.title.hold(len(lines[0].strip("|").split()))):
            return False
        return self._has_headers(lines)

    def _has_headers(self, lines: Sequence[str]) -> bool:
        headers = [cell.strip().lower() for cell in lines[0].split("|")[1:-1]] if lines else []
        if self.series and "year" in self.text:
            return all(_in_any(word, headers) for word in ("title", "author", "year"))
        if self.loosely:
            return all(any(n in header or header in n for header in headers) for n in self.headers)
        if not all(_in_any(name, headers) for name in self.headers):
            return False
        if self.film:
            return all(
                any(_in_any(word, headers) for word in words)
                for words in (("film", "title"), ("release", "year"))
            )
        cells = " ".join(" ".join(line.split("|")) for line in lines).lower()
        return all(_holds(wanted, headers, cells) for wanted in self.contents)

    def breaks(self, response: str) -> Sequence[Span] | None:
        """The rows beyond the last that is allowed; the header where columns are too many."""
        lines = _table(response)
        if len(lines) > 1 and self.rows.high is not None:
            ruled = "---" in lines[1][0]
            if beyond := lines[1 + ruled + self.rows.high :]:
                return [span for _, span in beyond]
        if lines and self.columns and not self.columns.hold(len(lines[0][0].split("|")) - 2):
            return [lines[0][1]]
        return None

    def fulfils(self, response: str) -> Sequence[Span] | None:
        """The lines of the table."""
        return [span for _, span in _table(response)] or None


def _table(response: str) -> list[tuple[str, Span]]:
    """The lines that are not blank from the first bar to the last, with where they stand."""
    first, last = response.find("|"), response.rfind("|")
    if first == last:
        return []
    found = []
    for match in re.finditer(r"[^\n]+", response[first : last + 1]):
        if line := match[0].strip():
            found.append((line, (first + match.start(), first + match.end())))
    return found


def _limits(text: str, phrases: Sequence[tuple[str, str]]) -> Limits:
    for relation, phrase in phrases:
        if found := re.search(phrase, text):
            return limits(relation, number(found[1], TO_A_HUNDRED) or 0)
    return Limits()


def _listed_headers(text: str) -> list[str]:
    lists = [found[1] for pattern in _LISTED if (found := re.search(pattern, text))]
    pieces = [piece.strip("'\" ") for listed in lists for piece in re.split(_SEPARATORS, listed)]
    return [piece for piece in pieces if piece]


def _contents(text: str) -> list[str]:
    """What each entry must hold: "the title, author and its year" gives three."""
    found: list[str] = []
    for pattern in _CONTENTS:
        if match := re.search(pattern, text):
            parts = match[1].split(" and ")
            if len(parts) > 1:
                found += parts[0].split(",")
                found.append(parts[1].removeprefix("its "))
            else:
                found += re.split("[,、，]", match[1])
    pair = re.search(
        r"each\s+\w+\s+must\s+include\s+(?:the\s+)?([\w\s]+\s+and\s+its\s+[\w\s]+)", text
    )
    if pair:
        found += re.split(r"\s+and\s+its\s+", pair[1])
    return [part.strip() for part in dict.fromkeys(found) if part.strip()]


def _in_any(word: str, headers: Sequence[str]) -> bool:
    return any(word in header for header in headers)


def _holds(wanted: str, headers: Sequence[str], cells: str) -> bool:
    """Whether a table has what an entry must hold: among its cells, or by a word in a header."""
    return wanted in cells or any(_in_any(word, headers) for word in wanted.split())
