"""Constraints that go together, added to any prompt: 1 to 12, each stated once in a list.

    compose("Tell me about tea.", 3, random.Random(0))

    Tell me about tea.

    Rules:
    - Avoid commas.
    - Say "lantern" at least 2 times.
    - Give exactly 3 points as a list, "* " before each.

Kinds, wordings and arguments are drawn by chance (`palette`); the same seed gives the same
constraints. Words that the prompt has are neither asked for nor forbidden.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mrtpo.tasks.instruct.listing import HEADING, listed
from mrtpo.tasks.instruct.palette import (
    CONFLICTS,
    RECIPES,
    WORDS,
    sentence_limits,
    sentences_needed,
    word_limits,
    words_needed,
)
from mrtpo.verifiers.constraints import KINDS, Constraint, constraint

MOST = 12
HEADINGS = (HEADING, "Keep to these rules:", "The answer must keep to the following:",
            "Requirements:")  # fmt: skip
ATTEMPTS = 50


@dataclass(frozen=True)
class Composition:
    """`text` is the prompt with its list. `lines[k]` states `constraints[k]` and stands there once;
    taking it out leaves that constraint out.
    """

    prompt: str
    text: str
    constraints: tuple[Constraint, ...]
    sentences: tuple[str, ...]
    lines: tuple[str, ...]


def compose(
    prompt: str, count: int, rng: random.Random, kinds: Sequence[str] = tuple(RECIPES)
) -> Composition:
    """Add `count` constraints, of different kinds, that can be followed together.

    Raises ValueError if there are not as many among `kinds`.
    """
    if not 1 <= count <= MOST:
        raise ValueError(f"{count} constraints; 1 to {MOST} are possible")
    for _ in range(ATTEMPTS):
        drawn = _drawn(prompt, count, rng, kinds)
        if drawn is None:
            continue
        sentences = [_sentence(found, rng) for found in drawn]
        try:
            text, lines = listed(prompt, sentences, rng.choice(HEADINGS))
        except ValueError:  # the prompt has a line as one of these
            continue
        return Composition(prompt, text, tuple(drawn), tuple(sentences), tuple(lines))
    raise ValueError(
        f"no {count} constraints that go together were found among: {', '.join(kinds)}"
    )


def compatible(constraints: Sequence[Constraint]) -> bool:
    """Whether constraints of the palette can be followed together, by its table and in numbers."""
    ids = [found.id for found in constraints]
    if len(set(ids)) < len(ids):
        return False
    if any(frozenset((a, b)) in CONFLICTS for i, a in enumerate(ids) for b in ids[:i]):
        return False
    low, high = _both(word_limits(c.id, c.arguments) for c in constraints)
    fewest, most = _both(sentence_limits(c.id, c.arguments) for c in constraints)
    needed = sum(words_needed(c.id, c.arguments) for c in constraints)
    least = max(fewest, sum(map(sentences_needed, ids)))
    return max(low, needed) <= high and least <= most


def _both(limits: Iterator[tuple[int, float]]) -> tuple[int, float]:
    lows, highs = zip(*limits, strict=True)
    return max(lows), min(highs)


def _drawn(
    prompt: str, count: int, rng: random.Random, kinds: Sequence[str]
) -> list[Constraint] | None:
    lower = prompt.lower()
    unused = [word for word in WORDS if word not in lower]
    rng.shuffle(unused)
    words = iter(unused)
    found: list[Constraint] = []
    for id in rng.sample(list(kinds), len(kinds)):
        made = constraint(id, RECIPES[id].draw(rng, words))
        if compatible([*found, made]):
            found.append(made)
        if len(found) == count:
            return found
    return None


def _sentence(found: Constraint, rng: random.Random) -> str:
    kind = KINDS[found.id]
    shown: dict[str, Any] = {
        name: kind.arguments[name].shown(value) for name, value in found.arguments.items()
    }
    return rng.choice((kind.sentence, *RECIPES[found.id].wordings)).format(**shown)
