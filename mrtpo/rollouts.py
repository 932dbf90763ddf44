"""Files of verified rollouts, and their attribution.

`attribution.parquet` has one row for each rollout and reward (`ATTRIBUTION_SCHEMA`): the reward's
value and status, `advantage` (what an even spread gives each token: λ_k A_k/(σ+ε)), whether and
why the replay was skipped, and for every token its text, part, log-probability with and without
the information, distance (oriented), weight, and whether it is responsible by the spans that the
task knows. How much of the distance lies there scores the attribution. `label`: what the reward is
about, where its name says little. Rewards that a prompt does not have stand in no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mrtpo.attribution import oriented
from mrtpo.config import Settings
from mrtpo.contexts import chosen_information
from mrtpo.credit import (
    Credit,
    assign,
    replay_metrics,
    reward_metrics,
    reward_table,
    rewards_of,
    verdict,
)
from mrtpo.evaluation import verified
from mrtpo.generate import generate
from mrtpo.placement import indicators
from mrtpo.policy import Policy
from mrtpo.progress import Progress
from mrtpo.records import Prompt, Rollout, write_parquet
from mrtpo.tasks import Part, Task

ATTRIBUTION_SCHEMA = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("sample", pa.int32()),
        ("reward", pa.string()),
        ("value", pa.float64()),
        ("status", pa.string()),
        ("detail", pa.string()),
        ("label", pa.string()),
        ("advantage", pa.float64()),
        ("skipped", pa.bool_()),
        ("reason", pa.string()),
        ("reference", pa.string()),
        ("tokens", pa.list_(pa.string())),
        ("parts", pa.list_(pa.string())),
        ("logprob_with", pa.list_(pa.float32())),
        ("logprob_without", pa.list_(pa.float32())),
        ("distance", pa.list_(pa.float32())),
        ("weight", pa.list_(pa.float32())),
        ("responsible", pa.list_(pa.bool_())),
    ]
)
PROMPTS_AT_ONCE = 8


def sample(
    settings: Settings, policy: Policy, task: Task, prompts: Sequence[Prompt]
) -> tuple[list[Rollout], dict[str, float]]:
    """Verified groups for the first `rollout.prompts` prompts, and their reward statistics."""
    chosen = list(prompts)[: settings.rollout.prompts]
    sampling = settings.sampling
    rollouts: list[Rollout] = []
    with Progress("rollout", len(chosen), unit="prompt") as progress:
        for start in range(0, len(chosen), PROMPTS_AT_ONCE):
            batch = chosen[start : start + PROMPTS_AT_ONCE]
            made = generate(
                policy, [(p.id, policy.prompt_ids(p.messages)) for p in batch],
                samples=sampling.group_size, temperature=sampling.temperature,
                max_new_tokens=sampling.max_new_tokens, seed=settings.seed, step=0,
            )  # fmt: skip
            asked = [prompt for prompt in batch for _ in range(sampling.group_size)]
            rollouts += verified(task, asked, made)
            progress.update(start + len(batch))
    table = reward_table(rollouts, task.reward_names, settings, policy.device)
    metrics = reward_metrics(rollouts, table)
    metrics["rollouts"] = len(rollouts)
    metrics["response/length"] = sum(len(r.response_ids) for r in rollouts) / len(rollouts)
    metrics["response/truncated"] = sum(not r.finished for r in rollouts) / len(rollouts)
    return rollouts, metrics


def attribution_rows(
    settings: Settings,
    policy: Policy,
    task: Task,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Replay a rollout file with the policy that sampled it; weights unmixed (λ = 1)."""
    settings = settings.model_copy(
        update={"train": settings.train.model_copy(update={"method": "mrtpo"})}
    )
    by_id = {prompt.id: prompt for prompt in prompts}
    if unknown := sorted({r.prompt_id for r in rollouts} - set(by_id)):
        raise ValueError(f"rollouts answer prompts that are not in the data set: {unknown[:3]}")
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.prompt_id, []).append(rollout)
    rows: list[dict[str, Any]] = []
    sums: dict[str, list[float]] = {}
    with Progress("attribute", len(groups), unit="prompt") as progress:
        names = list(groups)
        for start in range(0, len(names), PROMPTS_AT_ONCE):
            batch = [r for name in names[start : start + PROMPTS_AT_ONCE] for r in groups[name]]
            asked = [by_id[r.prompt_id] for r in batch]
            credit = assign(policy, asked, batch, task.reward_names, settings, mix=1.0)
            for name, value in replay_metrics(credit).items():
                sums.setdefault(name, []).append(value)
            rows += _rows(settings, policy, task, asked, batch, credit)
            progress.update(min(start + PROMPTS_AT_ONCE, len(names)))
    means = {name: sum(values) / len(values) for name, values in sums.items()}
    return rows, means | span_metrics(rows)


