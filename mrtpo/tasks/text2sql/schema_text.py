"""A schema as the text that a prompt shows.

`ddl`, the manner of OmniSQL: one CREATE TABLE statement a table, made from the schema; after a
column what it means and examples of its values, the ones that the question mentions first:

    CREATE TABLE singer (
        singer_id INTEGER, -- example: [1, 2]
        nation TEXT, -- country of birth, example: ['France', 'Norway']
        PRIMARY KEY (singer_id)
    );

`compact`, one line a table, for small models; an arrow marks a foreign key where the column's name
does not tell:

    singer: singer_id name country
    concert: concert_id year singer_id headliner -> singer.singer_id
"""

from __future__ import annotations

import re

from mrtpo.tasks.text2sql.schema import Column, Schema, Table

MOST_VALUES = 6  # shown for a column, if not more are sampled
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
        return f"{text} {_examples(column)}".rstrip()

    return "\n".join(
        f"{quoted(table.name)}: {' '.join(describe(table, c) for c in table.columns)}"
        for table in schema.tables
    )


def _create_table(schema: Schema, table: Table) -> str:
    items = []
    for column in table.columns:
        notes = [column.comment] if column.comment else []
        notes += [f"example: {examples}"] if (examples := _examples(column)) else []
        items.append((f"{quoted(column.name)} {column.type}".strip(), ", ".join(notes)))
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
    """`['a', 'b']` for text, `[1, 2]` for numbers, so that a query compares with the right type.

    Values that the question mentions come first; '' if there are none.
    """
    textual = any(word in column.type.upper() for word in ("CHAR", "CLOB", "TEXT"))

    def literal(value: str) -> str:
        if not textual and _NUMBER.fullmatch(value):
            return value
        return "'" + value.replace("'", "''") + "'"

    most = max(MOST_VALUES, len(column.values))
    values = list(dict.fromkeys((*column.matched, *column.values)))[:most]
    return f"[{', '.join(map(literal, values))}]" if values else ""
