"""Words of the embedded tool-calling data: things, what is done with them, and typed arguments.

An argument is written `name|other name=kind`; a tool calls it by one of its names. Kinds are pools
of words, ranges of numbers, choices (enums), `flag` (true or false), `[pool]` (an array) and
`{field: kind, …}` (an object); see `KINDS`.
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
        "Boston Denver")),
    "person": Kind("string", _words(
        "Ann Bob Carla Dan Eva Frank Gina Hugo Ida Jon Kim Leo Mia Nils Olga Paul")),
    "dish": Kind("string", _words("pizza pasta soup salad curry rice tacos sushi")),
    "topic": Kind("string", _words("music sports science politics history art travel health")),
    "item": Kind("string", _words("lamp chair table sofa phone laptop camera watch")),
    "tongue": Kind("string", _words("French German Spanish Italian Greek Polish Dutch Danish")),
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
}  # fmt: skip
"""Numbers lie between `low` and `high`; those of type number are halves."""

THINGS: dict[str, tuple[str, ...]] = {
    "flight": (
        "origin|start=city", "target|goal=city", "day|date=day", "seats|places=count",
        "cabin|class=cabin", "guest|client={person: person, city: city}",
    ),
    "hotel": (
        "city|place=city", "nights|days=count", "guests|friends=[person]", "meals|food=flag",
        "day|date=day", "room|size=size",
    ),
    "taxi": (
        "origin|start=city", "target|goal=city", "hour|time=hour", "seats|places=count",
        "baby|child=flag", "guests|friends=[person]",
    ),
    "dinner": (
        "dish|meal=dish", "seats|places=count", "hour|time=hour", "guests|friends=[person]",
        "city|place=city", "spicy|hot=flag",
    ),
    "parcel": (
        "client|guest={person: person, city: city}", "weight|kilos=score", "speed|service=speed",
        "cover|insured=flag", "sender|owner=person", "items|goods=[item]",
    ),
    "lesson": (
        "language|tongue=tongue", "teacher|tutor=person", "day|date=day", "hours|length=count",
        "friends|guests=[person]", "price|limit=amount",
    ),
    "article": (
        "topic|theme=topic", "author|owner=person", "length|pages=amount",
        "language|tongue=tongue", "friends|guests=[person]", "stars|score=score",
    ),
    "offer": (
        "item|goods=item", "price|limit=amount", "colour|paint=colour", "size|format=size",
        "pieces|count=count", "shop|seller={person: person, city: city}",
    ),
    "report": (
        "city|place=city", "days|length=count", "units|system=unit", "topics|themes=[topic]",
        "day|date=day", "owner|author=person",
    ),
    "concert": (
        "city|place=city", "artist|singer=person", "day|date=day", "seats|places=count",
        "price|limit=amount", "friends|guests=[person]",
    ),
    "meeting": (
        "friends|guests=[person]", "day|date=day", "hour|time=hour", "topic|theme=topic",
        "room|size=size", "host|chair={person: person, city: city}",
    ),
    "rental": (
        "item|goods=item", "days|length=count", "colour|paint=colour", "city|place=city",
        "deposit|price=amount", "cover|insured=flag",
    ),
}  # fmt: skip
