"""MulDimIF: 1,200 prompts with constraints that are checked by their own text.

Source: arXiv 2505.07591, Junjie-Ye/MulDimIF. What is judged is the response behind its think part,
without an end-of-turn token.

    overall    share of prompts of which every constraint passes, the headline
    macro      mean over prompts of the share of their constraints that pass
    micro      share of all constraints that pass

All three are also given by pattern and by level. By category: `overall` is the share of the prompts
with constraints of that category of which all of those pass. By subcategory: `micro` alone.

Questions: `test.json`. Predictions: JSON lines with `response`, and `id` or the `prompt` itself;
several rows may share one. A verdict row has `id`, `sample`, `judges` (1 or 0 in the order of the
constraints; null: not decided), `unparsed` (the places of constraints whose text was not
understood, see `verifiers.muldimif`), `status` and `detail`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtpo.benchmarks.base import Answer, Judged, Score, Summary, json_rows, numbered, tally
from mrtpo.records import Prompt
from mrtpo.tasks.instruct.muldimif import Row, Stated, read_muldimif
from mrtpo.verifiers.constraints.text import answer_start, require_data
from mrtpo.verifiers.muldimif import judge, kind_of
from mrtpo.verifiers.muldimif.kinds import SUBCATEGORIES, Kind, Verdict

if TYPE_CHECKING:
    from mrtpo.config import Settings

FILE = "test.json"
CATEGORIES = ("Content", "Format", "Language", "Length")
ENDS_OF_TURN = (
    "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<｜end▁of▁sentence｜>",
)  # fmt: skip


class MulDimIF:
    name = "muldimif"
    metrics = ("overall", "macro")

    def __init__(self, rows: Sequence[Row]) -> None:
        self.set = rows
        self._ids = {row.id: i for i, row in enumerate(rows)}
        self._prompts = {row.prompt.strip(): i for i, row in enumerate(rows)}

    @property
    def questions(self) -> int:
        return len(self.set)

    def read_answers(self, file: Path) -> list[Answer]:
        return numbered([self._answer(*row) for row in json_rows(file)])

    def prompt(self, question: int) -> Prompt:
        row = self.set[question]
        return Prompt(
            id=row.id, split="test", kind=row.pattern, difficulty=row.level, source=self.name,
            messages=row.messages, information=(), reference="", payload="{}",
        )  # fmt: skip

    def from_response(self, question: int, response: str, sample: int | None) -> Answer:
        return Answer(question, response, sample)

    def judge(self, answers: Sequence[Answer]) -> list[Judged]:
        """Raises MissingDataError if NLTK's sentence model is not installed."""
        require_data(["punkt_tab"])
        return [self._judged(answer) for answer in answers]

    def summarise(self, judged: Sequence[Judged], asked: Collection[int]) -> Summary:
        by = {
            "pattern": {i: row.pattern for i, row in enumerate(self.set)},
            "level": {i: row.level for i, row in enumerate(self.set) if row.level},
        }
        summary = tally(self.name, judged, asked, self.metrics, by)
        groups: dict[str, dict[str, dict[str, float | None]]] = {"pattern": {}, "level": {}}
        for grouping, members in by.items():
            for group in sorted(set(members.values())):
                inside = [q for q in asked if members.get(q) == group]
                if inside:
                    groups[grouping][group] = {
                        **summary.groups[grouping][group],
                        **self._micro(judged, inside),
                    }
        groups["category"] = {
            category: self._of(judged, asked, category, "overall") for category in CATEGORIES
        }
        groups["subcategory"] = {
            name: self._of(judged, asked, name, "micro") for name in SUBCATEGORIES
        }
        statuses = Counter(str(j.row["status"]) for j in judged)
        return dataclasses.replace(
            summary,
            scores={**summary.scores, **self._micro(judged, asked)},
            groups={
                grouping: {name: scores for name, scores in found.items() if scores["questions"]}
                for grouping, found in groups.items()
            },
            counts={
                **summary.counts,
                "constraints": sum(len(self.set[q].constraints) for q in asked),
                "unparsed": sum(len(j.row["unparsed"]) for j in judged),
                **{f"status {name}": n for name, n in sorted(statuses.items()) if name != "ok"},
            },
        )

    def close(self) -> None:
        """Nothing to stop: checkers run in this process, each on a bounded text."""

    def _answer(self, where: str, row: dict[str, Any]) -> Answer:
        if "id" in row:
            field, question = "id", self._ids.get(str(row["id"]))
        elif "prompt" in row:
            field, question = "prompt", self._prompts.get(str(row["prompt"]).strip())
        else:
            raise ValueError(f"{where}: field id: missing, and so is prompt; one of them is needed")
        if question is None:
            raise ValueError(
                f"{where}: field {field}: no question of {self.name}: {row[field]!r:.60}"
            )
        response = row.get("response")
        if not isinstance(response, str):
            found = type(response).__name__ if "response" in row else "nothing"
            raise ValueError(f"{where}: field response: expected text, found {found}")
        return Answer(question, response)

    def _judged(self, answer: Answer) -> Judged:
        row = self.set[answer.question]
        text = answer_of(answer.given)
        verdicts = [judge(c.category, c.subcategory, c.text, text) for c in row.constraints]
        passed = [verdict.passed for verdict in verdicts]
        bad = next((verdict for verdict in verdicts if verdict.status != "ok"), verdicts[0])
        missed = [c for c, right in zip(row.constraints, passed, strict=True) if not right]
        return Judged(
            answer.question,
            answer.sample,
            {
                "id": row.id,
                "sample": answer.sample,
                "judges": [None if right is None else int(right) for right in passed],
                "unparsed": [i for i, verdict in enumerate(verdicts) if verdict.unparsed],
                "status": bad.status,
                "detail": bad.detail,
            },
            _scores(row.constraints, verdicts),
            asked=row.prompt,
            expected="\n".join(f"{c.category}, {c.subcategory}: {c.text}" for c in missed),
            given=text,
            detail=bad.detail,
            alike=False,
        )

    def _micro(self, judged: Sequence[Judged], asked: Collection[int]) -> dict[str, float | None]:
        """A mean in which each question counts as often as it has constraints."""
        weighted = [q for q in asked for _ in self.set[q].constraints]
        found = tally(self.name, judged, weighted, ["macro"], {}).scores
        return {name.replace("macro", "micro"): value for name, value in found.items()}

    def _of(
        self, judged: Sequence[Judged], asked: Collection[int], name: str, score: str
    ) -> dict[str, float | None]:
        """The score of a category or a subcategory, over the questions that have it."""
        counts = {q: sum(_is_of(c, name) for c in self.set[q].constraints) for q in asked}
        inside = [q for q, count in counts.items() for _ in range(count)]
        if score == "overall":
            inside = sorted(set(inside))
        found = tally(self.name, judged, inside, [name], {}).scores if inside else {}
        scores = {key.replace(name, score): value for key, value in found.items()}
        return {**scores, "questions": float(len(set(inside)))}