def _rows(
    settings: Settings,
    policy: Policy,
    task: Task,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    credit: Credit,
) -> list[dict[str, Any]]:
    replayed = credit.replayed
    assert replayed is not None
    verdict_BK = verdict(credit.credit_BK, credit.table)
    known = [task.spans(p, r.text) for p, r in zip(prompts, rollouts, strict=True)]
    inside_BKT = indicators(policy, rollouts, credit.table.names, known, credit.weights_BKT)
    rows = []
    for b, (prompt, rollout) in enumerate(zip(prompts, rollouts, strict=True)):
        length = len(rollout.response_ids)
        tokens = policy.pieces(rollout.response_ids)
        parts = token_parts(tokens, task.parts(prompt, rollout.text))
        given = {reward.name: reward for reward in rewards_of(rollout, settings)}
        chosen = chosen_information(prompt, settings.replay.variants)
        for k, reward in enumerate(given[name] for name in credit.table.names):
            if not reward.asked:
                continue
            stated = chosen.get(reward.name)
            distance_BT = oriented(
                settings.replay.distance, replayed.distance_BKT[b : b + 1, k],
                replayed.delta_BKT[b : b + 1, k], verdict_BK[b : b + 1, k],
            )  # fmt: skip
            rows.append(
                {
                    "prompt_id": prompt.id, "sample": rollout.sample, "reward": reward.name,
                    "value": reward.value, "status": reward.status, "detail": reward.detail,
                    "label": stated.label if stated else "",
                    "advantage": float(credit.credit_BK[b, k]),
                    "skipped": not bool(replayed.live_BK[b, k]),
                    "reason": replayed.reasons.get((b, k), ""), "reference": prompt.reference,
                    "tokens": tokens, "parts": parts,
                    "logprob_with": replayed.with_BKT[b, k, :length].tolist(),
                    "logprob_without": replayed.without_BKT[b, k, :length].tolist(),
                    "distance": distance_BT[0, :length].tolist(),
                    "weight": credit.weights_BKT[b, k, :length].tolist(),
                    "responsible": inside_BKT[b, k, :length].bool().tolist(),
                }
            )  # fmt: skip
    return rows


def span_metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """By reward, means over replays that found a distance: its share on responsible tokens
    (`span_share`), and the share of those among all tokens (`span_uniform`).

    Responses in which the task knows of no responsible token say nothing.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        total, inside = sum(row["distance"]), row["responsible"]
        if not row["skipped"] and total > 0 and any(inside):
            held = sum(d for d, own in zip(row["distance"], inside, strict=True) if own)
            found.setdefault(row["reward"], []).append((held / total, sum(inside) / len(inside)))
    return {
        f"replay/{name}/{what}": sum(column) / len(column)
        for name, pairs in found.items()
        for what, column in zip(
            ("span_share", "span_uniform"), zip(*pairs, strict=True), strict=True
        )
    }


def token_parts(tokens: Sequence[str], parts: Sequence[Part]) -> list[str]:
    """The part in which most of each token's characters lie; '' where there is none."""
    names = []
    start = 0
    for token in tokens:
        end = start + len(token)
        overlaps = [
            (min(end, p.end) - max(start, p.start), p.name)
            for p in parts
            if p.start < end and p.end > start
        ]
        names.append(max(overlaps)[1] if overlaps else "")
        start = end
    return names


def write_attribution(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    write_parquet(path, rows, ATTRIBUTION_SCHEMA)
