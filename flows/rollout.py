"""The stage `rollout` alone: sample groups from the starting policy and verify them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from prefect import flow
from prefect.states import State

from flows.stages import run_stages


@flow
def rollout(
    prompts: int | None = None,
    split: Literal["train", "valid", "test"] | None = None,
    group_size: int | None = None,
    temperature: float | None = None,
    model: str | None = None,
    overrides: Mapping[str, Any] = {},
    log_every: int = 10,
    stage_minutes: float | None = None,
) -> State[None] | None:
    """Sample groups from the starting policy, verify them, write data/rollouts.

    Prompts and the starting policy are taken as they are. With every setting left empty this works
    in the workspace; otherwise isolated, kept as a branch.

    Args:
        prompts: Prompts sampled.
        split: Which prompts.
        group_size: Responses for each prompt.
        temperature: Sampling temperature.
        model: Hub id, folder or GGUF file of a pretrained chat model.
        overrides: Any key of params.yaml, as {"sampling.max_new_tokens": 64}.
        log_every: Steps between two lines in this log.
        stage_minutes: A stage that runs longer is stopped.
    """
    named = {
        "rollout.prompts": prompts,
        "rollout.split": split,
        "sampling.group_size": group_size,
        "sampling.temperature": temperature,
        "model.path": model,
    }
    return run_stages(["rollout"], named, overrides, log_every, stage_minutes)
