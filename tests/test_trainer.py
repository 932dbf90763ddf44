"""One step and its update: what every method makes of a batch, against plain loops."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from helpers import (
    Log,
    assert_close_policies,
    gradient_step,
    poison,
    prompt,
    rollout,
    text_policy,
    trainer,
    weights_equal,
)
from torch import Tensor

from mrtpo.config import MethodName
from mrtpo.credit import Credit, assign
from mrtpo.evaluation import verified
from mrtpo.logprobs import plain_logps, response_logps
from mrtpo.methods import METHODS
from mrtpo.policy import Policy
from mrtpo.records import Rollout
from mrtpo.tracking import NoLog
from mrtpo.trainer import Trainer

ALL = get_args(MethodName)


@pytest.mark.parametrize("method", ALL)
def test_every_method_trains_and_logs_finite_figures(tmp_path: Path, method: Any) -> None:
    values = {"train": {"method": method, "steps": 2}}
    made, log = trainer(tmp_path, values), Log()
    made.run(log)
    assert not weights_equal(made.policy, text_policy())
    assert all(t.isfinite().all() for t in made.policy.model.state_dict().values())
    assert log.steps == [0, 1, 2]
    assert [row["step"] for row in made.evaluations] == [0, 2]
    for row in made.history:
        for name in ("policy/loss", "policy/grad_norm", "policy/entropy", "reward/letter/mean",
                     "reward/plain/std", "reward/total/mean", "response/length",
                     "response/truncated", "advantage/mean_abs", "advantage/max_abs"):  # fmt: skip
            assert math.isfinite(row[name]), name
        assert row["policy/skipped_update"] == 0 and row["advantage/mean_abs"] > 0
    logged = {name for metrics in log.metrics for name in metrics}
    assert {"valid/plain", "time/generate", "time/verify", "time/replay", "time/update"} <= logged
    own = METHODS[method]
    each = own.spread in ("replay", "shuffled", "permuted")
    assert ("replay/plain/skipped" in logged) == each
    assert ("replay/all/skipped" in logged) == (method == "cort")
    assert ("replay/null/max" in logged) == (each or method == "cort")
    assert ("gain/plain/trusted" in logged) == ("time/gain" in logged) == each
    assert ("groups/sampled" in logged) == bool(own.refill)


def test_methods_make_different_updates_of_one_batch(tmp_path: Path) -> None:
    """All rows of the table that differ in credit or spread: on policy, with every response as long
    as it may be, losses and averages do not matter."""
    same = {"dapo": "grpo", "gspo": "grpo", "cispo": "grpo", "dr_grpo": "grpo_no_std"}
    moved: dict[str, Policy] = {}
    for method in ALL:
        values = {"train": {"method": method, "refill": 0}}
        moved[method], metrics = gradient_step(tmp_path, values)
        assert metrics["response/truncated"] == 1
    for method, policy in moved.items():
        for other in list(moved)[: list(moved).index(method)]:
            if same.get(method, method) == same.get(other, other):
                assert_close_policies(policy, moved[other])
            else:
                with pytest.raises(AssertionError, match="not close"):
                    assert_close_policies(policy, moved[other])


@pytest.mark.parametrize(
    "train",
    [{"method": "mrtpo"}, {"method": "mrtpo", "kl": 0.3}, {"method": "gspo"},
     {"method": "cispo", "average": "responses"}, {"method": "dr_grpo"}, {"method": "entropy"}],
)  # fmt: skip
def test_how_a_batch_is_cut_changes_nothing(tmp_path: Path, train: dict[str, Any]) -> None:
    reference = text_policy(5) if "kl" in train else None
    whole, metrics = gradient_step(
        tmp_path, {"train": {**train, "micro_batch_tokens": 100_000}}, reference
    )
    assert float(metrics["policy/grad_norm"]) > 0.01
    for budget in (1, 40, 333):
        cut, cut_metrics = gradient_step(
            tmp_path, {"train": {**train, "micro_batch_tokens": budget}}, reference
        )
        assert_close_policies(cut, whole, 1e-6 * max(1.0, metrics["policy/grad_norm"]))
        assert cut_metrics.keys() == metrics.keys()
        for name in ("policy/loss", "policy/entropy", "policy/grad_norm", "policy/clip_share"):
            assert cut_metrics[name] == pytest.approx(metrics[name], rel=1e-5, abs=1e-6), name
    start, end = text_policy().model.state_dict(), whole.model.state_dict()
    assert max(float((start[n] - end[n]).abs().max()) for n in start) > 1e-3


@pytest.mark.parametrize("train", [{"method": "mrtpo", "kl": 0.1}, {"method": "gspo", "epochs": 2}])
def test_recomputing_activations_changes_nothing(tmp_path: Path, train: dict[str, Any]) -> None:
    moved = [
        gradient_step(tmp_path, {"train": {**train, "gradient_checkpointing": on}}, text_policy(5))
        for on in (False, True)
    ]
    norm = moved[0][1]["policy/grad_norm"]
    assert norm > 0.01
    assert_close_policies(moved[1][0], moved[0][0], 2e-6 * max(1.0, norm))
    assert moved[1][1] == pytest.approx(moved[0][1], rel=1e-4, abs=1e-5)


def slow_update(
    made: Trainer, rollouts: list[Rollout], advantages_BT: Tensor, rate: float
) -> tuple[dict[str, Tensor], list[float], float]:
    """The weights after `train.epochs` plain descents in float64, row by row, the loss of each,
    and the share of tokens that the clip decided in the last."""
    asked, model = made.objective, copy.deepcopy(made.policy.model).double()
    temperature, longest = made.settings.sampling.temperature, made.settings.sampling.max_new_tokens
    lengths = [len(r.response_ids) for r in rollouts]
    losses, decided = [], 0
    for _ in range(made.settings.train.epochs):
        total, decided = torch.zeros((), dtype=torch.float64), 0
        for b, answer in enumerate(rollouts):
            ids = torch.tensor([[*answer.prompt_ids, *answer.response_ids]])
            logits = model(ids).logits[0, len(answer.prompt_ids) - 1 : -1] / temperature
            picked = torch.tensor(answer.response_ids)[:, None]
            logps = logits.log_softmax(-1).gather(1, picked)[:, 0]
            old = torch.tensor(answer.logprobs, dtype=torch.float64)
            ratios = (logps - old).exp()
            if asked.loss == "gspo":
                ratios = (logps - old).mean().exp().detach() * (logps - logps.detach()).exp()
            scale = {
                "tokens": 1 / sum(lengths),
                "responses": 1 / (len(rollouts) * lengths[b]),
                "constant": 1 / (len(rollouts) * longest),
            }[asked.average]
            for t in range(lengths[b]):
                a = float(advantages_BT[b, t])
                ratio = ratios[t]
                held = ratio.clamp(1 - asked.clip_low, 1 + asked.clip_high)
                if asked.loss == "cispo":
                    total = total - scale * held.detach() * a * logps[t]
                    decided += bool(held != ratio)
                else:
                    total = total - scale * torch.minimum(ratio * a, held * a)
                    decided += bool(held * a < ratio * a)
        total.backward()
        losses.append(float(total.detach()))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad
        model.zero_grad()
    return dict(model.named_parameters()), losses, decided / sum(lengths)


@pytest.mark.parametrize("average", ["tokens", "responses", "constant"])
@pytest.mark.parametrize("loss", ["clipped", "gspo", "cispo"])
def test_two_passes_over_a_batch_are_those_of_a_plain_loop(
    tmp_path: Path, loss: str, average: str
) -> None:
    bounds = {"clip_low": 0.02, "clip_high": 0.03}
    values = {"sampling": {"temperature": 0.7, "max_new_tokens": 9},
              "train": {"loss": loss, "average": average, "epochs": 2, "learning_rate": 0.1,
                        "warmup_steps": 0, "max_grad_norm": 1e9, **bounds}}  # fmt: skip
    made = trainer(tmp_path, values)
    rollouts, credit = batch(made)
    assert len({len(r.response_ids) for r in rollouts}) > 1
    expected, losses, decided = slow_update(made, rollouts, credit.advantages_BT, 0.1)
    made.optimizer = torch.optim.SGD(made.policy.model.parameters(), lr=0.1)
    before = {n: p.detach().clone() for n, p in made.policy.model.named_parameters()}
    metrics = made.update(rollouts, credit)
    assert metrics["policy/loss"] == pytest.approx(losses[-1], rel=1e-4, abs=1e-5)
    assert metrics["policy/clip_share"] == pytest.approx(decided) and decided > 0.05
    for name, parameter in made.policy.model.named_parameters():
        wanted = (expected[name].detach() - before[name]).float()
        torch.testing.assert_close(parameter.detach() - before[name], wanted, rtol=1e-3, atol=2e-5)
    assert max(float((expected[n].detach() - before[n]).abs().max()) for n in before) > 0.01


def batch(made: Trainer) -> tuple[list[Rollout], Credit]:
    """The rollouts of the trainer's step, of mixed lengths, and their credit."""
    prompts = made.batch(made.step)
    rollouts = made.rollouts(prompts, made.step)
    cut = [len(r.response_ids) - b % 3 for b, r in enumerate(rollouts)]
    rollouts = [
        dataclasses.replace(r, response_ids=r.response_ids[:n], logprobs=r.logprobs[:n])
        for r, n in zip(rollouts, cut, strict=True)
    ]
    prompts = [p for p in prompts for _ in range(made.settings.sampling.group_size)]
    rollouts = verified(made.task, prompts, rollouts)
    return rollouts, assign(
        made.policy, prompts, rollouts, made.task.reward_names, made.settings, 1.0
    )


