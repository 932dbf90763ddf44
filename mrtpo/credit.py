"""Verified rollouts → token advantages: rewards, credit, replay weights, in that order.

The trainer sees `Credit.advantages_BT` and knows nothing of methods.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mrtpo import methods
from mrtpo.advantages import conditioned, dead_groups, overlong_penalty, token_advantages
from mrtpo.attribution import concentration
from mrtpo.config import Settings
from mrtpo.methods import METHODS
from mrtpo.placement import Replayer, Spans, place
from mrtpo.policy import Policy
from mrtpo.records import Prompt, Reward, Rollout
from mrtpo.replay import Replayed

OVERLONG = "overlong"


@dataclass(frozen=True)
class RewardTable:
    """Rewards of a batch, rows B, rewards K; `present_BK` is False where there is no value.

    `raw_BK` is what the verifiers gave, `rewards_BK` what trains, after `rewards.requires`.

    Prompts may differ in their rewards. One that a prompt does not have (`asked_BK` False) is a
    constant 0 in its group, which tells no method anything: no advantage, nothing in a sum. Only
    figures have to leave it out.
    """

    names: tuple[str, ...]
    raw_BK: Tensor
    rewards_BK: Tensor
    present_BK: Tensor
    asked_BK: Tensor
    group_B: Tensor
    weight_K: Tensor


@dataclass(frozen=True)
class Credit:
    """Credit of a batch, and its tokens in the rows that this process trains on.

    `table` and `credit_BK` (what an even spread gives each token) are of the whole batch; the rest
    is of `rows`, which are all of them unless several processes share the batch.
    """

    table: RewardTable
    credit_BK: Tensor
    weights_BKT: Tensor
    mask_BT: Tensor
    replayed: Replayed | None
    rows: slice

    @functools.cached_property
    def advantages_BT(self) -> Tensor:
        return token_advantages(self.credit_BK[self.rows], self.weights_BKT, self.mask_BT)


def reward_names(names: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """The task's rewards, and `overlong` where `rewards.overlong` asks for it."""
    return (*names, *([OVERLONG] if settings.rewards.overlong else []))


def rewards_of(rollout: Rollout, settings: Settings) -> tuple[Reward, ...]:
    """A response's rewards, those that the verifiers gave and its length's."""
    if not settings.rewards.overlong:
        return rollout.rewards
    penalty = overlong_penalty(
        torch.tensor([len(rollout.response_ids)]), settings.sampling.max_new_tokens,
        settings.rewards.overlong,
    )  # fmt: skip
    return (*rollout.rewards, Reward(OVERLONG, float(penalty), "ok"))


def check_names(names: Sequence[str], settings: Settings) -> None:
    """Raise ValueError where a setting names a reward that the task does not have."""
    rewards = settings.rewards
    for key, named in (
        ("rewards.weights", [*rewards.weights]),
        ("rewards.requires", [*rewards.requires, *rewards.requires.values()]),
        ("replay.variants", [*settings.replay.variants]),
    ):
        for name in named:
            if name not in names:
                raise ValueError(
                    f"{key}: {name} is no reward of this task; accepted: {', '.join(names)}"
                )


def reward_table(
    rollouts: Sequence[Rollout], names: Sequence[str], settings: Settings, device: torch.device
) -> RewardTable:
    """Rewards as tensors, conditioned and with time-outs as `rewards.on_timeout` says.

    A value that is no finite number counts as missing. Raises ValueError naming the reward and
    rollout where a configured reward is absent altogether.
    """
    names = reward_names(names, settings)
    check_names(names, settings)
    groups = {
        prompt_id: i for i, prompt_id in enumerate(dict.fromkeys(r.prompt_id for r in rollouts))
    }
    raw_BK = torch.zeros(len(rollouts), len(names), device=device)
    present_BK = torch.zeros(len(rollouts), len(names), dtype=torch.bool, device=device)
    asked_BK = torch.ones_like(present_BK)
    for b, rollout in enumerate(rollouts):
        given = {reward.name: reward for reward in rewards_of(rollout, settings)}
        for k, name in enumerate(names):
            if name not in given:
                raise ValueError(
                    f"rollout {rollout.prompt_id}/{rollout.sample}: reward {name} is absent; "
                    f"its verifiers gave: {', '.join(given) or 'nothing'}"
                )
            if not given[name].asked:
                present_BK[b, k], asked_BK[b, k] = True, False
                continue
            value = _value(given[name], settings)
            if value is not None:
                raw_BK[b, k], present_BK[b, k] = value, True
    group_B = torch.tensor([groups[r.prompt_id] for r in rollouts], device=device)
    weight_K = torch.tensor([settings.rewards.weight(n) for n in names], device=device)
    # A reward that is not asked for holds none back.
    rewards_BK = conditioned(
        torch.where(asked_BK, raw_BK, 1.0), present_BK, names, settings.rewards.requires
    )
    rewards_BK = torch.where(asked_BK, rewards_BK, 0.0)
    return RewardTable(
        tuple(names), raw_BK, rewards_BK, present_BK, asked_BK, group_B, weight_K
    )  # fmt: skip


def _value(reward: Reward, settings: Settings) -> float | None:
    if (
        reward.value is None
        and reward.status == "timeout"
        and settings.rewards.on_timeout == "zero"
    ):
        return 0.0
    return reward.number


def verdict(credit_BK: Tensor, table: RewardTable) -> Tensor:
    """Credit with the sign of the reward's own advantage A_k.

    A negative λ_k turns what follows from a pass, not which tokens speak for one. The one column of
    a summed reward has no λ of its own.
    """
    if credit_BK.shape[1] != len(table.names):
        return credit_BK
    return credit_BK * table.weight_K.sign()


