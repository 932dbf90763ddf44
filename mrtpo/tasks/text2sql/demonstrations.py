"""Demonstrations for the supervised start, right or wrong on purpose.

The small policy must learn two things before RL can teach it anything: to answer at all, and to use what
stands in its context. So a demonstration is faultless in whatever its prompt tells (the format rule, the
names that exist, the reference), and errs at times in what it does not tell: a broken format, a name
that the database does not know, a query that means something else. The policy then starts half-way, and
knows that information helps.
"""

from __future__ import annotations

import random
import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mrtpo.tasks.text2sql.prompts import render

Names = dict[str, list[str]]


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


def _parse(sql: str) -> exp.Expression | None:
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
    nodes: list[exp.Expression] = [*tree.find_all(exp.Column), *tree.find_all(exp.Table)]
    node = rng.choice(nodes)
    name = node.name
    wrong = rng.choice([f"{name}s", f"{name}_name", f"{name}_id", f"the_{name}"])
    for other in nodes:
        if other.name == name and type(other) is type(node):
            other.this.set("this", wrong)
        elif isinstance(node, exp.Table) and other.args.get("table") is not None:
            if other.args["table"].name == name:
                other.args["table"].set("this", wrong)
    return tree


def misunderstood(tree: exp.Expression, names: Names, rng: random.Random) -> exp.Expression:
    """The query with one decision changed: it runs, and mostly returns something else."""
    tree = tree.copy()
    changes = []
    swaps = {exp.GT: exp.GTE, exp.GTE: exp.GT, exp.LT: exp.LTE, exp.LTE: exp.LT}
    for node in tree.find_all(*swaps):
        changes.append(lambda node=node: _swap(node, swaps[type(node)]))
        changes.append(lambda node=node: _swap(node, _opposite(node)))
    functions = {exp.Avg: exp.Max, exp.Max: exp.Min, exp.Min: exp.Avg, exp.Sum: exp.Avg}
    for node in tree.find_all(*functions):
        changes.append(lambda node=node: node.replace(functions[type(node)](this=node.this.copy())))
    for node in tree.find_all(exp.Ordered):
        changes.append(lambda node=node: _turn(node))
    for node in tree.find_all(exp.Limit):
        changes.append(
            lambda node=node: node.set(
                "expression", exp.Literal.number(int(node.expression.name) + rng.choice((1, 2)))
            )
        )
    for node in tree.find_all(exp.Where):
        changes.append(node.pop)
    for node in tree.find_all(exp.Not):
        changes.append(lambda node=node: node.replace(node.this.copy()))
    for select in list(tree.find_all(exp.Select))[:1]:
        for column in [c for c in select.expressions if isinstance(c, exp.Column)]:
            others = [n for n in _siblings(column, tree, names) if n != column.name]
            if others:
                changes.append(
                    lambda column=column, others=others: column.this.set("this", rng.choice(others))
                )
        if len(select.expressions) > 1:
            changes.append(lambda select=select: select.set("expressions", select.expressions[:1]))
    if changes:
        rng.choice(changes)()
    return tree


def _opposite(node: exp.Expression) -> type[exp.Expression]:
    return exp.LT if isinstance(node, exp.GT | exp.GTE) else exp.GT


def _swap(node: exp.Expression, kind: type[exp.Expression]) -> None:
    node.replace(kind(this=node.this.copy(), expression=node.expression.copy()))


def _turn(node: exp.Expression) -> None:
    down = not node.args.get("desc")
    # SQLite sorts nulls first when ascending; anything else would be written out.
    node.set("desc", down or None)
    node.set("nulls_first", not down)


def _siblings(column: exp.Column, tree: exp.Expression, names: Names) -> list[str]:
    tables = [column.table] if column.table else [table.name for table in tree.find_all(exp.Table)]
    return [name for table in tables[:1] for name in names.get(table, ())]


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
