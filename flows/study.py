"""The study from Prefect: methods, seeds and rates on testbeds, one task each.

A testbed is one `python -m benchmarks.study` in a child process, which fans out into a process for
each training, two at a time unless told otherwise. A run that is done is not made again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from prefect import flow, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State

from flows.locks import run_lock
from flows.repro import Place, StageFailed, watched
from flows.stages import StageView, label_of_run, place_of_run
from flows.workspace import state_folder, workspace_root


@flow
def study(
    plan: Literal["study", "ablations", "conditions"] = "study",
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    out: str = "runs/study-record",
    smoke: bool = False,
    processes: int = 2,
    minutes: float | None = None,
) -> State[None] | None:
    """Compare methods on testbeds: rates tuned for each, several seeds, paired; takes hours.

    What `out` has already is not made again, so a retry, or the same form once more, goes on.

    Args:
        plan: Which of benchmarks/*.yaml: the methods, one setting at a time, or where it pays.
        tasks: Testbeds of the plan; empty, all.
        methods: Methods of the plan; empty, all.
        out: Folder of the record and the figures. docs/study goes on with the project's own.
        smoke: Tiny runs, two seeds, to see that it works; without `methods`, those of the figure.
        processes: Trainings at a time, each of one thread.
        minutes: A testbed that takes longer is stopped; a retry goes on where it was.
    """
    from benchmarks.study import read_plan

    root = workspace_root()
    file = root / "benchmarks" / f"{plan}.yaml"
    try:
        names = list(read_plan(file, tasks, methods)["tasks"])
        if processes < 1:
            raise ValueError(f"processes: {processes}; at least 1")
        work = root / "runs" / (f"{plan}-smoke" if smoke else plan)
        command = [
            sys.executable, "-m", "benchmarks.study", str(root / out), "--plan", str(file),
            "--work", str(work), "--processes", str(processes),
            *(["--methods", *methods] if methods else []), *(["--smoke"] if smoke else []),
        ]  # fmt: skip
        with run_lock(state_folder(root), label_of_run()):
            for name in names:
                run_testbed.with_options(name=name)(name, command, place_of_run(root), minutes)
                show_record(root / out, name)
    except (ValueError, StageFailed, TimeoutError) as error:
        return Failed(message=str(error))
    return None


@task(task_run_name="{name}", cache_policy=NO_CACHE, persist_result=False)
def run_testbed(
    name: str, command: Sequence[str], place: Place, minutes: float | None
) -> State[None]:
    """All runs of one testbed; those that are done are taken from the record."""
    view = StageView(name, log_every=1)
    seconds = None if minutes is None else 60 * minutes
    try:
        watched(name, [*command, "--tasks", name], place, view.line, view.event, seconds)
    except TimeoutError as error:
        raise TimeoutError(f"{name} {error}; a new try goes on") from None
    finally:
        view.close()
    return Completed(message=f"{name} done")


def show_record(out: Path, name: str) -> None:
    """The testbed's table, and where its curves are."""
    from benchmarks.study_table import page

    found = json.loads((out / "results.json").read_text("utf-8"))["tasks"][name]
    key = f"study-{name.replace('_', '-')}"
    create_markdown_artifact(page({name: found}), key=key)
    create_link_artifact(
        (out / f"{name}.svg").resolve().as_uri(), link_text=f"{name}.svg", key=f"{key}-curves",
        description="Curves by method, and areas",
    )  # fmt: skip
