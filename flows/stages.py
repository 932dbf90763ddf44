"""What the flows have in common: stages as Prefect tasks, and what people see of them.

A task is one `dvc repro --single-item` in a child process. A stage that DVC finds up to date ends
as `Skipped`. Tasks are called in the flow's main thread, never submitted: a cancel cannot interrupt
a pool's thread, and neither can `timeout_seconds`; the limit on a stage's time is our own.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from prefect import get_run_logger, runtime, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State

from flows.locks import run_lock, workspace_lock
from flows.repro import NotReady, Place, StageFailed, reproduce
from flows.results import show_result
from flows.sources import refresh
from flows.summary import SHOWN
from flows.workspace import (
    WorkspaceError,
    anchored,
    checked_settings,
    isolated,
    merged,
    publish,
    run_label,
    state_folder,
    tracking_uri,
    workspace_root,
)
from mrtpo.config import SettingsError

ARTIFACT_SECONDS = 2.0
LOGGED_LINES = 200  # of one stage; the rest is in its log file
_TROUBLE = re.compile(r"\b(WARNING|ERROR|Error|Traceback)\b")
_MLFLOW_PAGE = re.compile(r"/#/experiments/\w+/runs/\w+\S*")


def run_stages(
    stages: Sequence[str],
    named: Mapping[str, Any],
    overrides: Mapping[str, Any],
    log_every: int = 10,
    minutes: float | None = None,
) -> State[None] | None:
    """Run stages in order: in the workspace, or isolated if any setting is given.

    `named` are the form's own fields by key, None where left empty. Settings are checked before any
    work. `minutes` limits each stage. What a user can put right (a setting, a stage's own error) is
    returned as a failed state, whose message is that error: raised, it would drown in tracebacks.
    """
    try:
        root = workspace_root()
        given = merged(named, overrides)
        settings = checked_settings(root, given)
        state, label = state_folder(root), label_of_run()
        with run_lock(state, label):
            if given:
                files = anchored(root, settings)
                _run_isolated(stages, root, {**given, **files}, log_every, minutes)
            else:
                with workspace_lock(state, f"flow run {label}", get_run_logger().warning):
                    _run_in(root, stages, root, log_every, minutes)
                show_result(root, stages, None)
    except (SettingsError, NotReady, StageFailed, TimeoutError, WorkspaceError) as error:
        return Failed(message=str(error))
    return None


def label_of_run() -> str:
    """Names this flow run's folder, lock and branch."""
    return run_label(runtime.flow_run.name or "", runtime.flow_run.id or "")


def _run_isolated(
    stages: Sequence[str],
    root: Path,
    overrides: Mapping[str, Any],
    log_every: int,
    minutes: float | None,
) -> None:
    logger, label = get_run_logger(), label_of_run()
    told = json.dumps(overrides, indent=1)
    logger.info("isolated in runs/%s: %s", label, json.dumps(overrides))
    clone = isolated(root, label, overrides)
    _run_in(clone, stages, root, log_every, minutes)
    branch = publish(root, clone, f"Run {label}\n\n{told}")
    logger.info("kept as the branch %s", branch)
    show_result(clone, stages, branch)


def _run_in(
    folder: Path, stages: Sequence[str], root: Path, log_every: int, minutes: float | None
) -> None:
    if changed := refresh(folder):
        get_run_logger().info("sources.yaml: %s changed", ", ".join(changed))
    place = place_of_run(root, folder)
    for stage in stages:
        run_stage.with_options(name=stage)(stage, place, log_every, minutes)


def place_of_run(root: Path, folder: Path | None = None) -> Place:
    """Where this flow run works: the workspace, or a `folder` with the workspace's state."""
    run_id = runtime.flow_run.id or ""
    return Place(folder or root, state_folder(root), tracking_uri(root), label_of_run(), run_id)


def _worth_another_try(_task: object, _run: object, state: State[Any]) -> bool:
    error = state.result(raise_on_failure=False)
    return isinstance(error, StageFailed) and error.killed


@task(
    task_run_name="{stage}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=1,
    retry_delay_seconds=5,
    retry_condition_fn=_worth_another_try,
)
def run_stage(stage: str, place: Place, log_every: int, minutes: float | None) -> State[None]:
    """One stage; resumes where an attempt of the same settings, data and code was stopped."""
    view = StageView(stage, log_every)
    seconds = None if minutes is None else 60 * minutes
    try:
        ran = reproduce(stage, place, view.line, view.event, seconds)
    except TimeoutError as error:
        raise TimeoutError(f"{stage} {error}; a new try resumes it") from None
    finally:
        view.close()
    if not ran:
        return Completed(name="Skipped", message="DVC has this stage's outputs already")
    return Completed(message=f"{stage} done")


class StageView:
    """A stage's lines and events as a log, a progress bar and a link to MLflow."""

    def __init__(self, stage: str, log_every: int) -> None:
        self.stage, self.log_every = stage, max(1, log_every)
        self.logger = get_run_logger()
        self.lines = 0
        self.bar: UUID | None = None
        self.percent, self.shown_at = 0.0, 0.0
        self.logged_step: int | None = None
        self.linked = False

    def line(self, text: str) -> None:
        """Log a line; warnings always, others up to a limit, since each costs a call."""
        if page := _MLFLOW_PAGE.search(text):
            self.link(page.group())
        trouble = _TROUBLE.search(text)
        self.lines += 1
        if trouble or self.lines <= LOGGED_LINES:
            (self.logger.warning if trouble else self.logger.info)("%s", text)

    def event(self, event: Mapping[str, Any]) -> None:
        """One line for every n steps, and the bar, which is not moved more often than is seen."""
        step, total = int(event["step"]), int(event["total"])
        self.percent = min(100.0, 100.0 * step / max(1, total))
        if self.logged_step is None or step < self.logged_step:  # a stage may count several times
            self.logged_step = step - 1
        if step // self.log_every > self.logged_step // self.log_every or step == total:
            self.logged_step = step
            self.logger.info("%s %d/%d  %s", self.stage, step, total, numbers(event))
        if time.monotonic() - self.shown_at > ARTIFACT_SECONDS:
            self.show()

    def show(self) -> None:
        self.shown_at = time.monotonic()
        if self.bar is None:
            text = f"Progress of {self.stage}"
            made = create_progress_artifact(self.percent, f"{self.stage}-progress", text)
            self.bar = cast(UUID, made)
        else:
            update_progress_artifact(self.bar, self.percent)

    def link(self, page: str) -> None:
        """Link the training's page in MLflow, once."""
        if not self.linked:
            url = os.environ.get("MRTPO_MLFLOW_URL", "http://127.0.0.1:5000") + page
            create_markdown_artifact(
                f"[This training in MLflow]({url})", key=f"{self.stage}-mlflow"
            )
        self.linked = True

    def close(self) -> None:
        if self.bar is not None:
            self.show()


def numbers(event: Mapping[str, Any]) -> str:
    """Means of the metrics, and the seconds: `format 0.41  execution 0.1  (2.3 s)`."""
    metrics = event.get("metrics", {})
    means = {name: value for name, value in metrics.items() if name.endswith("/mean")} or metrics
    shown = [
        f"{name.removeprefix('reward/').removesuffix('/mean')} {value:.4g}"
        for name, value in list(means.items())[:SHOWN]
    ]
    seconds = sum(event.get("seconds", {}).values())
    return "  ".join([*shown, f"({seconds:.1f} s)"] if seconds else shown)
