"""A run of the trainer: it resumes to the bit wherever it was killed, and keeps the best policy."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    Dull,
    Letters,
    Log,
    assert_same,
    kill,
    poison,
    prompt,
    states_equal,
    text_policy,
    trainer,
    weights_equal,
)

from mrtpo import checkpoint
from mrtpo.evaluation import greedy_and_sampled
from mrtpo.tracking import NoLog
from mrtpo.trainer import NonFinite, Trainer, write_best


def run(state: Path, values: dict[str, Any] | None = None, **changes: Any) -> Trainer:
    """A training to its end, from where it was left."""
    made = trainer(state, values, **changes)
    made.resume()
    made.run(NoLog())
    return made


REPLAYS = {"gain_every": 3, "gain_prompts": 2, "gain_samples": 2}  # checks at 0 and at 3
CASES: dict[str, dict[str, Any]] = {
    "grpo": {"train": {"method": "grpo"}},
    "gdpo": {"train": {"method": "gdpo"}},
    "mrtpo": {"replay": REPLAYS},
    "start": {"replay": {**REPLAYS, "policy": "start"}},
    "ema": {"replay": {**REPLAYS, "policy": "ema", "ema": 0.5}},
    "drawn": {"replay": {"max_rewards": 1, "gain_every": 1}},
    "refill": {"train": {"method": "dapo"}},
    "gspo and kl": {"train": {"method": "gspo", "kl": 0.1}},
    "float16": {"train": {"method": "mrtpo"}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_resumed_half_way_is_the_run_that_never_stopped(tmp_path: Path, case: str) -> None:
    values = copy.deepcopy(CASES[case])
    values["train"] = {"epochs": 2, "weight_decay": 0.1, **values.get("train", {})}

    def fresh(name: str) -> Trainer:
        policy = text_policy()
        if case == "float16":
            policy.compute = torch.float16
        reference = text_policy() if case in ("start", "gspo and kl") else None
        made = trainer(tmp_path / name, values, task=Dull() if case == "refill" else None,
                       prompts=8, policy=policy, reference=reference)  # fmt: skip
        if case == "float16":  # grows and falls within the run
            made.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13, growth_interval=3)
        return made

    whole = fresh("whole")
    whole.run(NoLog())
    first = fresh("halves")
    with pytest.raises(KeyboardInterrupt):
        kill(first, "rollouts", at_step=2)
    assert first.step == 2
    second = fresh("halves")
    assert second.resume() and second.step == 2
    assert weights_equal(second.policy, first.policy)
    second.run(NoLog())
    assert_same(second, whole)
    if case == "ema":
        assert not states_equal(whole.averaged, whole.policy.model)
        assert not states_equal(whole.averaged, text_policy().model)
    if case == "refill":
        assert max(row["groups/sampled"] for row in whole.history) > 2
    if case == "float16":
        assert whole.scaler.get_scale() != 2.0**13


@pytest.mark.parametrize(
    ("where", "at_step", "kept"),
    [("rollouts", 0, 0), ("rollouts", 1, 0), ("verify", 3, 2), ("update", 1, 0), ("update", 3, 2),
     ("evaluate", 2, 0), ("checkpoint", 2, 0), ("checkpoint", 4, 2)],
)  # fmt: skip
def test_a_run_killed_anywhere_resumes_to_the_same(
    tmp_path: Path, where: str, at_step: int, kept: int
) -> None:
    whole = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        kill(trainer(tmp_path / "killed"), where, at_step)
    second = trainer(tmp_path / "killed")
    assert second.resume() and second.step == kept
    second.run(NoLog())
    assert_same(second, whole)


def test_a_run_killed_before_its_first_checkpoint_starts_over(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        kill(trainer(tmp_path / "killed"), "save", 0)
    second = trainer(tmp_path / "killed")
    assert not second.resume()
    second.run(NoLog())
    assert_same(second, run(tmp_path / "whole"))


def test_a_run_killed_within_the_writing_of_a_checkpoint_resumes_from_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trainer(tmp_path / "killed")

    def die(*_: Any) -> None:
        if first.step == 4:
            raise KeyboardInterrupt
        inner(*_)

    inner = torch.save
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("mrtpo.checkpoint.torch.save", die)
        first.run(NoLog())
    second = trainer(tmp_path / "killed")
    assert second.resume() and second.step == 2
    second.run(NoLog())
    assert_same(second, run(tmp_path / "whole"))


def test_a_finished_run_that_is_resumed_does_nothing_more(tmp_path: Path) -> None:
    whole = run(tmp_path)
    again, log = trainer(tmp_path), Log()
    assert again.resume()
    again.run(log)
    assert log.steps == []
    assert_same(again, whole)


def test_too_many_bad_steps_in_a_row_stop_the_run_with_the_last_checkpoint_intact(
    tmp_path: Path,
) -> None:
    values = {"train": {"steps": 8, "max_bad_steps": 2, "checkpoint_every": 1}}
    made = trainer(tmp_path, values)
    poison(made, {1, 3, 4, 5})
    with pytest.raises(NonFinite, match=r"2 updates in a row .*\(step 4\).*learning_rate"):
        made.run(NoLog())
    assert [row["policy/skipped_update"] for row in made.history] == [0, 1, 0, 1]
    other = trainer(tmp_path, values)
    assert other.resume()
    assert other.step == 4 and other.bad_steps == 1
    assert all(t.isfinite().all() for t in other.policy.model.state_dict().values())
    other.run(NoLog())  # whatever made them bad is gone
    assert other.step == 8 and other.bad_steps == 0


class Scripted(Letters):
    """A verifier whose `short` metric on the valid split is scripted by evaluation."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = scores
        self.asked = 0

    def verify(self, prompts: Any, responses: Any) -> Any:
        verdicts = super().verify(prompts, responses)
        if prompts[0].split == "train":
            return verdicts
        # An evaluation is two batches of prompts answered greedily, and two sampled.
        score = self.scores[self.asked // 4] * (1.0 if self.asked % 4 < 2 else -1.0)
        self.asked += 1
        return [type(v)(v.rewards, (type(v.metrics[0])("short", score, "ok"),)) for v in verdicts]


@pytest.mark.parametrize(
    ("metric", "mode", "scores", "best"),
    [("short", "max", [0.1, 0.5, 0.3, 0.5], 2), ("short", "min", [0.4, 0.5, 0.3, 0.3], 4),
     ("short", "max", [0.0] * 4, 0), ("sampled/short", "max", [0.4, 0.5, 0.3, 0.5], 4)],
)  # fmt: skip
def test_the_best_checkpoint_is_the_first_with_the_best_of_the_named_metric(
    tmp_path: Path, metric: str, mode: str, scores: list[float], best: int
) -> None:
    values = {
        "train": {"best_metric": metric, "best_mode": mode, "steps": 6},
        "replay": {"gain_every": 0},
    }
    made = trainer(tmp_path, values, task=Scripted(scores))
    weights = {}
    inner = made.evaluate

    def noting() -> dict[str, float]:
        weights[made.step] = made.policy.model.lm_head.weight.detach().clone()
        return inner()

    made.evaluate = noting  # type: ignore[method-assign]
    made.run(NoLog())
    kept_score = scores[best // 2] * (-1.0 if metric.startswith("sampled/") else 1.0)
    assert made.best == {"step": best, metric: kept_score}
    assert [p.name for p in tmp_path.glob("best-*")] == [f"best-{best:06d}"]
    write_best(made, tmp_path / "policy", {"from": "here"})
    kept = type(made.policy.model).from_pretrained(tmp_path / "policy")
    assert torch.equal(kept.lm_head.weight, weights[best])
    assert json.loads((tmp_path / "policy" / "training.json").read_text()) == {"from": "here"}


def test_the_best_of_before_a_kill_stays_the_best(tmp_path: Path) -> None:
    values = {"train": {"best_metric": "short", "steps": 6}, "replay": {"gain_every": 0}}
    first = trainer(tmp_path, values, task=Scripted([0.1, 0.9, 0.2, 0.3]))
    with pytest.raises(KeyboardInterrupt):
        kill(first, "rollouts", 5)
    second = trainer(tmp_path, values, task=Scripted([0.3, 0.3]))
    assert second.resume() and second.step == 4
    assert second.best == {"step": 2, "short": 0.9}
    second.run(NoLog())
    assert second.best == {"step": 2, "short": 0.9} and second.best_folder.is_dir()


def test_a_best_policy_that_a_kill_left_half_written_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".best-000002.4711").mkdir(parents=True)
    made = run(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "step-000002", "step-000004", made.best_folder.name,
    }  # fmt: skip


def test_there_is_no_best_before_an_evaluation(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no evaluation"):
        _ = trainer(tmp_path).best_folder


def test_without_a_named_metric_the_tasks_own_picks_the_best(tmp_path: Path) -> None:
    assert trainer(tmp_path, {"train": {"best_metric": None}}).best_metric == "plain"
    assert trainer(tmp_path, {"train": {"best_metric": "short"}}).best_metric == "short"


def test_settings_that_cannot_work_stop_before_any_work(tmp_path: Path) -> None:
    for values, said in (
        (
            {"train": {"best_metric": "glory"}},
            "best_metric: 'glory'; accepted: letter, plain, shor",
        ),
        ({"train": {"prompts_per_step": 6}}, "prompts_per_step: 6 exceeds the 5 prompts"),
        ({"rewards": {"weights": {"glory": 1.0}}}, "rewards.weights: glory .*letter, plain"),
    ):
        with pytest.raises(ValueError, match=said):
            trainer(tmp_path, values)
    assert not list(tmp_path.iterdir())


def test_an_evaluation_during_training_is_of_the_first_valid_prompts(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    scores = made.evaluate()
    valid = [prompt(n, split="valid") for n in range(100, 103)]  # `evaluate_prompts` is 3
    slow = greedy_and_sampled(text_policy(), Letters(), valid, made.settings).metrics
    assert scores == pytest.approx(slow)
    assert made.evaluations == [{"step": 0, **scores}]


def test_state_and_published_policy_are_plain_files_that_load_again(tmp_path: Path) -> None:
    made = run(tmp_path / "state")
    names = {p.name for p in (tmp_path / "state").iterdir()}
    assert names == {"step-000002", "step-000004", made.best_folder.name}
    assert not [p for p in (tmp_path / "state").rglob(".*")]
    (last,) = checkpoint.completed(tmp_path / "state")[-1:]
    assert json.loads((last / "trainer.json").read_text())["history"] == made.history
    published = tmp_path / "policy"
    published.mkdir()
    (published / "stale").write_text("of an earlier run")
    write_best(made, published, {})
    assert not (published / "stale").exists()
