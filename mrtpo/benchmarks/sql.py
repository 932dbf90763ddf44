"""Text-to-SQL benchmarks: Spider and its variants, BIRD, EHRSQL, ScienceBenchmark, SynSQL.

Predictions: JSON lines `{"index": row of the question file, "sql": "…"}`, where several rows may
share an index; or as the official scorers take them, Spider's one query a line and BIRD's JSON
object `{"0": "query\\t----- bird -----\\tdb_id"}`.

A verdict row has `index, db_id, difficulty, sql, status, detail, executable, rows`, and each score
(None: could not be decided):

    spider_exec         Spider's execution match on the database itself
    spider_test_suite   the same on every database file beside it, where there are several
    bird_ex             BIRD's execution accuracy: equal as sets of rows
    bird_soft_f1        BIRD mini-dev's soft F1
    ehrsql              EHRSQL's comparison of the first 100 rows; an unanswerable question wants
                        `null`, and the summary has F1 scores of answering (`abstention`)

Where a database is absent but described by a tables file, queries are compiled on empty tables:
`executable` is told, no score is, and a note says so.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtpo.benchmarks.abstention import Reply, abstains, reliability
from mrtpo.benchmarks.base import Answer, Judged, Result, Score, Summary, numbered, tally
from mrtpo.benchmarks.sql_predictions import read_predictions
from mrtpo.records import Prompt
from mrtpo.tasks.text2sql.budget import PromptWriter
from mrtpo.tasks.text2sql.layouts import Kind
from mrtpo.tasks.text2sql.prompts import extract_sql
from mrtpo.tasks.text2sql.schema import write_empty
from mrtpo.tasks.text2sql.sources import Question, QuestionSet, read_questions
from mrtpo.verifiers.sql import Preview, SQLJob, SQLOutcome, SQLVerifier

if TYPE_CHECKING:
    from mrtpo.config import Settings

SHOWN_ROWS = 5
DIFFICULTIES = (
    "easy", "medium", "hard", "extra", "simple", "moderate", "challenging",
    "Simple", "Moderate", "Complex", "Highly Complex",
)  # fmt: skip


@dataclass(frozen=True)
class Form:
    """Which set and split a benchmark is, and its scores, the headline first."""

    kind: Kind
    metrics: tuple[str, ...]
    split: str | None = None


_SPIDER, _BIRD = ("spider_exec", "bird_ex"), ("bird_ex", "spider_exec")
FORMS = {
    "spider": Form("spider", _SPIDER, "dev"),
    "spider_test": Form("spider", _SPIDER, "test"),
    "spider_syn": Form("spider_syn", _SPIDER),
    "spider_dk": Form("spider_dk", _SPIDER),
    "spider_realistic": Form("spider_realistic", _SPIDER),
    "bird": Form("bird", _BIRD),
    "bird_minidev": Form("bird", (*_BIRD, "bird_soft_f1"), "mini_dev"),
    "ehrsql": Form("ehrsql", ("ehrsql", *_BIRD)),
    "sciencebenchmark": Form("sciencebenchmark", _BIRD),
    "synsql": Form("synsql", _BIRD, "test"),
}


class SQLBenchmark:
    def __init__(self, name: str, questions: QuestionSet, settings: Settings) -> None:
        form = FORMS[name]
        self.name, self.set, self.settings = name, questions, settings
        limits = {"seconds": settings.benchmark.seconds, "rows": settings.benchmark.rows}
        self._verifier = SQLVerifier(settings.verifier.model_copy(update=limits))
        self._empty = tempfile.TemporaryDirectory(prefix="mrtpo-")
        one_each = {question.db_id: question for question in questions.questions}
        self._files = {db_id: self._database(q) for db_id, q in one_each.items()}
        self._writer = PromptWriter(settings, questions.databases)
        suite = any(len(files) > 1 for files in self._files.values())
        self._on_main = form.metrics
        on_suite = ("spider_test_suite",) if suite else ()
        self.metrics = (*form.metrics, *on_suite, "executable")

    @property
    def questions(self) -> int:
        return len(self.set.questions)

    def read_answers(self, file: Path) -> list[Answer]:
        db_ids = [question.db_id for question in self.set.questions]
        return numbered([Answer(index, sql) for index, sql in read_predictions(file, db_ids)])

    def prompt(self, question: int) -> Prompt:
        return self._writer.write(self.set.questions[question], id=str(question), split=self.name)

    def from_response(self, question: int, response: str, sample: int | None) -> Answer:
        return Answer(question, extract_sql(response), sample)

    def judge(self, answers: Sequence[Answer]) -> list[Judged]:
        asked = [self.set.questions[answer.question] for answer in answers]
        outcomes = self._verifier.run(
            [
                SQLJob(self._files[q.db_id][0], a.given, self._reference(q), self._on_main,
                       preview=SHOWN_ROWS)
                for a, q in zip(answers, asked, strict=True)
            ]
        )  # fmt: skip
        scores = [dict(outcome.scores) for outcome in outcomes]
        for answer, question, found in zip(answers, asked, scores, strict=True):
            if not question.answerable:  # the right answer is none
                found[self.metrics[0]] = abstains(answer.given)
        for i, passed in self._on_suite(answers, asked, scores).items():
            scores[i]["spider_test_suite"] = passed
        return [
            _judged(answer, question, outcome, found)
            for answer, question, outcome, found in zip(
                answers, asked, outcomes, scores, strict=True
            )
        ]

    def summarise(self, judged: Sequence[Judged], asked: Collection[int]) -> Summary:
        questions = self.set.questions
        difficulty = {i: q.difficulty for i, q in enumerate(questions) if q.difficulty}
        category = {i: q.category for i, q in enumerate(questions) if q.category}
        rank = {name: at for at, name in enumerate(DIFFICULTIES)}
        summary = tally(self.name, judged, asked, self.metrics,
                        {"difficulty": difficulty, "category": category})  # fmt: skip
        groups = {
            grouping: dict(sorted(found.items(), key=lambda item: (rank.get(item[0], 99), item[0])))
            for grouping, found in summary.groups.items()
        }
        statuses = Counter(str(j.row["status"]) for j in judged)
        counts = {f"status {name}": n for name, n in sorted(statuses.items()) if name != "ok"}
        scores = summary.scores | self._reliability(judged, asked)
        return dataclasses.replace(
            summary,
            scores=scores,
            groups=groups,
            counts=summary.counts | counts,
            notes=self._notes(judged),
        )

    def close(self) -> None:
        self._verifier.close()
        self._empty.cleanup()

    def _database(self, question: Question) -> list[Path]:
        """The question's database files, or an empty one with its tables."""
        found = self.set.databases.files(question.db_id)
        if found:
            return found
        schema = self.set.databases.described(question.db_id)
        if schema is None:
            raise ValueError(
                f"{self.set.root / question.file}: row {question.row} (from 0): field db_id: "
                f"{question.db_id!r} has no database and no tables file that describes it; "
                f"{self.set.databases.missing()}; see --databases"
            )
        path = Path(self._empty.name) / f"{question.db_id}.sqlite"
        write_empty(schema, path)
        return [path]

    def _reference(self, question: Question) -> str | None:
        """Nothing is compared on empty tables, where most results are equal."""
        there = self.set.databases.file(question.db_id) is not None
        return question.sql if there and question.answerable else None

    def _on_suite(
        self, answers: Sequence[Answer], asked: Sequence[Question], scores: Sequence[dict[str, Any]]
    ) -> dict[int, Score]:
        """Whether an answer passes on all files of its database; asked where the main one does."""
        if "spider_test_suite" not in self.metrics:
            return {}
        jobs, owners = [], []
        for i, (answer, question) in enumerate(zip(answers, asked, strict=True)):
            for file in self._files[question.db_id][1:] if scores[i]["spider_exec"] else ():
                jobs.append(SQLJob(file, answer.given, question.sql, ("spider_exec",)))
                owners.append(i)
        found: dict[int, Score] = {i: score["spider_exec"] for i, score in enumerate(scores)}
        for i, outcome in zip(owners, self._verifier.run(jobs), strict=True):
            passed = outcome.scores["spider_exec"]
            # A failure anywhere fails; else what is not decided somewhere is not decided.
            if found[i] is not False and not passed:
                found[i] = passed
        return found

    def _reliability(
        self, judged: Sequence[Judged], asked: Collection[int]
    ) -> dict[str, float | None]:
        """EHRSQL's F1 scores of the greedy answers, where questions may be unanswerable."""
        questions = self.set.questions
        if all(question.answerable for question in questions):
            return {}
        replies = {
            question: Reply(questions[question].answerable, False, None) for question in asked
        }
        for j in judged:
            if j.sample is None:
                given, right = j.given, j.scores[self.metrics[0]]
                answerable = questions[j.question].answerable
                decided = None if right is None else bool(right)
                replies[j.question] = Reply(answerable, not abstains(given), decided)
        return reliability(list(replies.values()))

    def _notes(self, judged: Sequence[Judged]) -> tuple[str, ...]:
        used = {self.set.questions[j.question].db_id for j in judged}
        absent = sorted(db for db in used if self.set.databases.file(db) is None)
        notes = []
        if absent:
            notes.append(
                f"No database for {len(absent)} of {len(used)} ({', '.join(absent[:5])}"
                f"{', …' if len(absent) > 5 else ''}): queries were compiled on empty tables, "
                "their results not judged."
            )
        failing = {j.question for j in judged if j.detail.startswith("reference:")}
        if failing:
            notes.append(
                f"The reference itself fails on {len(failing)} questions "
                f"(index {', '.join(map(str, sorted(failing)[:10]))}): not decided there."
            )
        return tuple(notes)


def _judged(
    answer: Answer, question: Question, outcome: SQLOutcome, scores: dict[str, Score]
) -> Judged:
    row: dict[str, Any] = {
        "index": question.index, "db_id": question.db_id, "difficulty": question.difficulty,
        "sample": answer.sample, "sql": answer.given, "status": outcome.status,
        "detail": outcome.detail, "executable": outcome.executable, "rows": outcome.rows,
        **scores,
    }  # fmt: skip
    return Judged(
        answer.question, answer.sample, row, {**scores, "executable": outcome.executable},
        vote=outcome.digest,
        asked=f"{question.evidence}\n{question.question}".strip(),
        expected=question.sql, given=answer.given, detail=outcome.detail,
        results=(_result(outcome.reference_preview), _result(outcome.predicted_preview)),
    )  # fmt: skip


def _result(preview: Preview | None) -> Result | None:
    return Result(preview.columns, preview.rows, preview.total) if preview else None


def open_benchmark(
    name: str, folder: Path, settings: Settings, databases: Path | None
) -> SQLBenchmark:
    """Read a set's questions. Raises ValueError naming file, row and field."""
    form = FORMS[name]
    return SQLBenchmark(name, read_questions(form.kind, folder, form.split, databases), settings)
