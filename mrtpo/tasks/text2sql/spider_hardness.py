"""Spider's hardness of a query: easy, medium, hard or extra.

The official evaluation (taoyds/test-suite-sql-eval, taoyds/spider) counts three things of the
outermost query:

    first    where, group by, order by and limit that are there, tables beyond the first, every
             `or`, every `like` (conditions of joins, where and having)
    second   subqueries in conditions, and what follows union, intersect and except
    others   more than one aggregate, more than one column, more than one condition of where, more
             than one column to group by

    easy     first ≤ 1, nothing else
    medium   no second, and first ≤ 1 with others ≤ 2, or first ≤ 2 with others ≤ 1
    hard     no second, and first ≤ 2 with others > 2, or first = 3 with others ≤ 2;
             or second = 1 with first ≤ 1 and no others
    extra    the rest, which takes in first = 2 with others = 2

Counting aggregates it takes the first item of each part for the aggregate, which in a condition is
the sign for `not` and in the list of having also stands for the words `and` and `or`. Both are
kept, since the published counts (248, 446, 174 and 166 of the dev set) have them.

The counts come from the parse that Spider's rows have in `sql`, else from the query itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp

LEVELS = ("easy", "medium", "hard", "extra")
Node = Any  # an expression of sqlglot
_LIKE = 9  # place of `like` among the operators of Spider's parse


@dataclass(frozen=True)
class Counts:
    """What the rule counts of a query; see the top of this module."""

    first: int
    second: int
    others: int

    @property
    def level(self) -> str:
        first, second, others = self.first, self.second, self.others
        if second:
            return "hard" if second == 1 and first <= 1 and not others else "extra"
        if first <= 1 and others == 0:
            return "easy"
        if (first <= 1 and others <= 2) or (first <= 2 and others <= 1):
            return "medium"
        if (first <= 2 and others > 2) or (first == 3 and others <= 2):
            return "hard"
        return "extra"


def hardness(sql: str, parse: object = None) -> str:
    """One of `LEVELS`, by the parse if there is one, else by the query; '' if that is no query."""
    if isinstance(parse, Mapping):
        return counts_of_parse(parse).level
    counts = counts_of_query(sql)
    return counts.level if counts else ""


def counts_of_parse(parse: Mapping[str, Any]) -> Counts:
    """From the object in field `sql` of Spider's rows."""
    where, having = parse["where"], parse["having"]
    joined = parse["from"]["conds"]
    conditions = [*joined[::2], *where[::2], *having[::2]]
    words = [*joined[1::2], *where[1::2], *having[1::2]]
    order = parse["orderBy"][1] if parse["orderBy"] else []
    first = sum(bool(parse[clause]) for clause in ("where", "groupBy", "orderBy"))
    first += parse["limit"] is not None
    first += max(0, len(parse["from"]["table_units"]) - 1)
    first += words.count("or") + sum(condition[1] == _LIKE for condition in conditions)
    second = sum(isinstance(value, Mapping) for c in conditions for value in (c[3], c[4]))
    second += sum(parse[clause] is not None for clause in ("intersect", "union", "except"))
    columns = [unit for value in order for unit in value[1:] if unit]
    marked = [*parse["select"][1], *where[::2], *parse["groupBy"], *columns, *having]
    several = (
        sum(item[0] != 0 for item in marked),
        len(parse["select"][1]),
        (len(where) + 1) // 2,
        len(parse["groupBy"]),
    )
    return Counts(first, second, sum(count > 1 for count in several))


def counts_of_query(sql: str) -> Counts | None:
    """From the query's text; None if it cannot be parsed."""
    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except sqlglot.errors.SqlglotError:
        return None
    second = 0
    while isinstance(tree, exp.SetOperation):  # clauses at the end belong to the last query
        tree, second = tree.left, 1
        while isinstance(tree, exp.Subquery):
            tree = tree.this
    if not isinstance(tree, exp.Select):
        return None
    joins = tree.args.get("joins") or []
    joined = [join.args.get("on") for join in joins]
    clauses = [*joined, *(_this(tree.args.get(name)) for name in ("where", "having"))]
    conditions = [condition for clause in clauses for condition in _conditions(clause)]
    where, having = (_conditions(clause) for clause in clauses[-2:])
    grouped = tree.args["group"].expressions if tree.args.get("group") else []
    order = tree.args["order"].expressions if tree.args.get("order") else []
    first = sum(bool(tree.args.get(clause)) for clause in ("where", "group", "order", "limit"))
    first += len(joins)
    first += sum(map(_alternatives, clauses))
    first += sum(isinstance(_positive(c), exp.Like) for c in conditions)
    second += sum(_subqueries(_positive(c)) for c in conditions)
    marked = sum(_starts_with_aggregate(column) for column in tree.expressions)
    marked += sum(isinstance(c, exp.Not) for c in where + having) + max(0, len(having) - 1)
    marked += sum(isinstance(node, exp.AggFunc) for item in order for node in item.walk())
    several = (marked, len(tree.expressions), len(where), len(grouped))
    return Counts(first, second, sum(count > 1 for count in several))


def _this(clause: Node) -> Node:
    return clause.this if clause is not None else None


def _conditions(tree: Node) -> list[Node]:
    """The single conditions that `and` and `or` join, whatever the brackets."""
    if isinstance(tree, exp.Paren):
        return _conditions(tree.this)
    if isinstance(tree, exp.And | exp.Or):
        return _conditions(tree.left) + _conditions(tree.right)
    return [] if tree is None else [tree]


def _alternatives(tree: Node) -> int:
    """How many `or` join the conditions."""
    if isinstance(tree, exp.Paren):
        return _alternatives(tree.this)
    if isinstance(tree, exp.And | exp.Or):
        below = _alternatives(tree.left) + _alternatives(tree.right)
        return below + isinstance(tree, exp.Or)
    return 0


def _positive(condition: Node) -> Node:
    return condition.this if isinstance(condition, exp.Not) else condition


def _subqueries(condition: Node) -> int:
    """Values that a condition compares with and that are queries."""
    names = ("query", "expression", "low", "high")
    values = [condition.args.get(name) for name in names]
    return sum(isinstance(value, exp.Query | exp.Subquery) for value in values)


def _starts_with_aggregate(column: Node) -> bool:
    """Spider's parse has one aggregate a column, the word that it starts with."""
    node = column.unalias()
    while node is not None and not isinstance(node, exp.AggFunc):
        node = node.this if isinstance(node, exp.Binary | exp.Paren) else None
    return node is not None
