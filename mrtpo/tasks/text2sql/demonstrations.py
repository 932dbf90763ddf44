"""Demonstrations for the supervised start, right or wrong on purpose.

The small policy must learn two things before RL can teach it anything: to answer at all, and to
use what stands in its context. So a demonstration is faultless in whatever its prompt tells (the
format rule, the names that exist, the reference), and errs at times in what it does not tell: a
broken format, a name that the database does not know, a query that means something else. The
policy then starts half-way, and knows that information helps.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mrtpo.tasks.text2sql.lexemes import Names
from mrtpo.tasks.text2sql.prompts import render


def demonstration(
    reference: str,
    names: Names,
    told: frozenset[str],
    noise: dict[str, float],
    rng: random.Random,
) -> str:
    """A response to a prompt whose reference is `reference`.

    `names` maps table to columns; `noise` maps reward to the chance of an error where the reward's
    information is not told.
    """

    def errs(reward: str) -> bool:
        return reward not in told and rng.random() < noise.get(reward, 0.0)

    tree = _parse(reference)
    if tree is None:
        response = render("The query follows.", reference)
    else:
        # With the reference told, the query is copied, names and all.
        if errs("execution"):
            tree = misunderstood(tree, names, rng)
        if "execution" not in told and errs("executability"):
            tree = misnamed(tree, rng)
        response = render(plan(tree), tree.sql("sqlite"))
    return malformed(response, rng) if errs("format") else response


def _parse(sql: str) -> Any:
    try:
        return sqlglot.parse_one(sql, dialect="sqlite")
    except SqlglotError:
        return None


def plan(tree: exp.Expression) -> str:
    """The think part: the tables and columns that the query will use."""
    tables = dict.fromkeys(table.name for table in tree.find_all(exp.Table))
    columns = dict.fromkeys(column.name for column in tree.find_all(exp.Column))
    text = f"Use {', '.join(tables)}"
    return f"{text} with {', '.join(columns)}." if columns else f"{text}."


def misnamed(tree: exp.Expression, rng: random.Random) -> exp.Expression:
    """The query with one column or table called by a name that does not exist."""
    tree = tree.copy()
    nodes: list[Any] = [*tree.find_all(exp.Column), *tree.find_all(exp.Table)]
    node = rng.choice(nodes)
    name = node.name
    wrong = rng.choice([f"{name}s", f"{name}_name", f"{name}_id", f"the_{name}"])
    for other in nodes:
        if other.name == name and type(other) is type(node):
            other.this.set("this", wrong)
        elif isinstance(node, exp.Table) and isinstance(other, exp.Column) and other.table == name:
            other.args["table"].set("this", wrong)
    return tree


def misunderstood(tree: exp.Expression, names: Names, rng: random.Random) -> exp.Expression:
    """The query with one decision changed: it runs, and mostly returns something else."""
    tree = tree.copy()
    changes = list(_changes(tree, names, rng))
    if changes:
        rng.choice(changes)()
    return tree


Change = Callable[[], Any]
_NEIGHBOURS = {exp.GT: exp.GTE, exp.GTE: exp.GT, exp.LT: exp.LTE, exp.LTE: exp.LT}
_OPPOSITES = {exp.GT: exp.LT, exp.GTE: exp.LT, exp.LT: exp.GT, exp.LTE: exp.GT}
_FUNCTIONS = {exp.Avg: exp.Max, exp.Max: exp.Min, exp.Min: exp.Avg, exp.Sum: exp.Avg}


def _changes(tree: Any, names: Names, rng: random.Random) -> Iterator[Change]:
    """Every single change that could be made: operators, functions, order, limit, columns, …"""
    for node in tree.find_all(*_NEIGHBOURS):
        yield partial(_swap, node, _NEIGHBOURS[type(node)])
        yield partial(_swap, node, _OPPOSITES[type(node)])
    for node in tree.find_all(*_FUNCTIONS):
        yield partial(node.replace, _FUNCTIONS[type(node)](this=node.this.copy()))
    for node in tree.find_all(exp.Ordered):
        yield partial(_turn, node)
    for node in tree.find_all(exp.Limit):
        if isinstance(node.expression, exp.Literal) and node.expression.name.isdigit():
            other = exp.Literal.number(int(node.expression.name) + rng.choice((1, 2)))
            yield partial(node.set, "expression", other)
    for node in tree.find_all(exp.Where):
        yield node.pop
    for node in tree.find_all(exp.Not):
        yield partial(node.replace, node.this.copy())
    select = tree.find(exp.Select)
    if select is None:
        return
    if len(select.expressions) > 1:
        yield partial(select.set, "expressions", select.expressions[:1])
    for column in [c for c in select.expressions if isinstance(c, exp.Column)]:
        table = column.table or next((t.name for t in tree.find_all(exp.Table)), "")
        others = [name for name in names.get(table, ()) if name != column.name]
        if others:
            yield partial(column.this.set, "this", rng.choice(others))


def _swap(node: Any, kind: Any) -> None:
    node.replace(kind(this=node.this.copy(), expression=node.expression.copy()))


def _turn(node: Any) -> None:
    down = not node.args.get("desc")
    # SQLite sorts nulls first when ascending; anything else would be written out.
    node.set("desc", down or None)
    node.set("nulls_first", not down)


_BREAKS = (
    lambda text: text.replace("</think>\n", ""),
    lambda text: text.replace("<answer>\n", "").replace("\n</answer>", ""),
    lambda text: text.replace("```sql\n", "").replace("\n```", ""),
    lambda text: text.replace("\n</answer>", ""),
    lambda text: text.replace("\n```\n", "\n"),
    lambda text: re.sub(r"<think>.*?</think>\n", "", text, flags=re.DOTALL),
)


def malformed(response: str, rng: random.Random) -> str:
    """The response with a tag, a fence or the think part left out."""
    return rng.choice(_BREAKS)(response)
