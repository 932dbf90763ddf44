"""The embedded instruction data: free text in numbered lines, and up to 12 constraints on it.

A text has 6 lines of 3 to 5 words, drawn at random, so that wherever no constraint speaks anything
goes:

    1 stone and river, the lamp
    2 OWL of glass

A rule looks like what it asks for (`2 owl`, `Always of!`, `Never the`), so that a policy which
copies can follow it. Each is decided by one or a few tokens (`mrtpo.verifiers.constraints.local`):
the first word of a line, or what becomes of one of the common words, of which a text has several.
A prompt has each reward once at most, on words for which a text that keeps all of them was found.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mrtpo.verifiers.constraints import Constraint, check, constraint
from mrtpo.verifiers.constraints.local import MARKS

PREFIX = "local:"
LINES, LENGTHS = 6, (3, 4, 5)
KIND_OF = {
    **{f"line_{number}": "first_word" for number in range(1, LINES + 1)},
    "pair_1": "pair", "pair_2": "pair", "mark_1": "mark_after", "mark_2": "mark_after",
    "capitals": "in_capitals", "no_word": "no_word",
}  # fmt: skip
NAMES = tuple(KIND_OF)
"""The rewards, by the kind of constraint that each is."""
COMMON = ("and", "by", "for", "in", "of", "on", "the", "to")
PLAIN = (
    "bird", "boat", "bread", "cloud", "door", "field", "flame", "garden", "glass", "gold", "hill",
    "honey", "lamp", "leaf", "moon", "ocean", "owl", "pearl", "rain", "river", "stone", "storm",
    "tree", "winter",
)  # fmt: skip
# Kept whole by the small decoder's tokenizer, and the same in a rule as in a text.
TOKENS = (
    *(f" {word}" for plain in (*COMMON, *PLAIN) for word in (plain, plain.upper())),
    *MARKS, *(str(number) for number in range(1, LINES + 1)),
)  # fmt: skip
SHARE_COMMON = 0.5
SHARE_CAPITALS = 0.05
SHARE_MARKS = 0.15
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
    common = iter(rng.sample(COMMON, len(COMMON)))

    def arguments(name: str) -> dict[str, Any]:
        match KIND_OF[name]:
            case "first_word":
                return {"line": int(name.removeprefix("line_")), "word": next(words)}
            case "pair":
                return {"word": next(common), "follower": next(words)}
            case "mark_after":
                return {"word": next(common), "mark": rng.choice(MARKS)}
            case "in_capitals":
                return {"word": next(common).upper()}
        return {"word": next(common)}

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
    """A text with what was decided of it: the words that have to stand somewhere, by line and place
    from 0, and what becomes of a common word wherever it stands."""

    def __init__(self, rules: Rules, wanted: Mapping[str, bool], rng: random.Random) -> None:
        self.rng, self.rows = rng, [[""] * rng.choice(LENGTHS) for _ in range(LINES)]
        self.followers: dict[str, str] = {}
        self.marks: dict[str, str] = {}
        self.capitals: set[str] = set()
        self.never: set[str] = set()
        for name, keep in wanted.items():
            self._decide(KIND_OF[name], keep, **rules[name].arguments)

    def _decide(
        self, kind: str, keep: bool, word: str, line: int = 1, follower: str = "", mark: str = ""
    ) -> None:
        word = word.lower()
        if kind == "first_word":
            if keep:
                self.rows[line - 1][0] = word
            return
        if kind == "no_word" and keep:
            self.never.add(word)
            return
        self._put(word, follower if keep else "")
        if keep and kind == "pair":
            self.followers[word] = follower
        elif keep and kind == "mark_after":
            self.marks[word] = mark
        elif keep and kind == "in_capitals":
            self.capitals.add(word)

    def _put(self, word: str, follower: str) -> None:
        """`word`, with its follower, at a random free place."""
        wanted = [word, follower] if follower else [word]
        places = [
            (row, at)
            for row in self.rows
            for at in range(len(row) - len(wanted) + 1)
            if not any(row[at : at + len(wanted)])
        ]
        if not places:
            raise Clash
        row, at = self.rng.choice(places)
        row[at : at + len(wanted)] = wanted

    def text(self) -> str:
        return "\n".join(
            f"{number} {' '.join(self._line(row))}" for number, row in enumerate(self.rows, start=1)
        )

    def _line(self, row: list[str]) -> Iterator[str]:
        before = ""
        for at, given in enumerate(row):
            followed = self.followers.get(before, "")
            if given and followed not in ("", given):
                raise Clash
            before = given or followed or self._any(last=at == len(row) - 1)
            yield self._shown(before)

    def _any(self, last: bool) -> str:
        """A word that may stand anywhere; one that has to be followed not at the end of a line."""
        common = self.rng.random() < SHARE_COMMON
        while True:
            word = self.rng.choice(COMMON if common else PLAIN)
            if word not in self.never and not (last and word in self.followers):
                return word

    def _shown(self, word: str) -> str:
        mark = self.marks.get(word) or (
            self.rng.choice(MARKS) if self.rng.random() < SHARE_MARKS else ""
        )
        upper = word in self.capitals or self.rng.random() < SHARE_CAPITALS
        return (word.upper() if upper else word) + mark
