"""The text-to-SQL task: format, executability and execution of a query, as a recipe rewards them.

Rewards are those of `rewards.recipe` (`rewards.RECIPES`). The verdicts of Spider's and BIRD's
metrics are kept beside them, and what of the three a recipe does not reward. A query that times out
leaves what depends on its result without a value (`rewards.on_timeout`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from pathlib import Path

from mrtpo.config import Settings
from mrtpo.records import Prompt, Reward
from mrtpo.tasks.base import Part, Prepared, Verdict
from mrtpo.tasks.text2sql import demonstrations
from mrtpo.tasks.text2sql.lexemes import Names
from mrtpo.tasks.text2sql.prepare import database_file, prepare
from mrtpo.tasks.text2sql.prompts import (
    FENCES,
    TAGS,
    extract_sql,
    response_parts,
)
from mrtpo.tasks.text2sql.rewards import RECIPES, plain_metrics
from mrtpo.tasks.text2sql.schema import read_schema
from mrtpo.tasks.text2sql.spans import response_spans
from mrtpo.verifiers.sql import SQLJob, SQLOutcome, SQLVerifier

JUDGES = ("spider_exec", "bird_ex")
# Whose spans are whose: rewards of the format and of the result in part. A reward of length has
# none: no part of a response is to blame.
ABOUT = {
    "tag_count": "format", "cell_precision": "execution", "cell_recall": "execution",
    "tuple_cardinality": "execution",
}  # fmt: skip
# In each tag and fence, each name, each decision of the query.
NOISE = {"format": 0.08, "executability": 0.025, "execution": 0.03}


class TextToSQL:
    name = "text2sql"
    words = (*TAGS, *FENCES)
    copying = 200
    noise = NOISE
    best_metric = "sampled/execution"

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.recipe = RECIPES[settings.rewards.recipe]
        self.reward_names = self.recipe.names
        self.metric_names = (*JUDGES, *self.recipe.metrics)
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
            self._verdict(response, outcome)
            for response, outcome in zip(responses, outcomes, strict=True)
        ]

    def demonstration(
        self, prompt: Prompt, told: frozenset[str], noise: dict[str, float], rng: random.Random
    ) -> str:
        names = self._tables(prompt.source)
        return demonstrations.demonstration(prompt.reference, names, told, noise, rng)

    def parts(self, prompt: Prompt, response: str) -> list[Part]:
        return response_parts(response)

    def spans(
        self, prompt: Prompt, response: str, praised: Collection[str] = ()
    ) -> dict[str, list[tuple[int, int]]]:
        job = self._job(prompt, response)
        if (outcome := self._latest.get(job)) is None:
            (outcome,) = self.verifier.run([job])
        spans = response_spans(
            response, prompt.reference, self._tables(prompt.source), outcome.executable,
            outcome.scores[self.recipe.judge] == 1, outcome.detail,
        )  # fmt: skip
        return {
            name: spans[about]
            for name in self.reward_names
            if (about := ABOUT.get(name, name)) in spans
        }

    def answer(self, response: str) -> str:
        return extract_sql(response)

    def close(self) -> None:
        if self._verifier is not None:
            self._verifier.close()
            self._verifier = None

    def _job(self, prompt: Prompt, response: str) -> SQLJob:
        file = database_file(self.folder, prompt.source)
        metrics = (*JUDGES, *self.recipe.asks)
        return SQLJob(file, extract_sql(response), prompt.reference, metrics)

    def _verdict(self, response: str, outcome: SQLOutcome) -> Verdict:
        scores = [(name, outcome.scores[name]) for name in JUDGES]
        judged = [
            Reward(name, None if score is None else float(score), outcome.status)
            for name, score in scores
        ]
        plain = plain_metrics(self.recipe.metrics, response, outcome)
        return Verdict(self.recipe.rewards(response, outcome), (*judged, *plain))

    def _tables(self, db_id: str) -> Names:
        if db_id not in self._names:
            schema = read_schema(database_file(self.folder, db_id), db_id)
            self._names[db_id] = {t.name: [c.name for c in t.columns] for t in schema.tables}
        return self._names[db_id]
