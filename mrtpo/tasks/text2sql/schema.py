"""What a database looks like, read from the file itself, from a `tables.json` or from DDL.

The file is the truth where there is one: `tables.json` of the public sets lists tables that do not
exist (`sqlite_sequence`) and leaves out what users changed; it still tells what a column means.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

MAX_VALUE_CHARS = 40
_SCANNED_ROWS = 10_000  # example values come from the first rows, so that huge tables stay cheap
_CREATED = re.compile(r'\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?["`\[]?([^"`\]\s(]+)', re.I)
_COMMENTED = re.compile(r'^\s*["`\[]?([^"`\]\n]+?)["`\]]? [^\n]*?/\* ?(.*?) ?\*/', re.M | re.S)
_TYPE = re.compile(r"[A-Za-z0-9_ ]*(\([0-9]+(, ?[0-9]+)?\))?")


@dataclass(frozen=True)
class Column:
    """`type` as declared, possibly empty; `values` are a few examples, already cut.

    `matched` are values that a question mentions, `comment` is what the column means if its name
    does not say so.
    """

    name: str
    type: str
    primary: bool = False
    values: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    comment: str = ""


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ForeignKey:
    """One pair of columns; a composite key is several of these."""

    table: str
    column: str
    to_table: str
    to_column: str


@dataclass(frozen=True)
class Schema:
    db_id: str
    tables: tuple[Table, ...]
    foreign_keys: tuple[ForeignKey, ...]


def connect_readonly(path: Path) -> sqlite3.Connection:
    """Open without any lock or journal file, so that read-only folders work.

    Text that is not UTF-8 loses the offending bytes, as in the official evaluators.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such database file")
    uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "ignore")
    return connection


def read_schema(path: Path, db_id: str, sample_values: int = 0) -> Schema:
    """Tables, columns and keys of a SQLite file, in the order of their declaration.

    A foreign key whose target does not exist is left out: it could only mislead. With
    `sample_values` each column carries that many distinct values, the first ones found. Raises
    ValueError naming the file.
    """
    try:
        with closing(connect_readonly(path)) as connection:
            return _introspect(connection, db_id, sample_values, path)
    except sqlite3.Error as error:
        raise ValueError(f"{path}: cannot be read as a SQLite database: {error}") from error


def from_tables_json(entry: Mapping[str, Any]) -> Schema:
    """Schema of one `tables.json` entry (Spider, BIRD); the original names are used.

    Index 0 of the columns is `*`; an item of `primary_keys` is an index or a list of indices. The
    other names of columns become comments.
    """
    db_id = entry.get("db_id")
    if not isinstance(db_id, str):
        raise ValueError("tables.json: field db_id: missing or not text")
    try:
        names, columns, types = (
            entry[key] for key in ("table_names_original", "column_names_original", "column_types")
        )
        spoken = entry.get("column_names", columns)
        primary = set()
        for item in entry.get("primary_keys", []):
            primary.update(item if isinstance(item, list) else [item])
        tables = tuple(
            Table(
                name,
                tuple(
                    Column(column, types[i], i in primary, comment=comment_of(column, spoken[i][1]))
                    for i, (table, column) in enumerate(columns)
                    if table == t
                ),
            )
            for t, name in enumerate(names)
            if not _internal(name)
        )
        keys = tuple(
            ForeignKey(names[columns[a][0]], columns[a][1], names[columns[b][0]], columns[b][1])
            for a, b in entry.get("foreign_keys", [])
        )
    except KeyError as error:
        raise ValueError(f"tables.json: {db_id}: field {error.args[0]}: missing") from error
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"tables.json: {db_id}: malformed entry: {error}") from error
    return Schema(db_id, tables, keys)


def write_empty(schema: Schema, path: Path) -> None:
    """A SQLite database with these tables and no rows, to compile queries against.

    `path` must not exist. Raises ValueError naming table or column if SQLite does not take it.
    """
    if path.exists():
        raise ValueError(f"{path}: exists already")
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # Else it waits for the disk, table by table.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN")
        for table in schema.tables:
            items = [f"{sql_name(c.name)} {_sql_type(schema, table, c)}" for c in table.columns]
            if primary := [sql_name(column.name) for column in table.columns if column.primary]:
                items.append(f"PRIMARY KEY ({', '.join(primary)})")
            items += [
                f"FOREIGN KEY ({sql_name(key.column)}) REFERENCES {sql_name(key.to_table)} "
                f"({sql_name(key.to_column)})"
                for key in schema.foreign_keys
                if key.table == table.name
            ]
            try:
                connection.execute(f"CREATE TABLE {sql_name(table.name)} ({', '.join(items)})")
            except sqlite3.Error as error:
                raise ValueError(f"{schema.db_id}.{table.name}: {error}") from error
        connection.execute("COMMIT")


