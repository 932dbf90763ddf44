"""What a task is to the rest: prompts, rewards, what each verifier reveals, parts of a response.

A task knows its verifiers, never the trainer. The trainer sees `reward_names`, `verify` and records.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mrtpo.config import Settings
from mrtpo.records import Prompt, Reward


@dataclass(frozen=True)
class Verdict:
    """Verifier results of one response: rewards in the task's order, and unrewarded metrics."""

    rewards: tuple[Reward, ...]
    metrics: tuple[Reward, ...] = ()


@dataclass(frozen=True)
class Part:
    """Characters `start:end` of a response, named (`tags`, `think`, `columns`, `literals`, …)."""

    name: str
    start: int
    end: int


class Task(Protocol):
    name: str
    reward_names: tuple[str, ...]
    metric_names: tuple[str, ...]

    def prepare(self, settings: Settings, folder: Path) -> dict[str, object]:
        """Write `{train,valid,test}.parquet` and what verifiers need below `folder`.

        Returns statistics (counts, what was dropped and why). Raises `ValueError` naming file,
        row and field on bad input.
        """
        ...

    def verify(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[Verdict]:
        """One verdict per (prompt, response) pair, in order. Never raises on a response."""
        ...

    def demonstration(self, prompt: Prompt, told: frozenset[str], noise: float,
                      rng: random.Random) -> str:  # fmt: skip
        """A response for the supervised start: right in what `told` names, else wrong at times."""
        ...

    def parts(self, prompt: Prompt, response: str) -> list[Part]:
        """Named, non-overlapping parts of a response, in order; gaps belong to no part."""
        ...

    def close(self) -> None:
        """Stop verifier processes."""
        ...
