"""Values of a database that a question mentions.

OmniSQL (arXiv:2503.02240) retrieves values by BM25 and keeps those alike enough to some part of the
question; here a word in common takes the place of BM25. Likeness of two texts is difflib's ratio,
2·matching characters / all characters, in lower case; a value's is that to the run of words of the
question that is most like it, one word more or less than the value has. Kept are values above .85,
the likeliest first, at most 20 in all and 6 of a column.

Only text is looked up, of 2 to 40 characters: longer values could not be shown whole, and numbers
tell little by themselves.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from difflib import SequenceMatcher
from pathlib import Path

from mrtpo.tasks.text2sql.schema import (
    MAX_VALUE_CHARS,
    Column,
    Schema,
    Table,
    connect_readonly,
    each_column,
    sql_name,
)

ALIKE = 0.85
MOST, MOST_OF_COLUMN = 20, 6
_SCANNED_ROWS = 100_000  # of each column
_CANDIDATES = 2000  # values compared with a question, those of its rarest words first
_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    """a about all an and any are as at be by did do does each for from give had has have how i in
    is it its list many me more most much name no not number of on or show tell than that the
    their them there these they this to was were what when where which who whose with year
    you""".split()  # noqa: SIM905
)
Place = tuple[str, str]  # table, column


class ValueIndex:
    """Text values of one database by their words. Reading it is bounded; it is never written."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self.places: dict[str, list[Place]] = {}
        self._by_word: dict[str, list[str]] = {}
        with closing(connect_readonly(path)) as connection:
            for table in schema.tables:
                for column in table.columns:
                    for value in _text_values(connection, table.name, column.name):
                        self.places.setdefault(value, []).append((table.name, column.name))
        for value in self.places:
            for key in {_key(word) for word in _words(value)} - _COMMON:
                self._by_word.setdefault(key, []).append(value)

    def mentioned(self, question: str) -> dict[Place, tuple[str, ...]]:
        """Values alike to a part of the question, by table and column, likeliest first."""
        words = _words(question)
        lists = [self._by_word.get(key, []) for key in dict.fromkeys(map(_key, words))]
        candidates = [value for found in sorted(lists, key=len) for value in found]
        scored = {value: _likeness(value, words) for value in candidates[:_CANDIDATES]}
        ranked = sorted(
            (value for value, score in scored.items() if score > ALIKE),
            key=lambda value: (-scored[value], -len(value), value),
        )
        found: dict[Place, list[str]] = {}
        shown = 0
        for value in ranked:
            for place in self.places[value]:
                if shown < MOST and len(found.get(place, ())) < MOST_OF_COLUMN:
                    found.setdefault(place, []).append(value)
                    shown += 1
        return {place: tuple(values) for place, values in found.items()}


def matched(schema: Schema, found: dict[Place, tuple[str, ...]]) -> Schema:
    """The schema with the values that a question mentions."""

    def column(table: Table, its: Column) -> Column:
        values = found.get((table.name, its.name), ())
        return Column(its.name, its.type, its.primary, its.values, values, its.comment)

    return each_column(schema, column)


def _text_values(connection: sqlite3.Connection, table: str, column: str) -> list[str]:
    name = sql_name(column)
    rows = connection.execute(
        f"SELECT DISTINCT {name} FROM (SELECT {name} FROM {sql_name(table)} NOT INDEXED "
        f"LIMIT {_SCANNED_ROWS}) WHERE typeof({name}) = 'text' "
        f"AND length({name}) BETWEEN 2 AND {MAX_VALUE_CHARS}"
    )
    return [value for (value,) in rows if not set(value) & set("\r\n\t")]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _key(word: str) -> str:
    """Words with equal keys may be forms of one: dog, dogs; Norway, Norwegian."""
    return word.rstrip("s")[:4] if word not in _COMMON else word


def _likeness(value: str, words: list[str]) -> float:
    """Of a value to the run of words that is most like it, between 0 and 1."""
    own = _words(value)
    # The second text is the one that the matcher keeps ready for further comparisons.
    matcher = SequenceMatcher(None, "", " ".join(own), autojunk=False)
    best = 0.0
    for length in range(max(1, len(own) - 1), len(own) + 2):
        for start in range(len(words) - length + 1):
            matcher.set_seq1(" ".join(words[start : start + length]))
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
                best = max(best, matcher.ratio())
    return best
