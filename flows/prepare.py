"""The stage `prepare` alone: make or read the data set and validate it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.states import State

from flows.stages import run_stages
from mrtpo.config import SourceName


@flow
def prepare(
    source: SourceName | None = None,
    path: str | None = None,
    seed: int | None = None,
    overrides: Mapping[str, Any] = {},
    stage_minutes: float | None = None,
) -> State[None] | None:
    """Make or read the data set, validate it, write data/prompts.

    With every setting left empty this works in the workspace; otherwise isolated, kept as a branch.

    Args:
        source: Where prompts come from.
        path: The set's folder, or a hub id; empty means $MRTPO_DATA/<source>.
        seed: Every random choice follows from it.
        overrides: Any key of params.yaml, as {"data.train_prompts": 1000}.
        stage_minutes: A stage that runs longer is stopped.
    """
    named = {"data.source": source, "data.path": path, "seed": seed}
    return run_stages(["prepare"], named, overrides, minutes=stage_minutes)