def from_ddl(db_id: str, text: str) -> Schema:
    """Schema of CREATE TABLE statements that blank lines part, as in SQL-R1's prompts of SynSQL.

    What stands in `/* */` after a column, which begins a line, is its comment. Raises ValueError
    naming the statement.
    """
    comments = {}
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in re.split(r"\n\s*\n", text.strip()):
            try:
                if not re.match(r"\s*CREATE\s+TABLE\b", statement, re.IGNORECASE):
                    raise ValueError("not a CREATE TABLE statement")
                connection.execute(statement)
            except (sqlite3.Error, ValueError) as error:
                start = " ".join(statement.split())[:60]
                raise ValueError(f"schema of {db_id}: {start} …: {error}") from error
            table = _CREATED.match(statement)
            for name, comment in _COMMENTED.findall(statement) if table else ():
                comments[table[1].lower(), name.lower()] = comment  # type: ignore[index]
        schema = _introspect(connection, db_id, 0, Path(f"schema of {db_id}"))
    return commented(schema, comments)


def commented(schema: Schema, comments: Mapping[tuple[str, str], str]) -> Schema:
    """The schema with further comments, by table and column in lower case."""

    def column(table: Table, found: Column) -> Column:
        comment = comments.get((table.name.lower(), found.name.lower()), "")
        return replace(found, comment=comment_of(found.name, comment) or found.comment)

    return each_column(schema, column)


def each_column(schema: Schema, change: Callable[[Table, Column], Column]) -> Schema:
    """The schema with every column changed."""
    tables = (
        replace(table, columns=tuple(change(table, column) for column in table.columns))
        for table in schema.tables
    )
    return replace(schema, tables=tuple(tables))


def comment_of(name: str, meaning: str) -> str:
    """A meaning on one line, '' if it only spells the name in another way."""

    def plain(text: str) -> str:
        return re.sub(r"[\W_]+", "", text).lower()

    return "" if plain(meaning) == plain(name) else " ".join(meaning.split())


def _introspect(
    connection: sqlite3.Connection, db_id: str, sample_values: int, path: Path
) -> Schema:
    names = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        )
        if not _internal(name)
    ]
    if not names:
        raise ValueError(f"{path}: the database has no tables")
    tables, primary_keys = [], {}
    for name in names:
        # cid, name, type, notnull, default, place in the primary key, hidden (1: of virtual tables)
        rows = connection.execute(f"PRAGMA table_xinfo({sql_name(name)})").fetchall()
        columns = tuple(
            Column(row[1], row[2], row[5] > 0, _values(connection, name, row[1], sample_values))
            for row in rows
            if row[6] != 1
        )
        tables.append(Table(name, columns))
        primary_keys[name] = [row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5] > 0]
    keys = tuple(
        key for table in tables for key in _foreign_keys(connection, table, tables, primary_keys)
    )
    return Schema(db_id, tuple(tables), keys)


def _foreign_keys(
    connection: sqlite3.Connection,
    table: Table,
    tables: list[Table],
    primary_keys: dict[str, list[str]],
) -> Iterator[ForeignKey]:
    by_name = {other.name.lower(): other for other in tables}
    # id, place in the key, to_table, column, to_column, …; SQLite lists the last declared key first
    rows = connection.execute(f"PRAGMA foreign_key_list({sql_name(table.name)})").fetchall()
    for _, place, to_table, column, to_column, *_ in sorted(rows, key=lambda r: (-r[0], r[1])):
        target = by_name.get(to_table.lower())
        if target is None:
            continue
        if to_column is None:  # `REFERENCES t` without columns means t's primary key
            to_column = dict(enumerate(primary_keys[target.name])).get(place)
        found = _column(target, to_column)
        if found is not None:
            source = _column(table, column) or column
            yield ForeignKey(table.name, source, target.name, found)


def _column(table: Table, name: str | None) -> str | None:
    """The column's name as declared; keys may spell it in another case."""
    wanted = name.lower() if name else None
    return next((c.name for c in table.columns if c.name.lower() == wanted), None)


def _values(connection: sqlite3.Connection, table: str, column: str, count: int) -> tuple[str, ...]:
    """The first distinct values in row order (no index, so no SQLite version orders them anew)."""
    if count == 0:
        return ()
    found: dict[str, None] = {}
    for (value,) in connection.execute(
        f"SELECT {sql_name(column)} FROM {sql_name(table)} NOT INDEXED LIMIT {_SCANNED_ROWS}"
    ):
        if value is None or isinstance(value, bytes):
            continue
        text = re.sub(r"[\r\n\t]+", " ", str(value))[:MAX_VALUE_CHARS]
        if text.strip():
            found.setdefault(text)
        if len(found) == count:
            break
    return tuple(found)


def _internal(name: str) -> bool:
    return name.lower().startswith("sqlite_")


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_type(schema: Schema, table: Table, column: Column) -> str:
    """The type as it is: it is no name and cannot be quoted."""
    if not _TYPE.fullmatch(column.type):
        raise ValueError(f"{schema.db_id}.{table.name}.{column.name}: {column.type!r} is no type")
    return column.type
