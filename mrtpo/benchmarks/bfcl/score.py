"""BFCL v4 as a benchmark: predictions in, verdicts and scores out.

Predictions: JSON lines `{"id": …, "calls": [{name: {argument: value}}]}` or `{"id": …, "response":
text}`; several rows may share an id. A verdict row has `id, category, sample, valid, error, detail,
calls`, and `format` where there is a response; `error` is the official `error_type`.

    valid       the calls fit (`check`); irrelevance: there are none; relevance: there are some
    format      a response has ToolRL's layout (`mrtpo.tasks.tools.rewards`): calls, or text where
                no function is relevant
    non_live    mean of simple (mean of Python, Java, JavaScript), multiple, parallel,
                parallel_multiple
    live        share of right answers in its four categories of checked calls
    irrelevance mean of irrelevance and live_irrelevance
    single_turn mean of these three

v4's overall adds multi-turn (30 %) and agentic (40 %) to these three (10 % each). They are not run,
so there is no overall here: `single_turn` is of 30 % of its weight.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtpo.benchmarks.base import Answer, Judged, Summary, json_rows, numbered, tally
from mrtpo.benchmarks.bfcl import prompts
from mrtpo.benchmarks.bfcl.check import Fault, check_calls, well_formed
from mrtpo.benchmarks.bfcl.decode import Form, decode, too_deep
from mrtpo.benchmarks.bfcl.questions import (
    AST,
    IRRELEVANCE,
    RELEVANCE,
    Folder,
    Question,
    read_folder,
)
from mrtpo.records import Prompt
from mrtpo.tasks.tools.rewards import format_ok

if TYPE_CHECKING:
    from mrtpo.config import Settings

SIMPLE = AST[:3]
LIVE = AST[6:]
WEIGHTS = {"non_live": 10, "live": 10, "irrelevance": 10, "multi-turn": 30, "agentic": 40}
"""Percent of v4's overall score."""

_CALLS_ASKED = "<think></think>\n<tool_call>\n\n</tool_call>"
_TEXT_ASKED = "<think></think>\n<response></response>"
_NOT_RUN = ("multi_turn", "web_search", "memory")


@dataclass(frozen=True)
class Given:
    """Calls, or a response that they are to be decoded from."""

    calls: list[Any] | None = None
    response: str | None = None


