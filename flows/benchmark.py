"""The stage `benchmark` alone: score the trained policy on public sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.states import State

from flows.stages import run_stages


@flow
def benchmark(
    names: list[str] | None = None,
    path: str | None = None,
    limit: int | None = None,
    samples: int | None = None,
    overrides: Mapping[str, Any] = {},
    log_every: int = 10,
    stage_minutes: float | None = None,
) -> State[None] | None:
    """Score the trained policy on public benchmarks, with the official metric of each.

    The policy is taken as it is. With every setting left empty this works in the workspace;
    otherwise isolated, kept as a branch.

    Args:
        names: Which, as `python -m mrtpo score --help` lists them.
        path: Folder that holds each by its name.
        limit: Only so many questions of each, drawn by the seed.
        samples: Sampled answers beside the greedy one, for a majority vote.
        overrides: Any key of params.yaml, as {"sampling.max_new_tokens": 512}.
        log_every: Steps between two lines in this log.
        stage_minutes: A stage that runs longer is stopped; a retry goes on where it was.
    """
    named = {
        "benchmark.names": names,
        "benchmark.path": path,
        "benchmark.limit": limit,
        "benchmark.samples": samples,
    }
    return run_stages(["benchmark"], named, overrides, log_every, stage_minutes)
