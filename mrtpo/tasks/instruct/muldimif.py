"""Rows of MulDimIF's test.json and train.json.

    {"id": "1", "conversations": [{"role": "user", "content": "…"}],
     "constraints": [["Length", "Words", "At most 50 words"], …],
     "constraint_pattern": "Example" | "Listing" | "Incorporation", "difficulty": "Level 1" | …}

train.json has no difficulty. A prompt holds its constraints in its own words, so that they cannot
be taken out of it; only by `Listing` do they stand in a list at its end.

Source: Junjie-Ye/MulDimIF (arXiv 2505.07591), Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrtpo.records import Message
from mrtpo.tasks.rows import Values, bad_field, field_text, read_rows

PATTERNS = ("Example", "Listing", "Incorporation")


@dataclass(frozen=True)
class Stated:
    """A constraint by its category, its subcategory (both in many spellings) and its text."""

    category: str
    subcategory: str
    text: str


@dataclass(frozen=True)
class Row:
    """`level` is "" where the file has none. The last message is the user's."""

    id: str
    messages: tuple[Message, ...]
    constraints: tuple[Stated, ...]
    pattern: str
    level: str

    @property
    def prompt(self) -> str:
        return self.messages[-1].content


def read_muldimif(file: Path) -> Iterator[Row]:
    """The rows, in their order. Raises ValueError naming file, row and field."""
    for number, values in read_rows(file):
        yield Row(
            id=_id(file, number, values),
            messages=_messages(file, number, values),
            constraints=_constraints(file, number, values),
            pattern=_pattern(file, number, values),
            level=field_text(file, number, values, "difficulty", optional=True),
        )


def _id(file: Path, row: int, values: Values) -> str:
    found = values.get("id")
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return field_text(file, row, values, "id")


def _messages(file: Path, row: int, values: Values) -> tuple[Message, ...]:
    """The conversation up to the last user turn: what comes after it is an answer."""
    given = values.get("conversations")
    if not isinstance(given, list):
        raise bad_field(file, row, "conversations", "expected a list of messages")
    found = [_message(file, row, i, message) for i, message in enumerate(given)]
    while found and found[-1].role != "user":
        found.pop()
    if not found or not found[-1].content.strip():
        raise bad_field(file, row, "conversations", "no message of the user")
    return tuple(found)


def _message(file: Path, row: int, place: int, given: Any) -> Message:
    if (
        not isinstance(given, dict)
        or not isinstance(given.get("role"), str)
        or not isinstance(given.get("content"), str)
    ):
        raise bad_field(file, row, f"conversations[{place}]", "expected a role and a content")
    return Message(given["role"], given["content"])


def _constraints(file: Path, row: int, values: Values) -> tuple[Stated, ...]:
    given = values.get("constraints")
    if not isinstance(given, list) or not given:
        raise bad_field(file, row, "constraints", "expected a list, not empty")
    found = []
    for place, item in enumerate(given):
        if not isinstance(item, list) or [type(text) for text in item] != [str] * 3:
            raise bad_field(
                file, row, f"constraints[{place}]", "expected category, subcategory and text"
            )
        found.append(Stated(*item))
    return tuple(found)


def _pattern(file: Path, row: int, values: Values) -> str:
    found = field_text(file, row, values, "constraint_pattern")
    if found not in PATTERNS:
        expected = ", ".join(PATTERNS)
        raise bad_field(file, row, "constraint_pattern", f"{found!r:.40}; expected {expected}")
    return found