HALVES = [torch.bfloat16, torch.float16]


def half(dtype: torch.dtype) -> Policy:
    policy = text_policy()
    policy.compute = dtype
    return policy


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("method", ["gdpo", "mrtpo", "gspo"])
def test_half_precision_trains_weights_that_stay_float32(
    tmp_path: Path, dtype: torch.dtype, method: str
) -> None:
    values = {"train": {"method": method, "steps": 2}, "replay": {"distance": "js"}}
    made = trainer(tmp_path, values, policy=half(dtype))
    made.run(NoLog())
    assert {p.dtype for p in made.policy.model.parameters()} == {torch.float32}
    assert not weights_equal(made.policy, text_policy())
    for row in made.history:
        assert row["policy/skipped_update"] == 0
        assert all(math.isfinite(value) for value in row.values())
    assert made.scaler.is_enabled() == (dtype == torch.float16)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_first_ratio_is_one_within_the_rounding_of_half_precision(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    made = trainer(tmp_path, policy=half(dtype))
    rollouts, credit = batch(made)
    worst = 0.0
    for answer in rollouts:
        logps, _ = response_logps(
            made.policy, [answer.prompt_ids], [answer.response_ids], [0], 1.0
        )  # fmt: skip
        ratio = (logps[0].detach() - torch.tensor(answer.logprobs)).exp()
        worst = max(worst, float((ratio - 1).abs().max()))
    assert worst < (0.1 if dtype == torch.bfloat16 else 0.02)
    assert made.update(rollouts, credit)["policy/clip_share"] == 0


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_goes_where_float32_goes(tmp_path: Path, dtype: torch.dtype) -> None:
    def gradient(policy: Policy) -> Tensor:
        made = trainer(tmp_path, {"train": {"method": "gdpo"}}, policy=policy)
        made._gradients(*shared)
        made.scaler.unscale_(made.optimizer)
        return torch.cat([p.grad.flatten() for p in made.policy.model.parameters()])

    shared = batch(trainer(tmp_path, {"train": {"method": "gdpo"}}))
    exact, rounded = gradient(text_policy()), gradient(half(dtype))
    assert float(torch.cosine_similarity(exact, rounded, dim=0)) > 0.99
    assert float(rounded.norm()) == pytest.approx(float(exact.norm()), rel=0.1)


def test_an_overflow_skips_the_step_and_lowers_the_scale(tmp_path: Path) -> None:
    made = trainer(tmp_path, {"train": {"max_bad_steps": 50}}, policy=half(torch.float16))
    made.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    skipped = []
    for _ in range(40):
        before = copy.deepcopy(made.policy.model.state_dict())
        scale = made.scaler.get_scale()
        metrics, _ = made.one_step()
        skipped.append(metrics["policy/skipped_update"])
        still = all(
            torch.equal(before[n], t) for n, t in made.policy.model.state_dict().items()
        )  # fmt: skip
        assert still == bool(skipped[-1])
        assert made.scaler.get_scale() == (scale / 2 if skipped[-1] else scale)
        assert made.bad_steps == (len(skipped) if skipped[-1] else 0)
        if not skipped[-1]:
            break
    assert skipped[0] == 1 and skipped[-1] == 0  # and in the end it fits


def test_the_loss_is_a_mean_over_all_tokens_of_the_batch(tmp_path: Path) -> None:
    """One batch's update against a loop of plain passes with one global denominator."""
    made = trainer(tmp_path, {"sampling": {"temperature": 0.7}, "train": {"max_grad_norm": 1e9}})
    prompts = made.batch(0)
    rollouts = made.rollouts(prompts, 0)
    prompts = [p for p in prompts for _ in range(4)]
    rollouts = verified(made.task, prompts, rollouts)
    credit = assign(made.policy, prompts, rollouts, made.task.reward_names, made.settings, 1.0)
    lengths = [len(r.response_ids) for r in rollouts]
    total = torch.zeros(())
    for b, answer in enumerate(rollouts):
        logps = plain_logps(made.policy, answer.prompt_ids, answer.response_ids, 0.7)
        ratio = (logps - torch.tensor(answer.logprobs)).exp()
        total = total - (ratio * credit.advantages_BT[b, : lengths[b]]).sum() / sum(lengths)
    total.backward()
    expected = {n: p.grad.clone() for n, p in made.policy.model.named_parameters()}
    made.policy.model.zero_grad()
    made.optimizer = torch.optim.SGD(made.policy.model.parameters(), lr=1.0)
    before = {n: p.detach().clone() for n, p in made.policy.model.named_parameters()}
    metrics = made.update(rollouts, credit)
    assert metrics["policy/loss"] == pytest.approx(float(total.detach()), abs=1e-6)
    assert metrics["policy/clip_share"] == 0  # on policy
    rate = made.settings.train.learning_rate / 2  # first of two warm-up steps
    for name, parameter in made.policy.model.named_parameters():
        moved = (before[name] - parameter.detach()) / rate
        torch.testing.assert_close(moved, expected[name], rtol=1e-3, atol=1e-4)


def test_mrtpo_with_a_floor_that_drowns_every_distance_makes_gdpos_update(tmp_path: Path) -> None:
    values: dict[str, Any] = {"replay": {"floor": 1e9, "mix_start": 1.0, "mix_end": 1.0}}
    even, _ = gradient_step(tmp_path, {"train": {"method": "gdpo"}})
    drowned, _ = gradient_step(tmp_path, {**values, "train": {"method": "mrtpo"}})
    assert_close_policies(drowned, even)
    values["replay"]["floor"] = 0.0
    weighed, _ = gradient_step(tmp_path, {**values, "train": {"method": "mrtpo"}})
    with pytest.raises(AssertionError):
        assert_close_policies(weighed, even)


def test_the_learning_rate_warms_up_linearly_and_then_stays(tmp_path: Path) -> None:
    made = trainer(tmp_path, {"train": {"warmup_steps": 3, "steps": 5, "learning_rate": 0.3}})
    rates = []
    for _ in range(5):
        made.one_step()
        made.step += 1
        rates.append(made.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.3, 0.3])


