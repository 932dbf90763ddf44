"""The stage `train` around the trainer: its files, its resume, and what makes it another run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from helpers import Letters, prompt, text_policy, tiny_settings, trainer
from typer.testing import CliRunner

from mrtpo import checkpoint, paths, stages, training
from mrtpo.__main__ import app
from mrtpo.config import Model, Settings
from mrtpo.loading import load_policy
from mrtpo.parallel import Ranks
from mrtpo.records import write_prompts
from mrtpo.tasks import get_task
from mrtpo.tracking import NoLog
from mrtpo.training import claimed, identity, in_processes, train_policy
from mrtpo.warmstart import Row, collate, response_loss


class Dying(Letters):
    """A task whose verifier stops the process at the n-th batch of the train split."""

    def __init__(self, at: int = 1 << 30) -> None:
        self.at, self.closed = at, False

    def verify(self, prompts: Any, responses: Any) -> Any:
        if prompts[0].split == "train":
            self.at -= 1
            if self.at < 0:
                raise KeyboardInterrupt
        return super().verify(prompts, responses)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A workspace with prompts and a warm-started policy, and no MLflow."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MRTPO_STATE", raising=False)
    for split, start in (("train", 0), ("valid", 100)):
        prompts = [prompt(n, split=split) for n in range(start, start + 4)]
        write_prompts(paths.PROMPTS / f"{split}.parquet", prompts)
    text_policy().save(paths.WARMSTART)
    monkeypatch.setattr(training.RunLog, "open", lambda *_, **__: NoLog())
    asked = {"hidden_size": 16, "layers": 1, "heads": 2, "device": "cpu"}
    yield tiny_settings({"model": asked})


def trained(settings: Settings, monkeypatch: pytest.MonkeyPatch, task: Dying) -> dict[str, Any]:
    monkeypatch.setattr(training, "get_task", lambda *_: task)
    return train_policy(settings)


def published() -> dict[str, bytes]:
    files = [paths.HISTORY / "history.csv", paths.HISTORY / "evaluations.csv"]
    files += [p for p in paths.POLICY.iterdir() if p.suffix in (".json", ".safetensors")]
    return {str(file): file.read_bytes() for file in files}


def test_a_killed_stage_resumes_and_publishes_what_an_unbroken_one_does(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(settings, monkeypatch, Dying())
    expected = published()
    history = pd.read_csv(paths.HISTORY / "history.csv")
    assert history["step"].tolist() == [1, 2, 3, 4]
    assert (paths.HISTORY / "curves.png").is_file()
    about = json.loads((paths.POLICY / "training.json").read_text())
    assert about["fingerprint"] == identity(settings)[0]
    assert about["best"]["step"] == whole["best_step"]
    load_policy(paths.POLICY, settings.model, paths.state_root())
    state = paths.state_root() / f"train-{about['fingerprint']}"
    assert not checkpoint.completed(state)  # a finished training leaves no checkpoints behind

    killed = Dying(at=3)
    with pytest.raises(KeyboardInterrupt):
        trained(settings, monkeypatch, killed)
    assert killed.closed
    assert [p.name for p in checkpoint.completed(state)] == ["step-000000", "step-000002"]
    assert published() == expected  # the outputs of before stay until there are new ones
    (paths.HISTORY / "history.csv").unlink()
    last = Dying()
    assert trained(settings, monkeypatch, last) == whole
    assert last.closed
    assert published() == expected
    assert last.at == (1 << 30) - 2  # two batches: the steps that were left


def test_a_training_is_another_with_other_settings_data_or_start(settings: Settings) -> None:
    fingerprint, data = identity(settings)
    assert identity(settings) == (fingerprint, data)
    seen = {fingerprint}
    for changes in ({"seed": 9}, {"train": {"steps": 5}}, {"replay": {"floor": 0.1}},
                    {"rewards": {"weights": {"plain": 0.5}}}):  # fmt: skip
        values = {**changes, "model": settings.model.model_dump()}
        other, same = identity(tiny_settings(values))
        assert other not in seen and same == data, changes
        seen.add(other)
    # What only later stages read is no reason to train again.
    model = {"model": settings.model.model_dump()}
    later = tiny_settings({**model, "report": {"examples": 9}, "rollout": {"prompts": 1}})
    assert identity(later) == (fingerprint, data)
    text_policy(seed=1).save(paths.WARMSTART)
    assert identity(settings)[0] not in seen and identity(settings)[1] == data
    write_prompts(paths.PROMPTS / "valid.parquet", [prompt(7)])
    assert identity(settings)[0] not in seen and identity(settings)[1] != data


def test_the_reference_of_the_kl_is_the_starting_policy(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = settings.model_dump()
    values["train"]["kl"] = 0.5
    trained(Settings(**values), monkeypatch, Dying())
    kl = pd.read_csv(paths.HISTORY / "history.csv")["policy/kl"]
    assert kl[0] == pytest.approx(0.0, abs=1e-6) and kl.iloc[-1] > 1e-6
    assert isinstance(settings.model, Model)


def test_a_state_that_another_process_trains_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "train-abc"
    state.mkdir()
    with claimed(state), pytest.raises(ValueError, match="another process is training"):
        claimed(state)
    claimed(state).close()  # free again


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A project of text-to-SQL prompts, and a small policy whose answers differ in length."""
    monkeypatch.chdir(tmp_path)
    for name in ("MRTPO_STATE", "MLFLOW_TRACKING_URI", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    # A policy this small learns nothing of SQL: what varies is the length, and that is a reward.
    values = tiny_settings(
        {"data": {"databases": 12, "train_prompts": 6, "valid_prompts": 3, "test_prompts": 3},
         "model": {"hidden_size": 16, "layers": 1, "heads": 2, "device": "cpu"},
         "sampling": {"group_size": 4, "max_new_tokens": 8}, "rewards": {"overlong": 7},
         "replay": {"gain_prompts": 2, "gain_samples": 2}, "verifier": {"processes": 1},
         "train": {"steps": 3, "prompts_per_step": 3, "learning_rate": 1e-3,
                   "best_metric": "sampled/format"}}
    )  # fmt: skip
    task = get_task(values, paths.PROMPTS)
    paths.PROMPTS.mkdir(parents=True)
    try:
        prepared = task.prepare()
    finally:
        task.close()
    for split, prompts in prepared.prompts.items():
        write_prompts(paths.PROMPTS / f"{split}.parquet", prompts)
    policy = text_policy(positions=4096)
    asked = [policy.prompt_ids(p.messages) for p in prepared.prompts["train"]]
    answers = [[*policy.tokenizer.encode("ab" * n), *policy.end_ids] for n in (1, 2, 3)]
    rows = [Row(list(ids), answer, len(ids)) for ids in asked for answer in answers]
    learner = torch.optim.AdamW(policy.model.parameters(), lr=0.02)
    for _ in range(30):
        response_loss(policy.model, *collate(rows, policy.pad_id)).backward()
        learner.step()
        learner.zero_grad()
    policy.save(paths.WARMSTART)
    return values


def asked_for(settings: Settings, **train: Any) -> Settings:
    """The settings with changes, written to the project's file."""
    values = settings.model_dump()
    values["train"] |= train
    Path("params.yaml").write_text(yaml.safe_dump(values))
    return Settings(**values)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[1])
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_the_stage_in_two_processes_makes_what_it_makes_in_one(project: Settings) -> None:
    import mlflow

    stages.train(asked_for(project))
    one = json.loads((paths.METRICS / "train.json").read_text())
    history = pd.read_csv(paths.HISTORY / "history.csv")
    assert (history["policy/grad_norm"] > 1e-3).all()
    (paths.METRICS / "train.json").unlink()
    asked_for(project, processes=2)
    done = command("-m", "mrtpo", "train")
    assert done.returncode == 0, done.stderr[-4000:]
    two = json.loads((paths.METRICS / "train.json").read_text())
    assert two.keys() == one.keys()
    for key, value in one.items():
        if key == "gain":
            assert two["gain"].keys() == value.keys()
            for name, gain in value.items():
                for what in ("trusted", "good", "prompts", "left_out", "told", "untold"):
                    assert two["gain"][name][what] == pytest.approx(gain[what], abs=1e-6)
        else:
            assert two[key] == pytest.approx(value, abs=1e-6), key
    again = pd.read_csv(paths.HISTORY / "history.csv")
    assert list(again.columns) == list(history.columns)
    for name in history.columns:
        if "null" not in name:  # which is rounding itself
            assert again[name].tolist() == pytest.approx(
                history[name].tolist(), rel=1e-3, abs=1e-5, nan_ok=True
            ), name
    runs = mlflow.MlflowClient(tracking_uri="sqlite:///mlflow.db").search_runs(["1"])
    assert len(runs) == 2 and {run.info.status for run in runs} == {"FINISHED"}
    client = mlflow.MlflowClient(tracking_uri="sqlite:///mlflow.db")
    for run in runs:
        steps = [m.step for m in client.get_metric_history(run.info.run_id, "policy/grad_norm")]
        assert steps == [1, 2, 3]


