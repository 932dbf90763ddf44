"""The stage `attribute` alone: replay of the rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.states import State

from flows.stages import run_stages
from mrtpo.config import DistanceName, NormaliseName


@flow
def attribute(
    distance: DistanceName | None = None,
    normalise: NormaliseName | None = None,
    floor: float | None = None,
    cap: float | None = None,
    overrides: Mapping[str, Any] = {},
    log_every: int = 10,
    stage_minutes: float | None = None,
) -> State[None] | None:
    """Replay the rollouts, write token weights.

    The rollouts are taken as they are. With every setting left empty this works in the workspace;
    otherwise isolated, kept as a branch.

    Args:
        distance: How far the two replays are apart at a token.
        normalise: What the weights of a response are scaled to.
        floor: Where the replay finds less than this distance, weights tend to 1.
        cap: Largest weight.
        overrides: Any key of params.yaml, as {"replay.variants": {"executability": "schema"}}.
        log_every: Steps between two lines in this log.
        stage_minutes: A stage that runs longer is stopped.
    """
    named = {
        "replay.distance": distance,
        "replay.normalise": normalise,
        "replay.floor": floor,
        "replay.cap": cap,
    }
    return run_stages(["attribute"], named, overrides, log_every, stage_minutes)