class Bfcl:
    """`form`: how responses are decoded. `underscored`: the model writes `_` for a name's dots.
    `shown`: how functions are shown."""

    name = "bfcl"
    metrics = ("valid", "format")

    def __init__(
        self,
        folder: Folder,
        form: Form = "auto",
        *,
        underscored: bool = False,
        shown: prompts.Form = "bfcl",
    ) -> None:
        self.folder, self.form, self.underscored = folder, form, underscored
        self.shown: prompts.Form = shown
        self._place = {question.id: i for i, question in enumerate(folder.questions)}

    @property
    def questions(self) -> int:
        return len(self.folder.questions)

    def read_answers(self, file: Path) -> list[Answer]:
        return numbered([self._answer(where, row) for where, row in json_rows(file)])

    def prompt(self, question: int) -> Prompt:
        asked = self.folder.questions[question]
        return Prompt(
            asked.id, "test", asked.category, "", "bfcl", prompts.messages(asked, self.shown), (),
            json.dumps(asked.answers), "{}",
        )  # fmt: skip

    def from_response(self, question: int, response: str, sample: int | None) -> Answer:
        return Answer(question, Given(response=response), sample)

    def judge(self, answers: Sequence[Answer]) -> list[Judged]:
        return [self._judged(answer) for answer in answers]

    def summarise(self, judged: Sequence[Judged], asked: Collection[int]) -> Summary:
        category = {i: question.category for i, question in enumerate(self.folder.questions)}
        found = tally(self.name, judged, asked, self.metrics, {"category": category})
        scores: dict[str, float | None] = {}
        for name, value in found.scores.items():
            scores[name] = value
            if name.endswith("valid"):
                for group, share in official(found.groups["category"], name).items():
                    scores[name.removesuffix("valid") + group] = share
        kinds = Counter(str(j.row["error"]).split(":")[0] for j in judged if j.row["error"])
        counts = {f"error {kind}": n for kind, n in sorted(kinds.items())}
        return dataclasses.replace(
            found, scores=scores, counts=found.counts | counts, notes=self._notes(asked)
        )

    def close(self) -> None:
        pass

    def _answer(self, where: str, row: dict[str, Any]) -> Answer:
        name = row.get("id")
        if not isinstance(name, str):
            raise ValueError(f"{where}: field id: expected text, found {name!r}")
        if name not in self._place:
            if name.startswith(_NOT_RUN):
                raise ValueError(
                    f"{where}: field id: {name} cannot be scored here (multi-turn, web search and "
                    "memory are not run): leave it out"
                )
            raise ValueError(f"{where}: field id: the question files have no {name!r}")
        given = [field for field in ("calls", "response") if field in row]
        if len(given) != 1:
            raise ValueError(f"{where}: give one of the fields calls and response")
        value = row[given[0]]
        if given == ["response"] and not isinstance(value, str):
            raise ValueError(f"{where}: field response: expected text, found {value!r:.80}")
        if given == ["calls"] and not isinstance(value, list):
            raise ValueError(f"{where}: field calls: expected a list, found {value!r:.80}")
        return Answer(self._place[name], Given(**{given[0]: value}))

    def _judged(self, answer: Answer) -> Judged:
        question, given = self.folder.questions[answer.question], answer.given
        calls, fault = self._calls(question, given)
        if question.category in IRRELEVANCE:
            fault = (
                Fault("irrelevance_error:decoder_success", "calls a function") if calls else None
            )
        elif question.category in RELEVANCE:
            why = "" if fault is None else f": {fault.detail}"
            no_call = Fault("relevance_error:decoder_failed", f"calls no function{why}")
            fault = None if calls else no_call
        elif fault is None and calls is not None:
            fault = check_calls(
                question.functions, calls, question.answers, question.kind, question.language,
                underscored=self.underscored,
            )  # fmt: skip
        shown = plain(calls)
        row = {
            "id": question.id, "category": question.category, "sample": answer.sample,
            "valid": fault is None, "error": fault and fault.kind,
            "detail": fault.detail if fault else "", "calls": shown,
        }  # fmt: skip
        scores = {"valid": fault is None, "format": self._format(question, given)}
        if given.response is not None:
            row["format"] = scores["format"]
        vote = (
            None if calls is None else tuple(sorted(json.dumps(c, sort_keys=True) for c in shown))
        )
        return Judged(
            answer.question, answer.sample, row, scores, vote,
            asked=question.turns[0][-1].content if question.turns and question.turns[0] else "",
            expected=json.dumps(question.answers, ensure_ascii=False) if question.answers else "",
            given=json.dumps(shown, ensure_ascii=False) if given.response is None
            else given.response,
            detail=row["detail"],
        )  # fmt: skip

    def _calls(self, question: Question, given: Given) -> tuple[list[Any] | None, Fault | None]:
        """The calls that there are, or why there are none that can be checked."""
        calls = given.calls
        if given.response is not None:
            found = decode(given.response, self.form, question.language)
            if found.calls is None:
                return None, Fault("ast_decoder:decoder_failed", found.reason)
            calls = found.calls
        if too_deep(calls) or not well_formed(calls):
            return None, Fault(
                "ast_decoder:decoder_wrong_output_format",
                "a call is {name: {argument: value}}, with lists and objects not too deep",
            )
        return calls, None

    def _format(self, question: Question, given: Given) -> bool | None:
        if given.response is None:
            return None
        text = question.category in IRRELEVANCE
        return format_ok(given.response, _TEXT_ASKED if text else _CALLS_ASKED)

    def _notes(self, asked: Collection[int]) -> tuple[str, ...]:
        left = "".join(f", {c} ({len(ids)})" for c, ids in self.folder.unscored.items())
        notes = [
            "No overall: single_turn is the mean of non_live, live and irrelevance, which are 30 % "
            "of BFCL v4's overall; multi-turn (30 %) and agentic (40 %: web search, memory) are "
            "not run, nor the test of prompt formats, which has no weight"
            + (f". Read and not scored: {left[2:]}." if left else "."),
            "An answer without calls that can be decoded passes irrelevance, as in the original.",
        ]
        if len(asked) < self.questions:
            notes.append(f"On {len(asked)} of {self.questions} questions.")
        return tuple(notes)


def official(
    groups: Mapping[str, Mapping[str, float | None]], score: str
) -> dict[str, float | None]:
    """v4's scores of single-turn categories; None where a category has no question asked.

    `score` may be one over samples, as `mean@8/valid`; a category may have fewer samples, or no
    answers, which is 0.
    """

    def mean(values: Sequence[float | None]) -> float | None:
        there = [value for value in values if value is not None]
        return sum(there) / len(there) if len(there) == len(values) else None

    sampled = score.partition("@")[0]
    of = {
        category: next(
            (v for n, v in found.items() if n.partition("@")[0] == sampled and n.endswith("valid")),
            0.0,
        )
        for category, found in groups.items()
    }
    simple = mean([of.get(category) for category in SIMPLE])
    non_live = mean([simple, *(of.get(category) for category in AST[3:6])])
    irrelevance = mean([of.get(category) for category in IRRELEVANCE])
    live = None
    if mean([of.get(category) for category in LIVE]) is not None:
        counts = [groups[category]["questions"] or 0.0 for category in LIVE]
        rights = [(of[c] or 0.0) * n for c, n in zip(LIVE, counts, strict=True)]
        live = sum(rights) / sum(counts)
    return {
        "non_live": non_live, "live": live, "irrelevance": irrelevance,
        "single_turn": mean([non_live, live, irrelevance]), "relevance": of.get(RELEVANCE[0]),
    }  # fmt: skip


def plain(value: Any) -> Any:
    """A decoded value as JSON has it; what JSON has not (NaN, bytes, …) as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    finite = isinstance(value, float) and abs(value) < float("inf")
    return value if finite or isinstance(value, str | int | None) else repr(value)


def open_benchmark(name: str, folder: Path, settings: Settings, databases: Path | None) -> Bfcl:
    """Read the question files. Raises ValueError naming file, row and field."""
    if databases is not None:
        raise ValueError("--databases: BFCL has none")
    return Bfcl(read_folder(folder), shown=settings.benchmark.tools)
