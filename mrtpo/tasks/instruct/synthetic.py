"""The embedded instruction data: free text in numbered lines, and up to 12 constraints on it.

A text has `data.lines` lines of 2 to 4 words, drawn at random, so that wherever no constraint
speaks anything goes:

    01 stone the river
    02) OWL of glass

A rule is about what follows a line's number, and looks like what it asks for (`02)`, `03 owl`,
`04 RAIN`), so that a policy which copies can follow it. Each is decided by one token, at a place
that every text has (`mrtpo.verifiers.constraints.local`). That matters: where a rule can also be
broken by a word that nowhere occurs, no token is to blame, and known spans are not all that
decides. A prompt has one rule a line at most.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

from mrtpo.verifiers.constraints import Constraint, check, constraint
from mrtpo.verifiers.constraints.local import BULLETS

PREFIX = "local:"
LINES, LENGTHS = 12, (2, 3, 4)
COMMON = ("and", "the", "of", "to")
PLAIN = (
    "bird", "boat", "bread", "cloud", "door", "field", "flame", "garden", "glass", "gold", "hill",
    "honey", "lamp", "leaf", "moon", "ocean", "owl", "pearl", "rain", "river", "stone", "storm",
    "tree", "winter",
)  # fmt: skip
SHARE_COMMON = 0.32
SHARE_CAPITALS = 0.1
SHARE_BULLETS = 0.2

Rules = Mapping[str, Constraint]
"""A prompt's constraints by reward."""


def names_of(lines: int = LINES) -> tuple[str, ...]:
    """The rewards of a text with so many lines."""
    return tuple(f"line_{number}" for number in range(1, lines + 1))


def tokens_of(lines: int = LINES) -> tuple[str, ...]:
    """Kept whole by the small decoder's tokenizer, and the same in a rule as in a text."""
    words = (f" {word}" for plain in (*COMMON, *PLAIN) for word in (plain, plain.upper()))
    return *words, *BULLETS, *(f"{number:02}" for number in range(1, lines + 1))


def drawn(count: int, rng: random.Random, lines: int = LINES) -> tuple[dict[str, Constraint], str]:
    """`count` constraints by reward, in a random order, and a text that keeps them."""
    words = rng.sample(PLAIN, count)
    rules = {}
    for name, word in zip(rng.sample(names_of(lines), count), words, strict=True):
        line = int(name.removeprefix("line_"))
        match rng.choice(("small", "capitals", "bullet")):
            case "bullet":
                kind, given = "bullet", {"mark": rng.choice(BULLETS)}
            case "capitals":
                kind, given = "first_word", {"word": word.upper()}
            case _:
                kind, given = "first_word", {"word": word}
        rules[name] = constraint(PREFIX + kind, {"line": line, **given})
    return rules, written(rules, frozenset(rules), frozenset(), rng, lines)


def written(
    rules: Rules,
    kept: Collection[str],
    broken: Collection[str],
    rng: random.Random,
    lines: int = LINES,
) -> str:
    """A random text that keeps the constraints named in `kept` and breaks those in `broken`; the
    others it keeps or breaks as it happens."""
    text = []
    for number, name in enumerate(names_of(lines), start=1):
        while True:
            line = _line(rules[name].arguments if name in kept else {}, rng)
            if (
                name not in broken
                or not check(
                    rules[name].id, {**rules[name].arguments, "line": 1}, f"{number:02}{line}"
                ).passed
            ):
                break
        text.append(f"{number:02}{line}")
    return "\n".join(text)


def _line(asked: Mapping[str, Any], rng: random.Random) -> str:
    """A line behind its number, with the mark or first word that is asked for."""
    row = [_any(rng) for _ in range(rng.choice(LENGTHS))]
    bullet = rng.choice(BULLETS) if rng.random() < SHARE_BULLETS else ""
    if "mark" in asked:
        bullet = asked["mark"]
    elif "word" in asked:
        row[0], bullet = asked["word"], ""
    return f"{bullet} {' '.join(row)}"


def _any(rng: random.Random) -> str:
    word = rng.choice(COMMON if rng.random() < SHARE_COMMON else PLAIN)
    return word.upper() if rng.random() < SHARE_CAPITALS else word
