"""`mrtpo.credit`: verified rollouts to token advantages, and what is logged about them.

(Not `test_credit.py`: the report's tests have a module of that name.)
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers import prompt, rollout, text_policy, tiny_settings

from mrtpo.advantages import gdpo_credit, group_advantages, token_advantages
from mrtpo.attribution import concentration
from mrtpo.config import Settings
from mrtpo.credit import (
    Credit,
    RewardTable,
    assign,
    check_names,
    mix_at,
    replay_metrics,
    reward_metrics,
    reward_table,
)
from mrtpo.generate import generate
from mrtpo.placement import weights_of
from mrtpo.policy import Policy
from mrtpo.records import Information, Prompt, Reward, Rollout
from mrtpo.replay import Replayed, replay

NAMES = ("letter", "plain")
CPU = torch.device("cpu")
VALUES: list[tuple[float | None, float | None]] = [
    (1.0, 0.25), (0.0, 0.75), (1.0, None), (0.0, 1.0), (1.0, 0.5), (1.0, 0.5),
]  # fmt: skip


def table_of(
    values: list[tuple[float | None, float | None]] = VALUES, **rewards: Any
) -> tuple[list[Rollout], RewardTable]:
    rollouts = [
        rollout([5, 6], dict(zip(NAMES, row, strict=True)), prompt_id="ab"[b // 4], sample=b % 4)
        for b, row in enumerate(values)
    ]
    return rollouts, reward_table(rollouts, NAMES, tiny_settings({"rewards": rewards}), CPU)


def test_rewards_become_a_table_in_the_tasks_order_with_what_is_missing_marked() -> None:
    _, table = table_of()
    assert table.names == NAMES
    assert table.present_BK.tolist() == [[a is not None, b is not None] for a, b in VALUES]
    assert table.rewards_BK.tolist() == [[a or 0.0, b or 0.0] for a, b in VALUES]
    assert table.group_B.tolist() == [0, 0, 0, 0, 1, 1]
    assert table.weight_K.tolist() == [1.0, 1.0]


def test_rows_of_a_prompt_are_one_group_wherever_they_stand() -> None:
    rollouts, _ = table_of()
    order = [4, 0, 5, 2, 1, 3]
    table = reward_table([rollouts[b] for b in order], NAMES, tiny_settings(), CPU)
    assert table.group_B.tolist() == [0, 1, 0, 1, 1, 1]


def test_rewards_are_found_by_name_whatever_order_a_verifier_gives_them_in() -> None:
    rollouts, table = table_of()
    turned = [replace(r, rewards=r.rewards[::-1]) for r in rollouts]
    other = reward_table(turned, NAMES, tiny_settings(), CPU)
    assert torch.equal(other.rewards_BK, table.rewards_BK)
    assert torch.equal(other.present_BK, table.present_BK)
    assert reward_metrics(turned, other) == reward_metrics(rollouts, table)


def test_an_absent_reward_is_named_with_its_rollout() -> None:
    rollouts = [rollout([1], {"letter": 1.0, "plain": 1.0}),
                rollout([1], {"letter": 1.0}, prompt_id="p7", sample=3)]  # fmt: skip
    with pytest.raises(ValueError, match=r"p7/3: reward plain is absent; .*gave: letter"):
        reward_table(rollouts, NAMES, tiny_settings(), CPU)
    with pytest.raises(ValueError, match="gave: nothing"):
        reward_table([rollout([1])], NAMES, tiny_settings(), CPU)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_counts_as_missing(value: float) -> None:
    rollouts = [rollout([1], {"letter": r, "plain": 1.0}) for r in (1.0, value, 0.0, 1.0)]
    table = reward_table(rollouts, NAMES, tiny_settings(), CPU)
    assert table.present_BK[:, 0].tolist() == [True, False, True, True]
    made = gdpo_credit(table.rewards_BK, table.present_BK, table.group_B, table.weight_K)
    assert made.isfinite().all()
    assert reward_metrics(rollouts, table)["reward/letter/missing"] == 1


@pytest.mark.parametrize(
    ("key", "entry"),
    [("weights", {"execution": 0.0}), ("requires", {"execution": "letter"}),
     ("requires", {"plain": "execution"})],
)  # fmt: skip
def test_settings_that_name_an_unknown_reward_are_refused(key: str, entry: dict) -> None:
    with pytest.raises(ValueError, match=f"rewards.{key}: execution.*accepted: letter, plain"):
        table_of(**{key: entry})


def test_a_variant_of_an_unknown_reward_is_refused() -> None:
    settings = tiny_settings({"replay": {"variants": {"execution": "rule"}}})
    with pytest.raises(ValueError, match=r"replay.variants: execution.*accepted: letter, plain"):
        check_names(NAMES, settings)


@pytest.mark.parametrize("status", ["timeout", "error", "refused"])
def test_only_a_timeout_may_count_as_zero_and_only_if_set(status: Any) -> None:
    rollouts = [rollout([1], [Reward("letter", None, status), Reward("plain", 1.0, "ok")])]
    for policy, present in (("missing", False), ("zero", status == "timeout")):
        settings = tiny_settings({"rewards": {"on_timeout": policy}})
        table = reward_table(rollouts, NAMES, settings, CPU)
        assert table.present_BK[0].tolist() == [present, True]
        assert table.rewards_BK[0].tolist() == [0.0, 1.0]
        metrics = reward_metrics(rollouts, table)
        assert metrics["reward/letter/missing"] == float(not present)
        assert metrics[f"reward/letter/{status}"] == 1.0  # counted under either setting


def test_a_reward_that_requires_another_is_zero_where_that_was_not_reached() -> None:
    _, table = table_of(requires={"plain": "letter"})
    assert table.rewards_BK[:, 1].tolist() == [0.25, 0.0, 0.0, 0.0, 0.5, 0.5]
    assert table.rewards_BK[:, 0].tolist() == [a for a, _ in VALUES]


def test_metrics_of_each_reward_are_those_of_its_raw_values() -> None:
    rollouts, table = table_of(weights={"plain": 2.0}, requires={"plain": "letter"})
    metrics = reward_metrics(rollouts, table)
    plain = [0.25, 0.75, 1.0, 0.5, 0.5]
    assert metrics["reward/letter/mean"] == pytest.approx(4 / 6)
    assert metrics["reward/plain/mean"] == pytest.approx(statistics.fmean(plain))
    assert metrics["reward/plain/std"] == pytest.approx(statistics.stdev(plain))
    assert (metrics["reward/letter/missing"], metrics["reward/plain/missing"]) == (0, 1)
    assert (metrics["reward/letter/timeout"], metrics["reward/plain/timeout"]) == (0, 1)
    assert metrics["reward/plain/error"] == metrics["reward/plain/refused"] == 0
    # Dead or not is a matter of what trains: the second group is constant in both.
    assert metrics["reward/letter/dead_groups"] == metrics["reward/plain/dead_groups"] == 0.5


def test_the_total_weighs_what_trains() -> None:
    rollouts, table = table_of(weights={"plain": 2.0})
    total = 4 / 6 + 2 * statistics.fmean([0.25, 0.75, 1.0, 0.5, 0.5])
    assert reward_metrics(rollouts, table)["reward/total/mean"] == pytest.approx(total)


def test_a_metric_that_never_had_a_value_does_not_spoil_the_total() -> None:
    rollouts, table = table_of([(1.0, None), (0.0, None)], weights={"plain": 0.0})
    metrics = reward_metrics(rollouts, table)
    assert math.isnan(metrics["reward/plain/mean"])
    assert metrics["reward/total/mean"] == 0.5
    assert metrics["reward/plain/missing"] == 2


def batch(policy: Policy, **changes: Any) -> tuple[list[Prompt], list[Rollout]]:
    """Two groups of three sampled rollouts with made-up rewards."""
    prompts = [prompt(n, **changes) for n in range(2)]
    rollouts = generate(
        policy, [(p.id, policy.prompt_ids(p.messages)) for p in prompts], samples=3,
        temperature=1.0, max_new_tokens=6, seed=4, step=0,
    )  # fmt: skip
    values = [(1.0, 0.25), (0.0, 0.75), (1.0, 0.6), (1.0, 0.0), (1.0, 0.4), (1.0, 1.0)]
    rollouts = [
        replace(r, rewards=tuple(Reward(n, v, "ok") for n, v in zip(NAMES, row, strict=True)))
        for r, row in zip(rollouts, values, strict=True)
    ]
    return [p for p in prompts for _ in range(3)], rollouts


def assigned(policy: Policy, values: dict[str, Any], mix: float = 1.0, **changes: Any) -> Credit:
    prompts, rollouts = batch(policy, **changes)
    return assign(policy, prompts, rollouts, NAMES, tiny_settings(values), mix)


def test_a_reward_of_weight_zero_is_a_metric_that_trains_nothing() -> None:
    policy = text_policy()
    for method in ("grpo", "gdpo", "mrtpo"):
        values = {"train": {"method": method}, "rewards": {"weights": {"plain": 0.0}}}
        credit = assigned(policy, values)
        prompts, rollouts = batch(policy)
        alone = assign(policy, prompts, rollouts, ("letter",), tiny_settings(
            {"train": {"method": method}}), 1.0)  # fmt: skip
        if method != "mrtpo":  # whose contexts still tell what the metric checks
            torch.testing.assert_close(credit.advantages_BT, alone.advantages_BT)
        else:
            assert not credit.replayed.live_BK[:, 1].any()
        assert (credit.advantages_BT[3:] == 0).all()  # only `plain` varies there
        assert (credit.advantages_BT[:3] != 0).any()
        metrics = reward_metrics(rollouts, credit.table)
        assert metrics["reward/plain/mean"] == pytest.approx(0.5)
        assert metrics["reward/total/mean"] == pytest.approx(5 / 6)


def test_grpo_and_gdpo_spread_each_rows_advantage_evenly() -> None:
    policy = text_policy()
    for method in ("grpo", "gdpo"):
        credit = assigned(policy, {"train": {"method": method}})
        table, mask_BT = credit.table, credit.mask_BT
        if method == "gdpo":
            row_B = gdpo_credit(
                table.rewards_BK, table.present_BK, table.group_B, table.weight_K
            ).sum(1)
        else:
            total_B1 = table.rewards_BK.sum(1, keepdim=True)
            row_B = group_advantages(total_B1, table.present_BK[:, :1], table.group_B)[:, 0]
        torch.testing.assert_close(credit.advantages_BT, row_B[:, None] * mask_BT)
        assert credit.replayed is None and replay_metrics(credit) == {}


@pytest.mark.parametrize("values", [
    {"replay": {"distance": "js", "floor": 0.0}}, {"replay": {"distance": "directional_logprob"}},
    {"replay": {"distance": "kl", "cap": 1.5}},
])  # fmt: skip
def test_mrtpo_keeps_each_rows_gdpo_mean_and_moves_it_between_tokens(values: dict) -> None:
    policy = text_policy()
    credit = assigned(policy, values)
    even = assigned(policy, {"train": {"method": "gdpo"}})
    assert torch.equal(credit.credit_BK, even.credit_BK)
    mean_B = credit.advantages_BT.sum(1) / credit.mask_BT.sum(1)
    torch.testing.assert_close(mean_B, even.credit_BK.sum(1), rtol=1e-4, atol=1e-5)
    assert float((credit.advantages_BT - even.advantages_BT).abs().max()) > 0.05
    assert (credit.advantages_BT[credit.mask_BT == 0] == 0).all()
    assert (credit.weights_BKT.amax(1)[credit.mask_BT == 0] == 0).all()


@pytest.mark.parametrize("mix", [0.0, 1.0])
def test_mrtpo_with_even_weights_is_gdpo(mix: float) -> None:
    policy = text_policy()
    even = assigned(policy, {"train": {"method": "gdpo"}})
    floor = 1e9 if mix else 0.0
    credit = assigned(policy, {"replay": {"floor": floor}}, mix)
    if mix == 0:
        assert torch.equal(credit.advantages_BT, even.advantages_BT)  # w is 1, to the bit
    torch.testing.assert_close(credit.advantages_BT, even.advantages_BT, rtol=1e-5, atol=1e-6)


def test_pairs_that_cannot_be_replayed_are_spread_evenly_and_counted() -> None:
    policy = text_policy(positions=700)
    long = (Information("letter", "rule", "prompt", "Answer with letters."),
            Information("plain", "rule", "append", "Plain. " * 60))  # fmt: skip
    credit = assigned(policy, {"replay": {"floor": 0.0}}, information=long)
    policy.max_positions = 100
    dropped = assigned(policy, {"replay": {"floor": 0.0}}, information=long)
    # Group 2 has a constant `letter`, which is dead and not a skipped replay.
    assert credit.replayed.live_BK.tolist() == [[True, True]] * 3 + [[False, True]] * 3
    assert not dropped.replayed.live_BK.any()
    assert (dropped.weights_BKT == dropped.mask_BT[:, None]).all()
    even = assigned(policy, {"train": {"method": "gdpo"}})
    assert torch.equal(dropped.advantages_BT, even.advantages_BT)
    assert replay_metrics(credit)["replay/letter/skipped"] == 0.0
    metrics = replay_metrics(dropped)
    assert metrics == {"replay/letter/skipped": 0.5, "replay/plain/skipped": 1.0}


def test_replay_metrics_describe_the_live_rows() -> None:
    credit = assigned(text_policy(), {"replay": {"distance": "js"}})
    metrics = replay_metrics(credit)
    share_B, top_B = concentration(credit.weights_BKT[:3, 0], credit.mask_BT[:3])
    assert metrics["replay/letter/n_eff_share"] == pytest.approx(float(share_B.mean()))
    assert metrics["replay/letter/top10_share"] == pytest.approx(float(top_B.mean()))
    sums_B = credit.replayed.distance_BKT[:3, 0].sum(1)
    assert metrics["replay/letter/distance_sum"] == pytest.approx(float(sums_B.mean()))


def measured(delta: list[float], advantage: float) -> Replayed:
    """One row, one reward: what a replay that found Δ would hold."""
    with_BKT = torch.tensor([[delta]])
    return Replayed(
        with_BKT, torch.zeros(1, 1, len(delta)), with_BKT.abs(),
        torch.tensor([[advantage != 0]]), torch.ones(1, len(delta)), {},
    )  # fmt: skip


@pytest.mark.parametrize("advantage", [1.5, -1.5])
def test_directional_weights_follow_the_verdict(advantage: float) -> None:
    settings = tiny_settings({"replay": {"floor": 0.0}}).replay
    made = weights_of(measured([0.4, -0.3, 0.0], advantage), torch.tensor([[advantage]]),
                      torch.tensor([0]), settings, 1.0)  # fmt: skip
    expected = [3.0, 0.0, 0.0] if advantage > 0 else [0.0, 3.0, 0.0]
    assert made[0, 0].tolist() == pytest.approx(expected)


def test_a_negative_weight_turns_the_credit_but_not_the_verdict() -> None:
    """λ < 0 says that passing is unwanted; what speaks for a pass stays what speaks for it."""
    policy = text_policy()
    wanted = assigned(policy, {"replay": {"floor": 0.0}})
    unwanted = assigned(
        policy, {"replay": {"floor": 0.0}, "rewards": {"weights": {"plain": -1.0, "letter": -1.0}}}
    )
    torch.testing.assert_close(unwanted.credit_BK, -wanted.credit_BK)
    torch.testing.assert_close(unwanted.weights_BKT, wanted.weights_BKT)
    torch.testing.assert_close(unwanted.advantages_BT, -wanted.advantages_BT)


def test_assign_is_replay_weights_and_sum_in_that_order() -> None:
    policy = text_policy()
    values = {"replay": {"distance": "js", "normalise": "l2"}, "sampling": {"temperature": 0.8}}
    credit = assigned(policy, values, mix=0.5)
    settings: Settings = tiny_settings(values)
    prompts, rollouts = batch(policy)
    found = replay(policy, prompts, rollouts, NAMES, credit.credit_BK, distance="js", variants={},
                   temperature=0.8, token_budget=8192)  # fmt: skip
    weights_BKT = weights_of(found, credit.credit_BK, credit.table.group_B, settings.replay, 0.5)
    torch.testing.assert_close(credit.weights_BKT, weights_BKT)
    torch.testing.assert_close(
        credit.advantages_BT, token_advantages(credit.credit_BK, weights_BKT, credit.mask_BT)
    )


def test_the_mix_runs_linearly_from_start_to_end() -> None:
    settings = tiny_settings({"train": {"steps": 5}, "replay": {"mix_start": 0.8, "mix_end": 0.0}})
    made = [mix_at(settings, step) for step in range(5)]
    assert made == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0])
    assert mix_at(tiny_settings({"train": {"steps": 1, "warmup_steps": 0}}), 0) == 0.5
