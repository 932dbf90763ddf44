"""The text-to-SQL task: three rewards (format, executability, execution) of 0 or 1.

`execution` is Spider's execution match; BIRD's set equality is kept beside it as the metric
`bird_ex`. A query that times out leaves executability and execution without a value
(`rewards.on_timeout`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from mrtpo.config import Settings
from mrtpo.records import Prompt, Reward
from mrtpo.tasks.base import Part, Prepared, Verdict
from mrtpo.tasks.text2sql import demonstrations
from mrtpo.tasks.text2sql.lexemes import Names
from mrtpo.tasks.text2sql.prepare import database_file, prepare
from mrtpo.tasks.text2sql.prompts import (
    FENCES,
    REWARDS,
    TAGS,
    extract_sql,
    format_ok,
    response_parts,
)
from mrtpo.tasks.text2sql.schema import read_schema
from mrtpo.tasks.text2sql.spans import response_spans
from mrtpo.verifiers.sql import SQLJob, SQLOutcome, SQLVerifier

NOISE = {"format": 0.4, "executability": 0.25, "execution": 0.25}


class TextToSQL:
    name = "text2sql"
    reward_names = REWARDS
    metric_names = ("spider_exec", "bird_ex")
    words = (*TAGS, *FENCES)
    noise = NOISE
    best_metric = "sampled/execution"

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self._verifier: SQLVerifier | None = None
        self._names: dict[str, Names] = {}
        self._latest: dict[SQLJob, SQLOutcome] = {}  # of the last `verify`: spans follow it

    @property
    def verifier(self) -> SQLVerifier:
        if self._verifier is None:
            self._verifier = SQLVerifier(self.settings.verifier)
        return self._verifier

    def prepare(self) -> Prepared:
        return prepare(self.settings, self.folder, self.verifier)

    def verify(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[Verdict]:
        jobs = [self._job(p, response) for p, response in zip(prompts, responses, strict=True)]
        outcomes = self.verifier.run(jobs)
        self._latest = dict(zip(jobs, outcomes, strict=True))
        return [
            _verdict(response, outcome)
            for response, outcome in zip(responses, outcomes, strict=True)
        ]

    def demonstration(
        self, prompt: Prompt, told: frozenset[str], noise: dict[str, float], rng: random.Random
    ) -> str:
        names = self._tables(prompt.source)
        return demonstrations.demonstration(prompt.reference, names, told, noise, rng)

    def parts(self, prompt: Prompt, response: str) -> list[Part]:
        return response_parts(response)

    def spans(self, prompt: Prompt, response: str) -> dict[str, list[tuple[int, int]]]:
        job = self._job(prompt, response)
        if (outcome := self._latest.get(job)) is None:
            (outcome,) = self.verifier.run([job])
        return response_spans(
            response, prompt.reference, self._tables(prompt.source), outcome.executable,
            outcome.scores["spider_exec"] == 1, outcome.detail,
        )  # fmt: skip

    def answer(self, response: str) -> str:
        return extract_sql(response)

    def close(self) -> None:
        if self._verifier is not None:
            self._verifier.close()
            self._verifier = None

    def _job(self, prompt: Prompt, response: str) -> SQLJob:
        file = database_file(self.folder, prompt.source)
        return SQLJob(file, extract_sql(response), prompt.reference)

    def _tables(self, db_id: str) -> Names:
        if db_id not in self._names:
            schema = read_schema(database_file(self.folder, db_id), db_id)
            self._names[db_id] = {t.name: [c.name for c in t.columns] for t in schema.tables}
        return self._names[db_id]


def _verdict(response: str, outcome: SQLOutcome) -> Verdict:
    status, detail = outcome.status, outcome.detail
    rewards = (
        Reward("format", float(format_ok(response)), "ok"),
        Reward("executability", _number(outcome.executable), status, detail),
        Reward("execution", _number(outcome.scores["spider_exec"]), status, detail),
    )
    metrics = (
        Reward("spider_exec", _number(outcome.scores["spider_exec"]), status),
        Reward("bird_ex", _number(outcome.scores["bird_ex"]), status),
    )
    return Verdict(rewards, metrics)


def _number(value: bool | float | None) -> float | None:
    return None if value is None else float(value)