def test_gradients_are_clipped_to_the_norm_asked_for(tmp_path: Path) -> None:
    free = gradient_step(tmp_path, {})
    held = gradient_step(tmp_path, {"train": {"max_grad_norm": 0.01}})
    assert held[1]["policy/grad_norm"] == free[1]["policy/grad_norm"] > 0.01  # before the clip
    start = text_policy().model.state_dict()
    squares = sum(
        float((held[0].model.state_dict()[name] - start[name]).double().square().sum())
        for name, _ in held[0].model.named_parameters()
    )
    assert math.sqrt(squares) == pytest.approx(0.01, rel=1e-3)


def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    poison(made, {1})
    made.one_step()
    made.step += 1
    before = {n: t.clone() for n, t in made.policy.model.state_dict().items()}
    momentum = [s["exp_avg"].clone() for s in made.optimizer.state_dict()["state"].values()]
    metrics, _ = made.one_step()
    made.step += 1
    assert metrics["policy/skipped_update"] == 1 and made.bad_steps == 1
    assert all(torch.equal(before[n], t) for n, t in made.policy.model.state_dict().items())
    after = [s["exp_avg"] for s in made.optimizer.state_dict()["state"].values()]
    assert all(torch.equal(a, b) for a, b in zip(momentum, after, strict=True))
    metrics, _ = made.one_step()
    assert metrics["policy/skipped_update"] == 0 and made.bad_steps == 0
    assert not all(torch.equal(before[n], t) for n, t in made.policy.model.state_dict().items())


