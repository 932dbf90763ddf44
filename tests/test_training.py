"""The stage `train` around the trainer: its files, its resume, and what makes it another run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import Letters, prompt, text_policy, tiny_settings

from mrtpo import checkpoint, paths, training
from mrtpo.config import Model, Settings
from mrtpo.loading import load_policy
from mrtpo.records import write_prompts
from mrtpo.tracking import NoLog
from mrtpo.training import claimed, identity, train_policy


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
