"""Words of the embedded tool-calling data: things, what is done with them, and typed arguments.

An argument is written `name|other name=kind:phrase`: a tool calls it by one of its names, a request
says it by its phrase. Kinds are pools of words, ranges of numbers, choices (enums), `flag` (true or
false), `[pool]` (an array) and `{field: kind, …}` (an object); see `KINDS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VERBS: dict[str, tuple[str, ...]] = {
    "book": ("book", "reserve"),
    "find": ("find", "search"),
    "cancel": ("cancel", "drop"),
    "change": ("change", "update"),
    "rate": ("rate", "review"),
    "share": ("share", "send"),
    "price": ("price", "quote"),
    "track": ("track", "follow"),
}
"""Each with a second word for the same; tools and requests use either."""


@dataclass(frozen=True)
class Kind:
    """A type of argument and what it may hold."""

    type: Literal["string", "integer", "number", "boolean", "enum"]
    words: tuple[str, ...] = ()
    low: int = 0
    high: int = 0


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


KINDS: dict[str, Kind] = {
    "city": Kind("string", _words(
        "Oslo Rome Paris Bonn Madrid Lisbon Vienna Prague Dublin Athens Cairo Lima Tokyo Delhi "
        "Boston Denver Austin Seattle Toronto Sydney Geneva Zurich Milan Porto Bergen Krakow")),
    "person": Kind("string", _words(
        "Ann Bob Carla Dan Eva Frank Gina Hugo Ida Jon Kim Leo Mia Nils Olga Paul Rosa Sam Tom "
        "Uma Vera Will Yara Zoe")),
    "dish": Kind("string", _words(
        "pizza pasta soup salad curry rice tacos sushi burger stew noodles pie")),
    "topic": Kind("string", _words(
        "music sports science politics history art travel health food money nature film")),
    "item": Kind("string", _words(
        "lamp chair table sofa phone laptop camera watch bag coat tent bike")),
    "tongue": Kind("string", _words(
        "French German Spanish Italian Greek Polish Dutch Danish Arabic Hindi Korean Turkish")),
    "day": Kind("string", _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")),
    "hour": Kind("integer", low=1, high=12),
    "count": Kind("integer", low=2, high=9),
    "amount": Kind("integer", low=10, high=95),
    "score": Kind("number", low=1, high=9),
    "flag": Kind("boolean"),
    "cabin": Kind("enum", _words("economy business first")),
    "size": Kind("enum", _words("small medium large")),
    "colour": Kind("enum", _words("red green blue black white")),
    "unit": Kind("enum", _words("metric imperial")),
    "speed": Kind("enum", _words("slow normal fast")),
    "age": Kind("integer", low=18, high=80),
}  # fmt: skip
"""Numbers lie between `low` and `high`; those of type number are halves."""

THINGS: dict[str, tuple[str, ...]] = {
    "flight": (
        "origin|start=city:from {}", "destination|target=city:to {}", "day|date=day:on {}",
        "seats|tickets=count:for {} people", "cabin|class=cabin:in {} class",
        "passenger|traveller={name: person, age: age}:for {name} aged {age}",
    ),
    "hotel": (
        "city|place=city:in {}", "nights|days=count:for {} nights", "guests|names=[person]:for {}",
        "breakfast|meals=flag:with breakfast/without breakfast", "day|date=day:from {}",
        "room|size=size:with a {} room",
    ),
    "taxi": (
        "pickup|start=city:from {}", "dropoff|target=city:to {}", "hour|time=hour:at {} o'clock",
        "seats|places=count:with {} seats", "child_seat|baby=flag:with a child seat/without child "
        "seat",
    ),
    "dinner": (
        "dish|meal=dish:of {}", "people|persons=count:for {} people",
        "hour|time=hour:at {} o'clock", "guests|friends=[person]:with {}", "city|place=city:in {}",
        "spicy|hot=flag:made spicy/not spicy",
    ),
    "parcel": (
        "receiver|recipient={name: person, city: city}:for {name} in {city}",
        "weight|kilos=score:of {} kilos", "speed|service=speed:by {} mail",
        "insured|cover=flag:with insurance/without insurance", "sender|name=person:by {}",
        "items|goods=[item]:holding a {}",
    ),
    "lesson": (
        "language|subject=tongue:in {}", "teacher|tutor=person:taught by {}", "day|date=day:on {}",
        "hours|length=count:of {} hours", "pupils|students=[person]:for {}",
        "price|fee=amount:below {} dollars",
    ),
    "article": (
        "topic|theme=topic:about {}", "author|writer=person:written by {}",
        "words|length=amount:of {} pages", "language|tongue=tongue:in {}",
        "readers|users=[person]:with {}", "stars|score=score:worth {} stars",
    ),
    "offer": (
        "item|product=item:for a {}", "price|limit=amount:below {} dollars",
        "colour|paint=colour:in {}", "size|format=size:of {} size",
        "count|number=count:for {} pieces",
        "seller|shop={name: person, city: city}:sold by {name} of {city}",
    ),
    "report": (
        "city|place=city:for {}", "days|length=count:over {} days", "units|system=unit:in {} units",
        "topics|themes=[topic]:about {}", "day|date=day:since {}", "owner|name=person:kept by {}",
    ),
    "concert": (
        "city|place=city:in {}", "artist|singer=person:by {}", "day|date=day:on {}",
        "seats|tickets=count:with {} seats", "price|limit=amount:below {} dollars",
        "friends|guests=[person]:with {}",
    ),
    "meeting": (
        "people|members=[person]:with {}", "day|date=day:on {}", "hour|time=hour:at {} o'clock",
        "topic|subject=topic:about {}", "room|size=size:in a {} room",
        "host|chair={name: person, city: city}:led by {name} from {city}",
    ),
    "rental": (
        "item|object=item:of a {}", "days|length=count:for {} days", "colour|paint=colour:in {}",
        "city|place=city:in {}", "deposit|amount=amount:with {} dollars down",
        "insured|cover=flag:with insurance/without insurance",
    ),
}  # fmt: skip
