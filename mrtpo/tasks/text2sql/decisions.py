"""The decisions of a query: what in it could have been otherwise, and as what.

One list serves three: demonstrations err in each of them by chance, generated questions are kept if
the result tells when one is changed, and the known spans of a right query are its decisions.

A decision is a slice of the query with alternatives that still run: another column, operator,
function, literal, direction, connective or set operator, or nothing in the place of a clause that
could be left out. A slice may be empty, where something was left out (`DESC`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mrtpo.tasks.text2sql.catalogue import POOLS
from mrtpo.tasks.text2sql.lexemes import Lexeme, Names, clauses, lexemes, qualifier, roles

_OTHERS = {
    ">": (">=", "<"), ">=": (">", "<"), "<": ("<=", ">"), "<=": ("<", ">"),
    "=": ("!=",), "!=": ("=",), "<>": ("=",),
    "and": ("OR",), "or": ("AND",), "not": ("",),
    "in": ("NOT IN",), "like": ("NOT LIKE",), "between": ("NOT BETWEEN",), "is": ("IS NOT",),
    "avg": ("MAX", "SUM"), "max": ("MIN", "AVG"), "min": ("MAX", "AVG"), "sum": ("AVG", "MAX"),
    "union": ("INTERSECT", "EXCEPT"), "intersect": ("EXCEPT", "UNION"),
    "except": ("INTERSECT", "UNION"), "asc": ("DESC",), "desc": ("",),
}  # fmt: skip
SETS = frozenset({"union", "intersect", "except"})
_WORDS = [pool.words for pool in POOLS.values() if pool.words]


@dataclass(frozen=True)
class Decision:
    """Characters `start:end` of a query and what could stand there instead. `kind`: column,
    operator, connective, function, literal, order, set, or the clause that would be missing."""

    kind: str
    start: int
    end: int
    alternatives: tuple[str, ...]


def decisions(sql: str, names: Names) -> list[Decision]:
    """Every decision, in order of place; what could be left out holds others in its slice."""
    found = lexemes(sql)
    made = [*_words(found, names), *_directions(found), *_omissions(found)]
    return sorted(made, key=lambda d: (d.start, -d.end))


def changed(sql: str, changes: Sequence[tuple[Decision, str]]) -> str:
    """The query with alternatives put in; what lies within a changed slice is gone with it."""
    parts, at, gone = [], 0, False
    for decision, text in sorted(changes, key=lambda c: (c[0].start, -c[0].end)):
        # The direction of a key that is gone has no place.
        if decision.start > at or (decision.start == at and not gone):
            parts += [sql[at : decision.start], text]
            at, gone = decision.end, not text
    return " ".join("".join([*parts, sql[at:]]).split())


def erring(sql: str, names: Names, chance: float, rng: random.Random) -> str:
    """The query with each decision wrong by chance, each by itself."""
    changes = [
        (decision, rng.choice(decision.alternatives))
        for decision in decisions(sql, names)
        if rng.random() < chance
    ]
    return changed(sql, changes) if changes else sql


def _words(found: Sequence[Lexeme], names: Names) -> Iterator[Decision]:
    """Decisions of one lexeme."""
    known = roles(found, names)
    fixed = _within_joins(found) | _ordered_sets(found)
    between = 0
    for i, lexeme in enumerate(found):
        word, place = lexeme.lower, (lexeme.start, lexeme.end)
        before = found[i - 1].lower if i else ""
        if i in known.names:
            if i not in fixed and (others := _other_columns(found, i, names, known.tables)):
                yield Decision("column", *place, others)
        elif i in known.functions:
            if word in _OTHERS and found[i + 2 : i + 3] and found[i + 2].text != "*":
                yield Decision("function", *place, _OTHERS[word])
        elif lexeme.kind in ("number", "string"):
            if others := _other_literals(lexeme):
                yield Decision("literal", *place, others)
        elif word == "between":
            between += 1
            if before != "not":
                yield Decision("operator", *place, _OTHERS[word])
        elif word in ("and", "or"):
            if word == "and" and between:
                between -= 1
            elif i not in fixed:
                yield Decision("connective", *place, _OTHERS[word])
        elif word in ("in", "like", "is"):
            after = found[i + 1].lower if i + 1 < len(found) else ""
            if "not" not in (before, after):
                yield Decision("operator", *place, _OTHERS[word])
        elif word in SETS:
            yield Decision("set", *place, _OTHERS[word])
        elif word == "not" or (lexeme.kind == "operator" and word in _OTHERS and i not in fixed):
            yield Decision("operator", *place, _OTHERS[word])


def _within_joins(found: Sequence[Lexeme]) -> set[int]:
    """Lexemes of ON conditions: their keys follow from the schema."""
    inside: set[int] = set()
    for word, first, last in clauses(found):
        on = False
        for i in range(first, last) if word == "from" else ():
            on = (on or found[i].lower in ("on", "using")) and found[i].lower != "join"
            if on:
                inside.add(i)
    return inside


def _ordered_sets(found: Sequence[Lexeme]) -> set[int]:
    """Columns and keys of an ordered UNION and its like: they must be the same."""
    all_ = list(clauses(found))
    words = {word for word, _, _ in all_}
    if not words & SETS or "order" not in words:
        return set()
    return {i for word, *span in all_ if word in ("select", "order") for i in range(*span)}


def _other_columns(
    found: Sequence[Lexeme], i: int, names: Names, tables: dict[str, str]
) -> tuple[str, ...]:
    """Columns of the same table, or of the query's table that has this one."""
    at = qualifier(found, i)
    own = [tables.get(found[at].name)] if at is not None else list(dict.fromkeys(tables.values()))
    columns = [column for table in own for column in names.get(table or "", ())]
    for table in own:
        others = names.get(table or "", ())
        if found[i].name in {column.lower() for column in others}:
            # One that two tables have would have to say whose it is.
            return tuple(
                c for c in others
                if c.lower() != found[i].name and c.isidentifier() and columns.count(c) == 1
            )  # fmt: skip
    return ()


