"""What a database looks like, read from the file itself or from a `tables.json`, and as text.

The file is the truth where there is one: `tables.json` of the public sets lists tables that do not
exist (`sqlite_sequence`) and leaves out what users changed. Two renderings: `ddl`, one CREATE TABLE
statement a table with example values in comments (the manner of OmniSQL), and `compact`, one line a
table for small models:

    singer: singer_id name country
    concert: concert_id year singer_id headliner -> singer.singer_id

An arrow marks a foreign key where the column's name does not tell.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

MAX_VALUE_CHARS = 40
_SCANNED_ROWS = 10_000  # example values come from the first rows, so that huge tables stay cheap
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"[A-Za-z0-9_ ]*(\([0-9]+(, ?[0-9]+)?\))?")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
# Words that SQLite 3.40 does not take as a bare table or column name everywhere, and the join
# words, which it takes only in some places.
RESERVED = frozenset(
    """
    ADD ALL ALTER AND AS AUTOINCREMENT BETWEEN CASE CAST CHECK COLLATE COMMIT CONSTRAINT CREATE
    CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DEFAULT DEFERRABLE DELETE DISTINCT DROP ELSE
    ESCAPE EXCEPT EXISTS FALSE FOREIGN FROM FULL GROUP HAVING IF IN INDEX INNER INSERT INTERSECT
    INTO IS ISNULL JOIN LEFT LIMIT NATURAL NOT NOTHING NOTNULL NULL ON OR ORDER OUTER PRIMARY RAISE
    REFERENCES RETURNING RIGHT SELECT SET TABLE THEN TO TRANSACTION TRUE UNION UNIQUE UPDATE USING
    VALUES WHEN WHERE WINDOW WITH
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Column:
    """`type` as declared, possibly empty; `values` are a few examples, already cut."""

    name: str
    type: str
    primary: bool = False
    values: tuple[str, ...] = ()


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

    Index 0 of the columns is `*`; an item of `primary_keys` is an index or a list of indices.
    """
    db_id = entry.get("db_id")
    if not isinstance(db_id, str):
        raise ValueError("tables.json: field db_id: missing or not text")
    try:
        names, columns, types = (
            entry[key] for key in ("table_names_original", "column_names_original", "column_types")
        )
        primary = set()
        for item in entry.get("primary_keys", []):
            primary.update(item if isinstance(item, list) else [item])
        tables = tuple(
            Table(
                name,
                tuple(
                    Column(column, types[i], i in primary)
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
    for table in schema.tables:
        for column in table.columns:
            if not _TYPE.fullmatch(column.type):  # it is no name and cannot be quoted
                raise ValueError(
                    f"{schema.db_id}.{table.name}.{column.name}: {column.type!r} is no type"
                )
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # Else it waits for the disk, table by table.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN")
        for table in schema.tables:
            try:
                connection.execute(_create_table(schema, table).removesuffix(";"))
            except sqlite3.Error as error:
                raise ValueError(f"{schema.db_id}.{table.name}: {error}") from error
        connection.execute("COMMIT")


def quoted(name: str) -> str:
    """A name as SQL needs it: in back-ticks only where it is reserved or not a plain word."""
    if _PLAIN.fullmatch(name) and name.upper() not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def ddl(schema: Schema) -> str:
    """CREATE TABLE statements, parted by blank lines."""
    return "\n\n".join(_create_table(schema, table) for table in schema.tables)


def compact(schema: Schema) -> str:
    """One line a table; see the top of this module."""
    targets: dict[tuple[str, str], str] = {}
    for key in schema.foreign_keys:
        if key.column != key.to_column:
            target = f"{quoted(key.to_table)}.{quoted(key.to_column)}"
            targets.setdefault((key.table, key.column), target)

    def describe(table: Table, column: Column) -> str:
        text = quoted(column.name)
        if (table.name, column.name) in targets:
            text += f" -> {targets[table.name, column.name]}"
        return text + (f" {_examples(column)}" if column.values else "")

    return "\n".join(
        f"{quoted(table.name)}: {' '.join(describe(table, c) for c in table.columns)}"
        for table in schema.tables
    )


def identifiers(schema: Schema) -> list[str]:
    """Names of tables and of `table.column`, unquoted, in order."""
    return [
        name
        for table in schema.tables
        for name in (table.name, *(f"{table.name}.{column.name}" for column in table.columns))
    ]


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
        rows = connection.execute(f"PRAGMA table_xinfo({_sql_name(name)})").fetchall()
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
    rows = connection.execute(f"PRAGMA foreign_key_list({_sql_name(table.name)})").fetchall()
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
        f"SELECT {_sql_name(column)} FROM {_sql_name(table)} NOT INDEXED LIMIT {_SCANNED_ROWS}"
    ):
        if value is None or isinstance(value, bytes):
            continue
        text = re.sub(r"[\r\n\t]+", " ", str(value))[:MAX_VALUE_CHARS]
        if text.strip():
            found.setdefault(text)
        if len(found) == count:
            break
    return tuple(found)


def _create_table(schema: Schema, table: Table) -> str:
    items = []
    for column in table.columns:
        note = f"example: {_examples(column)}" if column.values else ""
        items.append((f"{quoted(column.name)} {column.type}".strip(), note))
    if primary := [quoted(column.name) for column in table.columns if column.primary]:
        items.append((f"PRIMARY KEY ({', '.join(primary)})", ""))
    for key in schema.foreign_keys:
        if key.table == table.name:
            name = quoted(f"fk_{key.table}_{key.column}".lower().replace(" ", "_"))
            items.append(
                (
                    f"CONSTRAINT {name} FOREIGN KEY ({quoted(key.column)}) "
                    f"REFERENCES {quoted(key.to_table)} ({quoted(key.to_column)})",
                    "",
                )
            )
    lines = [
        f"    {text}{',' if i < len(items) else ''}{f' -- {note}' if note else ''}"
        for i, (text, note) in enumerate(items, start=1)
    ]
    return f"CREATE TABLE {quoted(table.name)} (\n" + "\n".join(lines) + "\n);"


def _examples(column: Column) -> str:
    """`['a', 'b']` for text, `[1, 2]` for numbers, so that a query compares with the right type."""
    textual = any(word in column.type.upper() for word in ("CHAR", "CLOB", "TEXT"))

    def literal(value: str) -> str:
        if not textual and _NUMBER.fullmatch(value):
            return value
        return "'" + value.replace("'", "''") + "'"

    return f"[{', '.join(map(literal, column.values))}]"


def _internal(name: str) -> bool:
    return name.lower().startswith("sqlite_")


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
