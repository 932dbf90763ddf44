"""The embedded instruction data: free text in numbered lines, and up to 12 constraints on it.

A text has 4 to 6 lines of 3 to 5 words of a small vocabulary, drawn at random, so that wherever no
constraint speaks anything goes:

    1) stone river the lamp.
    2: OWL and glass?

Each constraint is decided by one or a few tokens (`mrtpo.verifiers.constraints.local`). A prompt
has each kind once at most, on words and places for which a text that keeps all of them was found.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any

from mrtpo.verifiers.constraints import Constraint, check, constraint
from mrtpo.verifiers.constraints.local import END_MARKS, KINDS, NUMBER_MARKS

PREFIX = "local:"
NAMES = tuple(id.removeprefix(PREFIX) for id in KINDS)
LINES, LENGTHS = (4, 5, 6), (3, 4, 5)
COMMON = ("and", "the", "of", "to")
PLAIN = (
    "apple", "bird", "boat", "bread", "candle", "cloud", "door", "field", "forest", "glass", "gold",
    "honey", "island", "lamp", "moon", "ocean", "owl", "paper", "rain", "river", "silver", "stone",
    "tiger", "winter",
)  # fmt: skip
# Kept whole by the small decoder's tokenizer, and the same in a rule as in a text.
TOKENS = (
    *(f" {word}" for plain in (*COMMON, *PLAIN) for word in (plain, plain.upper())),
    *END_MARKS, *NUMBER_MARKS, *(str(number) for number in range(1, 10)),
)  # fmt: skip
SHARE_COMMON = 0.32
SHARE_CAPITALS = 0.05
ATTEMPTS = 200


class Clash(Exception):
    """Two constraints want the same place, or there is no place left."""


def drawn(count: int, rng: random.Random) -> tuple[tuple[Constraint, ...], str]:
    """`count` constraints of different kinds, in a random order, and a text that keeps them."""
    while True:
        constraints = _drawn(rng.sample(NAMES, count), rng)
        try:
            return constraints, written(constraints, frozenset(NAMES), frozenset(), rng)
        except Clash:
            continue


def _drawn(names: Sequence[str], rng: random.Random) -> tuple[Constraint, ...]:
    words = iter(rng.sample(PLAIN, len(PLAIN)))

    def arguments(name: str) -> dict[str, Any]:
        line = rng.randint(1, LINES[0])
        match name:
            case "first_word" | "last_word" | "has_word":
                return {"line": line, "word": next(words)}
            case "no_word":
                return {"word": rng.choice(COMMON)}
            case "pair":
                return {"word": next(words), "follower": next(words)}
            case "word_frequency":
                return {"word": next(words), "count": rng.randint(2, 3)}
            case "words":
                return {"line": line, "count": rng.choice(LENGTHS)}
            case "capitals":
                return {"line": line, "place": rng.randint(1, LENGTHS[0])}
            case "end_mark":
                return {"line": line, "mark": rng.choice(END_MARKS)}
            case "number_mark":
                return {"line": line, "mark": rng.choice(NUMBER_MARKS)}
            case "lines":
                return {"count": rng.choice(LINES)}
        line = rng.randint(2, LINES[0])
        return {"line": line, "other": rng.randint(1, line - 1)}

    return tuple(constraint(PREFIX + name, arguments(name)) for name in names)


def written(
    constraints: Sequence[Constraint],
    kept: Collection[str],
    broken: Collection[str],
    rng: random.Random,
) -> str:
    """A random text that keeps the constraints named in `kept` and breaks those in `broken`; the
    others it keeps or breaks as it happens. Raises Clash where none is found."""
    by = {c.id.removeprefix(PREFIX): c for c in constraints}
    wanted = {name: name in kept for name in by if name in kept or name in broken}
    for _ in range(ATTEMPTS):
        try:
            text = _Draft(by, wanted, rng).text()
        except Clash:
            continue
        if all(
            check(by[name].id, by[name].arguments, text).passed is passes
            for name, passes in wanted.items()
        ):
            return text
    raise Clash


class _Draft:
    """A text with what was decided of it, by line and place from 0."""

    def __init__(
        self, by: dict[str, Constraint], wanted: dict[str, bool], rng: random.Random
    ) -> None:
        self.rng, self.wanted = rng, wanted
        self.given = {name: by[name].arguments for name in wanted}
        named = {
            value for given in self.given.values() for key, value in given.items()
            if key in ("word", "follower")
        }  # fmt: skip
        self.plain = [word for word in PLAIN if word not in named]
        self.common = [
            word for word in COMMON
            if not (self._keeps("no_word") and word == self.given["no_word"]["word"])
        ]  # fmt: skip
        lengths = [rng.choice(LENGTHS) for _ in range(self._number("lines", LINES))]
        if "words" in self.given:
            lengths[self.given["words"]["line"] - 1] = self._number("words", LENGTHS)
        self.rows: list[list[str]] = [[""] * length for length in lengths]

    def _keeps(self, name: str) -> bool:
        return self.wanted.get(name, False)

    def _number(self, name: str, choices: Sequence[int]) -> int:
        if name not in self.given:
            return self.rng.choice(choices)
        right: int = self.given[name]["count"]
        if self._keeps(name):
            return right
        return self.rng.choice([number for number in choices if number != right])

    def text(self) -> str:
        rows = self.rows
        if self._keeps("first_word"):
            self._put(self.given["first_word"]["line"] - 1, 0, self.given["first_word"]["word"])
        if self._keeps("same_start"):
            self._put(self.given["same_start"]["line"] - 1, 0, "=")
        if self._keeps("last_word"):
            self._put(self.given["last_word"]["line"] - 1, -1, self.given["last_word"]["word"])
        if self._keeps("has_word"):
            at = self.given["has_word"]["line"] - 1
            self._put(at, self._free([at])[1], self.given["has_word"]["word"])
        if "pair" in self.given:
            self._pair(self.given["pair"]["word"], self.given["pair"]["follower"])
        if "word_frequency" in self.given:
            for _ in range(self._number("word_frequency", range(4))):
                self._put(*self._free(range(len(rows))), self.given["word_frequency"]["word"])
        for row in rows:
            row[:] = [word or self._any() for word in row]
        if self._keeps("same_start"):
            given = self.given["same_start"]
            rows[given["line"] - 1][0] = rows[given["other"] - 1][0]
        self._capitals()
        ends = self._marks("end_mark", END_MARKS)
        numbers = self._marks("number_mark", NUMBER_MARKS)
        return "\n".join(
            f"{n}{numbers[n - 1]} {' '.join(row)}{ends[n - 1]}"
            for n, row in enumerate(rows, start=1)
        )

    def _any(self) -> str:
        common = self.rng.random() < SHARE_COMMON * len(self.common) / len(COMMON)
        return self.rng.choice(self.common if common else self.plain)

    def _put(self, line: int, place: int, word: str) -> None:
        if self.rows[line][place]:
            raise Clash
        self.rows[line][place] = word

    def _free(self, lines: Collection[int], room: int = 1) -> tuple[int, int]:
        """A random place with `room` free ones from it on."""
        places = [
            (line, place)
            for line in lines
            for place in range(len(self.rows[line]) - room + 1)
            if not any(self.rows[line][place : place + room])
        ]
        if not places:
            raise Clash
        return self.rng.choice(places)

    def _pair(self, word: str, follower: str) -> None:
        line, place = self._free(range(len(self.rows)), 2)
        self.rows[line][place] = word
        self.rows[line][place + 1] = follower if self._keeps("pair") else self._any()

    def _capitals(self) -> None:
        for row in self.rows:
            row[:] = [w.upper() if self.rng.random() < SHARE_CAPITALS else w for w in row]
        if "capitals" in self.given:
            row, at = self.rows[self.given["capitals"]["line"] - 1], self.given["capitals"]["place"]
            word = row[at - 1]
            row[at - 1] = word.upper() if self._keeps("capitals") else word.lower()

    def _marks(self, name: str, marks: Sequence[str]) -> list[str]:
        found = [self.rng.choice(marks) for _ in self.rows]
        if name in self.given:
            right = self.given[name]["mark"]
            others = [mark for mark in marks if mark != right]
            found[self.given[name]["line"] - 1] = (
                right if self._keeps(name) else self.rng.choice(others)
            )
        return found
