"""Demonstrations for the supervised start, right or wrong on purpose.

The small policy must learn two things before RL can teach it anything: to answer at all, and to
use what stands in its context. So a demonstration is faultless in whatever its prompt tells (the
format rule, the names that exist, the reference), and errs at times in what it does not tell. Each
decision errs by itself, with the chance that `noise` gives for its reward: each decision of the
query, each name in it, each mark of the format. So several rewards may fail at once, each at places
of its own, as a policy's do.

The think part is worded freely: sentences in varied order about the tables, columns and conditions
of the reference, and filler. No reward depends on it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mrtpo.tasks.text2sql.decisions import erring
from mrtpo.tasks.text2sql.lexemes import Lexeme, Names, clauses, lexemes, qualifies, roles
from mrtpo.tasks.text2sql.prompts import FENCES, TAGS, render

FILLER = (
    "Let me see.", "Step by step.", "This is not hard.", "One thing at a time.", "Right.",
    "I read it again.", "So far so good.", "That should do.",
)  # fmt: skip
SPOKEN = {
    ">": "over", "<": "under", ">=": "at least", "<=": "at most", "=": "being", "!=": "not being",
    "in": "among", "is": "being", "null": "missing", "like": "like", "between": "between",
    "desc": "downwards", "asc": "upwards", "count": "counted", "avg": "average", "max": "highest",
    "min": "lowest", "sum": "total",
}  # fmt: skip
STARTS = {
    "select": ("Return", "The answer has", "I want"),
    "from": ("Use", "Look at", "I need"),
    "where": ("Keep", "Only if", "The condition is"),
    "group": ("One row per", "Group by", "For each"),
    "having": ("Keep groups of", "Groups need"),
    "order": ("Sort by", "In order of"),
    "limit": ("Take", "Cut at"),
}
LEFT_OUT = 0.15  # chance of a sentence not to be said


def demonstration(
    reference: str,
    names: Names,
    told: frozenset[str],
    noise: dict[str, float],
    rng: random.Random,
) -> str:
    """A response to a prompt whose reference is `reference`.

    `noise` maps reward to the chance of an error in each decision, where the reward's information
    is not told.
    """
    chance = {reward: 0.0 if reward in told else value for reward, value in noise.items()}
    sql = erring(reference, names, chance.get("execution", 0.0), rng)
    sql = misnamed(sql, names, chance.get("executability", 0.0), rng)
    return malformed(render(plan(reference, names, rng), sql), chance.get("format", 0.0), rng)


def plan(sql: str, names: Names, rng: random.Random) -> str:
    """The think part for a query: what it uses, in words."""
    found = lexemes(sql)
    sentences = []
    for word, first, last in clauses(found):
        if word in STARTS and found[first].depth == 0 and rng.random() >= LEFT_OUT:
            said = _spoken(found[first + 1 : last], word)
            sentences.append(f"{rng.choice(STARTS[word])} {said}.")
    if rng.random() < 0.4:
        rng.shuffle(sentences)
    if rng.random() < 0.5 or not sentences:
        sentences.insert(0, rng.choice(FILLER))
    if rng.random() < 0.3:
        sentences.append(rng.choice(FILLER))
    return " ".join(sentences)


def _spoken(found: Sequence[Lexeme], clause: str) -> str:
    """A clause in words: join conditions, inner queries and brackets are left out."""
    words: list[str] = []
    on = False
    for i, lexeme in enumerate(found):
        on = (on or lexeme.lower in ("on", "using")) and lexeme.lower != "join"
        inner = lexeme.lower == "select" and lexeme.depth > 0
        if inner:
            return " ".join([*words, "what a query gives"])
        if on or lexeme.text in ("(", ")", ".", "*") or lexeme.lower == "by":
            continue
        if lexeme.lower in ("join", ","):
            words.append("and")
        elif not qualifies(found, i) and lexeme.lower != "asc":
            words.append(SPOKEN.get(lexeme.lower, lexeme.text.replace("%", "")))
    return " ".join(words) if clause != "limit" else " ".join([*words, "rows"])


def misnamed(sql: str, names: Names, chance: float, rng: random.Random) -> str:
    """The query with each of its names called by one that does not exist, by chance."""
    found = lexemes(sql)
    known = {name.lower() for table, columns in names.items() for name in (table, *columns)}
    parts, at = [], 0
    for i in roles(found, names).names:
        if rng.random() >= chance:
            continue
        name = found[i].name
        wrong = [w for w in (f"{name}s", f"the_{name}", f"{name}_name", f"{name}_no")
                 if w not in known]  # fmt: skip
        parts += [sql[at : found[i].start], rng.choice(wrong)]
        at = found[i].end
    return "".join([*parts, sql[at:]])


def malformed(response: str, chance: float, rng: random.Random) -> str:
    """The response with each tag and fence left out, said twice, or with text behind, by chance."""
    at = 0
    for mark in (TAGS[0], TAGS[1], TAGS[2], FENCES[0], FENCES[1], TAGS[3]):
        start = response.index(mark, at)
        at = start + len(mark)
        if rng.random() >= chance:
            continue
        instead = rng.choice(("", "", f"{mark}\n{mark}", f"{mark}\nThe query follows.\n"))
        if mark in (TAGS[0], FENCES[0]) and "follows" in instead:
            instead = f"The query follows.\n{mark}"
        end = at + (instead == "" and response[at : at + 1] == "\n")
        response = response[:start] + instead + response[end:]
        at = start + len(instead)
    return response
