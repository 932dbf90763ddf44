"""Who replays in a step, whether it can use what it is told, and how much of it is noise."""

from __future__ import annotations

import copy
import dataclasses
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    kill,
    poison,
    states_equal,
    text_policy,
    trainer,
    watched,
    weights_equal,
)

from mrtpo.credit import Credit, assign, mix_at
from mrtpo.gain import Gain
from mrtpo.placement import Replayer
from mrtpo.policy import Policy
from mrtpo.records import Prompt, Rollout
from mrtpo.tracking import NoLog
from mrtpo.trainer import Trainer


def by(replayer: Replayer, made: Trainer, rollouts: list[Rollout], step: int) -> Credit:
    asked = {p.id: p for p in made.train_prompts}
    return assign(
        replayer, [asked[r.prompt_id] for r in rollouts], rollouts, ("letter", "plain"),
        made.settings, mix_at(made.settings, step), step=step,
    )  # fmt: skip


def test_the_frozen_start_replays_with_its_own_log_probabilities(tmp_path: Path) -> None:
    start = text_policy(5)
    made = trainer(tmp_path, {"replay": {"policy": "start"}}, reference=start)
    seen = watched(made)
    for step in range(2):
        made.one_step()
        rollouts, credit = seen[step]
        own = by(Replayer(text_policy(5), stored=False), made, rollouts, step)
        assert torch.equal(credit.weights_BKT, own.weights_BKT)
        # Not those kept while sampling, and not those of the policy that sampled.
        for other in (Replayer(text_policy(5)), Replayer(text_policy())):
            weights_BKT = by(other, made, rollouts, step).weights_BKT
            assert float((credit.weights_BKT - weights_BKT).abs().max()) > 1e-2
        made.step += 1
    assert weights_equal(start, text_policy(5))
    with pytest.raises(ValueError, match=r"replay\.policy: start"):
        trainer(tmp_path, {"replay": {"policy": "start"}})


def averaged_slowly(old: Any, new: Any, share: float) -> None:
    with torch.no_grad():
        for one, other in zip(old.parameters(), new.parameters(), strict=True):
            one.copy_(share * one.double() + (1 - share) * other.double())


def test_an_average_of_the_weights_replays(tmp_path: Path) -> None:
    values = {"replay": {"policy": "ema", "ema": 0.75}, "train": {"learning_rate": 0.1}}
    made = trainer(tmp_path, values)
    seen, slow = watched(made), text_policy()
    for step in range(3):
        before = copy.deepcopy(made.averaged)
        made.one_step()
        rollouts, credit = seen[step]
        averaged = dataclasses.replace(made.policy, model=before)
        own = by(Replayer(averaged, stored=False), made, rollouts, step)
        assert torch.equal(credit.weights_BKT, own.weights_BKT)
        averaged_slowly(slow.model, made.policy.model, 0.75)
        for one, other in zip(slow.model.parameters(), made.averaged.parameters(), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)
        made.step += 1
    current = by(Replayer(made.policy), made, seen[2][0], 2)
    assert float((seen[2][1].weights_BKT - current.weights_BKT).abs().max()) > 1e-2
    assert not states_equal(made.averaged, made.policy.model)


def test_a_skipped_update_does_not_move_the_average(tmp_path: Path) -> None:
    made = trainer(tmp_path, {"replay": {"policy": "ema", "ema": 0.5}, "train": {"epochs": 2}})
    poison(made, {0})
    made.one_step()
    assert states_equal(made.averaged, text_policy().model)
    made.step += 1
    made.one_step()
    assert not states_equal(made.averaged, text_policy().model)


@pytest.mark.parametrize("who", ["start", "ema"])
@pytest.mark.parametrize("method", ["entropy", "gdpo", "oracle"])
def test_who_would_replay_is_nothing_to_a_method_that_does_not(
    tmp_path: Path, method: str, who: str
) -> None:
    values = {"train": {"method": method, "learning_rate": 0.1}}
    plain = trainer(tmp_path, values)
    other = trainer(tmp_path, {**values, "replay": {"policy": who}}, reference=text_policy(5))
    assert other.averaged is None
    for made in (plain, other):
        made.one_step()
        made.step += 1
        made.one_step()
    assert weights_equal(plain.policy, other.policy)


def doubted(monkeypatch: pytest.MonkeyPatch, trusted: dict[str, bool]) -> list[int]:
    """Gain checks that find what is given; the steps that they were made at."""
    steps: list[int] = []

    def check(policy: Policy, *_: Any, step: int, **__: Any) -> dict[str, Gain]:
        steps.append(step)
        return {
            name: Gain(name, 0.5, 0.25, 0.25, 0.1, 0.2, 0.1, 7, 4, 0, good, f"{name} says so")
            for name, good in trusted.items()
        }

    monkeypatch.setattr("mrtpo.trainer.information_gain", check)
    return steps


