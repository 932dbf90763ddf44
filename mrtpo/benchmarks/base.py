"""What `python -m mrtpo score` asks of a benchmark: questions, answers, verdicts, a summary.

    question files -> Benchmark
    predictions file, or a checkpoint's responses -> Answer
    judge: Answer -> Judged          one verdict row for each answer, in order
    summarise: Judged -> Summary     scores as shares of the questions asked

A question may have several answers. One with `sample` None is the answer (greedy); numbered ones
are samples, over which a score is a mean for each question first (`mean@n`), the verdict of the
largest group of equal results (`majority@n`), or whether any passes (`pass@n`).

What a verifier could not decide is None in a verdict row and counts as not passed in a score; a
score of which nothing could be decided is None.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mrtpo.records import Prompt

Score = bool | float | None


@dataclass(frozen=True)
class Answer:
    """`question` is the place of the question; `given` what is judged (SQL, calls, text)."""

    question: int
    given: Any
    sample: int | None = None


@dataclass(frozen=True)
class Result:
    """The beginning of a query's result, cells as text; `rows` is how many there are in all."""

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    rows: int


@dataclass(frozen=True)
class Judged:
    """One answer's verdict.

    `row` is written to the verdict file. `scores` are the benchmark's metrics, the headline first.
    `vote`: answers of equal votes agree, None does not vote. The rest is shown where it failed;
    `alike`: `expected` and `given` are texts of a kind, whose differences are worth a mark.
    """

    question: int
    sample: int | None
    row: Mapping[str, Any]
    scores: Mapping[str, Score]
    vote: Hashable = None
    asked: str = ""
    expected: str = ""
    given: str = ""
    detail: str = ""
    results: tuple[Result | None, Result | None] | None = None
    alike: bool = True


@dataclass(frozen=True)
class Summary:
    """Scores over all questions asked and within groups, `{grouping: {group: {score: value}}}`."""

    benchmark: str
    scores: dict[str, float | None]
    groups: dict[str, dict[str, dict[str, float | None]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def headline(self) -> dict[str, Any]:
        """Counts, all scores, and the first score of each group: what a metrics file keeps."""
        groups = {
            grouping: {group: next(iter(scores.values())) for group, scores in found.items()}
            for grouping, found in self.groups.items()
        }
        return {**self.counts, "scores": self.scores, "groups": groups}


class Benchmark(Protocol):
    """A benchmark's questions. Opening one reads and checks its files, nothing more."""

    name: str
    metrics: tuple[str, ...]
    """Scores of a verdict, the headline first."""

    @property
    def questions(self) -> int: ...

    def read_answers(self, file: Path) -> list[Answer]:
        """The rows of a predictions file. Raises ValueError naming file, line and field."""
        ...

    def prompt(self, question: int) -> Prompt:
        """What a checkpoint is asked. Raises ValueError naming file and row if it cannot be."""
        ...

    def from_response(self, question: int, response: str, sample: int | None) -> Answer:
        """A checkpoint's response as an answer."""
        ...

    def judge(self, answers: Sequence[Answer]) -> list[Judged]:
        """One verdict for each answer, in order. Never raises on an answer."""
        ...

    def summarise(self, judged: Sequence[Judged], asked: Collection[int]) -> Summary: ...

    def close(self) -> None:
        """Stop verifier processes."""
        ...


def json_rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a JSON-lines file, each with `file: line n` for messages.

    Raises ValueError at what is not an object, at the line where it stands.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{file}: line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # also a number of too many digits
            raise ValueError(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{where}: expected an object with named fields")
        yield where, row


def numbered(answers: Sequence[Answer]) -> list[Answer]:
    """Answers that share a question as its samples 0, 1, …; where none do, each is the answer."""
    seen: Counter[int] = Counter()
    repeated = len({answer.question for answer in answers}) < len(answers)
    found = []
    for answer in answers:
        sample = seen[answer.question] if repeated else None
        seen[answer.question] += 1
        found.append(Answer(answer.question, answer.given, sample))
    return found


def tally(
    name: str,
    judged: Sequence[Judged],
    asked: Collection[int],
    metrics: Sequence[str],
    groups: Mapping[str, Mapping[int, str]],
) -> Summary:
    """The summary of metrics that are means over questions; an unanswered question has failed.

    `groups` gives for each grouping the group of a question; one that is not in it is in none.
    """
    everyone = sorted(asked)
    by_question: dict[int, list[Judged]] = {}
    for verdict in judged:
        by_question.setdefault(verdict.question, []).append(verdict)
    members: dict[str, dict[str, list[int]]] = {}
    for grouping, of in groups.items():
        for question in everyone:
            if question in of:
                members.setdefault(grouping, {}).setdefault(of[question], []).append(question)
    counts = {
        "questions": len(everyone),
        "answers": len(judged),
        "unanswered": sum(question not in by_question for question in everyone),
    }
    return Summary(
        name,
        _scores(by_question, everyone, metrics),
        {
            grouping: {
                group: {**_scores(by_question, inside, metrics), "questions": float(len(inside))}
                for group, inside in found.items()
            }
            for grouping, found in members.items()
        },
        counts,
    )


def _scores(
    by_question: Mapping[int, Sequence[Judged]], asked: Sequence[int], metrics: Sequence[str]
) -> dict[str, float | None]:
    answers = [[j for j in by_question.get(q, ()) if j.sample is None] for q in asked]
    samples = [[j for j in by_question.get(q, ()) if j.sample is not None] for q in asked]
    most = max(map(len, samples), default=0)
    greedy = any(answers) or not most
    scores: dict[str, float | None] = {}
    for metric in metrics:
        if greedy:
            scores[metric] = _share(answers, metric, _mean)
        if most:
            scores[f"mean@{most}/{metric}"] = _share(samples, metric, _mean)
            scores[f"majority@{most}/{metric}"] = _share(samples, metric, _majority)
            scores[f"pass@{most}/{metric}"] = _share(samples, metric, _best)
    return {name: value for name, value in scores.items() if value is not None or "@" not in name}


def _share(verdicts: Sequence[Sequence[Judged]], metric: str, of: Any) -> float | None:
    decided = [_number(j.scores.get(metric)) for js in verdicts for j in js]
    if decided and all(value is None for value in decided):
        return None
    if of is _majority and all(j.vote is None for js in verdicts for j in js):
        return None
    return math.fsum(of(js, metric) if js else 0.0 for js in verdicts) / len(verdicts)


def _mean(verdicts: Sequence[Judged], metric: str) -> float:
    return math.fsum(_number(j.scores.get(metric)) or 0.0 for j in verdicts) / len(verdicts)


def _best(verdicts: Sequence[Judged], metric: str) -> float:
    return max(_number(j.scores.get(metric)) or 0.0 for j in verdicts)


def _majority(verdicts: Sequence[Judged], metric: str) -> float:
    chosen = majority(verdicts)
    return 0.0 if chosen is None else _number(chosen.scores.get(metric)) or 0.0


def majority(verdicts: Sequence[Judged]) -> Judged | None:
    """The first answer of the largest group of equal votes; of equal groups the earliest."""
    votes = Counter(j.vote for j in verdicts if j.vote is not None)
    if not votes:
        return None
    winner, _ = votes.most_common(1)[0]  # insertion order breaks ties
    return next(j for j in verdicts if j.vote == winner)


def _number(score: Score) -> float | None:
    return None if score is None or not math.isfinite(score) else float(score)
