"""Prompts of training sets by split: as they stand, listed anew, or with composed constraints.

A prompt that states each of its constraints once, in a place of its own, is taken as it is. Else,
where its text without constraints is known, these are listed at its end in our own words. All other
prompts are dropped and counted: leaving a constraint out must take it out of the prompt.

Splits: a set's own test file is the test split; what else is needed is carved from train by whole
questions, at most a tenth for each.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from mrtpo.config import Data, data_folder
from mrtpo.records import Message
from mrtpo.tasks.instruct.compose import compose
from mrtpo.tasks.instruct.layouts import locate, split_files
from mrtpo.tasks.instruct.listing import listed
from mrtpo.tasks.instruct.questions import read_questions
from mrtpo.tasks.instruct.sources import Sample, Samples, read_samples
from mrtpo.tasks.instruct.witness import witness
from mrtpo.verifiers.constraints import Constraint, sentence

MOST = 12
ATTEMPTS = 5  # compositions drawn for a prompt until one is found that a text keeps
CARVED = 10  # at most one in so many, of all questions, for valid and for test


class Unplaced(Exception):
    """A sample that no prompt can be made of; the reason is counted."""


@dataclass(frozen=True)
class Asked:
    """A prompt as it is put. `lines[k]` states `constraints[k]` and stands in the messages once.

    `kept` is a text that keeps all constraints, where one was looked for.
    """

    messages: tuple[Message, ...]
    question: str
    constraints: tuple[Constraint, ...]
    lines: tuple[str, ...]
    kept: str | None = None


@dataclass
class Pools:
    """Samples of each split in a seeded order, and counts by reason."""

    samples: dict[str, list[Sample]]
    counts: Counter[str] = field(default_factory=Counter)


def read_pools(data: Data, seed: int) -> Pools:
    """Raises ValueError naming file, row and field on bad input."""
    found: dict[str, list[Sample]] = {"train": [], "test": []}
    counts: Counter[str] = Counter()
    for split, files in split_files(locate(data.source, data_folder(data))).items():
        if not files:
            continue
        read = read_questions(files) if data.source == "composed" else read_samples(
            files, data.source)  # fmt: skip
        counts[f"rows/{split}"] = len(read.samples) + read.dropped.total()
        counts.update({f"dropped/{split}/{why}": n for why, n in read.dropped.items()})
        counts.update({f"unchecked/{split}/{why}": n for why, n in read.unchecked.items()})
        found[split] = _distinct(read, split, counts)
    train, test = found["train"], found["test"]
    if not test:
        train, test = _divided(train, data.test_prompts, f"test {seed}")
    train, valid = _divided(train, data.valid_prompts, f"valid {seed}")
    asked = {fingerprint(sample) for sample in test}
    pools = {"train": train, "valid": valid, "test": test}
    for split in ("train", "valid"):
        kept = [sample for sample in pools[split] if fingerprint(sample) not in asked]
        counts[f"dropped/{split}/also in test"] += len(pools[split]) - len(kept)
        pools[split] = kept
    for split, samples in pools.items():
        random.Random(f"sample {seed} {split}").shuffle(samples)
    return Pools(pools, +counts)


def fingerprint(sample: Sample) -> str:
    """The question without constraints, where these can be told, else the whole prompt; without
    case and punctuation."""
    text = sample.bare if sample.bare is not None else sample.messages[-1].content
    before = " ".join(message.content for message in sample.messages[:-1])
    return re.sub(r"\W+", " ", f"{before} {text}".lower()).strip()


def _distinct(read: Samples, split: str, counts: Counter[str]) -> list[Sample]:
    """Samples that ask for the same are one."""
    seen: set[tuple[str, str]] = set()
    kept = []
    for sample in read.samples:
        key = (fingerprint(sample), repr([c.constraint for c in sample.constraints]))
        if key in seen:
            counts[f"dropped/{split}/duplicate"] += 1
        else:
            kept.append(sample)
        seen.add(key)
    return kept


def _divided(samples: list[Sample], count: int, seed: str) -> tuple[list[Sample], list[Sample]]:
    """The samples in two, the second of about `count`; samples of a question stay together."""
    questions = sorted({fingerprint(sample) for sample in samples})
    random.Random(seed).shuffle(questions)
    chosen = set(questions[: min(count, max(1, len(questions) // CARVED))])
    rest = [sample for sample in samples if fingerprint(sample) not in chosen]
    return rest, [sample for sample in samples if fingerprint(sample) in chosen]


def asked_of(sample: Sample, data: Data, seed: int) -> Asked:
    """The prompt of a sample. Raises Unplaced with the reason where there is none."""
    if data.source == "composed":
        return _composed(sample, data, seed)
    constraints = tuple(checked.constraint for checked in sample.constraints)
    if len(constraints) > MOST:
        raise Unplaced(f"more than {MOST} constraints")
    lines = tuple(checked.stated for checked in sample.constraints)
    if stated_fault(sample.messages, lines) == "":
        question = sample.bare or sample.messages[-1].content
        return Asked(sample.messages, question, constraints, lines)
    if sample.bare is None:
        raise Unplaced("constraints without a place of their own")
    sentences = [sentence(c.id, c.arguments) for c in constraints]
    try:
        text, stated = listed(sample.bare, sentences)
    except ValueError as error:
        raise Unplaced("a constraint is stated twice") from error
    messages = (*sample.messages[:-1], Message("user", text))
    return Asked(messages, sample.bare, constraints, tuple(stated))


def _composed(sample: Sample, data: Data, seed: int) -> Asked:
    assert sample.bare is not None
    rng = random.Random(f"compose {seed} {fingerprint(sample)}")
    for _ in range(ATTEMPTS):
        count = rng.randint(data.fewest_constraints, data.most_constraints)
        made = compose(sample.bare, count, rng)
        if (kept := witness(made.constraints)) is not None:
            messages = (*sample.messages[:-1], Message("user", made.text))
            return Asked(messages, sample.bare, made.constraints, made.lines, kept)
    raise Unplaced("no text was found that keeps the constraints")


def stated_fault(messages: Sequence[Message], lines: Sequence[str]) -> str:
    """The first line that does not stand in the messages once, or stands in another; else ''."""
    for line in lines:
        count = sum(message.content.count(line) for message in messages) if line else 0
        if count != 1:
            return f"stated {count} times: {line!r:.80}"
    text = "\n".join(message.content for message in messages)
    spans = sorted((text.index(line), text.index(line) + len(line), line) for line in lines)
    for (_, end, _), (start, _, line) in combinations(spans, 2):
        if start < end:
            return f"stated inside another: {line!r:.80}"
    return ""
