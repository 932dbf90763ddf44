"""The stage `explore` alone: the credit of every response as a page, and the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.states import State

from flows.stages import run_stages


@flow
def explore(
    responses: int | None = None,
    overrides: Mapping[str, Any] = {},
    log_every: int = 10,
    stage_minutes: float | None = None,
) -> State[None] | None:
    """Write the credit explorer and the figures of where credit falls.

    Attribution and training are taken as they are. With every setting left empty this works in the
    workspace; otherwise isolated, kept as a branch.

    Args:
        responses: Responses in the explorer, at most.
        overrides: Any key of params.yaml, as {"report.responses": 64}.
        log_every: Steps between two lines in this log.
        stage_minutes: A stage that runs longer is stopped.
    """
    return run_stages(
        ["explore"], {"report.responses": responses}, overrides, log_every, stage_minutes
    )