def test_every_skipped_pass_over_a_batch_is_counted(tmp_path: Path) -> None:
    made = trainer(tmp_path, {"train": {"epochs": 3}})
    poison(made, {0}, passes={0, 1})
    metrics, _ = made.one_step()
    assert metrics["policy/skipped_update"] == 2
    assert math.isfinite(metrics["policy/grad_norm"])


def test_the_kl_alone_draws_the_policy_to_its_reference(tmp_path: Path) -> None:
    reference = text_policy(seed=1)
    made = trainer(
        tmp_path, {"train": {"kl": 1.0, "learning_rate": 1e-3}}, reference=reference
    )  # fmt: skip
    answers = [
        rollout([40 + b, 50, 60, 2], {"letter": 1.0, "plain": 0.5}, prompt_id=f"p{b % 2}", sample=b)
        for b in range(4)
    ]
    prompts = [prompt(b % 2) for b in range(4)]
    table = assign(
        made.policy, prompts, answers, made.task.reward_names, made.settings, mix=0.5
    )  # fmt: skip
    assert not table.advantages_BT.any()  # groups are constant: only the KL has a gradient
    distances = [made.update(answers, table)["policy/kl"] for _ in range(12)]
    assert min(distances) >= 0 and distances[-1] < 0.5 * distances[0]
    assert weights_equal(reference, text_policy(seed=1))