@pytest.mark.parametrize("method", ["mrtpo", "mrtpo_shuffled"])
def test_a_gain_check_comes_before_training_and_every_so_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    steps = doubted(monkeypatch, {"letter": True, "plain": False})
    values = {"train": {"method": method, "steps": 5, "checkpoint_every": 1},
              "replay": {"gain_every": 2, "floor": 0.01}}  # fmt: skip
    made = trainer(tmp_path, values)
    seen = watched(made)
    with pytest.raises(KeyboardInterrupt):
        kill(made, "rollouts", 3)
    assert steps == [0, 2]
    other = trainer(tmp_path, values)
    later = watched(other)
    assert other.resume() and other.step == 3
    assert other.gains == made.gains and not other.gains["plain"].trusted
    other.run(NoLog())
    assert steps == [0, 2, 4]
    asked = [row["step"] for row in other.history if "gain/plain/trusted" in row]
    assert asked == [1, 3, 5]
    first = {name: value for name, value in other.history[0].items() if name.startswith("gain/")}
    assert first["gain/plain/trusted"] == 0 and first["gain/letter/trusted"] == 1
    assert first["gain/letter/sampled"] == 0.25 and first["gain/letter/loglik"] == 0.2
    for _, credit in (*seen, *later):  # until the next check, and after a resume
        assert torch.equal(credit.weights_BKT[:, 1], credit.mask_BT.float())
        assert not credit.replayed.live_BK[:, 1].any()
    assert any(credit.replayed.live_BK[:, 0].any() for _, credit in later)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    about = [text for text in warned if "even weights" in text]
    assert [text.split(":")[0] for text in about] == ["step 0", "step 2", "step 4"]
    assert all("reward plain: plain says so" in text for text in about)


def test_a_reward_is_replayed_again_once_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = {"letter": False, "plain": False}
    doubted(monkeypatch, verdict)
    made = trainer(tmp_path, {"replay": {"gain_every": 1}})
    seen = watched(made)
    made.gain_check()
    made.one_step()
    made.step += 1
    verdict["plain"] = True
    made.gain_check()
    made.one_step()
    live = [credit.replayed.live_BK.any(0).tolist() for _, credit in seen]
    assert live[0] == [False, False] and live[1] == [False, True]


def test_no_gain_is_measured_where_none_is_asked_for_or_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = doubted(monkeypatch, {"letter": True, "plain": False})
    trainer(tmp_path / "never", {"replay": {"gain_every": 0}}).run(NoLog())
    for method in ("grpo", "gdpo", "entropy", "oracle", "cort"):
        values = {"train": {"method": method, "steps": 2}, "replay": {"gain_every": 1}}
        made = trainer(tmp_path / method, values)
        made.run(NoLog())
        assert not any(name.startswith("gain/") for row in made.history for name in row)
    assert steps == []


def test_the_gain_is_that_of_the_policy_that_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def check(policy: Policy, task: Any, prompts: Sequence[Prompt], *_: Any, **more: Any) -> Any:
        asked.append((policy, [p.id for p in prompts], more["samples"]))
        return {}

    monkeypatch.setattr("mrtpo.trainer.information_gain", check)
    start = text_policy(5)
    values = {"replay": {"policy": "start", "gain_prompts": 3, "gain_samples": 2}}
    made = trainer(tmp_path, values, reference=start)
    made.gain_check()
    assert asked == [(start, ["p100", "p101", "p102"], 2)]


def test_the_noise_of_batch_shapes_is_measured_once_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def found(policy: Policy, rollouts: Sequence[Rollout], *_: Any, **__: Any) -> torch.Tensor:
        calls.append(len(rollouts))
        return torch.tensor([0.0, 0.02, 0.04])

    monkeypatch.setattr("mrtpo.trainer.null_replay", found)
    values = {"replay": {"floor": 0.03, "gain_every": 0}, "train": {"prompts_per_step": 3}}
    first = trainer(tmp_path, values)
    with pytest.raises(KeyboardInterrupt):
        kill(first, "rollouts", 2)
    second = trainer(tmp_path, values)
    assert second.resume()
    second.run(NoLog())
    assert calls == [8]
    told = [{n: v for n, v in row.items() if "null" in n} for row in second.history]
    measured = {"replay/null/max": pytest.approx(0.04), "replay/null/mean": pytest.approx(0.02)}
    assert told == [measured, {}, {}, {}]
    (warned,) = [r.getMessage() for r in caplog.records if "replay.floor" in r.getMessage()]
    assert "0.03" in warned and "0.04" in warned


@pytest.mark.parametrize("method", ["mrtpo", "cort", "mrtpo_permuted", "gdpo", "entropy"])
def test_a_floor_above_the_noise_is_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    made = trainer(tmp_path, {"train": {"method": method}, "replay": {"floor": 0.05}})
    metrics, _ = made.one_step()
    replays = method not in ("gdpo", "entropy")
    assert ("replay/null/max" in metrics) == replays
    if replays:
        assert 0 <= metrics["replay/null/mean"] <= metrics["replay/null/max"] < 1e-4
        assert math.isfinite(metrics["replay/null/max"])
    assert not [r for r in caplog.records if "replay.floor" in r.getMessage()]
