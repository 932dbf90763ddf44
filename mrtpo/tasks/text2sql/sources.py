"""Folders in Spider's or BIRD's layout as plain questions.

    spider: train_spider.json (+ train_others.json) or train_spider.min.json; dev.json; tables.json;
            database/<db_id>/<db_id>.sqlite
    bird:   train.json; dev.json or mini_dev_sqlite.json; {train_,dev_,}tables.json;
            {train_,dev_,}databases/<db_id>/<db_id>.sqlite; also with train/ and dev/ in between

Spider's rows have `db_id`, `question`, `query`; BIRD's `db_id`, `question`, `SQL` and perhaps
`evidence` and `difficulty`. A file is a JSON list or JSON lines, told by content. Rows are counted
from 0, as the official prediction files do.

A malformed row is an error that names file, row and field, before anything slow starts. Rows that
are sound but of no use (a reference marked as failing, no database here, a repetition) are dropped
and counted by reason: nothing disappears silently.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["spider", "bird"]
Row = tuple[Path, int, dict[str, Any]]  # file, number from 0, fields

_SQL_FIELD = {"spider": "query", "bird": "SQL"}
# In each split, for each tuple: the first name that exists.
_FILES: dict[Kind, dict[str, tuple[tuple[str, ...], ...]]] = {
    "spider": {
        "train": (("train_spider.json", "train_spider.min.json"), ("train_others.json",)),
        "dev": (("dev.json",),),
    },
    "bird": {
        "train": (("train.json", "train/train.json"),),
        "dev": (("dev.json", "dev/dev.json", "mini_dev_sqlite.json"),),
    },
}
_TABLES: dict[Kind, dict[str, tuple[str, ...]]] = {
    "spider": {"train": ("tables.json",), "dev": ("tables.json",)},
    "bird": {
        "train": ("train_tables.json", "train/train_tables.json", "tables.json"),
        "dev": ("dev_tables.json", "dev/dev_tables.json", "tables.json"),
    },
}
_DATABASES: dict[Kind, tuple[str, ...]] = {
    "spider": ("database", "databases"),
    "bird": (
        "train_databases", "train/train_databases", "dev_databases", "dev/dev_databases",
        "databases", "database",
    ),
}  # fmt: skip
_SQLITE_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True)
class Question:
    """`file` is relative to the folder; `row` counts from 0."""

    db_id: str
    question: str
    sql: str
    evidence: str
    difficulty: str
    file: str
    row: int


@dataclass(frozen=True)
class Source:
    """`databases`: the file of each database that is used. `rows`, `dropped`: counts by split."""

    train: list[Question]
    dev: list[Question]
    databases: dict[str, Path]
    rows: dict[str, int]
    dropped: dict[str, dict[str, int]]


def read_folder(kind: Kind, folder: Path) -> Source:
    """Questions of both splits and their databases; a split without files is empty.

    Raises ValueError naming file, row and field on bad input, and if no database is there at all.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: not a folder")
    splits = {split: _question_files(kind, folder, split) for split in ("train", "dev")}
    if not any(splits.values()):
        names = [name for split in _FILES[kind].values() for names in split for name in names]
        raise ValueError(f"{folder}: none of {', '.join(names)} is there")
    found: dict[str, list[Question]] = {}
    rows: dict[str, int] = {}
    dropped: dict[str, Counter[str]] = {}
    databases: dict[str, Path] = {}
    for split, paths in splits.items():
        read = [item for path in paths for item in _rows(path)]
        known = _known_databases(kind, folder, split)
        rows[split] = len(read)
        found[split], dropped[split] = _useful(kind, folder, read, known, databases)
    if not databases:
        raise ValueError(_nothing_left(kind, folder, dropped))
    for file in databases.values():
        _require_sqlite(file)
    return Source(
        train=found["train"],
        dev=found["dev"],
        databases=dict(sorted(databases.items())),
        rows=rows,
        dropped={split: dict(sorted(counts.items())) for split, counts in dropped.items()},
    )


def _useful(
    kind: Kind, folder: Path, read: list[Row], known: set[str], databases: dict[str, Path]
) -> tuple[list[Question], Counter[str]]:
    """The questions worth keeping and why others are not; fills in the databases they use.

    All rows are checked before any is judged, so that a malformed one is never hidden by its state.
    """
    sound = [_question(kind, folder, *row) for row in read]
    kept: dict[tuple[str, str, str], Question] = {}
    dropped: Counter[str] = Counter()
    for question, (path, row, values) in zip(sound, read, strict=True):
        status = values.get("_gold_status") or "ok"
        file = _database(kind, folder, question.db_id)
        key = (question.db_id, question.question, question.sql)
        if file is None and known and question.db_id not in known:
            raise ValueError(
                f"{path}: row {row} (from 0): field db_id: {question.db_id!r} has no database file "
                "and is not in the tables file"
            )
        if status != "ok":
            dropped[f"gold status {status}"] += 1
        elif file is None:
            dropped["database missing"] += 1
        elif key in kept:
            dropped["duplicate"] += 1
        else:
            kept[key] = question
            databases[question.db_id] = file
    return list(kept.values()), dropped


