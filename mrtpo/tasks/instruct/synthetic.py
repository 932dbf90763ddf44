"""The embedded instruction data: free text in numbered lines, and up to 12 constraints on it.

A text has 6 lines of 3 to 5 words of a small vocabulary, drawn at random, so that wherever no
constraint speaks anything goes:

    1 stone river the lamp.
    2 OWL and glass?

A rule looks like what it asks for (`2 owl`, `Say stone river`, `Say lamp.`), so that a policy which
copies can follow it. Each is decided by one or a few tokens (`mrtpo.verifiers.constraints.local`).
A prompt has each reward once at most, on words for which a text that keeps all of them was found.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

from mrtpo.verifiers.constraints import Constraint, check, constraint
from mrtpo.verifiers.constraints.local import END_MARKS

PREFIX = "local:"
LINES, LENGTHS = 6, (3, 4, 5)
KIND_OF = {
    **{f"line_{number}": "first_word" for number in range(1, LINES + 1)},
    "pair_1": "pair", "pair_2": "pair", "mark_1": "mark_after", "mark_2": "mark_after",
    "capitals": "in_capitals", "no_word": "no_word",
}  # fmt: skip
NAMES = tuple(KIND_OF)
"""The rewards, by the kind of constraint that each is."""
COMMON = ("and", "the", "of", "to")
PLAIN = (
    "bird", "boat", "bread", "cloud", "door", "field", "flame", "garden", "glass", "gold", "hill",
    "honey", "lamp", "leaf", "moon", "ocean", "owl", "pearl", "rain", "river", "stone", "storm",
    "tree", "winter",
)  # fmt: skip
# Kept whole by the small decoder's tokenizer, and the same in a rule as in a text.
TOKENS = (
    *(f" {word}" for plain in (*COMMON, *PLAIN) for word in (plain, plain.upper())),
    *END_MARKS, *(str(number) for number in range(1, LINES + 1)),
)  # fmt: skip
SHARE_COMMON = 0.32
SHARE_CAPITALS = 0.05
ATTEMPTS = 200

Rules = Mapping[str, Constraint]
"""A prompt's constraints by reward."""


class Clash(Exception):
    """Two constraints want the same place, or there is no place left."""


def drawn(count: int, rng: random.Random) -> tuple[dict[str, Constraint], str]:
    """`count` constraints by reward, in a random order, and a text that keeps them."""
    while True:
        rules = _drawn(rng.sample(NAMES, count), rng)
        try:
            return rules, written(rules, frozenset(rules), frozenset(), rng)
        except Clash:
            continue


def _drawn(names: list[str], rng: random.Random) -> dict[str, Constraint]:
    words = iter(rng.sample(PLAIN, len(PLAIN)))

    def arguments(name: str) -> dict[str, Any]:
        match KIND_OF[name]:
            case "first_word":
                return {"line": int(name.removeprefix("line_")), "word": next(words)}
            case "pair":
                return {"word": next(words), "follower": next(words)}
            case "mark_after":
                return {"word": next(words), "mark": rng.choice(END_MARKS)}
            case "in_capitals":
                return {"word": next(words).upper()}
        return {"word": rng.choice(COMMON)}

    return {name: constraint(PREFIX + KIND_OF[name], arguments(name)) for name in names}


def written(
    rules: Rules, kept: Collection[str], broken: Collection[str], rng: random.Random
) -> str:
    """A random text that keeps the constraints named in `kept` and breaks those in `broken`; the
    others it keeps or breaks as it happens. Raises Clash where none is found."""
    wanted = {name: name in kept for name in rules if name in kept or name in broken}
    for _ in range(ATTEMPTS):
        try:
            text = _Draft(rules, wanted, rng).text()
        except Clash:
            continue
        if all(
            check(rules[name].id, rules[name].arguments, text).passed is passes
            for name, passes in wanted.items()
        ):
            return text
    raise Clash


class _Draft:
    """A text with what was decided of it, by line and place from 0."""

    def __init__(self, rules: Rules, wanted: Mapping[str, bool], rng: random.Random) -> None:
        self.rng, self.wanted = rng, wanted
        self.given = {name: rules[name].arguments for name in wanted}
        named = {
            value.lower() for given in self.given.values() for key, value in given.items()
            if key in ("word", "follower")
        }  # fmt: skip
        self.plain = [word for word in PLAIN if word not in named]
        self.common = [word for word in COMMON if word not in named]
        self.rows = [[""] * rng.choice(LENGTHS) for _ in range(LINES)]
        self.ends = [rng.choice(END_MARKS) for _ in range(LINES)]

    def text(self) -> str:
        for name, given in self.given.items():
            getattr(self, f"_{KIND_OF[name]}")(self.wanted[name], **given)
        for row in self.rows:
            row[:] = [word or self._any() for word in row]
        return "\n".join(
            f"{n} {' '.join(row)}{end}"
            for n, (row, end) in enumerate(zip(self.rows, self.ends, strict=True), start=1)
        )

    def _any(self) -> str:
        common = self.rng.random() < SHARE_COMMON * len(self.common) / len(COMMON)
        word = self.rng.choice(self.common if common else self.plain)
        return word.upper() if self.rng.random() < SHARE_CAPITALS else word

    def _first_word(self, keep: bool, line: int, word: str) -> None:
        self._put(line - 1, 0, word if keep else self._any())

    def _pair(self, keep: bool, word: str, follower: str) -> None:
        line, place = self._free(2)
        self._put(line, place, word)
        self._put(line, place + 1, follower if keep else self._any())

    def _mark_after(self, keep: bool, word: str, mark: str) -> None:
        line = self.rng.choice([n for n, row in enumerate(self.rows) if not row[-1]] or [0])
        self._put(line, -1, word)
        others = [other for other in END_MARKS if other != mark]
        self.ends[line] = mark if keep else self.rng.choice(others)

    def _in_capitals(self, keep: bool, word: str) -> None:
        self._put(*self._free(1), word if keep else word.lower())

    def _no_word(self, keep: bool, word: str) -> None:
        if not keep:
            self._put(*self._free(1), word)

    def _put(self, line: int, place: int, word: str) -> None:
        if self.rows[line][place]:
            raise Clash
        self.rows[line][place] = word

    def _free(self, room: int) -> tuple[int, int]:
        """A random place with `room` free ones from it on."""
        places = [
            (line, place)
            for line, row in enumerate(self.rows)
            for place in range(len(row) - room + 1)
            if not any(row[place : place + room])
        ]
        if not places:
            raise Clash
        return self.rng.choice(places)
