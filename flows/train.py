"""The stage `train` alone: the RL loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.states import State

from flows.stages import run_stages
from mrtpo.config import MethodName


@flow
def train(
    method: MethodName | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    seed: int | None = None,
    overrides: Mapping[str, Any] = {},
    log_every: int = 10,
    stage_minutes: float | None = None,
) -> State[None] | None:
    """Train the policy; resumes from the last checkpoint of the same settings, data and code.

    Prompts and the starting policy are taken as they are. With every setting left empty this works
    in the workspace; otherwise isolated, kept as a branch.

    Args:
        method: How rewards become token advantages.
        steps: Policy updates.
        learning_rate: AdamW's rate after the warm-up.
        seed: Every random choice follows from it.
        overrides: Any key of params.yaml, as {"train.kl": 0.01}.
        log_every: Steps between two lines in this log.
        stage_minutes: A training that runs longer is stopped; a retry resumes it.
    """
    named = {
        "train.method": method,
        "train.steps": steps,
        "train.learning_rate": learning_rate,
        "seed": seed,
    }
    return run_stages(["train"], named, overrides, log_every, stage_minutes)
