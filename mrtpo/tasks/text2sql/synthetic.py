"""The embedded text-to-SQL data set: SQLite databases and questions with reference SQL.

`make_databases` composes each database from a theme of the catalogue: three linked tables with a
random choice of columns and filled from seeded pools. `make_questions` asks questions of eight
kinds (`KINDS`) about one database. A question is kept only if its reference SQL returns rows. The
same seed gives the same bytes.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mrtpo.tasks.text2sql.catalogue import LINKS, POOLS, THEMES, Pool, plural

KINDS = ("select", "filter", "aggregate", "group", "order", "limit", "join", "nested")
DIFFICULTY = {
    "select": "easy", "filter": "easy", "aggregate": "easy", "order": "medium", "limit": "medium",
    "group": "medium", "join": "hard", "nested": "hard",
}  # fmt: skip
COMPARISONS = (
    (">", ("more than", "over", "above")),
    ("<", ("less than", "under", "below")),
    (">=", ("at least", "no less than")),
    ("<=", ("at most", "no more than")),
)
AGGREGATES = (("AVG", "average"), ("MAX", "highest"), ("MIN", "lowest"), ("SUM", "total"))


@dataclass(frozen=True)
class TableSpec:
    """A table to create: `columns` maps column name to its pool, the first names the row."""

    name: str
    columns: dict[str, Pool]
    parents: tuple[str, ...]

    @property
    def label(self) -> str:
        return next(iter(self.columns))

    def of(self, numeric: bool) -> list[str]:
        """Columns with numbers, or with words other than the label."""
        return [c for c, p in self.columns.items() if p.numeric == numeric and c != self.label]


@dataclass(frozen=True)
class DatabaseSpec:
    db_id: str
    tables: dict[str, TableSpec]

    def links(self) -> list[tuple[TableSpec, TableSpec]]:
        return [(t, self.tables[p]) for t in self.tables.values() for p in t.parents]


@dataclass(frozen=True)
class Example:
    """One generated question."""

    db_id: str
    kind: str
    question: str
    sql: str


def make_databases(count: int, seed: int) -> list[DatabaseSpec]:
    """`count` specifications, distinct in their tables or columns, themes taken in turn."""
    rng = random.Random(f"databases {seed}")
    themes = list(THEMES)
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
    tables = {}
    for name in sorted(chosen):
        declared = [entry.split("=") for entry in THEMES[theme][name].split()]
        label, rest = declared[0], declared[1:]
        rng.shuffle(rest)
        rest = rest[: rng.randint(3, 4)]
        if not any(POOLS[pool].numeric for _, pool in rest):
            rest[0] = next(e for e in declared[1:] if POOLS[e[1]].numeric)
        title = f"{name}_{label[0]}" if rng.random() < 0.3 else label[0]
        columns = {title: POOLS[label[1]]} | {column: POOLS[pool] for column, pool in rest}
        parents = tuple(p for c, p in links if c == name and p in chosen)
        tables[name] = TableSpec(name, columns, parents)
    return tables


def write_database(spec: DatabaseSpec, path: Path, seed: int) -> None:
    """Create and fill the SQLite file: 16 to 24 rows in each table."""
    rng = random.Random(f"rows {seed} {spec.db_id}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    sizes = {name: rng.randint(16, 24) for name in spec.tables}
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
                row += [_value(pool, rng) for pool in list(table.columns.values())[1:]]
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
    return rng.randrange(pool.low, pool.high + 1, 5 if pool.high > 300 and pool.high < 1000 else 1)


def make_questions(spec: DatabaseSpec, path: Path, count: int, seed: int) -> list[Example]:
    """Up to `count` distinct questions, kinds in turn, each with a reference that returns rows."""
    rng = random.Random(f"questions {seed} {spec.db_id}")
    made: dict[str, Example] = {}
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        streams = {kind: _ask(kind, spec, connection, rng) for kind in KINDS}
        for attempt in range(count * 6):
            if len(made) >= count:
                break
            kind = KINDS[attempt % len(KINDS)]
            found = next(streams[kind], None)
            if found is None:
                continue
            question, sql = found
            if question not in made and connection.execute(sql).fetchone():
                made[question] = Example(spec.db_id, kind, question, sql)
    connection.close()
    return list(made.values())


def _ask(
    kind: str, spec: DatabaseSpec, connection: sqlite3.Connection, rng: random.Random
) -> Iterator[tuple[str, str]]:
    makers = {
        "select": _select, "filter": _filter, "aggregate": _aggregate, "group": _group,
        "order": _order, "limit": _limit, "join": _join, "nested": _nested,
    }  # fmt: skip
    while True:
        table = rng.choice(list(spec.tables.values()))
        made = makers[kind](table, spec, connection, rng)
        if made:
            question, sql = made
            yield question[0].upper() + question[1:], sql


Maker = tuple[str, str] | None


def _say(column: str) -> str:
    return column.replace("_", " ")


def _columns(table: TableSpec, rng: random.Random, most: int = 2) -> list[str]:
    others = rng.sample(list(table.columns)[1:], rng.randint(0, most - 1))
    return [table.label, *others] if rng.random() < 0.7 or not others else others


def _listed(columns: list[str]) -> str:
    return " and ".join(_say(column) for column in columns)


def _condition(
    table: TableSpec, connection: sqlite3.Connection, rng: random.Random, prefix: str = ""
) -> tuple[str, str]:
    """A predicate as words and as SQL, with a value that the table holds."""
    numbers, words = table.of(numeric=True), table.of(numeric=False)
    column = rng.choice(words if words and rng.random() < 0.4 else numbers)
    values = [v for (v,) in connection.execute(f"SELECT DISTINCT {column} FROM {table.name}")]
    value = rng.choice(sorted(values))
    if not table.columns[column].numeric:
        return f"{_say(column)} {value}", f"{prefix}{column} = '{value}'"
    operator, phrases = rng.choice(COMPARISONS)
    return f"{_say(column)} {rng.choice(phrases)} {value}", f"{prefix}{column} {operator} {value}"


def _select(table: TableSpec, _: object, __: object, rng: random.Random) -> Maker:
    columns = _columns(table, rng, 3)
    start = rng.choice(("list the", "show the", "what are the"))
    if rng.random() < 0.3 and table.of(numeric=False):
        column = rng.choice(table.of(numeric=False))
        return (
            f"{start} different {_say(column)} of {plural(table.name)}",
            f"SELECT DISTINCT {column} FROM {table.name}",
        )
    return (
        f"{start} {_listed(columns)} of all {plural(table.name)}",
        f"SELECT {', '.join(columns)} FROM {table.name}",
    )


def _filter(
    table: TableSpec, _: object, connection: sqlite3.Connection, rng: random.Random
) -> Maker:
    columns = _columns(table, rng)
    words, sql = _condition(table, connection, rng)
    if rng.random() < 0.4:
        more_words, more_sql = _condition(table, connection, rng)
        if more_sql.split()[0] == sql.split()[0]:
            return None
        joiner = rng.choice(("and", "or"))
        words, sql = f"{words} {joiner} {more_words}", f"{sql} {joiner.upper()} {more_sql}"
    start = rng.choice(("list the", "show the", "what is the"))
    return (
        f"{start} {_listed(columns)} of {plural(table.name)} with {words}",
        f"SELECT {', '.join(columns)} FROM {table.name} WHERE {sql}",
    )


def _aggregate(
    table: TableSpec, _: object, connection: sqlite3.Connection, rng: random.Random
) -> Maker:
    words, sql = _condition(table, connection, rng)
    suffix = (f" with {words}", f" WHERE {sql}") if rng.random() < 0.6 else ("", "")
    if rng.random() < 0.35:
        return (
            f"how many {plural(table.name)} are there{suffix[0]}",
            f"SELECT COUNT(*) FROM {table.name}{suffix[1]}",
        )
    function, word = rng.choice(AGGREGATES)
    column = rng.choice(table.of(numeric=True))
    return (
        f"what is the {word} {_say(column)} of {plural(table.name)}{suffix[0]}",
        f"SELECT {function}({column}) FROM {table.name}{suffix[1]}",
    )


def _group(table: TableSpec, _: object, __: object, rng: random.Random) -> Maker:
    keys = table.of(numeric=False)
    if not keys:
        return None
    key = rng.choice(keys)
    if rng.random() < 0.5:
        words, value = f"how many {plural(table.name)} are there", "COUNT(*)"
    else:
        function, word = rng.choice(AGGREGATES)
        column = rng.choice(table.of(numeric=True))
        words = f"what is the {word} {_say(column)} of {plural(table.name)}"
        value = f"{function}({column})"
    sql = f"SELECT {key}, {value} FROM {table.name} GROUP BY {key}"
    if rng.random() < 0.3:
        bound = rng.randint(2, 4)
        return (
            f"which {_say(key)} has at least {bound} {plural(table.name)}",
            f"SELECT {key} FROM {table.name} GROUP BY {key} HAVING COUNT(*) >= {bound}",
        )
    return f"{words} for each {_say(key)}", sql


def _order(
    table: TableSpec, _: object, connection: sqlite3.Connection, rng: random.Random
) -> Maker:
    columns = _columns(table, rng)
    by = rng.choice(table.of(numeric=True))
    down = rng.random() < 0.5
    direction = rng.choice(("descending", "decreasing") if down else ("ascending", "increasing"))
    words, where = "", ""
    if rng.random() < 0.4:
        words, where = _condition(table, connection, rng)
        words, where = f" with {words}", f" WHERE {where}"
    return (
        f"list the {_listed(columns)} of {plural(table.name)}{words} "
        f"in {direction} order of {_say(by)}",
        f"SELECT {', '.join(columns)} FROM {table.name}{where} "
        f"ORDER BY {by}{' DESC' if down else ''}",
    )


def _limit(
    table: TableSpec, _: object, connection: sqlite3.Connection, rng: random.Random
) -> Maker:
    columns = _columns(table, rng)
    by = rng.choice(table.of(numeric=True))
    down = rng.random() < 0.5
    count = rng.randint(1, 5)
    ranked = rng.choice(("highest", "largest") if down else ("lowest", "smallest"))
    sql = (
        f"SELECT {', '.join(columns)} FROM {table.name} "
        f"ORDER BY {by}{' DESC' if down else ''} LIMIT {count}"
    )
    # A tie at the cut would make the answer a matter of luck.
    ordered = [
        v for (v,) in connection.execute(
            f"SELECT {by} FROM {table.name} ORDER BY {by}{' DESC' if down else ''}"
        )
    ]  # fmt: skip
    if len(ordered) <= count or len(set(ordered[: count + 1])) <= count:
        return None
    rows = f"{count} {plural(table.name)}" if count > 1 else table.name
    return (
        f"show the {_listed(columns)} of the {rows} with the {ranked} {_say(by)}",
        sql,
    )


def _join(
    _: TableSpec, spec: DatabaseSpec, connection: sqlite3.Connection, rng: random.Random
) -> Maker:
    child, parent = rng.choice(spec.links())
    key = f"{parent.name}_id"
    on = f"{child.name} JOIN {parent.name} ON {child.name}.{key} = {parent.name}.{key}"
    form = rng.random()
    if form < 0.4:
        words, where = _condition(parent, connection, rng, f"{parent.name}.")
        column = rng.choice(list(child.columns))
        return (
            f"list the {_say(column)} of {plural(child.name)} whose {parent.name} has {words}",
            f"SELECT {child.name}.{column} FROM {on} WHERE {where}",
        )
    if form < 0.75:
        mine, theirs = rng.choice(list(child.columns)), rng.choice(list(parent.columns))
        return (
            f"for each {child.name} show its {_say(mine)} and the {_say(theirs)} "
            f"of its {parent.name}",
            f"SELECT {child.name}.{mine}, {parent.name}.{theirs} FROM {on}",
        )
    return (
        f"how many {plural(child.name)} does each {parent.name} have, by {_say(parent.label)}",
        f"SELECT {parent.name}.{parent.label}, COUNT(*) FROM {on} "
        f"GROUP BY {parent.name}.{parent.label}",
    )


def _nested(
    table: TableSpec, spec: DatabaseSpec, __: sqlite3.Connection, rng: random.Random
) -> Maker:
    if rng.random() < 0.5:
        column = rng.choice(table.of(numeric=True))
        operator, word = rng.choice(((">", "above"), ("<", "below")))
        columns = _columns(table, rng)
        return (
            f"show the {_listed(columns)} of {plural(table.name)} "
            f"whose {_say(column)} is {word} the average",
            f"SELECT {', '.join(columns)} FROM {table.name} WHERE {column} {operator} "
            f"(SELECT AVG({column}) FROM {table.name})",
        )
    child, parent = rng.choice(spec.links())
    column = rng.choice(list(parent.columns))
    negated = rng.random() < 0.6
    return (
        f"show the {_say(column)} of {plural(parent.name)} that have "
        f"{'no' if negated else 'at least one'} {child.name}",
        f"SELECT {column} FROM {parent.name} WHERE {'NOT ' if negated else ''}{parent.name}_id IN "
        f"(SELECT {parent.name}_id FROM {child.name})",
    )
