"""The stage `evaluate` alone: score the trained policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from prefect import flow
from prefect.states import State

from flows.stages import run_stages


@flow
def evaluate(
    split: Literal["valid", "test"] | None = None,
    prompts: int | None = None,
    batch_size: int | None = None,
    overrides: Mapping[str, Any] = {},
    log_every: int = 10,
    stage_minutes: float | None = None,
) -> State[None] | None:
    """Score the trained policy, greedily decoded.

    The policy is taken as it is. With every setting left empty this works in the workspace;
    otherwise isolated, kept as a branch.

    Args:
        split: Which prompts.
        prompts: Most prompts evaluated.
        batch_size: Prompts decoded together.
        overrides: Any key of params.yaml, as {"sampling.max_new_tokens": 64}.
        log_every: Steps between two lines in this log.
        stage_minutes: A stage that runs longer is stopped.
    """
    named = {
        "evaluate.split": split,
        "evaluate.prompts": prompts,
        "evaluate.batch_size": batch_size,
    }
    return run_stages(["evaluate"], named, overrides, log_every, stage_minutes)