def _other_literals(lexeme: Lexeme) -> tuple[str, ...]:
    if lexeme.kind == "number":
        if not lexeme.text.isdigit() or len(lexeme.text) > 15:
            return ()
        value = int(lexeme.text)
        step = max(1, value // 5)
        return tuple(str(n) for n in (value - step, value + step) if n > 0)
    text = lexeme.text.strip("'")
    if text.strip("%") != text:
        core = text.strip("%")
        return tuple(f"'{t}'" for t in (f"{core}%", f"%{core}", f"%{core}%") if t != text)
    pool = next((words for words in _WORDS if text in words), ())
    others = [word for word in pool if word != text][:8] or [text.swapcase()]
    return tuple(f"'{other}'" for other in others if other != text)


def _directions(found: Sequence[Lexeme]) -> Iterator[Decision]:
    """The direction of each key of an ORDER BY."""
    for word, first, last in clauses(found):
        depth = found[first].depth
        for i in range(first + 2, last) if word == "order" else ():
            ends_key = i + 1 == last or (found[i + 1].text == "," and found[i + 1].depth == depth)
            if ends_key and found[i].lower in ("asc", "desc"):
                yield Decision("order", found[i].start, found[i].end, _OTHERS[found[i].lower])
            elif ends_key:
                yield Decision("order", found[i].end, found[i].end, (" DESC",))


def _omissions(found: Sequence[Lexeme]) -> Iterator[Decision]:
    """What could be left out: a further column, a predicate, a whole WHERE, HAVING or LIMIT, or an
    ORDER BY that no LIMIT needs."""
    all_ = list(clauses(found))
    words = {word for word, _, _ in all_}
    for word, first, last in all_:
        depth = found[first].depth
        start, end = found[first].start, found[last - 1].end
        if word in ("having", "limit") or (word == "order" and "limit" not in words):
            yield Decision(word, start, end, ("",))
        elif word == "where":
            joints = [i for i in _joints(found, first, last) if found[i].depth == depth]
            if not joints:
                yield Decision(word, start, end, ("",))
            for i, after in pairwise([*joints, last]):
                yield Decision("predicate", found[i].start, found[after - 1].end, ("",))
        elif word == "select" and not words & SETS:
            inside = range(first, last)
            commas = [i for i in inside if found[i].text == "," and found[i].depth == depth]
            for i, after in pairwise([*commas, last]):
                yield Decision("further column", found[i].start, found[after - 1].end, ("",))


def _joints(found: Sequence[Lexeme], first: int, last: int) -> Iterator[int]:
    """The AND and OR of a clause, without those of BETWEEN."""
    between = 0
    for i in range(first, last):
        word = found[i].lower
        between += word == "between"
        if word in ("and", "or"):
            if word == "and" and between:
                between -= 1
            else:
                yield i