def assign(
    replayer: Policy | Replayer,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    names: Sequence[str],
    settings: Settings,
    mix: float,
    *,
    step: int = 0,
    rows: slice = slice(None),
    spans: Callable[[Prompt, str, Collection[str]], Spans] | None = None,
) -> Credit:
    """Token advantages of a batch under `train.method`; those of `rows`, whole groups. The method
    `oracle` needs the task's `spans`."""
    if isinstance(replayer, Policy):
        replayer = Replayer(replayer)
    table = reward_table(rollouts, names, settings, replayer.policy.device)
    credit_BK = methods.credit(
        settings, table.rewards_BK, table.present_BK, table.group_B, table.weight_K
    )
    verdict_BK = verdict(credit_BK, table)[rows]
    known = None
    if METHODS[settings.train.method].spread == "oracle":
        if spans is None:
            raise ValueError("train.method: oracle: needs the task's spans")
        known = []
        for prompt, rollout, above_K in zip(
            prompts[rows], rollouts[rows], (verdict_BK > 0).tolist(), strict=True
        ):
            praised = {name for name, above in zip(table.names, above_K, strict=True) if above}
            known.append(spans(prompt, rollout.text, praised))
    placed = place(
        replayer, prompts[rows], rollouts[rows], table.names, credit_BK[rows], verdict_BK,
        table.group_B[rows], settings, step=step, mix=mix, spans=known,
    )  # fmt: skip
    return Credit(table, credit_BK, placed.weights_BKT, placed.mask_BT, placed.replayed, rows)


def mix_at(settings: Settings, step: int) -> float:
    """λ of the mix at a step counted from 0: linear from `mix_start` to `mix_end`."""
    share = step / max(1, settings.train.steps - 1)
    return settings.replay.mix_start + share * (settings.replay.mix_end - settings.replay.mix_start)


def reward_metrics(rollouts: Sequence[Rollout], table: RewardTable) -> dict[str, float]:
    """Per reward, over the rows that have it: mean and std of the values, counts of what went
    wrong, share of dead groups. `total`: the weighted sum of a row's rewards. Per unrewarded
    metric: its mean.
    """
    metrics: dict[str, float] = {}
    total = 0.0
    for k, name in enumerate(table.names):
        asked_B = table.asked_BK[:, k]
        present_B = table.present_BK[:, k] & asked_B
        values = table.raw_BK[present_B, k]
        statuses = [r.status for rollout in rollouts for r in rollout.rewards if r.name == name]
        metrics[f"reward/{name}/mean"] = float(values.mean()) if len(values) else math.nan
        metrics[f"reward/{name}/std"] = float(values.std()) if len(values) > 1 else 0.0
        metrics[f"reward/{name}/missing"] = float((~table.present_BK[:, k]).sum())
        metrics[f"reward/{name}/dead_groups"] = math.nan
        if asked_B.any():
            kept = (table.rewards_BK[asked_B, k, None], table.present_BK[asked_B, k, None])
            metrics[f"reward/{name}/dead_groups"] = float(
                dead_groups(*kept, table.group_B[asked_B])
            )
        for status in ("error", "timeout", "refused"):
            metrics[f"reward/{name}/{status}"] = float(statuses.count(status))
        if table.weight_K[k] != 0 and asked_B.any():
            share = asked_B.to(table.rewards_BK.dtype).mean()
            total += float(table.rewards_BK[present_B, k].mean() * table.weight_K[k] * share)
    metrics["reward/total/mean"] = total
    found: dict[str, list[float]] = {}
    for metric in (metric for rollout in rollouts for metric in rollout.metrics):
        if metric.number is not None:
            found.setdefault(metric.name, []).append(metric.number)
    for name, numbers in found.items():
        metrics[f"metric/{name}/mean"] = sum(numbers) / len(numbers)
    return metrics


def replay_metrics(
    credit: Credit, gather: Callable[[list[Any]], list[Any]] = list
) -> dict[str, float]:
    """Per reward: Σd, N_eff/T and the top tenth's share over live rows, and the share of rows
    skipped for another reason than a dead advantage.

    `gather` joins the lists of all processes.
    """
    replayed = credit.replayed
    if replayed is None:
        return {}
    metrics: dict[str, float] = {}
    names = credit.table.names
    for k, name in enumerate(names if len(names) == replayed.live_BK.shape[1] else ("all",)):
        live_B = replayed.live_BK[:, k]
        skipped_B = [
            replayed.reasons.get((b, k), "no advantage") != "no advantage"
            for b in range(len(live_B))
        ]
        own: list[tuple[float, float, float]] = []
        if live_B.any():
            n_eff_B, top_B = concentration(credit.weights_BKT[live_B, k], credit.mask_BT[live_B])
            sums_B = replayed.distance_BKT[live_B, k].sum(1)
            own = list(zip(sums_B.tolist(), n_eff_B.tolist(), top_B.tolist(), strict=True))
        skipped, figures = gather(skipped_B), gather(own)
        metrics[f"replay/{name}/skipped"] = sum(skipped) / len(skipped)
        if figures:
            means = [sum(column) / len(figures) for column in zip(*figures, strict=True)]
            metrics[f"replay/{name}/distance_sum"] = means[0]
            metrics[f"replay/{name}/n_eff_share"] = means[1]
            metrics[f"replay/{name}/top10_share"] = means[2]
    return metrics
