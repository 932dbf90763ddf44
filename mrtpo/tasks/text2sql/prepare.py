"""Prompts of the text-to-SQL task: generated here, or read from Spider's or BIRD's folders.

Splits share no database. Synthetic: a fixed share of the databases for valid and test. Spider and
BIRD: test is the dev split; valid is carved from train by whole databases.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mrtpo.config import Data, Settings, data_folder
from mrtpo.records import Prompt
from mrtpo.tasks.base import Prepared
from mrtpo.tasks.text2sql import synthetic
from mrtpo.tasks.text2sql.prompts import build_prompt
from mrtpo.tasks.text2sql.schema import read_schema
from mrtpo.tasks.text2sql.sources import Question, copy_databases, read_folder
from mrtpo.validation import Limits
from mrtpo.verifiers.sql import SQLJob, SQLVerifier

SPLITS = ("train", "valid", "test")
HELD_OUT = 0.1  # share of the synthetic databases for valid, and again for test


def database_file(folder: Path, db_id: str) -> Path:
    return folder / "databases" / db_id / f"{db_id}.sqlite"


def prepare(settings: Settings, folder: Path, verifier: SQLVerifier) -> Prepared:
    """All prompts, with the databases they need written below `folder`."""
    if settings.data.source == "synthetic":
        questions, kinds, counts = _generated(settings, folder)
        limits = Limits(
            settings.data.max_prompt_chars, unseen_sources=True, smallest_kind=0.04,
            largest_kind=0.3, text=("question", "prompt", "reference"),
        )  # fmt: skip
    else:
        questions, counts = _read(settings, folder, verifier)
        kinds = {id(q): sql_kind(q.sql) for rows in questions.values() for q in rows}
        limits = Limits(
            settings.data.max_prompt_chars, unseen_sources=True,
            text=("question", "prompt", "reference"),
        )  # fmt: skip
    prompts, rows = _prompts(settings, folder, verifier, questions, kinds, counts)
    return Prepared(prompts, rows, limits, dict(counts))


Questions = dict[str, list[Question]]


def _generated(settings: Settings, folder: Path) -> tuple[Questions, dict[int, str], Counter[str]]:
    data, seed = settings.data, settings.seed
    specs = synthetic.make_databases(data.databases, seed)
    order = list(range(len(specs)))
    random.Random(f"split {seed}").shuffle(order)
    held = max(2, round(HELD_OUT * len(specs)))
    of_split = {"test": order[:held], "valid": order[held : 2 * held], "train": order[2 * held :]}
    questions: Questions = {}
    kinds: dict[int, str] = {}
    for split in SPLITS:
        wanted = _wanted(data, split)
        made: list[Question] = []
        for index in of_split[split]:
            spec = specs[index]
            path = database_file(folder, spec.db_id)
            synthetic.write_database(spec, path, seed)
            share = -(-wanted // len(of_split[split]))
            for example in synthetic.make_questions(spec, path, share, seed):
                question = Question(
                    spec.db_id, example.question, example.sql, "",
                    synthetic.DIFFICULTY[example.kind], "synthetic", len(made),
                )  # fmt: skip
                kinds[id(question)] = example.kind
                made.append(question)
        questions[split] = _sampled(made, wanted, seed, split)
    return questions, kinds, Counter()


def _read(
    settings: Settings, folder: Path, verifier: SQLVerifier
) -> tuple[Questions, Counter[str]]:
    data, seed = settings.data, settings.seed
    source = read_folder(data.source, data_folder(data))  # type: ignore[arg-type]
    counts: Counter[str] = Counter()
    for split, reasons in source.dropped.items():
        counts.update({f"dropped/{split}/{reason}": n for reason, n in reasons.items()})
    if not source.train:
        raise ValueError(f"{data_folder(data)}: no questions for training (a train file is needed)")
    databases = sorted({q.db_id for q in source.train})
    random.Random(f"split {seed}").shuffle(databases)
    valid: set[str] = set()
    for db_id in databases[: len(databases) // 5]:
        if sum(q.db_id in valid for q in source.train) >= data.valid_prompts:
            break
        valid.add(db_id)
    pools = {
        "train": [q for q in source.train if q.db_id not in valid],
        "valid": [q for q in source.train if q.db_id in valid],
        "test": source.dev,
    }
    questions: Questions = {}
    for split, pool in pools.items():
        jobs = [SQLJob(source.databases[q.db_id], "", q.sql) for q in pool]
        usable = []
        for question, outcome in zip(pool, verifier.run_reference(jobs), strict=True):
            if outcome.status != "ok":
                counts[f"dropped/{split}/reference {outcome.status}"] += 1
            elif not outcome.rows:
                counts[f"dropped/{split}/reference returns nothing"] += 1
            else:
                usable.append(question)
        questions[split] = _sampled(usable, _wanted(data, split), seed, split)
    copy_databases(source, {q.db_id for rows in questions.values() for q in rows}, folder)
    return questions, counts


def _wanted(data: Data, split: str) -> int:
    return {"train": data.train_prompts, "valid": data.valid_prompts, "test": data.test_prompts}[
        split
    ]


def _sampled(rows: list[Question], count: int, seed: int, split: str) -> list[Question]:
    order = list(rows)
    random.Random(f"sample {seed} {split}").shuffle(order)
    return order[:count]


def _prompts(
    settings: Settings,
    folder: Path,
    verifier: SQLVerifier,
    questions: Questions,
    kinds: dict[int, str],
    counts: Counter[str],
) -> tuple[dict[str, list[Prompt]], list[dict[str, Any]]]:
    data = settings.data
    schemas = {
        db_id: read_schema(database_file(folder, db_id), db_id, data.sample_values)
        for db_id in sorted({q.db_id for rows in questions.values() for q in rows})
    }
    prompts: dict[str, list[Prompt]] = {}
    rows: list[dict[str, Any]] = []
    for split in SPLITS:
        prompts[split] = []
        jobs = [SQLJob(database_file(folder, q.db_id), "", q.sql) for q in questions[split]]
        outcomes = verifier.run_reference(jobs)
        for number, (question, outcome) in enumerate(zip(questions[split], outcomes, strict=True)):
            prompt = build_prompt(
                id=f"{split}-{number:05d}", split=split, kind=kinds[id(question)],
                difficulty=question.difficulty, schema=schemas[question.db_id],
                question=question.question, evidence=question.evidence, reference=question.sql,
                style=data.prompt,
            )  # fmt: skip
            length = sum(len(message.content) for message in prompt.messages)
            if length > data.max_prompt_chars and data.source != "synthetic":
                counts[f"dropped/{split}/prompt over {data.max_prompt_chars} characters"] += 1
                continue
            prompts[split].append(prompt)
            rows.append(_validation_row(prompt, question, length, outcome))
        counts[f"prompts/{split}"] = len(prompts[split])
        counts[f"databases/{split}"] = len({p.source for p in prompts[split]})
    return prompts, rows


def _validation_row(
    prompt: Prompt, question: Question, length: int, outcome: Any
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
        "prompt_chars": length,
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
