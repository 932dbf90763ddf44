"""Supervised start of the small decoder.

Each training prompt carries each reward's information at random, and its demonstration is
faultless in what is told and errs at times in what is not (`tasks.base.Task.demonstration`). So
the policy starts half-way and can use what the replay puts into its context. The loss is the mean
cross-entropy over response tokens.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mrtpo import checkpoint
from mrtpo.config import Settings
from mrtpo.contexts import chosen_information, informed
from mrtpo.evaluation import evaluate
from mrtpo.loading import new_policy, new_tokenizer
from mrtpo.policy import Policy
from mrtpo.progress import Progress
from mrtpo.records import Prompt
from mrtpo.tasks import Task

CHECKPOINT_EVERY = 100
DEALT = 8
PROBED = 128


def tokenizer_texts(prompts: Sequence[Prompt], task: Task, seed: int) -> list[str]:
    """What the tokenizer is trained on: prompts with everything told, and faultless answers."""
    rng = random.Random(f"tokenizer {seed}")
    texts = []
    for prompt in prompts:
        chosen = chosen_information(prompt, {})
        texts += [m.content for m in informed(prompt, chosen, set(chosen))]
        texts.append(task.demonstration(prompt, frozenset(chosen), {}, rng))
    return texts


def start(settings: Settings, prompts: Sequence[Prompt], task: Task) -> Policy:
    """A fresh policy with its tokenizer."""
    texts = tokenizer_texts(prompts, task, settings.seed)
    tokenizer = new_tokenizer(texts, settings.model.vocab_size, task.words)
    return new_policy(tokenizer, settings.model, max_positions=2048, seed=settings.seed)


def noise_of(task: Task, settings: Settings) -> dict[str, float]:
    """Chance of an error, by reward: `warmstart.noise`, or the task's own."""
    return task.noise if settings.warmstart.noise is None else settings.warmstart.noise


