"""The embedded tool-calling data: tools, requests and reference calls, made from a catalogue.

A tool is a thing and a verb (`flight.book`) with two or three typed arguments, some optional, drawn
anew for each prompt, so that a policy has to read them. `KINDS` says what requests there are:

    one         a call with plain arguments        several     calls of two tools
    nested      … with an array or an object       irrelevant  no tool fits: text
    parallel    two calls of one tool              missing     a required value is missing: text

Verbs and things are paired once and divided over the splits (`pairs_of_splits`), so no tool of
valid or test is seen in training. The same seed gives the same data.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mrtpo.tasks.tools.catalogue import KINDS as POOLS
from mrtpo.tasks.tools.catalogue import THINGS, VERBS
from mrtpo.tasks.tools.schema import Call, Example, Tool, Turn

DIFFICULTY = {
    "one": "easy", "irrelevant": "easy", "nested": "medium", "missing": "medium",
    "parallel": "hard", "several": "hard",
}  # fmt: skip
KINDS = tuple(DIFFICULTY)
SHARES = {"one": 24, "nested": 22, "parallel": 18, "several": 16, "irrelevant": 10, "missing": 10}
REQUESTS = {"all": KINDS, "one_call": ("one", "nested")}
HELD_OUT = 0.15  # of the pairs for valid, and again for test
SPLITS = ("train", "valid", "test")

Pair = tuple[str, str]  # verb, thing


@dataclass(frozen=True)
class Argument:
    """`kind` as the catalogue writes it."""

    name: str
    kind: str
    required: bool


@dataclass(frozen=True)
class Spec:
    """A tool before it is one: what a request can say of it."""

    verb: str
    thing: str
    name: str
    arguments: tuple[Argument, ...]


def pairs_of_splits(seed: int) -> dict[str, list[Pair]]:
    """Verb and thing of each split's tools; no pair is in two splits."""
    pairs = [(verb, thing) for verb in VERBS for thing in THINGS]
    random.Random(f"tools {seed}").shuffle(pairs)
    held = round(HELD_OUT * len(pairs))
    return {"test": pairs[:held], "valid": pairs[held : 2 * held], "train": pairs[2 * held :]}


def shares_of(requests: str) -> dict[str, float]:
    """The kinds of `data.requests`, and the share of each."""
    total = sum(SHARES[kind] for kind in REQUESTS[requests])
    return {kind: SHARES[kind] / total for kind in REQUESTS[requests]}


def make_examples(split: str, count: int, seed: int, requests: str = "all") -> list[Example]:
    """`count` distinct examples of a split, kinds in their shares."""
    rng = random.Random(f"requests {seed} {split}")
    pairs = pairs_of_splits(seed)[split]
    deck = [kind for kind in REQUESTS[requests] for _ in range(SHARES[kind])]
    made: dict[str, Example] = {}
    while len(made) < count:
        rng.shuffle(deck)
        for kind in deck[: count - len(made)]:
            example = None
            while example is None or example.turns[0].content in made:
                example = _example(kind, pairs, rng, split, len(made))
            made[example.turns[0].content] = example
    return list(made.values())


def make_spec(pair: Pair, rng: random.Random, nested: bool | None = None) -> Spec:
    """A tool with two or three arguments; `nested` asks for or against arrays and objects."""
    verb, thing = pair
    chosen = [_split(text) for text in THINGS[thing]]
    rng.shuffle(chosen)
    if nested is not None:
        chosen.sort(key=lambda entry: (entry[1][0] in "[{") != nested)
        chosen = chosen[:1] + [c for c in chosen[1:] if nested or c[1][0] not in "[{"]
    chosen = chosen[: rng.randint(2, 3)]
    names, arguments = set[str](), []
    for at, (options, kind) in enumerate(chosen):
        name = rng.choice([option for option in options if option not in names] or options)
        if name in names:
            continue
        names.add(name)
        arguments.append(Argument(name, kind, required=at == 0 or rng.random() < 0.5))
    rng.shuffle(arguments)
    arguments.sort(key=lambda argument: not argument.required)
    return Spec(verb, thing, f"{thing}.{rng.choice(VERBS[verb])}", tuple(arguments))


def _split(text: str) -> tuple[list[str], str]:
    names, _, kind = text.partition("=")
    return names.split("|"), kind


def tool_of(spec: Spec) -> Tool:
    properties = {argument.name: _type(argument.kind) for argument in spec.arguments}
    required = [argument.name for argument in spec.arguments if argument.required]
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool(spec.name, f"{spec.verb.capitalize()} {_a(spec.thing)}.", schema)


def _type(kind: str) -> dict[str, Any]:
    if kind[0] == "[":
        return {"type": "array", "items": _type(kind[1:-1])}
    if kind[0] == "{":
        fields = {name: _type(of) for name, of in _fields(kind)}
        return {"type": "object", "properties": fields, "required": list(fields)}
    pool = POOLS[kind]
    if pool.type == "enum":
        return {"type": "string", "enum": list(pool.words)}
    return {"type": pool.type}


