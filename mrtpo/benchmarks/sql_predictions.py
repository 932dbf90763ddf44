"""Predictions files of text-to-SQL: our JSON lines, Spider's lines of SQL, BIRD's JSON object.

Which one it is is told by content. Raises ValueError naming the file, the line (or key) and field.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mrtpo.benchmarks.base import json_rows

_BIRD_MARK = "\t----- bird -----\t"


def read_predictions(file: Path, db_ids: Sequence[str]) -> list[tuple[int, str]]:
    """(index, query) of each row; `db_ids` are those of the questions, in order."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8: {error}") from error
    if text.lstrip().startswith("{"):
        whole = _object(text)
        if whole is not None and whole and all(key.isdigit() for key in whole):
            return _bird(file, whole, db_ids)
        return [_row(where, row, len(db_ids)) for where, row in json_rows(file)]
    return _lines(file, text, db_ids)


def _object(text: str) -> dict[str, Any] | None:
    try:
        whole = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    return whole if isinstance(whole, dict) else None


def _row(where: str, row: dict[str, Any], questions: int) -> tuple[int, str]:
    for name in ("index", "sql"):
        if name not in row:
            raise ValueError(f"{where}: field {name}: missing (the row has {', '.join(row)})")
    index, sql = row["index"], row["sql"]
    if isinstance(index, bool) or not isinstance(index, int):
        raise ValueError(f"{where}: field index: expected a whole number, found {index!r}")
    if not 0 <= index < questions:
        raise ValueError(f"{where}: field index: {index} is not in 0 to {questions - 1}")
    if not isinstance(sql, str):
        raise ValueError(f"{where}: field sql: expected text, found {type(sql).__name__}")
    return index, sql


def _bird(file: Path, whole: dict[str, Any], db_ids: Sequence[str]) -> list[tuple[int, str]]:
    """BIRD counts what is not text as an empty query."""
    found = []
    for key, value in whole.items():
        index = int(key)
        if index >= len(db_ids):
            raise ValueError(f"{file}: key {key}: is not in 0 to {len(db_ids) - 1}")
        sql, mark, db_id = value.rpartition(_BIRD_MARK) if isinstance(value, str) else ("", "", "")
        if mark and db_id.strip() != db_ids[index]:
            raise ValueError(
                f"{file}: key {key}: is for database {db_id.strip()!r}, but question {index} is "
                f"about {db_ids[index]!r}: predictions of another set or order"
            )
        found.append((index, sql if mark else value if isinstance(value, str) else ""))
    return found


def _lines(file: Path, text: str, db_ids: Sequence[str]) -> list[tuple[int, str]]:
    lines = text.removesuffix("\n").split("\n")
    if len(lines) != len(db_ids):
        raise ValueError(
            f"{file}: {len(lines)} lines for {len(db_ids)} questions; with one query a line there "
            'must be one for each; else use JSON lines {"index": …, "sql": …}'
        )
    found = []
    for index, line in enumerate(lines):
        sql, tab, db_id = line.rstrip("\r").rpartition("\t")
        found.append((index, sql if tab and db_id.strip() == db_ids[index] else line.rstrip("\r")))
    return found
