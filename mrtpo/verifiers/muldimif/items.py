"""The items that a constraint on "each …" looks at, by how a response is laid out.

The layout is told by how the response begins (a table by any of its lines); what is no list, table
or JSON is taken line by line or part by part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

Layout = Literal["json", "table", "numbered", "bullets", "plain"]

_ROW = re.compile(r"\|.+\|")
_NUMBERED = re.compile(r"\s*\d+\.\s+")
_BULLET = re.compile(r"\s*[-*] ")
_DIVIDER = re.compile(r"[\s|*-]+")
_MARK = "\0"  # stands for a divider among the cells, as one word


def layout_of(response: str) -> Layout:
    if response.lstrip()[:1] in ("{", "["):
        return "json"
    if any(_ROW.match(line.lstrip()) for line in response.split("\n")):
        return "table"
    if _NUMBERED.match(response):
        return "numbered"
    if _BULLET.match(response):
        return "bullets"
    return "plain"


def numbered(response: str) -> list[str]:
    """The lines of a numbered list, with their numbers."""
    return [line for line in response.split("\n") if _NUMBERED.match(line)]


def bulleted(response: str) -> list[str]:
    """The lines of a list of bullets; an indented one keeps its bullet."""
    lines = response.split("\n")
    return [line.partition(" ")[2].strip() for line in lines if _BULLET.match(line)]


def parts(response: str) -> list[str]:
    """What lines of three or more equal `-`, `*` or `=` part."""
    found: list[list[str]] = [[]]
    for line in response.split("\n"):
        rule = line.strip()
        if len(rule) >= 3 and rule[0] in "-*=" and rule == rule[0] * len(rule):
            found.append([])
        else:
            found[-1].append(line)
    return ["\n".join(lines).strip() for lines in found if lines] or [response]


def named_cells(response: str, name: str) -> list[str]:
    """The cells below the headers that hold `name`; every cell where there is no such header.

    Cells are counted, empty ones left out, so that a row with an empty cell shifts what follows.
    """
    cells: list[str] = []
    divider: int | None = None
    for line in map(str.strip, response.split("\n")):
        if not line.startswith("|"):
            continue
        if _DIVIDER.fullmatch(line):
            divider = len(cells) if divider is None else divider
            cells.append(_MARK)
        else:
            cells += [cell.strip() for cell in line[1:-1].split("|") if cell.strip()]
    headers = cells[:divider]
    if not headers:
        return []
    data = [] if divider is None else [cell for cell in cells[divider + 1 :] if cell != _MARK]
    found = []
    for start in range(0, len(data) - len(headers) + 1, len(headers)):
        row = dict(zip(headers, data[start : start + len(headers)], strict=True))
        found += [
            cell
            for header, cell in row.items()
            if header.lower() != cell.lower() and name.lower() in header.lower()
        ]
    return found or cells


def column(response: str, name: str) -> list[str]:
    """The column whose header shares most words with `name`, else the wordiest column.

    Empty without a header, a divider and a row of as many cells.
    """
    lines = [line.strip() for line in response.split("\n")]
    lines = [line for line in lines if line.startswith("|") and line.endswith("|")]
    if len(lines) < 3:
        return []
    headers = _cells(lines[0])
    rows = [dict(zip(headers, cells, strict=True)) for cells in map(_cells, lines[2:])
            if len(cells) == len(headers)]  # fmt: skip
    if not headers or not rows:
        return []
    wanted = {_bare(word) for word in name.split()} - {""}
    shared = [sum(_bare(word) in wanted for word in header.split()) for header in headers]
    if max(shared) > 0:
        header = headers[shared.index(max(shared))]
    else:
        header = max(headers, key=lambda h: sum(len(_cell(row[h]).split()) for row in rows))
    return [_cell(row[header]) for row in rows]


def read_json(text: str) -> Any:
    """JSON whose numbers do not matter; ValueError if it is none.

    Raises RecursionError where it is nested deeper than the parser goes.
    """
    return json.loads(text, parse_int=str, parse_float=str)


def _cells(row: str) -> Sequence[str]:
    return [cell.strip() for cell in row.split("|")[1:-1]]


def _cell(text: str) -> str:
    return re.sub(r"^#+\s*", "", text).strip()


def _bare(word: str) -> str:
    return re.sub(r"\W", "", word).lower()
