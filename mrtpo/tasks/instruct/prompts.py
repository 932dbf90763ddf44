"""Prompts of instruction following: constraints by reward, and the line that states each.

A reward is one constraint of the prompt. In the embedded task it bears the name of its kind; with
public data it is a place in the prompt's list, `constraint_1` to `constraint_12`. What its verifier
checks already stands in the prompt, so that the replay takes it out of there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mrtpo.records import Information, Message, Prompt
from mrtpo.verifiers.constraints import Constraint, constraint

MOST = 12
SLOTS = tuple(f"constraint_{number}" for number in range(1, MOST + 1))
OPENING = "Write numbered lines."


@dataclass(frozen=True)
class Named:
    """A constraint and the reward that it is."""

    reward: str
    constraint: Constraint


def build_prompt(
    messages: Sequence[Message],
    names: Sequence[str],
    constraints: Sequence[Constraint],
    lines: Sequence[str],
    *,
    id: str,
    split: str,
    source: str,
    question: str,
    reference: str,
) -> Prompt:
    """A prompt in whose messages `lines[k]` states `constraints[k]`, the reward `names[k]`."""
    listed = [
        {"reward": name, "id": c.id, "arguments": dict(c.arguments)}
        for name, c in zip(names, constraints, strict=True)
    ]
    return Prompt(
        id=id, split=split, kind=kind_of(len(constraints)), difficulty=difficulty_of(
            len(constraints)), source=source, messages=tuple(messages),
        information=tuple(
            Information(name, "sentence", "prompt", line)
            for name, line in zip(names, lines, strict=True)
        ),
        reference=reference,
        payload=json.dumps({"question": question, "constraints": listed}, ensure_ascii=False),
    )  # fmt: skip


def constraints_of(prompt: Prompt) -> list[Named]:
    """The prompt's constraints in its order. Raises ConstraintError where one is not known."""
    listed: list[dict[str, Any]] = json.loads(prompt.payload)["constraints"]
    return [Named(c["reward"], constraint(c["id"], c["arguments"])) for c in listed]


def kind_of(count: int) -> str:
    return f"{count} constraint{'' if count == 1 else 's'}"


def difficulty_of(count: int) -> str:
    return "easy" if count <= 4 else "medium" if count <= 8 else "hard"