def answer_of(response: str) -> str:
    """A response without its think part and without an end-of-turn token after it."""
    text = response[answer_start(response) :]
    for token in ENDS_OF_TURN:
        if text.rstrip().endswith(token):
            text = text.rstrip().removesuffix(token).rstrip()
    return text


def open_benchmark(name: str, folder: Path, settings: Settings, databases: Path | None) -> MulDimIF:
    """Read the questions in `folder`. Raises ValueError naming file, row and field."""
    file = folder / FILE
    if not file.is_file():
        raise ValueError(f"{file}: not there; {name}'s questions are expected under that name")
    rows = list(read_muldimif(file))
    seen: set[str] = set()
    for number, row in enumerate(rows):
        if row.id in seen:
            raise ValueError(f"{file}: row {number} (from 0): field id: {row.id!r} is there twice")
        seen.add(row.id)
    return MulDimIF(rows)


def _scores(constraints: Sequence[Stated], verdicts: Sequence[Verdict]) -> Mapping[str, Score]:
    """The metrics, whether all constraints of each category pass, the share of each subcategory."""
    passed = [verdict.passed for verdict in verdicts]
    scores: dict[str, Score] = {"overall": _all(passed), "macro": _share(passed)}
    for names, score in ((CATEGORIES, _all), (SUBCATEGORIES, _share)):
        for name in names:
            own = [p for c, p in zip(constraints, passed, strict=True) if _is_of(c, name)]
            if own:
                scores[name] = score(own)
    return scores


def _is_of(constraint: Stated, name: str) -> bool:
    kind: Kind | None = kind_of(constraint.category, constraint.subcategory)
    return kind is not None and name in (kind.category, kind.subcategory)


def _all(passed: Sequence[bool | None]) -> Score:
    """False if one fails; else None if one is not decided."""
    return False if False in passed else None if None in passed else True


def _share(passed: Sequence[bool | None]) -> Score:
    return None if set(passed) == {None} else sum(map(bool, passed)) / len(passed)
