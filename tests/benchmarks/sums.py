"""A made-up benchmark: what is 2 + 3? The answer is a number; odd questions are hard."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from mrtpo.benchmarks.base import Answer, Judged, Summary, json_rows, numbered, tally
from mrtpo.records import Message, Prompt


class Sums:
    name = "sums"
    metrics = ("right", "close")

    def __init__(self, folder: Path) -> None:
        self.rows = [row for _, row in json_rows(folder / "sums.jsonl")]
        self.closed = False

    @property
    def questions(self) -> int:
        return len(self.rows)

    def read_answers(self, file: Path) -> list[Answer]:
        return numbered([Answer(row["id"], row["answer"]) for _, row in json_rows(file)])

    def prompt(self, question: int) -> Prompt:
        text = f"{self.rows[question]['a']} + {self.rows[question]['b']}"
        return Prompt(str(question), "test", "", "", "sums", (Message("user", text),), (), "", "{}")

    def from_response(self, question: int, response: str, sample: int | None) -> Answer:
        return Answer(question, response, sample)

    def judge(self, answers):
        return [self._judged(answer) for answer in answers]

    def _judged(self, answer: Answer) -> Judged:
        row = self.rows[answer.question]
        expected = row["a"] + row["b"]
        number = int(answer.given) if str(answer.given).isdigit() else None
        right = number == expected
        close = None if number is None else float(abs(number - expected) <= 1)
        return Judged(
            answer.question, answer.sample, {"id": answer.question, "right": right},
            {"right": right, "close": close}, vote=number, asked=f"{row['a']} + {row['b']}",
            expected=str(expected), given=str(answer.given),
        )  # fmt: skip

    def summarise(self, judged, asked) -> Summary:
        level = {q: ("odd" if q % 2 else "even") for q in range(self.questions)}
        found = tally(self.name, judged, asked, self.metrics, {"level": level})
        return dataclasses.replace(found, notes=("sums of two",))

    def close(self) -> None:
        self.closed = True


def write(folder: Path, questions: int = 4) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"a": i, "b": 2 * i}) + "\n" for i in range(questions)]
    (folder / "sums.jsonl").write_text("".join(rows))
    return folder


def open_benchmark(name, folder, settings, databases) -> Sums:
    return Sums(folder)