def example(
    policy: Policy, task: Task, prompt: Prompt, settings: Settings, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Prompt ids and response ids of one demonstration, with information told at random."""
    chosen = chosen_information(prompt, {})
    drawn = {entry.text: rng.random() < settings.warmstart.told for entry in chosen.values()}
    told = frozenset(name for name, entry in chosen.items() if drawn[entry.text])
    response = task.demonstration(prompt, told, noise_of(task, settings), rng)
    prompt_ids = list(policy.prompt_ids(informed(prompt, chosen, told)))
    response_ids = policy.tokenizer.encode(response, add_special_tokens=False)
    return prompt_ids, [*response_ids, policy.tokenizer.eos_token_id]


def collate(
    rows: Sequence[tuple[list[int], list[int]]], pad_id: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Right-padded `ids_BL`, attention `mask_BL` and `labels_BL` (−100 outside responses)."""
    length = max(len(p) + len(r) for p, r in rows)
    ids_BL = torch.full((len(rows), length), pad_id)
    mask_BL = torch.zeros((len(rows), length), dtype=torch.long)
    labels_BL = torch.full((len(rows), length), -100)
    for b, (prompt, response) in enumerate(rows):
        n = len(prompt) + len(response)
        ids_BL[b, :n] = torch.tensor(prompt + response)
        mask_BL[b, :n] = 1
        labels_BL[b, len(prompt) : n] = torch.tensor(response)
    return ids_BL, mask_BL, labels_BL


def dealt(
    policy: Policy, task: Task, prompts: Sequence[Prompt], settings: Settings, number: int
) -> list[list[tuple[list[int], list[int]]]]:
    """The `number`-th hand of `DEALT` batches, a function of the settings and `number` alone.

    The demonstrations of a hand are dealt out by length, so that little is padding.
    """
    size = settings.warmstart.batch_size
    rng = random.Random(f"warmstart {settings.seed} {number}")
    chosen = rng.choices(prompts, k=size * DEALT)
    rows = [example(policy, task, prompt, settings, rng) for prompt in chosen]
    rows.sort(key=lambda row: len(row[0]) + len(row[1]))
    batches = [rows[at : at + size] for at in range(0, len(rows), size)]
    rng.shuffle(batches)
    return batches


def rate(step: int, settings: Settings) -> float:
    """Learning rate: linear warm-up over a twentieth of the steps, then a cosine to a tenth."""
    steps, peak = settings.warmstart.steps, settings.warmstart.learning_rate
    warm = max(1, steps // 20)
    if step < warm:
        return peak * (step + 1) / warm
    return peak * (0.55 + 0.45 * math.cos(math.pi * (step - warm) / max(1, steps - warm)))


class Optimizers:
    """Muon for the matrices, AdamW for embeddings and norms; together they look like one.

    Measured on this task with batches of 16: Muon needs half of AdamW's steps for the same loss.
    """

    def __init__(self, model: Any) -> None:
        named = list(model.named_parameters())
        matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
        held = {id(p) for p in matrices}
        rest = [p for _, p in named if id(p) not in held]
        self.members = [
            torch.optim.Muon(matrices, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, betas=(0.9, 0.98)),
        ]

    def step(self, rate: float) -> None:
        """One update at AdamW's rate `rate`; Muon, whose updates are steadier, takes twice that."""
        for member, factor in zip(self.members, (2.0, 1.0), strict=True):
            for group in member.param_groups:
                group["lr"] = rate * factor
            member.step()
            member.zero_grad(set_to_none=True)

    def state_dict(self) -> list[Any]:
        return [member.state_dict() for member in self.members]

    def load_state_dict(self, states: list[Any]) -> None:
        for member, state in zip(self.members, states, strict=True):
            member.load_state_dict(state)


def response_loss(model: Any, ids_BL: Tensor, mask_BL: Tensor, labels_BL: Tensor) -> Tensor:
    """Mean cross-entropy over response tokens; only their positions are projected."""
    hidden_BLD = model.base_model(input_ids=ids_BL, attention_mask=mask_BL).last_hidden_state
    targets = labels_BL[:, 1:]
    kept = targets != -100
    return F.cross_entropy(model.lm_head(hidden_BLD[:, :-1][kept]).float(), targets[kept])


def supervised(
    settings: Settings,
    train: Sequence[Prompt],
    valid: Sequence[Prompt],
    task: Task,
    root: Path,
) -> tuple[Policy, dict[str, Any]]:
    """Train from scratch, resuming what was killed from `root`. Returns the policy and its scores:

    sampled and greedy scores on train and valid prompts as they are, and sampled scores with each
    reward's information told (`told/<reward>/…`) and with all of it (`told/all/…`).
    """
    known = (*task.reward_names, *task.metric_names)
    if unknown := sorted(set(noise_of(task, settings)) - set(known)):
        raise ValueError(f"warmstart.noise: {', '.join(unknown)}; accepted: {', '.join(known)}")
    policy = start(settings, train, task)
    model, warm = policy.model, settings.warmstart
    optimizer = Optimizers(model)
    step, value = 0, float("nan")
    if found := checkpoint.completed(root):
        saved = checkpoint.restore(found[-1], model, optimizer)
        step, value = saved["step"], saved["loss"]
    hand = None
    model.train()
    with Progress("warmstart", warm.steps, start=step) as progress:
        while step < warm.steps:
            if hand is None or step % DEALT == 0:
                hand = dealt(policy, task, train, settings, step // DEALT)
            padded = collate(hand[step % DEALT], policy.pad_id)
            tensors = [tensor.to(policy.device) for tensor in padded]
            loss = response_loss(model, *tensors)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step(rate(step, settings))
            step += 1
            value = float(loss.detach())
            if not math.isfinite(value):
                raise ValueError(
                    f"warmstart: the loss is {value} at step {step}; lower warmstart.learning_rate"
                )
            if step % CHECKPOINT_EVERY == 0:
                checkpoint.save(root, step, model, optimizer, {"step": step, "loss": value})
            progress.update(step, {"loss": value}, show={"loss": value})
    model.eval()
    return policy, {"loss": value, **abilities(policy, task, settings, train, valid)}


def abilities(
    policy: Policy, task: Task, settings: Settings, train: Sequence[Prompt], valid: Sequence[Prompt]
) -> dict[str, Any]:
    """Scores of a policy on up to 128 prompts of each split, sampled and greedy, told and not."""
    probe = list(train)[:PROBED]

    def scored(prompts: Sequence[Prompt], told: set[str] | None, greedy: bool) -> dict[str, float]:
        asked = prompts
        if told is not None:
            asked = [
                replace(p, messages=informed(p, chosen_information(p, {}), told)) for p in prompts
            ]
        return evaluate(
            policy, task, asked, max_new_tokens=settings.sampling.max_new_tokens,
            batch_size=64, temperature=0.0 if greedy else settings.sampling.temperature,
            seed=settings.seed,
        ).metrics  # fmt: skip

    everything = set(task.reward_names)
    return {
        "train": scored(probe, None, greedy=False),
        "valid": scored(list(valid)[:PROBED], None, greedy=False),
        "valid_greedy": scored(list(valid)[:PROBED], None, greedy=True),
        "told": {
            "all": scored(probe, everything, greedy=False),
            **{name: scored(probe, {name}, greedy=False) for name in task.reward_names},
        },
    }
