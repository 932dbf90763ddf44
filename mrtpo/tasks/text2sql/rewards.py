"""Reward sets of published recipes: what a response and the verifier's outcome are worth.

`default`: format, executability and execution, each 0 or 1.
`sql_r1`: format ±1, executability ±2, execution ±3, length 0 to 1.5, gated (arXiv 2504.08600).
`arctic`: execution of 1, 0.1 or 0 (Arctic-Text2SQL-R1, arXiv 2505.20315).
`think2sql`: two rewards of the format, three of how much of the result is right, and execution,
each from 0 to 1, with weights (arXiv 2504.15077).

Every function is pure. A value is None where the verifier could not decide; then the reward is
missing or 0 as `rewards.on_timeout` says. What is confirmed and what inferred: docs/verifiers.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mrtpo.records import Reward
from mrtpo.tasks.text2sql.prompts import TAGS, format_ok
from mrtpo.verifiers.sql import SQLOutcome

LENGTH_LIMIT = 2048  # characters of think part and answer up to which SQL-R1's length reward grows
RAN = 0.1  # Arctic's reward of a query that runs and is wrong

Rewarding = Callable[[str, SQLOutcome], tuple[Reward, ...]]

_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BLOCK = re.compile(r"```sql(.*?)```", re.DOTALL)
_BLANKS = re.compile(r"\s+")
_TAGGED = re.compile(r"<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>", re.DOTALL)
_TAG_LINES = ("<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>")


@dataclass(frozen=True)
class Recipe:
    """`names` of the rewards that `rewards` gives, in order; `judge` is the metric that says
    whether a result is right, `asks` what else it needs of the verifier; `metrics` are those of
    format, executability and execution that it does not reward: kept, so that runs of different
    recipes can be compared."""

    names: tuple[str, ...]
    rewards: Rewarding
    judge: str = "spider_exec"
    asks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


def default_rewards(response: str, outcome: SQLOutcome) -> tuple[Reward, ...]:
    """format: `format_ok`; executability: it runs; execution: Spider's execution match."""
    return (
        _text("format", float(format_ok(response))),
        _judged("executability", _number(outcome.executable), outcome),
        _judged("execution", _number(outcome.scores["spider_exec"]), outcome),
    )


def sql_r1_rewards(response: str, outcome: SQLOutcome) -> tuple[Reward, ...]:
    """SQL-R1: format ±1; executability ±2, execution ±3 and length 0 to 1.5 if that stands.

    Without the format, all others are 0; without a query that runs, execution is 0; the length is
    rewarded where the result is right.
    """
    format = sql_r1_format(response)
    ran, right = outcome.executable, outcome.scores["spider_exec"]
    rewards = [_text("format", 1.0 if format else -1.0)]
    if not format:
        return (*rewards, *(_text(name, 0.0) for name in ("executability", "execution", "length")))
    executability = None if ran is None else 2.0 if ran else -2.0
    execution = 0.0 if ran is False else None if right is None else 3.0 if right else -3.0
    length = None if execution is None else sql_r1_length(response) if execution > 0 else 0.0
    return (
        *rewards,
        _judged("executability", executability, outcome),
        _judged("execution", execution, outcome),
        _judged("length", length, outcome),
    )


def sql_r1_format(response: str) -> bool:
    """Each tag exactly once and in order, and a query in a closed ```sql block of the answer."""
    places = [response.find(tag) for tag in TAGS]
    return (
        all(response.count(tag) == 1 for tag in TAGS)
        and places == sorted(places)
        and bool(_sql_r1_query(_part(_ANSWER, response)))
    )


def sql_r1_length(response: str) -> float:
    """Half the characters of think part and answer, as a share of 2048 at most, plus the query's
    share of the answer."""
    think, answer = _part(_THINK, response), _part(_ANSWER, response)
    written = min(len(think) + len(answer), LENGTH_LIMIT) / LENGTH_LIMIT
    return 0.5 * written + len(_sql_r1_query(answer)) / len(answer)


def _sql_r1_query(answer: str) -> str:
    blocks = _BLOCK.findall(answer)
    return _BLANKS.sub(" ", blocks[-1].strip()) if blocks else ""


def _part(pattern: re.Pattern[str], response: str) -> str:
    found = pattern.findall(response)
    return found[-1].strip() if found else ""


def arctic_rewards(response: str, outcome: SQLOutcome) -> tuple[Reward, ...]:
    """Arctic-Text2SQL-R1: 1 if the result is the reference's (as a set of rows), 0.1 if the query
    runs, else 0."""
    ran, right = outcome.executable, outcome.scores["bird_ex"]
    value = 0.0 if ran is False else None if right is None else 1.0 if right else RAN
    return (_judged("execution", value, outcome),)


def think2sql_rewards(response: str, outcome: SQLOutcome) -> tuple[Reward, ...]:
    """Think2SQL: QATCH's three scores of the result, BIRD's EX, and two rewards of the format."""
    scored = ("cell_precision", "cell_recall", "tuple_cardinality")
    return (
        _text("format", float(_TAGGED.fullmatch(response.strip()) is not None)),
        _text("tag_count", sum(response.count(line) == 1 for line in _TAG_LINES) / 4),
        *(_judged(name, _number(outcome.scores[name]), outcome) for name in scored),
        _judged("execution", _number(outcome.scores["bird_ex"]), outcome),
    )


RECIPES = {
    "default": Recipe(("format", "executability", "execution"), default_rewards),
    "sql_r1": Recipe(("format", "executability", "execution", "length"), sql_r1_rewards),
    "arctic": Recipe(
        ("execution",), arctic_rewards, judge="bird_ex", metrics=("format", "executability")
    ),
    "think2sql": Recipe(
        ("format", "tag_count", "cell_precision", "cell_recall", "tuple_cardinality", "execution"),
        think2sql_rewards,
        judge="bird_ex",
        asks=("cell_precision", "cell_recall", "tuple_cardinality"),
        metrics=("executability",),
    ),
}


def plain_metrics(names: tuple[str, ...], response: str, outcome: SQLOutcome) -> tuple[Reward, ...]:
    """The named of format and executability as the default recipe judges them."""
    given = {reward.name: reward for reward in default_rewards(response, outcome)}
    return tuple(given[name] for name in names)


def _text(name: str, value: float) -> Reward:
    return Reward(name, value, "ok")


def _judged(name: str, value: float | None, outcome: SQLOutcome) -> Reward:
    return Reward(name, value, outcome.status, outcome.detail)


def _number(value: bool | float | None) -> float | None:
    return None if value is None else float(value)
