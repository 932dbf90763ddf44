"""The loop: what a step is made of, that it resumes to the bit, and what stops it."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import Letters, prompt, rollout, text_policy, tiny_settings, trainer, weights_equal

from mrtpo import checkpoint
from mrtpo.credit import assign
from mrtpo.evaluation import greedy_and_sampled, verified
from mrtpo.logprobs import plain_logps
from mrtpo.policy import Policy
from mrtpo.records import Rollout
from mrtpo.tracking import NoLog
from mrtpo.trainer import NonFinite, Trainer, write_best

METHODS = ("grpo", "gdpo", "mrtpo")


class Log(NoLog):
    """Remembers what was logged, by step."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.metrics: list[dict[str, float]] = []

    def step(self, step: int, metrics: Any) -> None:
        self.steps.append(step)
        self.metrics.append(dict(metrics))


def assert_same(one: Trainer, other: Trainer) -> None:
    """Two trainings are the same to the bit, in weights, optimiser and all that was measured."""
    assert one.step == other.step
    assert one.history == other.history
    assert one.evaluations == other.evaluations
    assert one.best == other.best
    assert weights_equal(one.policy, other.policy)
    a, b = one.optimizer.state_dict()["state"], other.optimizer.state_dict()["state"]
    for key in a:
        assert all(torch.equal(a[key][name], b[key][name]) for name in ("exp_avg", "exp_avg_sq"))
    assert one.best_folder.is_dir() and other.best_folder.name == one.best_folder.name


def run(state: Path, values: dict[str, Any] | None = None, **changes: Any) -> Trainer:
    made = trainer(state, values, **changes)
    made.resume()
    made.run(NoLog())
    return made


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_logs_finite_figures(tmp_path: Path, method: str) -> None:
    made, log = trainer(tmp_path, {"train": {"method": method}}), Log()
    made.run(log)
    assert not weights_equal(made.policy, text_policy())
    assert log.steps == [0, 1, 2, 3, 4]
    assert [row["step"] for row in made.evaluations] == [0, 2, 4]
    for row in made.history:
        for name in ("policy/loss", "policy/grad_norm", "policy/entropy", "reward/letter/mean",
                     "reward/plain/std", "reward/total/mean", "response/length",
                     "response/truncated", "advantage/mean_abs", "advantage/max_abs"):  # fmt: skip
            assert math.isfinite(row[name]), name
        assert row["policy/skipped_update"] == 0
    logged = {name for metrics in log.metrics for name in metrics}
    assert {"valid/plain", "time/generate", "time/verify", "time/replay", "time/update"} <= logged
    assert ("replay/plain/skipped" in logged) == (method == "mrtpo")


@pytest.mark.parametrize("method", METHODS)
def test_a_run_resumed_half_way_is_the_run_that_never_stopped(tmp_path: Path, method: str) -> None:
    values = {"train": {"method": method, "epochs": 2, "weight_decay": 0.1}}
    whole = run(tmp_path / "whole", values)

    first = trainer(tmp_path / "halves", values)
    with pytest.raises(KeyboardInterrupt):
        kill(first, "rollouts", at_step=2)
    assert first.step == 2
    second = trainer(tmp_path / "halves", values)
    assert second.resume() and second.step == 2
    assert weights_equal(second.policy, first.policy)
    second.run(NoLog())
    assert_same(second, whole)


def kill(made: Trainer, where: str, at_step: int) -> None:
    """Run until `where` is reached in the step after `at_step`, and stop there as a kill would."""
    target = made.task if where == "verify" else made
    if where == "checkpoint":
        target, where = made, "save"
    inner = getattr(target, where)

    def dying(*args: Any, **kwargs: Any) -> Any:
        if made.step >= at_step:
            raise KeyboardInterrupt
        return inner(*args, **kwargs)

    setattr(target, where, dying)
    made.run(NoLog())


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


def gradient_step(
    state: Path, values: dict[str, Any], reference: Policy | None = None
) -> tuple[Policy, dict[str, float]]:
    """The policy after one plain gradient step on a batch of mixed lengths, and its metrics."""
    train = {"learning_rate": 1.0, "warmup_steps": 0, "max_grad_norm": 1e9}
    values = {**values, "train": {**train, **values.get("train", {})}}
    made = trainer(state, values, reference=reference)
    # Plain descent: Adam's first step is the sign of a gradient, which magnifies rounding.
    made.optimizer = torch.optim.SGD(made.policy.model.parameters(), lr=1.0)
    metrics, _ = made.one_step()
    return made.policy, metrics


def assert_close_policies(one: Policy, other: Policy, tolerance: float = 1e-5) -> None:
    a, b = one.model.state_dict(), other.model.state_dict()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=tolerance)


