"""Questions of the embedded text-to-SQL data set, kept only where they can be taught from.

`make_questions` composes questions about one database and keeps those of which all of this holds:

- the level (`LEVELS`) is wanted: how many decisions the reference makes (`decisions`);
- the reference runs and returns rows, the same whichever way SQLite reads unordered tables, so
  there is one right result;
- where one decision is changed, the result changes in most cases (`SENSITIVITY`): a reward that
  cannot see a decision teaches nothing about it.

DISTINCT is no part of the references: neither official metric sees it.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mrtpo.tasks.text2sql.composing import KINDS, Composer
from mrtpo.tasks.text2sql.decisions import changed, decisions
from mrtpo.tasks.text2sql.lexemes import Names
from mrtpo.tasks.text2sql.synthetic import DatabaseSpec
from mrtpo.verifiers.sql_results import order_matters, spider_equal

LEVELS = {"easy": (3, 8), "medium": (9, 13), "hard": (14, 20)}  # decisions of the reference
SENSITIVITY = 0.85  # least share of changed decisions that must change the result
MOST_WORDS = 60
ATTEMPTS = 400  # draws for one question


@dataclass(frozen=True)
class Example:
    """One generated question. Of `changes` to single decisions, `seen` change the result."""

    db_id: str
    kind: str
    level: str
    question: str
    sql: str
    decisions: int
    changes: int
    seen: int


def names_of(spec: DatabaseSpec) -> Names:
    """All columns by table, keys among them."""
    return {
        t.name: [f"{t.name}_id", *t.columns, *(f"{parent}_id" for parent in t.parents)]
        for t in spec.tables.values()
    }


def make_questions(
    spec: DatabaseSpec, path: Path, count: int, seed: int, difficulty: str
) -> list[Example]:
    """At most `count` questions, levels and kinds in turn. `difficulty`: a level or mixed."""
    rng = random.Random(f"questions {seed} {spec.db_id}")
    names = names_of(spec)
    made: dict[str, Example] = {}
    levels = list(LEVELS) if difficulty == "mixed" else [difficulty]
    wanted = [(level, kind) for level in levels for kind in KINDS_OF[level]]
    rng.shuffle(wanted)
    with closing(_open(path)) as connection, closing(_open(path, backwards=True)) as other:
        composer = Composer(spec, connection, rng)
        for number in range(2 * count):
            if len(made) == count:
                break
            level, kind = wanted[number % len(wanted)]
            for _ in range(ATTEMPTS):
                found = composer.compose(kind)
                if found is None or found.words in made or not _is(level, found.sql, names):
                    continue
                if found.words.count(" ") >= MOST_WORDS:
                    continue
                example = _tried(
                    Example(spec.db_id, kind, level, found.words, found.sql, 0, 0, 0),
                    names, connection, other, rng,
                )  # fmt: skip
                if example is not None:
                    made[found.words] = example
                    break
    return list(made.values())


# Kinds that reach a level's number of decisions.
KINDS_OF: dict[str, Sequence[str]] = {
    "easy": ("aggregate", "filter", "order", "limit", "group", "nested"),
    "medium": ("filter", "order", "limit", "group", "join", "nested", "set"),
    "hard": ("filter", "limit", "group", "join", "nested", "set"),
}
assert set(KINDS) == {kind for kinds in KINDS_OF.values() for kind in kinds}


def _open(path: Path, backwards: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    if backwards:
        connection.execute("PRAGMA reverse_unordered_selects = ON")
    return connection


def _is(level: str, sql: str, names: Names) -> bool:
    least, most = LEVELS[level]
    return least <= len(decisions(sql, names)) <= most


def _tried(
    example: Example, names: Names, connection: sqlite3.Connection, other: sqlite3.Connection,
    rng: random.Random,
) -> Example | None:  # fmt: skip
    """The example with its counts, or None if there is fault with it."""
    sql = example.sql
    rows = connection.execute(sql).fetchall()
    ordered = order_matters(sql)
    if not rows or all(cell is None for row in rows for cell in row):
        return None
    if not spider_equal(rows, other.execute(sql).fetchall(), ordered):
        return None
    choices = decisions(sql, names)
    changes = [(decision, rng.choice(decision.alternatives)) for decision in choices]
    seen = sum(
        not spider_equal(rows, connection.execute(changed(sql, [change])).fetchall(), ordered)
        for change in changes
    )
    if seen < SENSITIVITY * len(changes):
        return None
    return Example(
        example.db_id, example.kind, example.level, example.question, sql,
        len(choices), len(changes), seen,
    )  # fmt: skip
