"""Which questions of a public set are for training, for choosing a checkpoint and for the test.

    test    the split that the set is scored on; carved from train where train is all there is
    valid   the set's own (EHRSQL), else carved from train
    train   what the set has for training (ScienceBenchmark: seed and synth)

What is carved is at most a fifth: whole databases where splits are to have their own, else
questions with all their wordings. A question that is also in test or valid leaves training, and so
does a database of the test where splits are to have their own.

Rows that are sound but of no use (a reference marked as failing, an unanswerable question, no
database, a repetition, a leak) are dropped and counted by reason: nothing disappears silently.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mrtpo.tasks.text2sql.databases import Databases
from mrtpo.tasks.text2sql.layouts import LAYOUTS, Kind, Layout, places, question_files
from mrtpo.tasks.text2sql.sources import Question, each_question, scored_split

MOST = 50_000  # rows of a split that are looked at; of more, so many are drawn by the seed
HELD_OUT = 0.2  # largest share of the training databases, or questions, for a carved split
SPARE = 1.5  # carved questions for each that is wanted, since some references will fail


@dataclass
class Splits:
    """`rows`: what was read for a split; `dropped`: how much of it is of no use, by reason."""

    questions: dict[str, list[Question]]
    databases: Databases
    rows: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, Counter[str]] = field(default_factory=dict)


def read_splits(
    kind: Kind,
    folder: Path,
    databases: Path | None = None,
    *,
    wanted: Mapping[str, int],
    seed: int,
) -> Splits:
    """Questions of train, valid and test, each with a database that is there.

    Raises ValueError naming file, row and field on bad input, and where train or test is empty.
    """
    layout, place = LAYOUTS[kind], places(kind, folder, databases)
    found = Splits({}, Databases(place.databases, place.tables))
    for split, names in _named(kind, layout, place.root, folder).items():
        read: list[Question] = []
        dropped: Counter[str] = Counter()
        found.rows[split] = 0
        for name in names:
            rows = each_question(kind, place.root, name, found.databases)
            drawn, count = _draw(rows, f"{seed} {kind} {name}")
            found.rows[split] += count
            if count > len(drawn):
                dropped["not drawn"] += count - len(drawn)
            read += drawn
        found.questions[split], reasons = useful(read, found.databases)
        found.dropped[split] = dropped + reasons
        if names and not found.questions[split]:
            raise ValueError(_nothing_left(place.root, split, found))
    _leaks(found, layout)
    for split in ("test", "valid"):
        if not found.questions[split]:
            _carve(found, split, layout, place.root, wanted[split], seed)
    if not found.questions["train"]:
        raise ValueError(_nothing_left(place.root, "train", found))
    return found


def useful(
    questions: Iterable[Question], databases: Databases
) -> tuple[list[Question], Counter[str]]:
    """The questions worth keeping, and why others are not."""
    kept: dict[tuple[str, str, str], Question] = {}
    dropped: Counter[str] = Counter()
    for question in questions:
        key = (question.db_id, question.question, question.sql)
        if not question.answerable:
            dropped["unanswerable"] += 1
        elif question.status != "ok":
            dropped[f"gold status {question.status}"] += 1
        elif databases.file(question.db_id) is None:
            dropped["database missing"] += 1
        elif key in kept:
            dropped["duplicate"] += 1
        else:
            kept[key] = question
    return list(kept.values()), dropped


def fingerprint(question: Question) -> str:
    """Equal for questions that differ in case and punctuation only; leaks are found by it."""
    meaning = f"{question.db_id} {question.question} {question.sql}".lower()
    return re.sub(r"\W+", " ", meaning).strip()


def copy_databases(databases: Databases, db_ids: Collection[str], folder: Path) -> None:
    """Copies to `folder/databases/<db_id>/<db_id>.sqlite`; only the named ones.

    Copies and not links, since DVC versions the folder and a link would point out of it.
    """
    for db_id in sorted(db_ids):
        target = folder / "databases" / db_id / f"{db_id}.sqlite"
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        file = databases.file(db_id)
        assert file is not None, db_id  # of a question that was kept
        shutil.copyfile(file, temporary)
        temporary.replace(target)


def _named(kind: Kind, layout: Layout, root: Path, folder: Path) -> dict[str, list[str]]:
    """The set's own splits that train, valid and test are read from."""
    there = [split for split in layout.files if question_files(kind, root, split)]
    if not layout.train:
        raise ValueError(
            f"{root}: {kind} has no questions for training; train on another set (spider, "
            f"spider_syn) and score the checkpoint: python -m mrtpo score {kind}"
        )
    test = [scored_split(kind, folder)] if set(layout.test) & set(there) else []
    train = [split for split in layout.train if split in there and split not in test]
    if not train and test and test[0] in layout.train:
        train, test = test, []
    if not train:
        names = [name for split in layout.train for names in layout.files[split] for name in names]
        raise ValueError(f"{root}: no questions for training: none of {', '.join(names)} is there")
    valid = [split for split in layout.valid if split in there and split not in test]
    return {"train": train, "valid": valid, "test": test}


def _draw(questions: Iterable[Question], seed: str) -> tuple[list[Question], int]:
    """At most `MOST` questions in their order, and how many there were."""
    count = 0

    def counted() -> Iterable[tuple[bytes, int, Question]]:
        nonlocal count
        for question in questions:
            count += 1
            rank = hashlib.sha1(f"{seed} {question.index}".encode()).digest()
            yield rank, question.index, question

    drawn = heapq.nsmallest(MOST, counted(), key=lambda item: item[:2])
    return [question for _, _, question in sorted(drawn, key=lambda item: item[1])], count


def _leaks(found: Splits, layout: Layout) -> None:
    """Takes out of train, and of valid, what the test has, and out of train what valid has."""
    for split, later in (("valid", "test"), ("train", "test"), ("train", "valid")):
        others = found.questions[later]
        prints = {fingerprint(question) for question in others}
        held = {question.db_id for question in others} if layout.disjoint else set()
        kept = []
        for question in found.questions[split]:
            if question.db_id in held:
                found.dropped[split][f"database also in {later}"] += 1
            elif fingerprint(question) in prints:
                found.dropped[split][f"also in {later}"] += 1
            else:
                kept.append(question)
        found.questions[split] = kept


def _carve(found: Splits, split: str, layout: Layout, root: Path, wanted: int, seed: int) -> None:
    """Moves part of train to an empty split."""
    train = found.questions["train"]
    part: Callable[[Question], str] = (
        (lambda question: question.db_id) if layout.disjoint else fingerprint
    )
    sizes = Counter(map(part, train))
    names = sorted(sizes)
    random.Random(f"split {seed}" if split == "valid" else f"{split} {seed}").shuffle(names)
    chosen: set[str] = set()
    count = 0
    for name in names[: int(len(names) * HELD_OUT)]:
        if count >= SPARE * wanted:
            break
        chosen.add(name)
        count += sizes[name]
    if not chosen:
        what = "databases" if layout.disjoint else "questions"
        raise ValueError(
            f"{root}: {len(names)} training {what} are too few to set some aside for {split}"
        )
    found.questions[split] = [question for question in train if part(question) in chosen]
    found.questions["train"] = [question for question in train if part(question) not in chosen]


def _nothing_left(root: Path, split: str, found: Splits) -> str:
    counts = found.dropped[split]
    if counts["database missing"]:
        return (
            f"{root}: no database file for any of {counts['database missing']} questions of "
            f"{split}; {found.databases.missing()}. Put them there, or name their folder in "
            "data.databases_path"
        )
    reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(counts.items()))
    return f"{root}: no question of {split} is left ({reasons})"