def copy_databases(source: Source, db_ids: Collection[str], folder: Path) -> None:
    """Copies to `folder/databases/<db_id>/<db_id>.sqlite`; only the named ones.

    Copies and not links, since DVC versions the folder and a link would point out of it.
    """
    for db_id in sorted(db_ids):
        target = folder / "databases" / db_id / f"{db_id}.sqlite"
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(source.databases[db_id], temporary)
        temporary.replace(target)


def _question_files(kind: Kind, folder: Path, split: str) -> list[Path]:
    chosen = (
        next((folder / name for name in names if (folder / name).is_file()), None)
        for names in _FILES[kind][split]
    )
    return [path for path in chosen if path is not None]


def _known_databases(kind: Kind, folder: Path, split: str) -> set[str]:
    """Database ids of the tables file, if there is one."""
    for name in _TABLES[kind][split]:
        if (folder / name).is_file():
            return {_text(path, row, values, "db_id") for path, row, values in _rows(folder / name)}
    return set()


def _database(kind: Kind, folder: Path, db_id: str) -> Path | None:
    candidates = (folder / name / db_id / f"{db_id}.sqlite" for name in _DATABASES[kind])
    return next((path for path in candidates if path.is_file()), None)


def _rows(path: Path) -> Iterator[Row]:
    """Rows of a JSON list or of JSON lines, with their number."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error}") from error
    if text.lstrip().startswith("["):
        items = _parse(path, 1, text)
    else:  # not splitlines: JSON may hold other line separators as they are
        lines = enumerate(text.split("\n"), start=1)
        items = [_parse(path, number, line) for number, line in lines if line.strip()]
    if not items:
        raise ValueError(f"{path}: no rows")
    for row, values in enumerate(items):
        if not isinstance(values, dict):
            raise ValueError(f"{path}: row {row} (from 0): expected an object with named fields")
        yield path, row, values


def _parse(path: Path, first_line: int, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise ValueError(f"{path}: line {line}: not JSON: {error.msg}") from error


def _question(kind: Kind, folder: Path, path: Path, row: int, values: dict[str, Any]) -> Question:
    db_id = _text(path, row, values, "db_id")
    if db_id in (".", "..") or set(db_id) & set("/\\\0"):  # it becomes part of a path
        raise ValueError(f"{path}: row {row} (from 0): field db_id: {db_id!r} is not a plain name")
    _text(path, row, values, "_gold_status", optional=True)
    return Question(
        db_id=db_id,
        question=_text(path, row, values, "question"),
        sql=_text(path, row, values, _SQL_FIELD[kind]),
        evidence=_text(path, row, values, "evidence", optional=True),
        difficulty=_text(path, row, values, "difficulty", optional=True),
        file=path.relative_to(folder).as_posix(),
        row=row,
    )


def _text(path: Path, row: int, values: dict[str, Any], field: str, optional: bool = False) -> str:
    value = values.get(field)
    if optional and value is None:
        return ""
    where = f"{path}: row {row} (from 0): field {field}"
    if field not in values:
        raise ValueError(f"{where}: missing (the row has {', '.join(values) or 'no fields'})")
    if not isinstance(value, str):
        raise ValueError(f"{where}: expected text, found {type(value).__name__}")
    if not value.strip() and not optional:
        raise ValueError(f"{where}: empty")
    return value.strip()


def _nothing_left(kind: Kind, folder: Path, dropped: dict[str, Counter[str]]) -> str:
    counts = sum(dropped.values(), Counter())
    if counts["database missing"]:
        names = " or ".join(f"{name}/<db_id>/<db_id>.sqlite" for name in _DATABASES[kind])
        return (
            f"{folder}: no database file for any of {counts['database missing']} questions; "
            f"expected {names}"
        )
    reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(counts.items()))
    return f"{folder}: no question is left ({reasons})"


def _require_sqlite(path: Path) -> None:
    """A pointer file of Git LFS or an empty file is found here and not by the thousandth query."""
    with path.open("rb") as file:
        if file.read(len(_SQLITE_MAGIC)) != _SQLITE_MAGIC:
            raise ValueError(f"{path}: not a SQLite database")
