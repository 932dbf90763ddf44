"""The databases of the embedded text-to-SQL data set.

`make_databases` composes each from a theme of the catalogue: three linked tables with a random
choice of columns, filled from seeded pools. A column's name says whose it is: one that two tables
would share is called after its table. The same seed gives the same bytes. `questions` asks about
them.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from mrtpo.tasks.text2sql.catalogue import LINKS, POOLS, THEMES, Pool

NULLS = 0.2  # share of missing values in a column that may have them


@dataclass(frozen=True)
class TableSpec:
    """A table to create: `columns` maps column name to its pool, the first names the row; one of
    them may lack values (`nullable`). The keys of `parents` come behind them."""

    name: str
    columns: dict[str, Pool]
    parents: tuple[str, ...]
    nullable: str | None = None

    @property
    def label(self) -> str:
        return next(iter(self.columns))

    @property
    def full(self) -> list[str]:
        """Columns without missing values."""
        return [column for column in self.columns if column != self.nullable]


@dataclass(frozen=True)
class DatabaseSpec:
    db_id: str
    tables: dict[str, TableSpec]

    def links(self) -> list[tuple[TableSpec, TableSpec]]:
        return [(t, self.tables[p]) for t in self.tables.values() for p in t.parents]


def make_databases(count: int, seed: int, themes_used: int) -> list[DatabaseSpec]:
    """`count` specifications, distinct in their tables or columns, from the catalogue's first
    `themes_used` themes in turn."""
    rng = random.Random(f"databases {seed}")
    themes = list(THEMES)[:themes_used]
    made: list[DatabaseSpec] = []
    seen: set[str] = set()
    while len(made) < count:
        theme = themes[len(made) % len(themes)]
        tables = _choose_tables(theme, rng)
        shape = repr({name: list(spec.columns) for name, spec in tables.items()})
        if shape not in seen:
            seen.add(shape)
            made.append(DatabaseSpec(f"{theme}_{len(made) // len(themes) + 1}", tables))
    return made


def _choose_tables(theme: str, rng: random.Random) -> dict[str, TableSpec]:
    links = [tuple(link.split(">")) for link in LINKS[theme].split()]
    chosen = list(rng.choice(links))
    while len(chosen) < 3:
        extra = rng.choice([pair for pair in links if len(set(pair) & set(chosen)) == 1])
        chosen += [name for name in extra if name not in chosen]
    drawn = {name: _choose_columns(theme, name, rng) for name in sorted(chosen)}
    uses = Counter(column for columns in drawn.values() for column in columns)
    tables = {}
    for name, pools in drawn.items():
        columns = {c if uses[c] == 1 else f"{name}_{c}": POOLS[pool] for c, pool in pools.items()}
        parents = tuple(p for c, p in links if c == name and p in chosen)
        # Two columns of numbers stay whole.
        *_, last = columns
        nullable = last if len(columns) > 3 and rng.random() < 0.5 else None
        tables[name] = TableSpec(name, columns, parents, nullable)
    return tables


def _choose_columns(theme: str, table: str, rng: random.Random) -> dict[str, str]:
    """Pools by column: the label, then three or four others, among them two of numbers first."""
    label, *rest = [entry.split("=") for entry in THEMES[theme][table].split()]
    rng.shuffle(rest)
    numbers = [entry for entry in rest if POOLS[entry[1]].numeric][:2]
    others = [entry for entry in rest if entry not in numbers][: rng.randint(1, 2)]
    return {column: pool for column, pool in (label, *numbers, *others)}


def write_database(spec: DatabaseSpec, path: Path, seed: int) -> None:
    """Create and fill the SQLite file: 24 to 36 rows in each table."""
    rng = random.Random(f"rows {seed} {spec.db_id}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    sizes = {name: rng.randint(24, 36) for name in spec.tables}
    with sqlite3.connect(path) as connection:
        for table in _parents_first(spec):
            definitions = [f"{table.name}_id INTEGER PRIMARY KEY"]
            definitions += [
                f"{column} {'INTEGER' if pool.numeric else 'TEXT'}"
                for column, pool in table.columns.items()
            ]
            definitions += [f"{parent}_id INTEGER" for parent in table.parents]
            definitions += [
                f"FOREIGN KEY ({parent}_id) REFERENCES {parent}({parent}_id)"
                for parent in table.parents
            ]
            connection.execute(f"CREATE TABLE {table.name} ({', '.join(definitions)})")
            labels = list(table.columns[table.label].words)
            rng.shuffle(labels)
            for key in range(1, sizes[table.name] + 1):
                row: list[object] = [key, labels[key % len(labels)]]
                row += [
                    None if column == table.nullable and rng.random() < NULLS else _value(pool, rng)
                    for column, pool in list(table.columns.items())[1:]
                ]
                # Some parents stay childless, so that "has no …" has an answer.
                row += [rng.randint(1, max(2, sizes[p] * 2 // 3)) for p in table.parents]
                marks = ",".join("?" * len(row))
                connection.execute(f"INSERT INTO {table.name} VALUES ({marks})", row)
    connection.close()


def _parents_first(spec: DatabaseSpec) -> list[TableSpec]:
    placed: list[TableSpec] = []
    waiting = list(spec.tables.values())
    while waiting:
        names = {table.name for table in placed}
        ready = [table for table in waiting if set(table.parents) <= names]
        placed += ready
        waiting = [table for table in waiting if table not in ready]
    return placed


def _value(pool: Pool, rng: random.Random) -> object:
    if not pool.numeric:
        return rng.choice(pool.words)
    return rng.randrange(pool.low, pool.high + 1, pool.step)
