"""Supervised start of the small decoder.

First it may learn to copy (`warmstart.copying`), from random tokens: names and values are copied,
and demonstrations alone teach that late.

Each training prompt carries each reward's information at random, and its demonstration is
faultless in what is told and errs at times in what is not (`tasks.base.Task.demonstration`). So
the policy starts half-way and can use what the replay puts into its context. The loss is the mean
cross-entropy over the tokens of responses and of what is told: these can be foretold as well, the
names from the schema and the reference from the question, and half of what there is to learn is
seen in them (measured: at equal steps the reference is likelier by a fifth of its nats).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mrtpo import checkpoint
from mrtpo.config import Settings
from mrtpo.contexts import chosen_information, informed
from mrtpo.evaluation import evaluate
from mrtpo.induction import THETA, look_back, repeating
from mrtpo.loading import new_policy, new_tokenizer
from mrtpo.policy import Policy
from mrtpo.progress import Progress
from mrtpo.records import Prompt
from mrtpo.tasks import Task

CHECKPOINT_EVERY = 100
DEALT = 8
PROBED = 128
COPIES = 32  # sequences a step of copying


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
    copies = copying_of(task, settings) > 0
    policy = new_policy(
        tokenizer, settings.model, max_positions=2048, seed=settings.seed,
        theta=THETA if copies else 1e4,
    )  # fmt: skip
    if copies:
        look_back(policy.model, settings.seed)
    return policy


def copying_of(task: Task, settings: Settings) -> int:
    """Steps of copying: `warmstart.copying`, or the task's own."""
    return task.copying if settings.warmstart.copying is None else settings.warmstart.copying


def noise_of(task: Task, settings: Settings) -> dict[str, float]:
    """Chance of an error, by reward: `warmstart.noise`, or the task's own."""
    return task.noise if settings.warmstart.noise is None else settings.warmstart.noise


class Row(NamedTuple):
    """Ids of a prompt and a response. What is told begins at `told` in the prompt, or, if nothing
    is added to it, the prompt ends there."""

    prompt: list[int]
    response: list[int]
    told: int

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.response)


