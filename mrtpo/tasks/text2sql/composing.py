"""Questions composed clause by clause, each said and written at the same time.

A question is of a kind, its hardest construct as `prepare.sql_kind` tells it: what is returned,
then the predicates, groups, order and limit that the kind calls for or allows. Everything that is
said is one clause's, so that a question has one reading.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from mrtpo.tasks.text2sql.catalogue import plural
from mrtpo.tasks.text2sql.synthetic import DatabaseSpec, TableSpec

KINDS = ("aggregate", "filter", "order", "limit", "group", "join", "nested", "set")
COMPARISONS = (
    (">", ("over", "above", "more than")),
    ("<", ("under", "below", "less than")),
    (">=", ("at least", "no less than")),
    ("<=", ("at most", "no more than")),
)
AGGREGATES = (("AVG", "average"), ("MAX", "highest"), ("MIN", "lowest"), ("SUM", "total"))
VERBS = ("show", "list", "give", "find")


@dataclass(frozen=True)
class Clause:
    """What is said and what is written."""

    words: str = ""
    sql: str = ""


class Composer:
    """Draws the clauses of questions about one database."""

    def __init__(
        self, spec: DatabaseSpec, connection: sqlite3.Connection, rng: random.Random
    ) -> None:
        self.spec, self.rng = spec, rng
        self.values = {
            column: [
                value
                for (value,) in connection.execute(
                    f"SELECT DISTINCT {column} FROM {table.name} "
                    f"WHERE {column} IS NOT NULL ORDER BY {column}"
                )
            ]
            for table in spec.tables.values()
            for column in table.columns
        }

    def compose(self, kind: str) -> Clause | None:
        """One question and its reference; None where the draw makes no sense."""
        made = {
            "aggregate": self._aggregates, "group": self._groups, "set": self._sets,
        }.get(kind, self._rows)(kind)  # fmt: skip
        if made is None:
            return None
        words = made.words
        return Clause(words[0].upper() + words[1:], made.sql)

    def _chance(self, chance: float) -> bool:
        return self.rng.random() < chance

    def _rows(self, kind: str) -> Clause | None:
        """Columns of rows: kinds filter, order, limit, join and nested."""
        tables = self._joined() if kind == "join" else [self._table()]
        source = self._source(tables)
        if kind == "nested" and self._chance(0.25):
            tables = self._joined()
            source = self._source(tables)
        if kind == "join" and self._chance(0.35):
            return self._groups(kind)
        columns = self._columns(tables, self.rng.choice((1, 2, 2, 3)))
        wanted = kind in ("filter", "nested") or self._chance(0.6)
        nested = self._nested(tables[0]) if kind == "nested" else None
        if kind == "nested" and nested is None:
            return None
        where = self._where(tables, nested) if wanted else Clause()
        ordered = kind in ("order", "limit") or (kind in ("join", "nested") and self._chance(0.45))
        limited = kind == "limit" or (kind in ("join", "nested") and ordered and self._chance(0.4))
        order = self._order(self._full(tables), limited) if ordered else Clause()
        return Clause(
            f"{self.rng.choice(VERBS)} the {_said(columns)} of {source.words}"
            f"{where.words}{order.words}",
            f"SELECT {', '.join(columns)} FROM {source.sql}{where.sql}{order.sql}",
        )

    def _aggregates(self, _: str) -> Clause:
        table = self._table()
        made = self._measures([table], self.rng.choice((1, 2, 2, 3)))
        words = _and([measure.words for measure in made])
        return Clause(
            f"{self.rng.choice(VERBS)} the {words} of {plural(table.name)}",
            f"SELECT {', '.join(measure.sql for measure in made)} FROM {table.name}",
        )

    def _groups(self, kind: str) -> Clause | None:
        tables = self._joined() if kind == "join" else [self._table()]
        source = self._source(tables)
        keys = [c for c in self._full(tables) if len(self.values[c]) <= 12]
        if not keys:
            return None
        key = self.rng.choice(keys)
        measures = self._measures(tables, self.rng.choice((1, 1, 2)), without=key)
        where = self._where(tables) if self._chance(0.4) else Clause()
        having = order = Clause()
        if self._chance(0.4):
            bound = self.rng.randint(2, 4)
            operator, phrases = self.rng.choice(COMPARISONS)
            phrase = self.rng.choice(phrases)
            having = Clause(
                f", only for groups of {phrase} {bound}", f" HAVING COUNT(*) {operator} {bound}"
            )
        if kind == "group" and self._chance(0.4):
            by = self.rng.choice((Clause(_say(key), key), *measures))
            order = self._ordered([by])
        return Clause(
            f"for each {_say(key)} of {source.words}{where.words}, {self.rng.choice(VERBS)} the "
            f"{_and([measure.words for measure in measures])}{having.words}{order.words}",
            f"SELECT {', '.join([key, *(measure.sql for measure in measures)])} "
            f"FROM {source.sql}{where.sql} GROUP BY {key}{having.sql}{order.sql}",
        )

    def _sets(self, _: str) -> Clause:
        table = self._table()
        columns = self._columns([table], self.rng.choice((1, 1, 2)))
        first, second = self._where([table]), self._where([table])
        word, phrase = self.rng.choice(
            (("UNION", "together with"), ("INTERSECT", "as far as they are also those of"),
             ("EXCEPT", "leaving out those of"))
        )  # fmt: skip
        order = (
            self._ordered([_column(self.rng.choice(columns))]) if self._chance(0.3) else Clause()
        )
        names = plural(table.name)
        return Clause(
            f"{self.rng.choice(VERBS)} the {_said(columns)} of {names}{first.words}, "
            f"{phrase} {names}{second.words}{order.words}",
            f"SELECT {', '.join(columns)} FROM {table.name}{first.sql} {word} "
            f"SELECT {', '.join(columns)} FROM {table.name}{second.sql}{order.sql}",
        )

    def _table(self) -> TableSpec:
        return self.rng.choice(list(self.spec.tables.values()))

    def _joined(self) -> list[TableSpec]:
        """A child, its parent and at times a parent of either."""
        child, parent = self.rng.choice(self.spec.links())
        more = [p for c, p in self.spec.links() if c in (child, parent) and p is not parent]
        return [child, parent, *(more[:1] if self._chance(0.25) else [])]

    def _source(self, tables: Sequence[TableSpec]) -> Clause:
        first, *others = tables
        words, sql = plural(first.name), first.name
        for n, parent in enumerate(others):
            child = next(t for t in tables if parent.name in t.parents)
            key = f"{parent.name}_id"
            sql += f" JOIN {parent.name} ON {child.name}.{key} = {parent.name}.{key}"
            whose = "its" if n and child is not first else "their"
            words += f" {'and' if n else 'with'} {whose} {parent.name}"
        return Clause(words, sql)

    def _full(self, tables: Sequence[TableSpec]) -> list[str]:
        return [column for table in tables for column in table.full]

    def _columns(self, tables: Sequence[TableSpec], count: int) -> list[str]:
        """Columns to return, of every table where there are several."""
        of_each = [self.rng.choice(list(table.columns)) for table in tables]
        others = [c for t in tables for c in t.columns if c not in of_each]
        more = self.rng.sample(others, max(0, min(len(others), count - len(of_each))))
        chosen = [*of_each, *more]
        self.rng.shuffle(chosen)
        return chosen

    def _numbers(self, tables: Sequence[TableSpec]) -> list[str]:
        return [c for t in tables for c, pool in t.columns.items() if pool.numeric and c in t.full]

    def _measures(self, tables: Sequence[TableSpec], count: int, without: str = "") -> list[Clause]:
        """What is computed of rows or groups."""
        pairs = [
            (function, column)
            for column in self._numbers(tables)
            if column != without
            for function in AGGREGATES
        ]
        chosen = self.rng.sample(pairs, min(count, len(pairs)))
        made = [
            Clause(f"{word} {_say(column)}", f"{function}({column})")
            for (function, word), column in chosen
        ]
        if self._chance(0.3):
            made[self.rng.randrange(len(made))] = Clause("number of rows", "COUNT(*)")
        return made

    def _where(self, tables: Sequence[TableSpec], first: Clause | None = None) -> Clause:
        """One to three predicates; two may be alternatives."""
        count = self.rng.choice((1, 1, 2, 2, 3))
        columns = [c for table in tables for c in table.columns]
        made = [self._predicate(c) for c in self.rng.sample(columns, min(count, len(columns)))]
        if first is not None:
            made = [first, *made[1:]]
        joiner = "or" if len(made) == 2 and self._chance(0.35) else "and"
        lead = self.rng.choice(("whose", "where"))
        return Clause(
            f" {lead} {f' {joiner} '.join(clause.words for clause in made)}",
            f" WHERE {f' {joiner.upper()} '.join(clause.sql for clause in made)}",
        )

    def _predicate(self, column: str) -> Clause:
        """A condition on values that the column holds."""
        rng, said = self.rng, _say(column)
        values = self.values[column]
        table = next(t for t in self.spec.tables.values() if column in t.columns)
        if column == table.nullable and self._chance(0.4):
            known = self._chance(0.5)
            return Clause(
                f"{said} is {'known' if known else 'missing'}",
                f"{column} IS {'NOT ' if known else ''}NULL",
            )
        some = sorted(rng.sample(values, min(len(values), 2)))
        form = rng.random()
        if table.columns[column].numeric:
            if form < 0.6:
                operator, phrases = rng.choice(COMPARISONS)
                return Clause(
                    f"{said} is {rng.choice(phrases)} {some[0]}", f"{column} {operator} {some[0]}"
                )
            if form < 0.8 and len(some) == 2:
                return Clause(
                    f"{said} is between {some[0]} and {some[1]}",
                    f"{column} BETWEEN {some[0]} AND {some[1]}",
                )
        elif form < 0.2:
            letter = str(some[0])[0]
            return Clause(f"{said} starts with '{letter}'", f"{column} LIKE '{letter}%'")
        shown = [str(value) if isinstance(value, int) else f"'{value}'" for value in some]
        if form > 0.8 and len(some) == 2:
            both = ", ".join(shown)
            return Clause(f"{said} is one of ({both})", f"{column} IN ({both})")
        if form > 0.7:
            return Clause(f"{said} is not {shown[0]}", f"{column} != {shown[0]}")
        return Clause(f"{said} is {shown[0]}", f"{column} = {shown[0]}")

    def _nested(self, table: TableSpec) -> Clause | None:
        """A condition that compares with an aggregate, or asks for rows of another table."""
        children = [c for c, p in self.spec.links() if p is table]
        if children and self._chance(0.5):
            child = self.rng.choice(children)
            key = f"{table.name}_id"
            inner = self._where([child]) if self._chance(0.6) else Clause()
            negated = self._chance(0.5)
            return Clause(
                f"{table.name} has {'no' if negated else 'a'} {child.name}"
                f"{inner.words.replace(' and ', ' and also ')}",
                f"{table.name}.{key} {'NOT ' if negated else ''}IN "
                f"(SELECT {key} FROM {child.name}{inner.sql})",
            )
        column = self.rng.choice(self._numbers([table]))
        operator, said, function, word = self.rng.choice(
            ((">", "above", "AVG", "average"), ("<", "below", "AVG", "average"),
             ("=", "equal to", "MAX", "highest"), ("=", "equal to", "MIN", "lowest"))
        )  # fmt: skip
        return Clause(
            f"{_say(column)} is {said} the {word} {_say(column)}",
            f"{column} {operator} (SELECT {function}({column}) FROM {table.name})",
        )

    def _order(self, columns: Sequence[str], limited: bool) -> Clause:
        chosen = self.rng.sample(columns, min(len(columns), self.rng.choice((1, 1, 2))))
        order = self._ordered([_column(c) for c in chosen])
        if not limited:
            return order
        count = self.rng.randint(1, 6)
        phrase = self.rng.choice(("only the first", "just the top", "at most the first"))
        return Clause(f"{order.words}, {phrase} {count}", f"{order.sql} LIMIT {count}")

    def _ordered(self, keys: Sequence[Clause]) -> Clause:
        words, sql = [], []
        for key in keys:
            down = self._chance(0.5)
            direction = self.rng.choice(
                ("descending", "decreasing") if down else ("ascending", "increasing")
            )
            words.append(f"{direction} {key.words}")
            sql.append(f"{key.sql}{' DESC' if down else ''}")
        lead = self.rng.choice(("sorted by", "ordered by", "in order of"))
        return Clause(f", {lead} {' then '.join(words)}", f" ORDER BY {', '.join(sql)}")


def _say(column: str) -> str:
    return column.replace("_", " ")


def _column(column: str) -> Clause:
    return Clause(_say(column), column)


def _said(columns: Sequence[str]) -> str:
    return _and([_say(column) for column in columns])


def _and(words: Sequence[str]) -> str:
    *head, last = words
    return f"{', '.join(head)} and {last}" if head else last
