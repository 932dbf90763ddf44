"""The stage `train`: files, MLflow run and resume around the trainer."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from mrtpo import checkpoint, paths
from mrtpo.config import Settings
from mrtpo.loading import device_of, starting_policy
from mrtpo.parallel import this_process
from mrtpo.records import read_prompts
from mrtpo.report.curve_figures import training_curves
from mrtpo.report.figures import save
from mrtpo.tasks import get_task
from mrtpo.tracking import NoLog, RunLog
from mrtpo.trainer import Trainer, write_best

FINISHED = "finished"
SECTIONS = {"task", "seed", "model", "sampling", "rewards", "verifier", "replay", "train"}


def identity(settings: Settings) -> tuple[str, str]:
    """Fingerprint of a training (settings, data, code), and of its data alone."""
    inputs = [paths.PROMPTS, paths.WARMSTART]
    data = checkpoint.fingerprint({}, [paths.PROMPTS], code=False)
    chosen = settings.model_dump(include=SECTIONS)
    del chosen["train"]["processes"]  # the numbers do not depend on it
    return checkpoint.fingerprint(chosen, inputs), data


def train_policy(settings: Settings) -> dict[str, Any] | None:
    """Train to the end; publish the best policy, the history, its curves; return the summary.

    In one of several processes (`train.processes`) this is a part of the work; the first process
    holds the state, writes all files, and alone has a summary.
    """
    processes = this_process()
    fingerprint, data_hash = identity(settings)
    state = paths.state_root() / f"train-{fingerprint}"
    lock = None
    if processes.is_main_process:
        state.mkdir(parents=True, exist_ok=True)
        lock = claimed(state)
        if (state / FINISHED).is_file():  # asked again: from the start, as a run of its own
            shutil.rmtree(state)
            state.mkdir()
    processes.wait_for_everyone()
    task = get_task(settings, paths.PROMPTS)
    try:
        policy = starting_policy(settings, trained=True)
        frozen = settings.train.kl > 0 or settings.replay.policy == "start"
        trainer = Trainer(
            settings, policy, task, read_prompts(paths.PROMPTS / "train.parquet"),
            read_prompts(paths.PROMPTS / "valid.parquet"), state,
            starting_policy(settings, trained=True) if frozen else None,
        )  # fmt: skip
        resumed = trainer.step if trainer.resume() else None
        if trainer.ranks.main:
            opened = RunLog.open(settings, state, fingerprint, data_hash, step=resumed)
        with opened if trainer.ranks.main else NoLog() as log:
            if log.page:
                print(f"MLflow: {log.page}", flush=True)
            for split in ("train", "valid"):
                log.dataset(paths.PROMPTS / f"{split}.parquet", "prompts", split)
            trainer.run(log)
            if trainer.ranks.main:
                publish(trainer, settings, fingerprint, log)
        if trainer.ranks.main:
            finish(state)
        processes.wait_for_everyone()
    finally:
        task.close()
        if lock is not None:
            lock.close()
    if not trainer.ranks.main:
        return None
    first, last = trainer.evaluations[0], trainer.evaluations[-1]
    assert trainer.best is not None
    return {
        "steps": trainer.step,
        "best_step": int(trainer.best["step"]),
        "best": trainer.best[trainer.best_metric],
        "valid_start": {k: v for k, v in first.items() if k != "step"},
        "valid_end": {k: v for k, v in last.items() if k != "step"},
        "skipped_updates": sum(row["policy/skipped_update"] for row in trainer.history),
        "gain": {name: dataclasses.asdict(gain) for name, gain in trainer.gains.items()},
    }


def in_processes(settings: Settings) -> bool:
    """Run the stage `train` in `train.processes` processes, unless this is one of them or they are
    one. They read the settings from the file that this command was given.

    Ends the command where one of them fails.
    """
    count = settings.train.processes
    if count == 1 or "WORLD_SIZE" in os.environ:
        return False
    cpu = device_of(settings.model).type == "cpu"
    surroundings = os.environ | ({"ACCELERATE_USE_CPU": "true"} if cpu else {})
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node",
               str(count), "-m", "mrtpo", *sys.argv[1:]]  # fmt: skip
    with subprocess.Popen(command, env=surroundings) as launched:
        try:
            status = launched.wait()
        except BaseException:
            launched.terminate()  # it stops the others, and goes when they are gone
            raise
    if status:
        raise SystemExit(f"train: a process failed (exit status {status}); see above")
    return True


def claimed(state: Path) -> TextIO:
    """Hold a training's state for as long as the file is open. Raises ValueError if it is held."""
    file = open(state.with_suffix(".lock"), "w")  # noqa: SIM115 - the caller closes it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(
            f"{state}: another process is training with the same settings, data and code; wait for "
            "it, or change the seed"
        ) from None
    return file


def finish(state: Path) -> None:
    """Drop the checkpoints of a completed training; what names its MLflow run stays."""
    (state / FINISHED).touch()
    for folder in (*state.glob("step-*"), *state.glob("best-*")):
        shutil.rmtree(folder)


def publish(trainer: Trainer, settings: Settings, fingerprint: str, log: Any) -> None:
    """Write the stage's outputs, and the same into the MLflow run."""
    paths.HISTORY.mkdir(parents=True, exist_ok=True)
    history, evaluations = pd.DataFrame(trainer.history), pd.DataFrame(trainer.evaluations)
    history.to_csv(paths.HISTORY / "history.csv", index=False)
    evaluations.to_csv(paths.HISTORY / "evaluations.csv", index=False)
    for file in save(training_curves(history, evaluations), paths.HISTORY / "curves"):
        log.figure(file)
    assert trainer.best is not None
    about = {"fingerprint": fingerprint, "method": settings.train.method, "best": trainer.best}
    paths.POLICY.parent.mkdir(parents=True, exist_ok=True)
    write_best(trainer, paths.POLICY, about)
    for file, name in ((paths.ATTRIBUTION, "attribution"), (paths.ROLLOUTS, "rollouts")):
        if file.is_file():
            log.table(name, pd.read_parquet(file))
    log.policy(paths.POLICY, step=int(trainer.best["step"]))
