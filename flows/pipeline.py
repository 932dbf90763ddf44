"""The main job: every stage of `dvc.yaml`, in order, one task each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.states import State

from flows.repro import graph
from flows.stages import run_stages
from flows.workspace import workspace_root
from mrtpo.config import MethodName, TaskName


@flow
def pipeline(
    task: TaskName | None = None,
    method: MethodName | None = None,
    model: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    overrides: Mapping[str, Any] = {},
    log_every: int = 10,
    stage_minutes: float | None = None,
) -> State[None] | None:
    """Prepare, train, evaluate and report; stages that are up to date are skipped.

    With every setting left empty this works in the workspace. With any setting given it runs
    isolated and is kept as a git branch, `run/<name>`.

    Args:
        task: What is trained on.
        method: How rewards become token advantages.
        model: Hub id, folder or GGUF file of a pretrained chat model.
        seed: Every random choice follows from it.
        steps: Policy updates.
        overrides: Any key of params.yaml, as {"train.learning_rate": 0.001}.
        log_every: Steps between two lines in this log.
        stage_minutes: A stage that runs longer is stopped; a retry resumes it.
    """
    named = {
        "task": task,
        "train.method": method,
        "model.path": model,
        "seed": seed,
        "train.steps": steps,
    }
    return run_stages(list(graph(workspace_root())), named, overrides, log_every, stage_minutes)
