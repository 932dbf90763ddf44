"""The instruction-following task: each constraint of a prompt is a reward of 0 or 1.

Prompts have different constraints. The task's rewards are all there may be, and those that a prompt
does not have are `absent`: they count in no mean and give no credit. Beside them stand two metrics:
`followed`, the share of a prompt's constraints that pass, and `all`, whether all do.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from pathlib import Path

from mrtpo.config import Settings
from mrtpo.records import Prompt, Reward
from mrtpo.tasks.base import Part, Prepared, Verdict
from mrtpo.tasks.instruct import synthetic
from mrtpo.tasks.instruct.prepare import prepare
from mrtpo.tasks.instruct.prompts import SLOTS, Named, constraints_of
from mrtpo.verifiers import constraints
from mrtpo.verifiers.constraints.kinds import merged
from mrtpo.verifiers.constraints.verifier import ConstraintVerifier

NOISE = 0.45


class Instruct:
    name = "instruct"
    metric_names = ("followed", "all")
    copying = 200
    best_metric = "sampled/followed"

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.embedded = settings.data.source == "synthetic"
        lines = settings.data.lines
        self.reward_names = synthetic.names_of(lines) if self.embedded else SLOTS
        self.words = synthetic.tokens_of(lines) if self.embedded else ()
        self.noise = dict.fromkeys(self.reward_names, NOISE) if self.embedded else {}
        self._verifier: ConstraintVerifier | None = None

    @property
    def verifier(self) -> ConstraintVerifier:
        if self._verifier is None:
            limits = self.settings.verifier
            self._verifier = ConstraintVerifier(
                processes=limits.processes, seconds=limits.seconds, megabytes=limits.megabytes
            )
        return self._verifier

    def prepare(self) -> Prepared:
        return prepare(self.settings)

    def verify(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[Verdict]:
        asked = [constraints_of(prompt) for prompt in prompts]
        jobs = [
            (response, [each.constraint for each in named])
            for named, response in zip(asked, responses, strict=True)
        ]
        if self.embedded:  # quick on any text
            found = [[constraints.check(c.id, c.arguments, text) for c in cs] for text, cs in jobs]
        else:
            found = self.verifier.run(jobs)
        return [
            self._verdict(named, verdicts) for named, verdicts in zip(asked, found, strict=True)
        ]

    def _verdict(self, named: Sequence[Named], verdicts: Sequence[constraints.Verdict]) -> Verdict:
        given = {
            each.reward: Reward(
                each.reward, None if v.passed is None else float(v.passed), v.status, v.detail
            )
            for each, v in zip(named, verdicts, strict=True)
        }
        rewards = tuple(given.get(name, Reward(name, None, "absent")) for name in self.reward_names)
        passed = sum(v.passed is True for v in verdicts)
        share = Reward("followed", passed / len(verdicts), "ok")
        return Verdict(rewards, (share, Reward("all", float(passed == len(verdicts)), "ok")))

    def demonstration(
        self, prompt: Prompt, told: frozenset[str], noise: dict[str, float], rng: random.Random
    ) -> str:
        """What is told is kept but with the chance `noise`; what is not told, as it happens."""
        named = constraints_of(prompt)
        if not self.embedded:
            if not prompt.reference:
                raise ValueError(
                    f"data.source: {prompt.source} has no answers to learn from; set model.path"
                )
            return prompt.reference
        heard = [each for each in named if each.reward in told]
        broken = frozenset(n.reward for n in heard if rng.random() < noise.get(n.reward, 0.0))
        kept = frozenset(n.reward for n in heard) - broken
        rules = {n.reward: n.constraint for n in named}
        return synthetic.written(rules, kept, broken, rng, self.settings.data.lines)

    def parts(self, prompt: Prompt, response: str) -> list[Part]:
        found = [
            (start, end) for spans in self.spans(prompt, response).values() for start, end in spans
        ]
        return [Part("constraints", a, min(b, len(response))) for a, b in merged(found)
                if a < len(response)]  # fmt: skip

    def spans(
        self, prompt: Prompt, response: str, praised: Collection[str] = ()
    ) -> dict[str, list[tuple[int, int]]]:
        found = {}
        for each in constraints_of(prompt):
            spans = constraints.spans(each.constraint.id, each.constraint.arguments, response) or []
            if spans:
                found[each.reward] = spans
        return found

    def answer(self, response: str) -> str:
        return response.strip()

    def close(self) -> None:
        if self._verifier is not None:
            self._verifier.close()
            self._verifier = None
