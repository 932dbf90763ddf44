"""The tool-calling task: format (0/1) and correctness ([−3, 3]) as ToolRL has them.

`exact` is kept beside them as a metric: whether all calls are right, or, where the reference has
none, whether none is made. A reference that cannot be read leaves correctness without a value.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Sequence
from pathlib import Path

from mrtpo.config import Settings
from mrtpo.records import Prompt, Reward
from mrtpo.tasks.base import Part, Prepared, Verdict
from mrtpo.tasks.tools import demonstrations, rewards, spans
from mrtpo.tasks.tools.prepare import prepare
from mrtpo.tasks.tools.schema import tool_from

NOISE = {"format": 0.4, "correctness": 0.3}
# Kept whole by the small decoder's tokenizer: a call is then half as long, and each name and value
# stands one place behind the one before it.
CALL_MARKS = (
    '{"name": "', '", "parameters": {"', '": "', '", "', ', "', '": ["', '"], "', '": {"', '"}, "',
    '"}}', '"]}}', '"}}}', '}}',
)  # fmt: skip


class Tools:
    name = "tools"
    metric_names = ("exact",)
    words = (*rewards.TAGS, *CALL_MARKS)
    copying = 200
    noise = NOISE
    best_metric = "sampled/correctness"

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder

    @property
    def reward_names(self) -> tuple[str, ...]:
        names = ("format", "correctness")
        return (*names, "length") if self.settings.rewards.tools.length else names

    def prepare(self) -> Prepared:
        return prepare(self.settings)

    def verify(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[Verdict]:
        return [
            self._verdict(prompt.reference, response)
            for prompt, response in zip(prompts, responses, strict=True)
        ]

    def _verdict(self, reference: str, response: str) -> Verdict:
        variant = self.settings.rewards.tools
        well_formed = float(rewards.format_ok(response, reference))
        given = [Reward("format", well_formed, "ok")]
        try:
            value = rewards.correctness(response, reference, variant.correctness, variant.largest)
            exact = is_exact(response, reference)
        except ValueError as error:
            given.append(Reward("correctness", None, "error", str(error)))
            metric = Reward("exact", None, "error", str(error))
        else:
            detail = spans.difference(response, reference)
            given.append(Reward("correctness", value, "ok", detail))
            metric = Reward("exact", float(exact), "ok")
        if variant.length:
            given.append(Reward("length", rewards.length(response), "ok"))
        return Verdict(tuple(given), (metric,))

    def demonstration(
        self, prompt: Prompt, told: frozenset[str], noise: dict[str, float], rng: random.Random
    ) -> str:
        calls = rewards.reference_calls(prompt.reference)
        payload = json.loads(prompt.payload)
        tools = [tool_from(entry) for entry in payload["tools"]]
        return demonstrations.demonstration(calls, payload["text"], tools, told, noise, rng)

    def parts(self, prompt: Prompt, response: str) -> list[Part]:
        return spans.response_parts(response)

    def spans(
        self, prompt: Prompt, response: str, praised: Collection[str] = ()
    ) -> dict[str, list[tuple[int, int]]]:
        try:
            return spans.responsible_spans(response, prompt.reference, praised)
        except ValueError:  # a reference that cannot be read, as `verify` says
            return {"format": spans.format_spans(response, prompt.reference)}

    def answer(self, response: str) -> str:
        region = spans.calls_region(response)
        start, end = region or (rewards.body_start(response), len(response))
        return response[start:end].strip()

    def close(self) -> None:
        pass


def is_exact(response: str, reference: str) -> bool:
    """Whether the calls are the reference's, in any order; without any, whether none is made."""
    if not rewards.reference_calls(reference):
        return rewards.calls_span(response) is None
    return rewards.correctness(response, reference, "intermediate", 1.0) == 1.0