def example(
    policy: Policy, task: Task, prompt: Prompt, settings: Settings, rng: random.Random
) -> Row:
    """One demonstration, with information told at random."""
    chosen = chosen_information(prompt, {})
    drawn = {entry.text: rng.random() < settings.warmstart.told for entry in chosen.values()}
    told = frozenset(name for name, entry in chosen.items() if drawn[entry.text])
    response = task.demonstration(prompt, told, noise_of(task, settings), rng)
    prompt_ids = list(policy.prompt_ids(informed(prompt, chosen, told)))
    response_ids = policy.tokenizer.encode(response, add_special_tokens=False)
    bare = policy.prompt_ids(informed(prompt, chosen, frozenset()))
    pairs = zip(bare, prompt_ids, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if all(entry.where == "prompt" for entry in chosen.values()):
        same = len(prompt_ids)  # what a prompt asks for cannot be foretold
    return Row(prompt_ids, [*response_ids, policy.tokenizer.eos_token_id], same)


def collate(rows: Sequence[Row], pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """Right-padded `ids_BL`, attention `mask_BL` and `labels_BL` (−100 before what is told)."""
    length = max(row.length for row in rows)
    ids_BL = torch.full((len(rows), length), pad_id)
    mask_BL = torch.zeros((len(rows), length), dtype=torch.long)
    labels_BL = torch.full((len(rows), length), -100)
    for b, row in enumerate(rows):
        ids_BL[b, : row.length] = torch.tensor(row.prompt + row.response)
        mask_BL[b, : row.length] = 1
        labels_BL[b, row.told : row.length] = ids_BL[b, row.told : row.length]
    return ids_BL, mask_BL, labels_BL


def dealt(
    policy: Policy, task: Task, prompts: Sequence[Prompt], settings: Settings, number: int
) -> list[list[Row]]:
    """The `number`-th hand of `DEALT` batches, a function of the settings and `number` alone.

    The demonstrations of a hand are dealt out by length, so that little is padding.
    """
    size = settings.warmstart.batch_size
    rng = random.Random(f"warmstart {settings.seed} {number}")
    chosen = rng.choices(prompts, k=size * DEALT)
    rows = [example(policy, task, prompt, settings, rng) for prompt in chosen]
    rows.sort(key=lambda row: row.length)
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


def taught_to_copy(policy: Policy, steps: int, settings: Settings) -> None:
    """`steps` of random sequences that repeat a part of themselves; the loss is on the repetition.

    The rate rises over twenty steps and falls over the second half.
    """
    model, peak = policy.model, settings.warmstart.learning_rate
    optimizer = Optimizers(model)
    generator = torch.Generator().manual_seed(settings.seed)
    known = len(policy.tokenizer)
    model.train()
    with Progress("copying", steps) as progress:
        for step in range(steps):
            ids_BL, start = repeating(known, COPIES, generator)
            ids_BL = ids_BL.to(policy.device)
            labels_BL = ids_BL.clone()
            labels_BL[:, :start] = -100
            loss = response_loss(model, ids_BL, torch.ones_like(ids_BL), labels_BL)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step(peak * min(1.0, (step + 1) / 20, 2 * (steps - step) / steps))
            value = {"loss": loss.item()}
            progress.update(step + 1, value, show=value)


def response_loss(model: Any, ids_BL: Tensor, mask_BL: Tensor, labels_BL: Tensor) -> Tensor:
    """Mean cross-entropy over labelled tokens; only their positions are projected."""
    hidden_BLD = model.base_model(input_ids=ids_BL, attention_mask=mask_BL).last_hidden_state
    targets = labels_BL[:, 1:]
    kept = targets != -100
    return F.cross_entropy(model.lm_head(hidden_BLD[:, :-1][kept]).float(), targets[kept])


def backward(policy: Policy, rows: Sequence[Row], threads: ThreadPoolExecutor) -> float:
    """Put the gradient of a batch's mean loss in place, and return the loss.

    Each half is computed in a thread of its own: two cores are used without a barrier in every
    operation, at which a busy machine would wait. The sum of two does not depend on their order.
    """
    halves = [half for half in (rows[::2], rows[1::2]) if half]
    batches = [[t.to(policy.device) for t in collate(half, policy.pad_id)] for half in halves]
    counts = [int((labels_BL[:, 1:] != -100).sum()) for _, _, labels_BL in batches]
    weights = [param for param in policy.model.parameters() if param.requires_grad]

    def gradient(number: int) -> tuple[float, tuple[Tensor, ...]]:
        share = counts[number] / sum(counts)
        loss = response_loss(policy.model, *batches[number]) * share
        return float(loss.detach()), torch.autograd.grad(loss, weights)

    found = list(threads.map(gradient, range(len(halves))))
    for place, *parts in zip(weights, *(grads for _, grads in found), strict=True):
        place.grad = sum(parts[1:], parts[0])
    return math.fsum(loss for loss, _ in found)


def supervised(
    settings: Settings,
    train: Sequence[Prompt],
    valid: Sequence[Prompt],
    task: Task,
    root: Path,
) -> tuple[Policy, dict[str, Any]]:
    """Train from scratch, resuming what was killed from `root`. Returns the policy and its scores:

    sampled and greedy scores on train and valid prompts as they are, and sampled scores with each
    reward's information told (`told/<reward>/…`) and with all of it (`told/all/…`), or, where all
    of it stands in the prompts already, with none (`told/nothing/…`).
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
    elif copying := copying_of(task, settings):
        taught_to_copy(policy, copying, settings)
    hand = None
    model.train()
    with (
        Progress("warmstart", warm.steps, start=step) as progress,
        ThreadPoolExecutor(2) as threads,
    ):
        while step < warm.steps:
            if hand is None or step % DEALT == 0:
                hand = dealt(policy, task, train, settings, step // DEALT)
            value = backward(policy, hand[step % DEALT], threads)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step(rate(step, settings))
            step += 1
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

    chosen = [chosen_information(prompt, {}) for prompt in probe]
    if all(entry.where == "prompt" for entries in chosen for entry in entries.values()):
        told: dict[str, set[str]] = {"nothing": set()}
    else:
        told = {"all": set(task.reward_names), **{name: {name} for name in task.reward_names}}
    return {
        "train": scored(probe, None, greedy=False),
        "valid": scored(list(valid)[:PROBED], None, greedy=False),
        "valid_greedy": scored(list(valid)[:PROBED], None, greedy=True),
        "told": {what: scored(probe, names, greedy=False) for what, names in told.items()},
    }
