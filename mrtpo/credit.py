"""Verified rollouts → token advantages: rewards, credit, replay weights, in that order.

`attribute` (one file) and `train` (every step) share this path. The trainer sees
`Credit.advantages_BT` and knows nothing of methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mrtpo.advantages import (
    conditioned,
    dead_groups,
    gdpo_credit,
    grpo_credit,
    token_advantages,
)
from mrtpo.attribution import concentration, oriented, token_weights
from mrtpo.config import Replay, Settings
from mrtpo.logprobs import right_padded
from mrtpo.policy import Policy
from mrtpo.records import Prompt, Reward, Rollout
from mrtpo.replay import Replayed, replay


@dataclass(frozen=True)
class RewardTable:
    """Rewards of a batch, rows B, rewards K; `present_BK` is False where there is no value.

    `raw_BK` is what the verifiers gave, `rewards_BK` what trains, after `rewards.requires`.
    """

    names: tuple[str, ...]
    raw_BK: Tensor
    rewards_BK: Tensor
    present_BK: Tensor
    group_B: Tensor
    weight_K: Tensor


@dataclass(frozen=True)
class Credit:
    """Token credit of a batch. `credit_BK` is what an even spread gives each token of a row."""

    table: RewardTable
    credit_BK: Tensor
    weights_BKT: Tensor
    mask_BT: Tensor
    advantages_BT: Tensor
    replayed: Replayed | None


def check_names(names: Sequence[str], settings: Settings) -> None:
    """Raise ValueError where `rewards` names a reward that the task does not have."""
    rewards = settings.rewards
    for key, named in (
        ("weights", [*rewards.weights]),
        ("requires", [*rewards.requires, *rewards.requires.values()]),
    ):
        for name in named:
            if name not in names:
                raise ValueError(
                    f"rewards.{key}: {name} is no reward of this task; accepted: {', '.join(names)}"
                )


def reward_table(
    rollouts: Sequence[Rollout], names: Sequence[str], settings: Settings, device: torch.device
) -> RewardTable:
    """Rewards as tensors, conditioned and with time-outs as `rewards.on_timeout` says.

    A value that is no finite number counts as missing. Raises ValueError naming the reward and
    rollout where a configured reward is absent altogether.
    """
    check_names(names, settings)
    groups = {
        prompt_id: i for i, prompt_id in enumerate(dict.fromkeys(r.prompt_id for r in rollouts))
    }
    raw_BK = torch.zeros(len(rollouts), len(names), device=device)
    present_BK = torch.zeros(len(rollouts), len(names), dtype=torch.bool, device=device)
    for b, rollout in enumerate(rollouts):
        given = {reward.name: reward for reward in rollout.rewards}
        for k, name in enumerate(names):
            if name not in given:
                raise ValueError(
                    f"rollout {rollout.prompt_id}/{rollout.sample}: reward {name} is absent; "
                    f"its verifiers gave: {', '.join(given) or 'nothing'}"
                )
            value = _value(given[name], settings)
            if value is not None:
                raw_BK[b, k], present_BK[b, k] = value, True
    group_B = torch.tensor([groups[r.prompt_id] for r in rollouts], device=device)
    weight_K = torch.tensor([settings.rewards.weights.get(n, 1.0) for n in names], device=device)
    rewards_BK = conditioned(raw_BK, present_BK, names, settings.rewards.requires)
    return RewardTable(tuple(names), raw_BK, rewards_BK, present_BK, group_B, weight_K)


def _value(reward: Reward, settings: Settings) -> float | None:
    if (
        reward.value is None
        and reward.status == "timeout"
        and settings.rewards.on_timeout == "zero"
    ):
        return 0.0
    return reward.value if reward.value is not None and math.isfinite(reward.value) else None


def reward_credit(method: str, table: RewardTable) -> Tensor:
    """`credit_BK` of a method; GRPO has one column for the sum."""
    compute = grpo_credit if method == "grpo" else gdpo_credit
    return compute(table.rewards_BK, table.present_BK, table.group_B, table.weight_K)


def replay_credit(
    policy: Policy,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    table: RewardTable,
    settings: Settings,
    mix: float,
) -> tuple[Tensor, Tensor, Replayed]:
    """Replay a batch and weigh its tokens: `credit_BK`, `weights_BKT` and the measurements."""
    credit_BK = reward_credit("gdpo", table)
    replayed = replay(
        policy, prompts, rollouts, table.names, credit_BK,
        distance=settings.replay.distance, variants=settings.replay.variants,
        temperature=settings.sampling.temperature, token_budget=settings.train.micro_batch_tokens,
    )  # fmt: skip
    weights_BKT = weights_of(replayed, verdict(credit_BK, table), settings.replay, mix)
    return credit_BK, weights_BKT, replayed


def verdict(credit_BK: Tensor, table: RewardTable) -> Tensor:
    """Credit with the sign of the reward's own advantage A_k.

    A negative λ_k turns what follows from a pass, not which tokens speak for one.
    """
    return credit_BK * table.weight_K.sign()


def weights_of(replayed: Replayed, verdict_BK: Tensor, settings: Replay, mix: float) -> Tensor:
    """Token weights of every reward; 1 on real tokens where a pair was not replayed."""
    mask_BT = replayed.mask_BT.to(verdict_BK.dtype)
    weights_BKT = mask_BT[:, None].expand_as(replayed.distance_BKT).clone()
    delta_BKT = replayed.delta_BKT
    for k in range(verdict_BK.shape[1]):
        live_B = replayed.live_BK[:, k]
        distance_BT = oriented(
            settings.distance, replayed.distance_BKT[:, k], delta_BKT[:, k], verdict_BK[:, k]
        )
        weighed_BT = token_weights(
            distance_BT, mask_BT, floor=settings.floor, normalise=settings.normalise,
            cap=settings.cap, mix=mix,
        )  # fmt: skip
        weights_BKT[:, k] = torch.where(live_B[:, None], weighed_BT, weights_BKT[:, k])
    return weights_BKT


def assign(
    policy: Policy,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    names: Sequence[str],
    settings: Settings,
    mix: float,
) -> Credit:
    """Token advantages of a batch under `train.method`."""
    table = reward_table(rollouts, names, settings, policy.device)
    replayed = None
    if settings.train.method == "mrtpo":
        credit_BK, weights_BKT, replayed = replay_credit(
            policy, prompts, rollouts, table, settings, mix
        )
        mask_BT = replayed.mask_BT
    else:
        credit_BK = reward_credit(settings.train.method, table)
        _, mask_BT = right_padded([r.response_ids for r in rollouts], policy.pad_id, policy.device)
        weights_BKT = mask_BT[:, None].expand(-1, credit_BK.shape[1], -1).to(credit_BK.dtype)
    advantages_BT = token_advantages(credit_BK, weights_BKT, mask_BT)
    return Credit(table, credit_BK, weights_BKT, mask_BT, advantages_BT, replayed)


def mix_at(settings: Settings, step: int) -> float:
    """λ of the mix at a step counted from 0: linear from `mix_start` to `mix_end`."""
    share = step / max(1, settings.train.steps - 1)
    return settings.replay.mix_start + share * (settings.replay.mix_end - settings.replay.mix_start)


def reward_metrics(rollouts: Sequence[Rollout], table: RewardTable) -> dict[str, float]:
    """Per reward: mean and std of the values, counts of what went wrong, share of dead groups."""
    metrics: dict[str, float] = {}
    dead_K = dead_groups(table.rewards_BK, table.present_BK, table.group_B)
    total = 0.0
    for k, name in enumerate(table.names):
        present_B = table.present_BK[:, k]
        values = table.raw_BK[present_B, k]
        statuses = [r.status for rollout in rollouts for r in rollout.rewards if r.name == name]
        metrics[f"reward/{name}/mean"] = float(values.mean()) if len(values) else math.nan
        metrics[f"reward/{name}/std"] = float(values.std()) if len(values) > 1 else 0.0
        metrics[f"reward/{name}/missing"] = float((~table.present_BK[:, k]).sum())
        metrics[f"reward/{name}/dead_groups"] = float(dead_K[k])
        for status in ("error", "timeout", "refused"):
            metrics[f"reward/{name}/{status}"] = float(statuses.count(status))
        if table.weight_K[k] != 0:
            total += float(table.rewards_BK[present_B, k].mean() * table.weight_K[k])
    metrics["reward/total/mean"] = total
    return metrics


def replay_metrics(credit: Credit) -> dict[str, float]:
    """Per reward: Σd, N_eff/T and the top tenth's share over live rows, and the share of rows
    skipped for another reason than a dead advantage.
    """
    replayed = credit.replayed
    if replayed is None:
        return {}
    metrics: dict[str, float] = {}
    for k, name in enumerate(credit.table.names):
        live_B = replayed.live_BK[:, k]
        skipped = sum(
            1 for (_, kk), why in replayed.reasons.items() if kk == k and why != "no advantage"
        )
        metrics[f"replay/{name}/skipped"] = skipped / len(live_B)
        if live_B.any():
            n_eff_B, top_B = concentration(credit.weights_BKT[live_B, k], credit.mask_BT[live_B])
            metrics[f"replay/{name}/distance_sum"] = float(
                replayed.distance_BKT[live_B, k].sum(1).mean()
            )
            metrics[f"replay/{name}/n_eff_share"] = float(n_eff_B.mean())
            metrics[f"replay/{name}/top10_share"] = float(top_B.mean())
    return metrics
