"""Evaluation of a policy on prompts: during training, and as the stage `evaluate`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mrtpo.config import Settings
from mrtpo.generate import generate
from mrtpo.policy import Policy
from mrtpo.progress import Progress
from mrtpo.records import Prompt, Reward, Rollout
from mrtpo.tasks import Task


@dataclass(frozen=True)
class Scores:
    """`metrics`: share of prompts that pass each reward and metric, and length and truncation."""

    metrics: dict[str, float]
    rollouts: list[Rollout]


def verified(task: Task, prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> list[Rollout]:
    """The rollouts with rewards and metrics filled in; row b answers `prompts[b]`."""
    verdicts = task.verify(prompts, [rollout.text for rollout in rollouts])
    return [
        replace(rollout, rewards=verdict.rewards, metrics=verdict.metrics)
        for rollout, verdict in zip(rollouts, verdicts, strict=True)
    ]


def evaluate(
    policy: Policy,
    task: Task,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    batch_size: int,
    temperature: float = 0.0,
    seed: int = 0,
    progress: Progress | None = None,
    gather: Callable[[list[Rollout]], list[Rollout]] = list,
) -> Scores:
    """Answer each prompt once, greedily unless told otherwise, and score it.

    Prompts of like length are decoded together. `gather` joins the answers of several processes.
    """
    encoded = {prompt.id: policy.prompt_ids(prompt.messages) for prompt in prompts}
    order = sorted(prompts, key=lambda prompt: (len(encoded[prompt.id]), prompt.id))
    answers: dict[str, Rollout] = {}
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        rollouts = generate(
            policy, [(prompt.id, encoded[prompt.id]) for prompt in batch], samples=1,
            temperature=temperature, max_new_tokens=max_new_tokens, seed=seed, step=0,
        )  # fmt: skip
        answers |= {rollout.prompt_id: rollout for rollout in verified(task, batch, rollouts)}
        if progress:
            progress.update(start + len(batch))
    rollouts = gather([answers[prompt.id] for prompt in prompts])
    return Scores(score(rollouts), rollouts)


def greedy_and_sampled(
    policy: Policy,
    task: Task,
    prompts: Sequence[Prompt],
    settings: Settings,
    progress: Progress | None = None,
    gather: Callable[[list[Rollout]], list[Rollout]] = list,
) -> Scores:
    """Greedy scores, and under `sampled/` those of one answer at the sampling temperature.

    Benchmarks decode greedily; what RL optimises is the sampled answer. The rollouts are the greedy
    ones.
    """
    common: dict[str, Any] = {
        "max_new_tokens": settings.sampling.max_new_tokens,
        "batch_size": settings.evaluate.batch_size,
        "gather": gather,
    }
    greedy = evaluate(policy, task, prompts, progress=progress, **common)
    sampled = evaluate(
        policy,
        task,
        prompts,
        temperature=settings.sampling.temperature,
        seed=settings.seed,
        **common,
    )
    renamed = {f"sampled/{name}": value for name, value in sampled.metrics.items()}
    return Scores(greedy.metrics | renamed, greedy.rollouts)


def score(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Mean of every reward and metric over all rollouts, as benchmarks count: what a verifier
    could not decide has not passed, and `undecided/<name>` says how often that was. Prompts without
    a reward do not count for it, and one that no prompt has is left out.
    """
    metrics: dict[str, float] = {}
    results = [(*rollout.rewards, *rollout.metrics) for rollout in rollouts]
    for k, first in enumerate(results[0]):
        column: list[Reward] = [row[k] for row in results if row[k].asked]
        if not column:
            continue
        values = [reward.number for reward in column if reward.number is not None]
        metrics[first.name] = sum(values) / len(column)
        undecided = len(column) - len(values)
        if undecided:
            metrics[f"undecided/{first.name}"] = float(undecided)
    metrics["response_length"] = sum(len(r.response_ids) for r in rollouts) / len(rollouts)
    metrics["truncated"] = sum(not r.finished for r in rollouts) / len(rollouts)
    return metrics


def prediction_rows(
    task: Task, prompts: Sequence[Prompt], rollouts: Sequence[Rollout]
) -> list[dict[str, Any]]:
    """One row a prompt: question, answer, and a column for each reward and metric (null: undecided,
    NaN: the prompt does not have it).

    `status` and `detail` are those of the first verifier that had something to say, else `ok`.
    """
    rows = []
    for prompt, rollout in zip(prompts, rollouts, strict=True):
        worst = next((r for r in rollout.rewards if r.asked and r.status != "ok"), None)
        payload = json.loads(prompt.payload)
        rows.append(
            {
                "prompt_id": prompt.id, "kind": prompt.kind, "difficulty": prompt.difficulty,
                "source": prompt.source, "question": payload["question"],
                "reference": prompt.reference, "response": rollout.text,
                "sql": task.answer(rollout.text), "status": worst.status if worst else "ok",
                "detail": worst.detail if worst else "",
                **{
                    r.name: r.value if r.asked else math.nan
                    for r in (*rollout.rewards, *rollout.metrics)
                },
            }
        )  # fmt: skip
    return rows


def prediction_schema(task: Task) -> pa.Schema:
    """Text columns, then a nullable number for each reward and metric."""
    texts = ("prompt_id", "kind", "difficulty", "source", "question", "reference", "response",
             "sql", "status", "detail")  # fmt: skip
    scores = (*task.reward_names, *task.metric_names)
    return pa.schema(
        [(name, pa.string()) for name in texts] + [(name, pa.float64()) for name in scores]
    )


def by_group(prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> dict[str, dict[str, float]]:
    """Scores within each kind and each difficulty: `kind/join`, `difficulty/hard`, with counts."""
    groups: dict[str, list[Rollout]] = {}
    for prompt, rollout in zip(prompts, rollouts, strict=True):
        groups.setdefault(f"kind/{prompt.kind}", []).append(rollout)
        if prompt.difficulty:
            groups.setdefault(f"difficulty/{prompt.difficulty}", []).append(rollout)
    return {
        name: {**score(members), "prompts": len(members)}
        for name, members in sorted(groups.items())
    }
