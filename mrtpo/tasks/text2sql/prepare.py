"""Prompts of the text-to-SQL task: generated here, or read from a public set.

Splits of generated data share no database: a fixed share of them is for valid and test. `splits`
says how public sets are divided.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mrtpo.config import Settings, data_folder, databases_folder
from mrtpo.progress import Progress
from mrtpo.records import Prompt
from mrtpo.tasks.base import Prepared, wanted
from mrtpo.tasks.text2sql.budget import PromptTooLong, PromptWriter, characters
from mrtpo.tasks.text2sql.databases import Databases
from mrtpo.tasks.text2sql.layouts import LAYOUTS, Kind
from mrtpo.tasks.text2sql.questions import LEVELS, Example, make_questions
from mrtpo.tasks.text2sql.sources import Question
from mrtpo.tasks.text2sql.splits import copy_databases, fingerprint, read_splits
from mrtpo.tasks.text2sql.synthetic import make_databases, write_database
from mrtpo.validation import Limits
from mrtpo.verifiers.sql import ReferenceOutcome, SQLJob, SQLVerifier

SPLITS = ("train", "valid", "test")
CHECKED_AT_ONCE = 256
HELD_OUT = 0.1  # share of the synthetic databases for valid, and again for test


def database_file(folder: Path, db_id: str) -> Path:
    return folder / "databases" / db_id / f"{db_id}.sqlite"


def prepare(settings: Settings, folder: Path, verifier: SQLVerifier) -> Prepared:
    """All prompts, with the databases they need written below `folder`."""
    data = settings.data
    limits = Limits(
        data.max_prompt_chars if data.max_prompt_tokens is None else None, unseen_sources=True,
        text=("question", "prompt", "reference"), max_prompt_tokens=data.max_prompt_tokens,
    )  # fmt: skip
    if data.source == "synthetic":
        pools = _generated(settings, folder)
        limits = replace(limits, smallest_kind=0.03, largest_kind=0.3)
    else:
        pools, layout = _read(settings), LAYOUTS[data.source]  # type: ignore[index]
        limits = replace(
            limits, unseen_sources=layout.disjoint, filled=layout.filled,
            allowed={"difficulty": layout.difficulties} if layout.difficulties else {},
        )  # fmt: skip
    builder = _Builder(settings, pools, verifier)
    prompts = {split: builder.take(split) for split in SPLITS}
    if data.source != "synthetic":
        used = {prompt.source for rows in prompts.values() for prompt in rows}
        copy_databases(pools.databases, used, folder)
    return Prepared(prompts, builder.rows, limits, {**builder.counts, **pools.statistics})


@dataclass
class _Pools:
    """Questions of each split in a seeded order, the kind of each, and where its database is."""

    questions: dict[str, list[Question]]
    kinds: dict[int, str]
    databases: Databases
    counts: Counter[str]
    statistics: dict[str, float] = field(default_factory=dict)

    def shuffle(self, seed: int) -> None:
        for split, questions in self.questions.items():
            random.Random(f"sample {seed} {split}").shuffle(questions)


def _generated(settings: Settings, folder: Path) -> _Pools:
    data, seed = settings.data, settings.seed
    specs = make_databases(data.databases, seed, data.themes)
    order = list(range(len(specs)))
    random.Random(f"split {seed}").shuffle(order)
    held = max(2, round(HELD_OUT * len(specs)))
    of_split = {"test": order[:held], "valid": order[held : 2 * held], "train": order[2 * held :]}
    databases = Databases([folder / "databases"], [])
    pools = _Pools({split: [] for split in SPLITS}, {}, databases, Counter())
    made: list[Example] = []
    for split in SPLITS:
        share = -(-wanted(data, split) // len(of_split[split]))
        for index in of_split[split]:
            spec = specs[index]
            path = database_file(folder, spec.db_id)
            write_database(spec, path, seed)
            asked = make_questions(spec, path, share, seed, data.difficulty)
            made += asked
            for number, example in enumerate(asked):
                question = Question(
                    spec.db_id, example.question, example.sql, "", example.level,
                    f"synthetic/{spec.db_id}", number,
                )  # fmt: skip
                pools.kinds[id(question)] = example.kind
                pools.questions[split].append(question)
    pools.statistics = _made_of(made)
    pools.shuffle(seed)
    return pools


def _made_of(made: Sequence[Example]) -> dict[str, float]:
    """Questions and their mean decisions by level, and the share of changed decisions that change
    the result."""
    found: dict[str, float] = {
        "sensitivity": sum(e.seen for e in made) / sum(e.changes for e in made)
    }
    for level in LEVELS:
        own = [example.decisions for example in made if example.level == level]
        if own:
            found[f"questions/{level}"] = len(own)
            found[f"decisions/{level}"] = sum(own) / len(own)
    return found


def _read(settings: Settings) -> _Pools:
    data = settings.data
    kind: Kind = data.source  # type: ignore[assignment]
    found = read_splits(
        kind, data_folder(data), databases_folder(data),
        wanted={split: wanted(data, split) for split in SPLITS}, seed=settings.seed,
    )  # fmt: skip
    counts = Counter({f"rows/{split}": count for split, count in found.rows.items()})
    for split, reasons in found.dropped.items():
        counts.update({f"dropped/{split}/{why}": count for why, count in reasons.items()})
    kinds = {id(q): sql_kind(q.sql) for rows in found.questions.values() for q in rows}
    pools = _Pools(found.questions, kinds, found.databases, counts)
    pools.shuffle(settings.seed)
    return pools


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
        most, pool = wanted(self.data, split), self.pools.questions[split]
        prompts: list[Prompt] = []
        with Progress(f"prepare {split}", min(most, len(pool)), unit="prompt") as progress:
            for start in range(0, len(pool), CHECKED_AT_ONCE):
                chunk = pool[start : start + CHECKED_AT_ONCE]
                jobs = [SQLJob(self._file(q), "", q.sql) for q in chunk]
                outcomes = self.verifier.run_reference(jobs)
                for question, outcome in zip(chunk, outcomes, strict=True):
                    if len(prompts) == most:
                        break
                    self._add(split, question, outcome, prompts)
                progress.update(len(prompts))
                if len(prompts) == most:
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
        size = self.writer.measure(prompt)
        self.rows.append(_validation_row(prompt, question, outcome, size))

    def _file(self, question: Question) -> Path:
        found = self.pools.databases.file(question.db_id)
        assert found is not None, question  # read_splits keeps no other
        return found


def _fault(outcome: ReferenceOutcome) -> str | None:
    if outcome.status != "ok":
        return f"reference {outcome.status}"
    return None if outcome.rows else "reference returns nothing"


def _validation_row(
    prompt: Prompt, question: Question, outcome: ReferenceOutcome, size: int
) -> dict[str, Any]:
    return {
        "id": prompt.id,
        "split": prompt.split,
        "kind": prompt.kind,
        "difficulty": prompt.difficulty or None,
        "source": prompt.source,
        "question": question.question,
        "evidence": question.evidence or None,
        "prompt": prompt.messages[-1].content,
        "prompt_chars": characters(prompt),
        "prompt_size": size,
        "reference": prompt.reference,
        "reference_status": outcome.status,
        "reference_rows": outcome.rows or 0,
        "file": question.file,
        "row": question.row,
        "fingerprint": fingerprint(question),
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
