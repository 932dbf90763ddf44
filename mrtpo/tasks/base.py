"""What a task is to the rest: prompts, rewards, what each verifier reveals, parts of a response.

A task knows its verifiers, never the trainer. The trainer sees `reward_names`, `verify` and
records.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mrtpo.config import Data
from mrtpo.records import Prompt, Reward
from mrtpo.validation import Limits


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


@dataclass(frozen=True)
class Prepared:
    """Prompts by split, the rows that validation looks at, its limits, and counts."""

    prompts: dict[str, list[Prompt]]
    rows: list[dict[str, Any]]
    limits: Limits
    statistics: dict[str, float]


def wanted(data: Data, split: str) -> int:
    """How many prompts a split is to have, at most."""
    return {"train": data.train_prompts, "valid": data.valid_prompts, "test": data.test_prompts}[
        split
    ]


class Task(Protocol):
    """`words` are strings that the small policy's tokenizer keeps whole. `copying`, `noise` and
    `best_metric` stand in where `warmstart.copying`, `warmstart.noise` and `train.best_metric` are
    null."""

    @property
    def reward_names(self) -> tuple[str, ...]: ...

    @property
    def metric_names(self) -> tuple[str, ...]: ...

    @property
    def words(self) -> tuple[str, ...]: ...

    @property
    def copying(self) -> int: ...

    @property
    def noise(self) -> dict[str, float]: ...

    @property
    def best_metric(self) -> str: ...

    def prepare(self) -> Prepared:
        """Make or read the prompts, and write what verifiers need below the task's folder.

        Raises `ValueError` naming file, row and field on bad input.
        """
        ...

    def verify(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[Verdict]:
        """One verdict per (prompt, response) pair, in order. Never raises on a response."""
        ...

    def demonstration(
        self, prompt: Prompt, told: frozenset[str], noise: dict[str, float], rng: random.Random
    ) -> str:
        """A response for the supervised start: right in what `told` names, else wrong at times
        (`noise`: by reward)."""
        ...

    def parts(self, prompt: Prompt, response: str) -> list[Part]:
        """Named, non-overlapping parts of a response, in order; gaps belong to no part."""
        ...

    def spans(
        self, prompt: Prompt, response: str, praised: Collection[str] = ()
    ) -> dict[str, list[tuple[int, int]]]:
        """By reward, the characters `start:end` of a response that it is about, for the method
        `oracle`; one past the last character stands for the end token. Never raises.

        Of a response that fails, these are its faults; of a reward in `praised`, which is a grade
        and gives this response, faults and all, a positive advantage, what is right.
        """
        ...

    def answer(self, response: str) -> str:
        """The part of a response that is judged: the query, the calls, the text."""
        ...

    def close(self) -> None:
        """Stop verifier processes."""
        ...