@pytest.mark.parametrize("kl", [0.0, 0.3])
def test_how_a_batch_is_cut_changes_nothing(tmp_path: Path, kl: float) -> None:
    reference = text_policy(5) if kl else None
    values = {"train": {"kl": kl, "method": "mrtpo"}}
    moved: list[tuple[Policy, dict[str, float]]] = []
    for budget in (100_000, 1, 40):
        values["train"]["micro_batch_tokens"] = budget
        moved.append(gradient_step(tmp_path, values, reference))
    whole, metrics = moved[0]
    assert float(metrics["policy/grad_norm"]) > 0.01
    for cut, cut_metrics in moved[1:]:
        assert_close_policies(cut, whole)
        assert cut_metrics.keys() == metrics.keys()
        for name in ("policy/loss", "policy/entropy", "policy/grad_norm", "policy/clip_share"):
            assert cut_metrics[name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-5), name
    before = text_policy()
    start, end = before.model.state_dict(), whole.model.state_dict()
    assert max(float((start[n] - end[n]).abs().max()) for n in start) > 1e-3


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


def poison(made: Trainer, steps: set[int], passes: set[int] | None = None) -> None:
    """Make the gradient NaN in the given steps, in all passes over the batch or in those named."""
    inner = made._gradients
    done: Counter[int] = Counter()

    def gradients(rollouts: Any, credit: Any) -> dict[str, float]:
        sums = inner(rollouts, credit)
        now = done[made.step]
        done[made.step] += 1
        if made.step in steps and (passes is None or now in passes):
            next(iter(made.policy.model.parameters())).grad[0, 0] = math.nan
        return sums

    made._gradients = gradients  # type: ignore[method-assign]


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


@pytest.mark.parametrize(("size", "total"), [(2, 6), (4, 10), (3, 5), (5, 5)])
def test_no_prompt_comes_twice_in_an_epoch_and_none_is_left_out_for_ever(
    tmp_path: Path, size: int, total: int
) -> None:
    made = trainer(tmp_path, {"train": {"prompts_per_step": size}}, prompts=total)
    steps = total // size
    orders = [
        [p.id for step in range(steps) for p in made.batch(epoch * steps + step)]
        for epoch in range(12)
    ]
    for order in orders:
        assert len(set(order)) == len(order) == steps * size
    assert len({tuple(order) for order in orders}) > 1  # epochs differ in order
    assert {p for order in orders for p in order} == {p.id for p in made.train_prompts}
    assert all(len(made.batch(step)) == size for step in range(9))
    again = trainer(tmp_path, {"train": {"prompts_per_step": size}}, prompts=total)
    assert [p.id for p in again.batch(7)] == [p.id for p in made.batch(7)]
    other = trainer(tmp_path, {"train": {"prompts_per_step": size}, "seed": 4}, prompts=total)
    assert [[p.id for p in other.batch(s)] for s in range(9)] != [
        [p.id for p in made.batch(s)] for s in range(9)
    ]


def test_an_evaluation_during_training_is_of_the_first_valid_prompts(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    scores = made.evaluate()
    valid = [prompt(n, split="valid") for n in range(100, 103)]  # `evaluate_prompts` is 3
    slow = greedy_and_sampled(text_policy(), Letters(), valid, made.settings).metrics
    assert scores == pytest.approx(slow)
    assert made.evaluations == [{"step": 0, **scores}]


def test_the_mix_follows_the_step(tmp_path: Path) -> None:
    """The token weights fade out: at the last step the update is GDPO's, at the first it is not."""
    ramp = {"replay": {"floor": 0.0, "mix_start": 1.0, "mix_end": 0.0}}
    for step, same in ((0, False), (3, True)):
        moved = []
        for method in ("gdpo", "mrtpo"):
            made = trainer(tmp_path, {**ramp, "train": {"method": method}})
            made.optimizer = torch.optim.SGD(made.policy.model.parameters(), lr=1.0)
            made.step = step
            made.one_step()
            moved.append(made.policy)
        assert weights_equal(*moved) == same


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


def test_rollouts_of_a_step_follow_from_seed_and_step_alone(tmp_path: Path) -> None:
    def ids(rollouts: list[Rollout]) -> list[tuple[int, ...]]:
        return [r.response_ids for r in rollouts]

    made, other = trainer(tmp_path), trainer(tmp_path)
    torch.manual_seed(99)
    first = ids(made.rollouts(made.batch(1), 1))
    torch.manual_seed(1)
    assert ids(other.rollouts(other.batch(1), 1)) == first
    assert ids(other.rollouts(other.batch(1), 2)) != first
    assert tiny_settings().seed == 3
