"""ToolRL's test set: the published prompts, judged by ToolRL's own rewards.

Source: ToolRL (arXiv 2504.13958), `test.parquet` of rlla_4k, rows `prompt` (messages) and
`reward_model.ground_truth`. Predictions: JSON lines `{"row": n, "response": text}`, n from 0;
several rows may share one n. A verdict row has `row, sample, exact, format, correctness, detail`.

    exact        all calls are the reference's, in any order; none where it has none (the headline)
    format       the reference's layout, each tag once
    correctness  mean in [−3, 3] over the responses to rows whose reference has calls

A row without a response has failed exact and format, and is not in the mean of correctness.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from mrtpo.benchmarks.base import Answer, Judged, Summary, json_rows, numbered, tally
from mrtpo.records import Message, Prompt
from mrtpo.tasks.rows import bad_field, read_rows
from mrtpo.tasks.tools.layouts import files_of, locate
from mrtpo.tasks.tools.rewards import correctness, format_ok, layout, reference_calls
from mrtpo.tasks.tools.spans import difference
from mrtpo.tasks.tools.task import is_exact

if TYPE_CHECKING:
    from mrtpo.config import Settings


@dataclass(frozen=True)
class Question:
    messages: tuple[Message, ...]
    reference: str


class Rlla:
    name = "rlla"
    metrics = ("exact", "format")

    def __init__(self, questions: Sequence[Question]) -> None:
        self.set = questions

    @property
    def questions(self) -> int:
        return len(self.set)

    def read_answers(self, file: Path) -> list[Answer]:
        return numbered([self._answer(where, row) for where, row in json_rows(file)])

    def prompt(self, question: int) -> Prompt:
        asked = self.set[question]
        return Prompt(
            f"rlla-{question}", "test", layout(asked.reference), "", "rlla", asked.messages, (),
            asked.reference, "{}",
        )  # fmt: skip

    def from_response(self, question: int, response: str, sample: int | None) -> Answer:
        return Answer(question, response, sample)

    def judge(self, answers: Sequence[Answer]) -> list[Judged]:
        return [self._judged(answer) for answer in answers]

    def summarise(self, judged: Sequence[Judged], asked: Collection[int]) -> Summary:
        layouts = {i: layout(question.reference) for i, question in enumerate(self.set)}
        found = tally(self.name, judged, asked, self.metrics, {"layout": layouts})
        values = [
            float(j.row["correctness"])
            for j in judged
            if j.question in asked and layouts[j.question] in ("calls", "both")
        ]
        mean = fmean(values) if values else None
        return dataclasses.replace(found, scores={**found.scores, "correctness": mean})

    def close(self) -> None:
        pass

    def _answer(self, where: str, row: dict[str, Any]) -> Answer:
        number, response = row.get("row"), row.get("response")
        if type(number) is not int or not 0 <= number < len(self.set):
            raise ValueError(
                f"{where}: field row: expected a number from 0 to {len(self.set) - 1}, "
                f"found {number!r:.40}"
            )
        if not isinstance(response, str):
            raise ValueError(f"{where}: field response: expected text, found {response!r:.40}")
        return Answer(number, response)

    def _judged(self, answer: Answer) -> Judged:
        asked, response = self.set[answer.question], answer.given
        scores = {
            "exact": is_exact(response, asked.reference),
            "format": format_ok(response, asked.reference),
        }
        detail = difference(response, asked.reference)
        row = {
            "row": answer.question, "sample": answer.sample, **scores,
            "correctness": correctness(response, asked.reference), "detail": detail,
        }  # fmt: skip
        return Judged(
            answer.question, answer.sample, row, scores, asked=asked.messages[-1].content,
            expected=asked.reference, given=response, detail=detail,
        )  # fmt: skip


def read_questions(folder: Path) -> list[Question]:
    """The rows of the test file. Raises ValueError naming file, row and field."""
    root = locate("rlla", folder)
    files = files_of("rlla", root).get("test")
    if not files:
        raise ValueError(f"{root}: no test.parquet")
    return [_question(files[0], row, values) for row, values in read_rows(files[0])]


def _question(path: Path, row: int, values: dict[str, Any]) -> Question:
    model = values.get("reward_model")
    reference = model.get("ground_truth") if isinstance(model, dict) else None
    if not isinstance(reference, str):
        raise bad_field(path, row, "reward_model.ground_truth", "expected text")
    try:
        reference_calls(reference)
    except ValueError as error:
        raise bad_field(path, row, "reward_model.ground_truth", str(error)) from None
    given = values.get("prompt")
    try:
        messages = tuple(Message(str(m["role"]), str(m["content"])) for m in given or ())
    except (TypeError, KeyError):
        messages = ()
    if not messages:
        raise bad_field(path, row, "prompt", "expected messages with role and content")
    return Question(messages, reference)


def open_benchmark(name: str, folder: Path, settings: Settings, databases: Path | None) -> Rlla:
    """Read the test file. Raises ValueError naming file, row and field."""
    if databases is not None:
        raise ValueError("--databases: ToolRL's test set has none")
    return Rlla(read_questions(folder))
