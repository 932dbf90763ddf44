"""Where a question's database is, and what it looks like where it is not there."""

from __future__ import annotations

import csv
import io
from functools import cached_property
from pathlib import Path
from typing import Any

from mrtpo.tasks.rows import field_text, read_rows
from mrtpo.tasks.text2sql.schema import Schema, comment_of, commented, from_tables_json, read_schema

_SQLITE_MAGIC = b"SQLite format 3\x00"


class Databases:
    """Databases below some folders, and the tables files that describe them.

    `<folder>/<db_id>/<db_id>.sqlite` is a database; further `*.sqlite` files beside it are the
    instances of Spider's test suite. The first folder that has a database counts.
    """

    def __init__(self, folders: list[Path], tables: list[Path]) -> None:
        self.folders, self.tables = folders, tables
        self._files: dict[str, Path | None] = {}

    def file(self, db_id: str) -> Path | None:
        """The database's file, None where it is absent. Raises ValueError if it is no database."""
        if db_id not in self._files:
            paths = (folder / db_id / f"{db_id}.sqlite" for folder in self.folders)
            found = next((path for path in paths if path.is_file()), None)
            if found is not None:
                _require_sqlite(found)
            self._files[db_id] = found
        return self._files[db_id]

    def files(self, db_id: str) -> list[Path]:
        """All `*.sqlite` files of the database's folder, the database itself first."""
        main = self.file(db_id)
        if main is None:
            return []
        return [main, *sorted(path for path in main.parent.glob("*.sqlite") if path != main)]

    def known(self, db_id: str) -> bool:
        """Whether the database is there or a tables file has it; without any such file: True."""
        return not self.tables or db_id in self._entries or self.file(db_id) is not None

    def schema(self, db_id: str, sample_values: int = 0, comments: bool = False) -> Schema | None:
        """Tables and columns of the database's file, else of a tables file, else None.

        With `comments` also what columns mean: by the tables file, and by BIRD's descriptions,
        which go first.
        """
        file, described = self.file(db_id), self.described(db_id) if comments else None
        if file is None:
            return described or self.described(db_id)
        schema = read_schema(file, db_id, sample_values)
        if not comments:
            return schema
        meanings = {
            (table.name.lower(), column.name.lower()): column.comment
            for table in (described.tables if described else ())
            for column in table.columns
        }
        return commented(schema, meanings | descriptions(file.parent / "database_description"))

    def described(self, db_id: str) -> Schema | None:
        """Tables and columns as a tables file has them, None if none does."""
        if db_id not in self._entries:
            return None
        path, entry = self._entries[db_id]
        try:
            return from_tables_json(entry)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def missing(self) -> str:
        """Where databases were looked for."""
        if not self.folders:
            return "no folder of databases is there"
        return "looked for <db_id>/<db_id>.sqlite in " + ", ".join(map(str, self.folders))

    @cached_property
    def _entries(self) -> dict[str, tuple[Path, dict[str, Any]]]:
        """Of several tables files the first that has a database counts."""
        found: dict[str, tuple[Path, dict[str, Any]]] = {}
        for path in self.tables:
            for row, values in read_rows(path):
                found.setdefault(field_text(path, row, values, "db_id"), (path, values))
        return found


def descriptions(folder: Path) -> dict[tuple[str, str], str]:
    """BIRD's `<table>.csv` files: what columns mean, by table and column in lower case.

    Their text is UTF-8 or Windows' western one. Raises ValueError at a file without the columns
    `original_column_name` and `column_description`.
    """
    found: dict[tuple[str, str], str] = {}
    for path in sorted(folder.glob("*.csv")):
        raw = path.read_bytes()
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("cp1252", errors="replace")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        fields = [(name or "").strip() for name in reader.fieldnames or []]
        if not {"original_column_name", "column_description"} <= set(fields):
            raise ValueError(f"{path}: no header with original_column_name, column_description")
        reader.fieldnames = fields
        for row in reader:
            name = (row["original_column_name"] or "").strip()
            meaning = row["column_description"] or row.get("column_name") or ""
            parts = [
                comment_of(name, meaning),
                " ".join((row.get("value_description") or "").split()),
            ]
            if comment := "; ".join(filter(None, parts)):
                found[path.stem.strip().lower(), name.lower()] = comment
    return found


def _require_sqlite(path: Path) -> None:
    """A pointer file of Git LFS or an empty file is found here and not by the thousandth query."""
    with path.open("rb") as file:
        if file.read(len(_SQLITE_MAGIC)) != _SQLITE_MAGIC:
            raise ValueError(f"{path}: not a SQLite database")