def test_without_a_reference_no_kl_is_reported(tmp_path: Path) -> None:
    made = trainer(tmp_path, {"train": {"method": "gdpo"}})
    made.run(NoLog())
    assert "policy/kl" not in made.history[0]


def test_a_batch_in_which_nothing_was_decided_trains_nothing_and_breaks_nothing(
    tmp_path: Path,
) -> None:
    made = trainer(tmp_path)
    answers = [rollout([40, 2], {"letter": None, "plain": None}, prompt_id=f"p{b % 2}",
                       sample=b) for b in range(4)]  # fmt: skip
    prompts = [prompt(b % 2) for b in range(4)]
    credit = assign(made.policy, prompts, answers, ("letter", "plain"), made.settings, 1.0)
    assert (credit.advantages_BT == 0).all()
    metrics = made.update(answers, credit)
    assert metrics["policy/loss"] == 0 and metrics["policy/grad_norm"] == 0
    assert metrics["advantage/zero_share"] == 1


def test_on_policy_no_token_is_clipped_and_later_passes_move_on(tmp_path: Path) -> None:
    once = trainer(tmp_path)
    metrics, _ = once.one_step()
    assert metrics["policy/clip_share"] == 0
    twice = trainer(tmp_path, {"train": {"epochs": 4, "learning_rate": 0.1}})
    metrics, _ = twice.one_step()
    assert metrics["policy/clip_share"] > 0
