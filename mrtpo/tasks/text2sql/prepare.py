"""Prompts of the text-to-SQL task: generated here, or read from Spider's or BIRD's folders.

Splits share no database. Synthetic: a fixed share of the databases for valid and test. Spider and
BIRD: test is the dev split; valid is carved from train by whole databases.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrtpo.config import Data, Settings, data_folder, databases_folder
from mrtpo.progress import Progress
from mrtpo.records import Prompt
from mrtpo.tasks.base import Prepared
from mrtpo.tasks.text2sql import synthetic
from mrtpo.tasks.text2sql.budget import PromptTooLong, PromptWriter, characters
from mrtpo.tasks.text2sql.databases import Databases
from mrtpo.tasks.text2sql.sources import Question, Source, copy_databases, read_source
from mrtpo.validation import Limits
from mrtpo.verifiers.sql import ReferenceOutcome, SQLJob, SQLVerifier

SPLITS = ("train", "valid", "test")
CHECKED_AT_ONCE = 256
HELD_OUT = 0.1  # share of the synthetic databases for valid, and again for test


def database_file(folder: Path, db_id: str) -> Path:
    return folder / "databases" / db_id / f"{db_id}.sqlite"


def prepare(settings: Settings, folder: Path, verifier: SQLVerifier) -> Prepared:
    """All prompts, with the databases they need written below `folder`."""
    smallest: float | None = None
    largest: float | None = None
    if settings.data.source == "synthetic":
        pools = _generated(settings, folder)
        smallest, largest = 0.04, 0.3
    else:
        pools = _read(settings)
    limits = Limits(
        settings.data.max_prompt_chars if settings.data.max_prompt_tokens is None else None,
        unseen_sources=True,
        text=("question", "prompt", "reference"), smallest_kind=smallest, largest_kind=largest,
    )  # fmt: skip
    builder = _Builder(settings, pools, verifier)
    prompts = {split: builder.take(split) for split in SPLITS}
    if pools.source is not None:
        used = {prompt.source for rows in prompts.values() for prompt in rows}
        copy_databases(pools.databases, used, folder)
    return Prepared(prompts, builder.rows, limits, dict(builder.counts))


@dataclass
class _Pools:
    """Questions of each split in a seeded order, the kind of each, and where its database is."""

    questions: dict[str, list[Question]]
    kinds: dict[int, str]
    databases: Databases
    counts: Counter[str]
    source: Source | None = None

    def shuffle(self, seed: int) -> None:
        for split, questions in self.questions.items():
            random.Random(f"sample {seed} {split}").shuffle(questions)


def _generated(settings: Settings, folder: Path) -> _Pools:
    data, seed = settings.data, settings.seed
    specs = synthetic.make_databases(data.databases, seed)
    order = list(range(len(specs)))
    random.Random(f"split {seed}").shuffle(order)
    held = max(2, round(HELD_OUT * len(specs)))
    of_split = {"test": order[:held], "valid": order[held : 2 * held], "train": order[2 * held :]}
    databases = Databases([folder / "databases"], [])
    pools = _Pools({split: [] for split in SPLITS}, {}, databases, Counter())
    for split in SPLITS:
        share = -(-_wanted(data, split) // len(of_split[split]))
        for index in of_split[split]:
            spec = specs[index]
            path = database_file(folder, spec.db_id)
            synthetic.write_database(spec, path, seed)
            for number, example in enumerate(synthetic.make_questions(spec, path, share, seed)):
                question = Question(
                    spec.db_id, example.question, example.sql, "",
                    synthetic.DIFFICULTY[example.kind], f"synthetic/{spec.db_id}", number,
                )  # fmt: skip
                pools.kinds[id(question)] = example.kind
                pools.questions[split].append(question)
    pools.shuffle(seed)
    return pools


def _read(settings: Settings) -> _Pools:
    data, seed = settings.data, settings.seed
    folder = data_folder(data)
    source = read_source(data.source, folder, databases_folder(data))  # type: ignore[arg-type]
    if not source.train:
        raise ValueError(f"{folder}: no questions for training (a train file is needed)")
    counts = Counter(
        {
            f"dropped/{s}/{why}": n
            for s, reasons in source.dropped.items()
            for why, n in reasons.items()
        }
    )
    train, dev = source.train, source.dev
    databases = sorted({q.db_id for q in train})
    random.Random(f"split {seed}").shuffle(databases)
    valid: set[str] = set()
    # Half as many again as wanted, since some references will fail.
    for db_id in databases[: len(databases) // 5]:
        if sum(q.db_id in valid for q in train) >= 1.5 * data.valid_prompts:
            break
        valid.add(db_id)
    questions = {
        "train": [q for q in train if q.db_id not in valid],
        "valid": [q for q in train if q.db_id in valid],
        "test": dev,
    }
    kinds = {id(q): sql_kind(q.sql) for rows in questions.values() for q in rows}
    pools = _Pools(questions, kinds, source.databases, counts, source)
    pools.shuffle(seed)
    return pools


def _wanted(data: Data, split: str) -> int:
    return {"train": data.train_prompts, "valid": data.valid_prompts, "test": data.test_prompts}[
        split
    ]


class _Builder:
    """Takes questions from the pools until each split is full, and counts what it leaves out.

    Faults of generated questions are ours and left for validation to find; those of data that was
    read (a reference that fails or returns nothing, a prompt that is too long) are dropped by
    reason.
    """

    def __init__(self, settings: Settings, pools: _Pools, verifier: SQLVerifier) -> None:
        self.data, self.pools, self.verifier = settings.data, pools, verifier
        self.counts = pools.counts
        self.rows: list[dict[str, Any]] = []
        self.writer = PromptWriter(settings, pools.databases)

    def take(self, split: str) -> list[Prompt]:
        wanted, pool = _wanted(self.data, split), self.pools.questions[split]
        prompts: list[Prompt] = []
        with Progress(f"prepare {split}", min(wanted, len(pool)), unit="prompt") as progress:
            for start in range(0, len(pool), CHECKED_AT_ONCE):
                chunk = pool[start : start + CHECKED_AT_ONCE]
                jobs = [SQLJob(self._file(q), "", q.sql) for q in chunk]
                outcomes = self.verifier.run_reference(jobs)
                for question, outcome in zip(chunk, outcomes, strict=True):
                    if len(prompts) == wanted:
                        break
                    self._add(split, question, outcome, prompts)
                progress.update(len(prompts))
                if len(prompts) == wanted:
                    break
        self.counts[f"prompts/{split}"] = len(prompts)
        self.counts[f"databases/{split}"] = len({prompt.source for prompt in prompts})
        return prompts

    def _add(
        self, split: str, question: Question, outcome: ReferenceOutcome, prompts: list[Prompt]
    ) -> None:
        generated = self.data.source == "synthetic"
        if not generated and (why := _fault(outcome)):
            self.counts[f"dropped/{split}/{why}"] += 1
            return
        name = f"{split}-{len(prompts):05d}"
        try:
            prompt = self.writer.write(
                question, id=name, split=split, kind=self.pools.kinds[id(question)]
            )
        except PromptTooLong:
            if generated:
                raise
            too_long = f"prompt over {self.writer.limit} {self.writer.unit}"
            self.counts[f"dropped/{split}/{too_long}"] += 1
            return
        if reduced := json.loads(prompt.payload).get("reduced"):
            self.counts[f"reduced/{split}/{reduced}"] += 1
        prompts.append(prompt)
        self.rows.append(_validation_row(prompt, question, outcome))

    def _file(self, question: Question) -> Path:
        found = self.pools.databases.file(question.db_id)
        assert found is not None, question  # read_source keeps no other
        return found


def _fault(outcome: ReferenceOutcome) -> str | None:
    if outcome.status != "ok":
        return f"reference {outcome.status}"
    return None if outcome.rows else "reference returns nothing"


def _validation_row(
    prompt: Prompt, question: Question, outcome: ReferenceOutcome
) -> dict[str, Any]:
    meaning = f"{prompt.source} {question.question} {prompt.reference}".lower()
    return {
        "id": prompt.id,
        "split": prompt.split,
        "kind": prompt.kind,
        "difficulty": prompt.difficulty or None,
        "source": prompt.source,
        "question": question.question,
        "prompt": prompt.messages[-1].content,
        "prompt_chars": characters(prompt),
        "reference": prompt.reference,
        "reference_status": outcome.status,
        "reference_rows": outcome.rows or 0,
        "file": question.file,
        "row": question.row,
        "fingerprint": re.sub(r"\W+", " ", meaning).strip(),
    }


_KINDS: Sequence[tuple[str, str]] = (
    ("set", r"\b(union|intersect|except)\b"),
    ("nested", r"\(\s*select\b"),
    ("join", r"\bjoin\b"),
    ("group", r"\bgroup\s+by\b"),
    ("limit", r"\blimit\b"),
    ("order", r"\border\s+by\b"),
    ("filter", r"\bwhere\b"),
    ("aggregate", r"\b(count|sum|avg|min|max)\s*\("),
)


def sql_kind(sql: str) -> str:
    """The hardest construct of a query, for reports: set, nested, join, group, limit, …, select."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "''", sql.lower())
    return next((kind for kind, pattern in _KINDS if re.search(pattern, text)), "select")