def _fields(kind: str) -> list[tuple[str, str]]:
    return [(n, k) for n, k in (entry.split(": ") for entry in kind[1:-1].split(", "))]


def _value(kind: str, rng: random.Random) -> Any:
    if kind[0] == "[":
        return rng.sample(POOLS[kind[1:-1]].words, rng.randint(1, 2))
    if kind[0] == "{":
        return {name: _value(of, rng) for name, of in _fields(kind)}
    pool = POOLS[kind]
    if pool.type == "boolean":
        return rng.random() < 0.5
    if pool.type == "integer":
        return rng.randint(pool.low, pool.high)
    if pool.type == "number":
        return rng.randint(pool.low, pool.high) + 0.5
    return rng.choice(pool.words)


def said(argument: Argument, value: Any) -> str:
    """How a request says an argument: its name, and words in quotes, as they are to be copied."""
    if isinstance(value, bool):
        words = "yes" if value else "no"
    elif isinstance(value, dict):
        words = " of ".join(map(_quoted, value.values()))
    elif isinstance(value, list):
        words = " and ".join(map(_quoted, value))
    else:
        words = _quoted(value)
    return f"{argument.name} {words}"


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _filled(
    spec: Spec, rng: random.Random, without: str = "", nested: bool = False
) -> tuple[dict[str, Any], str]:
    """Values for the required arguments and some others, and a request's words for them."""
    chosen = [
        a
        for a in spec.arguments
        if (a.required or (nested and a.kind[0] in "[{") or rng.random() < 0.5)
        and a.name != without
    ]
    rng.shuffle(chosen)
    values = {argument.name: _value(argument.kind, rng) for argument in chosen}
    phrases = [said(argument, values[argument.name]) for argument in chosen]
    return values, ", ".join(phrases)


_OPENINGS = ("{}.", "Please {}.", "Could you {}?", "I want to {}.", "Can you {}?", "{}, please.")
_REFUSALS = (
    "None of these tools can {verb} {thing}.",
    "I have no tool to {verb} {thing}.",
    "Sorry, I cannot {verb} a {thing} here.",
)
_QUESTIONS = (
    "Which {name} do you want?",
    "Please tell me the {name}.",
    "The {name} is missing. Which one?",
)


def _asked(spec: Spec, phrases: str, rng: random.Random) -> str:
    words = f"{rng.choice(VERBS[spec.verb])} {_a(spec.thing)}"
    return f"{words} with {phrases}" if phrases else words


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _example(
    kind: str, pairs: Sequence[Pair], rng: random.Random, split: str, row: int
) -> Example | None:
    """An example of a kind, or None where the drawn tools do not allow one."""
    shown_pairs = rng.sample(list(pairs), 4)
    nested = {"nested": True, "one": False}.get(kind)
    specs = [make_spec(pair, rng, nested) for pair in shown_pairs]
    first, second, third, other = specs
    shown = [first, second, *([third] if rng.random() < 0.4 else [])]
    calls: list[Call] = []
    text = ""
    if kind == "irrelevant":
        words = _asked(other, _filled(other, rng)[1], rng)
        text = rng.choice(_REFUSALS).format(verb=other.verb, thing=_a(other.thing))
    elif kind == "missing":
        lacking = rng.choice([a.name for a in first.arguments if a.required])
        words = _asked(first, _filled(first, rng, without=lacking)[1], rng)
        text = rng.choice(_QUESTIONS).format(name=lacking.replace("_", " "))
    else:
        values, phrases = _filled(first, rng, nested=kind == "nested")
        calls.append(Call(first.name, values))
        words = _asked(first, phrases, rng)
        if kind == "parallel":
            values, phrases = _filled(first, rng)
            calls.append(Call(first.name, values))
            words += f"; and another with {phrases}"
        elif kind == "several":
            values, phrases = _filled(second, rng)
            calls.append(Call(second.name, values))
            words += f"; and {_asked(second, phrases, rng)}"
    plain = not any(isinstance(value, list | dict) for c in calls for value in c.arguments.values())
    if kind == "nested" and plain:
        return None
    rng.shuffle(shown)
    tools = tuple(tool_of(spec) for spec in shown)
    if len({tool.name for tool in tools}) < len(tools):
        return None
    request = rng.choice(_OPENINGS).format(words)
    request = request[0].upper() + request[1:]
    return Example(
        tools, (Turn("user", request),), tuple(calls), text, f"synthetic/{split}", row,
        source=f"{first.verb}_{first.thing}", kind=kind, thought=thought(calls, rng),
    )  # fmt: skip


_PLANS = (
    "I use `{}`.", "This is for `{}`.", "The tool is `{}`.", "I call `{}` now.", "Here `{}` helps.",
    "The user needs `{}`.", "`{}` does it.",
)  # fmt: skip
_TALK = ("I should answer in words.", "No call now.", "This needs no tool.", "I will just reply.")


def thought(calls: Sequence[Call], rng: random.Random) -> str:
    """A thought in free words: the tools that will be called, or that there is none."""
    if not calls:
        return rng.choice(_TALK)
    return rng.choice(_PLANS).format("` and `".join(dict.fromkeys(call.name for call in calls)))
