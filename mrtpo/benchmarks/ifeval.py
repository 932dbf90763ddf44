"""IFEval and IFBench: prompts with verifiable constraints, scored strictly and loosely.

Sources: IFEval (arXiv 2311.07911), google-research/instruction_following_eval; IFBench (arXiv
2507.02833), allenai/IFBench. What is judged is the response behind its think part. Strictly, a
constraint is checked on that text; loosely, it passes if any of eight variants does: the text
without its first line, its last, both or none, each as it is and without asterisks. A blank text
follows nothing.

    prompt_strict, prompt_loose              share of prompts of which all constraints pass
    instruction_strict, instruction_loose    share of constraints that pass, over all prompts

The headline is `prompt_strict` for IFEval and `prompt_loose` for IFBench, as their papers have it.

Questions: JSON lines `key, prompt, instruction_id_list, kwargs`. Predictions: JSON lines with
`response`, and `key` or the `prompt` itself; several rows may share one. A verdict row has `key`,
`sample`, `strict` and `loose` (lists in the order of the constraints; null: not decided), `status`
and `detail`. A prediction whose prompt is in no question (sets circulate in several versions) has
the status `error` and empty lists, is counted, and is in no score.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtpo.benchmarks.base import Answer, Judged, Score, Summary, json_rows, numbered, tally
from mrtpo.records import Message, Prompt
from mrtpo.verifiers.constraints import Constraint, ConstraintError, Verdict, constraint, sentence
from mrtpo.verifiers.constraints.text import answer_start
from mrtpo.verifiers.constraints.verifier import ConstraintVerifier

if TYPE_CHECKING:
    from mrtpo.config import Settings

FILES = {"ifeval": "input_data.jsonl", "ifbench": "IFBench_test.jsonl"}
METRICS = {
    "ifeval": ("prompt_strict", "prompt_loose"),
    "ifbench": ("prompt_loose", "prompt_strict"),
}
SECONDS = 10.0  # for one check


@dataclass(frozen=True)
class Question:
    key: int | str
    prompt: str
    constraints: tuple[Constraint, ...]


class IFEvalBenchmark:
    def __init__(self, name: str, questions: Sequence[Question], settings: Settings) -> None:
        self.name, self.set = name, questions
        self.metrics: tuple[str, ...] = METRICS[name]
        self._verifier = ConstraintVerifier(
            processes=settings.verifier.processes,
            seconds=SECONDS,
            megabytes=settings.verifier.megabytes,
        )
        self._keys = {str(question.key): i for i, question in enumerate(questions)}
        self._prompts = {question.prompt.strip(): i for i, question in enumerate(questions)}

    @property
    def questions(self) -> int:
        return len(self.set)

    def read_answers(self, file: Path) -> list[Answer]:
        answers = [self._answer(i, *row) for i, row in enumerate(json_rows(file))]
        if answers and all(answer.question < 0 for answer in answers):
            raise ValueError(f"{file}: field prompt: none is of a question of {self.name}")
        return numbered(answers)

    def prompt(self, question: int) -> Prompt:
        asked = self.set[question]
        return Prompt(
            id=str(asked.key), split="test", kind="", difficulty="", source=self.name,
            messages=(Message("user", asked.prompt),), information=(), reference="", payload="{}",
        )  # fmt: skip

    def from_response(self, question: int, response: str, sample: int | None) -> Answer:
        return Answer(question, response, sample)

    def judge(self, answers: Sequence[Answer]) -> list[Judged]:
        known = iter(self._judge([answer for answer in answers if answer.question >= 0]))
        return [next(known) if a.question >= 0 else _unknown(a, self.name) for a in answers]

    def _judge(self, answers: Sequence[Answer]) -> list[Judged]:
        given = [answer.given[answer_start(answer.given) :] for answer in answers]
        wanted = [self.set[answer.question].constraints for answer in answers]
        strict = self._verifier.run(list(zip(given, wanted, strict=True)))
        loose = self._loose(given, wanted, strict)
        return [
            _judged(answer, self.set[answer.question], text, s, loosely, self.metrics)
            for answer, text, s, loosely in zip(answers, given, strict, loose, strict=True)
        ]

    def summarise(self, judged: Sequence[Judged], asked: Collection[int]) -> Summary:
        unknown = sum(j.question < 0 for j in judged)
        judged = [j for j in judged if j.question >= 0]
        asked = sorted(q for q in asked if q >= 0)
        numbers = {i: str(len(question.constraints)) for i, question in enumerate(self.set)}
        summary = tally(self.name, judged, asked, self.metrics, {"constraints": numbers})
        single = self._by_constraint(judged, asked)
        statuses = Counter(str(j.row["status"]) for j in judged)
        return dataclasses.replace(
            summary,
            scores=summary.scores | single.scores,
            groups=_ordered(summary.groups | single.groups),
            counts={
                **summary.counts,
                "constraints": single.counts["questions"],
                **{f"status {name}": n for name, n in sorted(statuses.items()) if name != "ok"},
                "unknown prompts": unknown,
            },
        )

    def close(self) -> None:
        self._verifier.close()

    def _answer(self, number: int, where: str, row: dict[str, Any]) -> Answer:
        """A prompt that is in no question gets a number of its own, below 0."""
        if "key" in row:
            question = self._keys.get(str(row["key"]))
        elif "prompt" in row:
            question = self._prompts.get(str(row["prompt"]).strip(), -1 - number)
        else:
            raise ValueError(
                f"{where}: field key: missing, and so is prompt; one of them is needed"
            )
        if question is None:
            raise ValueError(f"{where}: field key: no question of {self.name}: {row['key']!r:.40}")
        response = row.get("response")
        if not isinstance(response, str):
            found = type(response).__name__ if "response" in row else "nothing"
            raise ValueError(f"{where}: field response: expected text, found {found}")
        return Answer(question, response)

    def _loose(
        self,
        given: Sequence[str],
        wanted: Sequence[Sequence[Constraint]],
        strict: Sequence[Sequence[Verdict]],
    ) -> list[list[Score]]:
        """Whether a constraint passes on any variant; those that pass strictly are not asked."""
        loose: list[list[Score]] = [[verdict.passed for verdict in row] for row in strict]
        jobs, owners = [], []
        for i, (text, constraints) in enumerate(zip(given, wanted, strict=True)):
            open_ = [k for k in range(len(constraints)) if not loose[i][k]]
            for variant in dict.fromkeys(variants(text)) if open_ else ():
                if variant != text and variant.strip():
                    jobs.append((variant, [constraints[k] for k in open_]))
                    owners.append((i, open_))
        for (i, open_), verdicts in zip(owners, self._verifier.run(jobs), strict=True):
            for k, verdict in zip(open_, verdicts, strict=True):
                # One pass decides; else what is not decided somewhere is not decided.
                if loose[i][k] is False or verdict.passed:
                    loose[i][k] = verdict.passed
        return loose

    def _by_constraint(self, judged: Sequence[Judged], asked: Collection[int]) -> Summary:
        """The tally in which every constraint of every prompt is a question of its own."""
        starts = [0]
        for question in self.set:
            starts.append(starts[-1] + len(question.constraints))
        ids = [c.id for question in self.set for c in question.constraints]
        single = [
            Judged(
                starts[j.question] + k, j.sample, {},
                {"instruction_strict": strict, "instruction_loose": loose},
            )
            for j in judged
            for k, (strict, loose) in enumerate(zip(j.row["strict"], j.row["loose"], strict=True))
        ]  # fmt: skip
        every = [i for q in sorted(asked) for i in range(starts[q], starts[q + 1])]
        first = self.metrics[0].removeprefix("prompt")
        metrics = sorted(("instruction_strict", "instruction_loose"), key=lambda m: first not in m)
        groups = {
            "group": {i: id.split(":")[0] for i, id in enumerate(ids)},
            "kind": dict(enumerate(ids)),
        }
        return tally(self.name, single, every, metrics, groups)


def variants(text: str) -> tuple[str, ...]:
    """The eight texts of the loose score, the text itself first."""
    lines = text.split("\n")
    cut = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return (*cut, *(piece.replace("*", "") for piece in cut))


def read_questions(file: Path) -> list[Question]:
    """Raises ValueError naming file, line and field at what cannot be asked or checked."""
    questions: list[Question] = []
    keys: set[str] = set()
    for where, row in json_rows(file):
        question = _question(where, row)
        if str(question.key) in keys:
            raise ValueError(f"{where}: field key: {question.key!r} is there twice")
        keys.add(str(question.key))
        questions.append(question)
    if not questions:
        raise ValueError(f"{file}: no questions")
    return questions


def open_benchmark(
    name: str, folder: Path, settings: Settings, databases: Path | None
) -> IFEvalBenchmark:
    """Read the questions in `folder`. Raises ValueError naming file, line and field."""
    file = folder / FILES[name]
    if not file.is_file():
        raise ValueError(f"{file}: not there; {name}'s questions are expected under that name")
    return IFEvalBenchmark(name, read_questions(file), settings)


def _question(where: str, row: dict[str, Any]) -> Question:
    key, prompt = row.get("key"), row.get("prompt")
    ids, arguments = row.get("instruction_id_list"), row.get("kwargs")
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise ValueError(f"{where}: field key: expected a number or text, found {key!r:.40}")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(f"{where}: field prompt: expected a text that is not blank")
    if not isinstance(ids, list) or not ids:
        raise ValueError(f"{where}: field instruction_id_list: expected a list, not empty")
    if not isinstance(arguments, list) or len(arguments) != len(ids):
        raise ValueError(f"{where}: field kwargs: expected a list, one for each constraint")
    constraints = []
    for i, (id, given) in enumerate(zip(ids, arguments, strict=True)):
        if given is not None and not isinstance(given, dict):
            raise ValueError(f"{where}: field kwargs[{i}]: expected an object")
        try:
            constraints.append(constraint(id, given))
        except ConstraintError as error:
            raise ValueError(f"{where}: constraint {i} (from 0): {error}") from error
    return Question(key, prompt, tuple(constraints))


def _judged(
    answer: Answer,
    question: Question,
    text: str,
    strict: Sequence[Verdict],
    loose: Sequence[Score],
    metrics: Sequence[str],
) -> Judged:
    passed: dict[str, list[Score]] = {"strict": [v.passed for v in strict], "loose": list(loose)}
    bad = next((verdict for verdict in strict if verdict.status != "ok"), strict[0])
    row = {
        "key": question.key, "sample": answer.sample, **passed,
        "status": bad.status, "detail": "" if bad.status == "ok" else bad.detail,
    }  # fmt: skip
    missed = [
        c for c, right in zip(question.constraints, passed["strict"], strict=True) if not right
    ]
    return Judged(
        answer.question, answer.sample, row,
        {metric: _all(passed[metric.removeprefix("prompt_")]) for metric in metrics},
        asked=question.prompt, expected="\n".join(map(_stated, missed)), given=text,
        detail=str(row["detail"]), alike=False,
    )  # fmt: skip


def _unknown(answer: Answer, name: str) -> Judged:
    detail = f"no question of {name} has this prompt"
    row: dict[str, Any] = {"key": None, "sample": answer.sample, "strict": [], "loose": [],
                           "status": "error", "detail": detail}  # fmt: skip
    return Judged(
        answer.question, answer.sample, row, {}, given=answer.given, detail=detail, alike=False
    )


def _ordered(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {grouping: dict(sorted(found.items())) for grouping, found in groups.items()}


def _all(passed: Iterable[Score]) -> Score:
    """False if one fails; else None if one is not decided."""
    found = list(passed)
    return False if False in found else None if None in found else True


def _stated(found: Constraint) -> str:
    return f"{found.id}: {sentence(found.id, found.arguments)}"
