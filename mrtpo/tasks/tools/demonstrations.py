"""Demonstrations for the supervised start: right in what is told, wrong at times in what is not.

As in the text-to-SQL task, the small policy must learn to answer at all, and to use what stands in
its context. Where the template is not told, the format breaks at times, mostly so that the calls
can still be read; where the reference is not told, one decision of a call is wrong at times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from mrtpo.tasks.tools.prompts import render
from mrtpo.tasks.tools.schema import Call, Tool
from mrtpo.tasks.tools.synthetic import thought


def demonstration(
    calls: Sequence[Call],
    text: str,
    tools: Sequence[Tool],
    told: frozenset[str],
    noise: dict[str, float],
    rng: random.Random,
) -> str:
    """A response to a prompt that shows `tools` and whose reference is `calls` and `text`.

    `noise` maps reward to the chance of an error where the reward's information is not told.
    """

    def errs(reward: str) -> bool:
        return reward not in told and rng.random() < noise.get(reward, 0.0)

    if calls and errs("correctness"):
        calls = mistaken(calls, tools, rng)
    response = render(calls, text, thought(calls, rng))
    return malformed(response, rng) if errs("format") else response


def mistaken(calls: Sequence[Call], tools: Sequence[Tool], rng: random.Random) -> list[Call]:
    """The calls with one decision changed: a tool, an argument, a value, or a call too few."""
    changes = list(_changes(calls, tools, rng))
    return rng.choice(changes)()


def _changes(
    calls: Sequence[Call], tools: Sequence[Tool], rng: random.Random
) -> Iterator[Callable[[], list[Call]]]:
    known = {tool.name: tool for tool in tools}
    for at, call in enumerate(calls):
        others = [name for name in known if name != call.name]
        if others:
            yield partial(_with, calls, at, Call(rng.choice(others), call.arguments))
        for key, value in call.arguments.items():
            left = {k: v for k, v in call.arguments.items() if k != key}
            yield partial(_with, calls, at, Call(call.name, left))
            for _ in range(3):  # wrong values are the likeliest
                wrong = {**call.arguments, key: _wrong(value, calls, rng)}
                yield partial(_with, calls, at, Call(call.name, wrong))
        unused = [
            name for name in (known[call.name].properties if call.name in known else ())
            if name not in call.arguments
        ]  # fmt: skip
        if unused and call.arguments:
            more = {**call.arguments, rng.choice(unused): rng.choice([*call.arguments.values()])}
            yield partial(_with, calls, at, Call(call.name, more))
    if len(calls) > 1:
        for at in range(len(calls)):
            yield partial(_without, calls, at)
    else:
        yield partial(list, [*calls, *calls])


def _with(calls: Sequence[Call], at: int, call: Call) -> list[Call]:
    return [*calls[:at], call, *calls[at + 1 :]]


def _without(calls: Sequence[Call], at: int) -> list[Call]:
    return [*calls[:at], *calls[at + 1 :]]


def _wrong(value: Any, calls: Sequence[Call], rng: random.Random) -> Any:
    """Another value: of the wrong type, off by a little, or one that belongs elsewhere."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([str(value), value + 1, value - 1])
    if isinstance(value, list):
        return rng.choice([value[:-1], [*value, value[0]], value[0]])
    if isinstance(value, dict):
        key = rng.choice(list(value))
        return {**value, key: _wrong(value[key], calls, rng)}
    elsewhere = [
        v for call in calls for v in call.arguments.values() if isinstance(v, str) and v != value
    ]
    return rng.choice(elsewhere) if elsewhere else [value]


_BREAKS = (
    lambda text: text[text.index("</think>\n") + len("</think>\n") :],
    lambda text: text.replace("<think> ", "", 1),
    lambda text: text.replace("</think>\n", "", 1),
    lambda text: text.replace("</think>\n", "</think> ", 1),
    lambda text: text.replace("<tool_call>\n", "<tool_call> ", 1),
    lambda text: text.replace("\n</tool_call>", " </tool_call>", 1),
    lambda text: text.replace("</tool_call>", "</tool_call>\n<response> Done. </response>", 1),
    lambda text: text.replace("</tool_call>", "</tool_call></tool_call>", 1),
    lambda text: text.replace("\n<response> ", "\n", 1),
    lambda text: text.replace(" </response>", "", 1),
)


def malformed(response: str, rng: random.Random) -> str:
    """The response with a tag or a line end left out, or with a tag too many."""
    broken = [text for text in (change(response) for change in _BREAKS) if text != response]
    return rng.choice(broken)