def test_more_processes_than_prompts_are_refused_with_one_line(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = settings.model_dump()
    values["train"]["processes"] = 3
    Path("params.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.setattr(training.subprocess, "Popen", None)  # nothing is started
    done = CliRunner().invoke(app, ["train"])
    assert done.exit_code == 2
    (line,) = done.stderr.strip().splitlines()
    assert "train.processes must not exceed train.prompts_per_step (2)" in line


def test_processes_that_were_started_otherwise_need_a_prompt_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Many(Ranks):
        def __init__(self) -> None:
            super().__init__()
            self.count = 3

    monkeypatch.setattr("mrtpo.trainer.Ranks", Many)
    with pytest.raises(ValueError, match=r"prompts_per_step: 2 prompts are too few for 3 proc"):
        trainer(tmp_path)


def test_one_process_and_one_of_several_start_no_others(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training.subprocess, "Popen", None)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert not in_processes(settings)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not in_processes(asked_for(settings, processes=2))


# What stands for the package in each of the processes.
STAND_IN = """
import os, signal, sys, time
from pathlib import Path
rank = os.environ["RANK"]
def stop(*_):
    Path(f"stopped-{rank}").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
Path("asking").write_text(" ".join(sys.argv[1:]))
Path("asking").rename(f"asked-{rank}")
if Path("fails").exists():
    sys.exit(3)
time.sleep(60)
"""


@pytest.fixture
def two(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of two processes, which would run a stand-in for the package."""
    Path("mrtpo").mkdir()
    Path("mrtpo", "__init__.py").touch()
    Path("mrtpo", "__main__.py").write_text(STAND_IN.replace('"asking"', 'f"asking-{rank}"'))
    monkeypatch.setattr(sys, "argv", ["mrtpo", "train", "--params", "mine.yaml"])
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return asked_for(settings, processes=2)


def test_a_stop_reaches_all_processes_and_waits_for_them(two: Settings) -> None:
    def stopping() -> None:
        deadline = time.monotonic() + 60
        while len(list(Path().glob("asked-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGUSR1)

    def stopped(*_: Any) -> None:
        raise SystemExit(143)

    before = signal.signal(signal.SIGUSR1, stopped)
    thread = threading.Thread(target=stopping)
    thread.start()
    try:
        with pytest.raises(SystemExit):
            in_processes(two)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert Path("asked-1").read_text() == "train --params mine.yaml"
    assert sorted(p.name for p in Path().glob("stopped-*")) == ["stopped-0", "stopped-1"]


def test_a_process_that_fails_fails_the_stage(two: Settings) -> None:
    Path("fails").touch()
    with pytest.raises(SystemExit, match="train: a process failed"):
        in_processes(two)
    assert list(Path().glob("asked-*"))
