"""The RL loop. One step reads: prompts → rollouts → rewards → replay → token advantages → update.

A step is a function of the settings, the weights and the step's number alone, so a resumed run
gives the same numbers as one that was never stopped. State is saved by `checkpoint`; the best
policy is the one with the best `train.best_metric` on the valid split.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from mrtpo import checkpoint
from mrtpo.config import Settings
from mrtpo.credit import (
    Credit,
    assign,
    check_names,
    mix_at,
    replay_metrics,
    reward_metrics,
)
from mrtpo.evaluation import greedy_and_sampled, verified
from mrtpo.generate import generate
from mrtpo.logprobs import budgeted, response_logps, stacked
from mrtpo.loss import clipped_surrogate, kl_to_reference
from mrtpo.policy import Policy
from mrtpo.progress import Progress
from mrtpo.records import Prompt, Rollout
from mrtpo.tasks import Task
from mrtpo.tracking import NoLog, RunLog


class NonFinite(RuntimeError):
    """Too many steps in a row had a loss or gradient that is not finite."""


class Trainer:
    """State of one training: policy, optimiser, and what has been measured so far."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        task: Task,
        train: Sequence[Prompt],
        valid: Sequence[Prompt],
        state: Path,
        reference: Policy | None = None,
    ) -> None:
        known = [*task.reward_names, *task.metric_names]
        known += [f"sampled/{name}" for name in known]
        if settings.train.best_metric not in known:
            raise ValueError(
                f"train.best_metric: {settings.train.best_metric!r}; accepted: {', '.join(known)}"
            )
        check_names(task.reward_names, settings)
        if settings.train.prompts_per_step > len(train):
            raise ValueError(
                f"train.prompts_per_step: {settings.train.prompts_per_step} exceeds the "
                f"{len(train)} prompts of the train split"
            )
        check_lengths(policy, (*train, *valid), settings.sampling.max_new_tokens)
        self.settings, self.policy, self.task, self.state = settings, policy, task, state
        self.train_prompts = list(train)
        self.valid_prompts = list(valid)[: settings.train.evaluate_prompts]
        self.reference = reference
        self.accelerator = Accelerator(cpu=policy.device.type == "cpu")
        optimizer = torch.optim.AdamW(
            policy.model.parameters(),
            lr=settings.train.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.train.weight_decay,
        )
        self.optimizer: Any = self.accelerator.prepare(optimizer)
        self.step = 0
        self.bad_steps = 0
        self.history: list[dict[str, float]] = []
        self.evaluations: list[dict[str, float]] = []
        self.best: dict[str, float] | None = None

    def batch(self, step: int) -> list[Prompt]:
        """Distinct prompts of a step: the next stretch of the epoch's seeded permutation.

        What is left at an epoch's end is too little for a step; other prompts are left next time.
        """
        size, total = self.settings.train.prompts_per_step, len(self.train_prompts)
        epoch, at = divmod(step, total // size)
        order = list(range(total))
        random.Random(f"order {self.settings.seed} {epoch}").shuffle(order)
        return [self.train_prompts[n] for n in order[at * size : (at + 1) * size]]

    def rollouts(self, prompts: Sequence[Prompt], step: int) -> list[Rollout]:
        sampling = self.settings.sampling
        return generate(
            self.policy, [(p.id, self.policy.prompt_ids(p.messages)) for p in prompts],
            samples=sampling.group_size, temperature=sampling.temperature,
            max_new_tokens=sampling.max_new_tokens, seed=self.settings.seed, step=step,
        )  # fmt: skip

    def one_step(self) -> tuple[dict[str, float], dict[str, float]]:
        """One policy update. Returns metrics and seconds for each phase."""
        clock = Clock()
        prompts = self.batch(self.step)
        rollouts = self.rollouts(prompts, self.step)
        clock.lap("generate")
        asked = {prompt.id: prompt for prompt in prompts}
        prompts = [asked[rollout.prompt_id] for rollout in rollouts]
        rollouts = verified(self.task, prompts, rollouts)
        clock.lap("verify")
        credit = assign(
            self.policy, prompts, rollouts, self.task.reward_names, self.settings,
            mix_at(self.settings, self.step),
        )  # fmt: skip
        clock.lap("replay")
        metrics = reward_metrics(rollouts, credit.table) | replay_metrics(credit)
        metrics |= self.update(rollouts, credit)
        clock.lap("update")
        lengths = [len(rollout.response_ids) for rollout in rollouts]
        metrics["response/length"] = sum(lengths) / len(lengths)
        metrics["response/truncated"] = sum(not r.finished for r in rollouts) / len(rollouts)
        return metrics, clock.seconds

    def update(self, rollouts: Sequence[Rollout], credit: Credit) -> dict[str, float]:
        """`train.epochs` optimiser steps on one batch; a non-finite one is skipped and counted."""
        train = self.settings.train
        totals: dict[str, float] = {}
        skipped = 0
        for _ in range(train.epochs):
            sums = self._gradients(rollouts, credit)
            norm = float(
                torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), train.max_grad_norm)
            )
            finite = math.isfinite(norm) and math.isfinite(sums["policy/loss"])
            if finite:
                for group in self.optimizer.param_groups:
                    group["lr"] = train.learning_rate * min(
                        1.0, (self.step + 1) / max(1, train.warmup_steps)
                    )
                self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.bad_steps = 0 if finite else self.bad_steps + 1
            skipped += not finite
            totals = sums | {"policy/grad_norm": norm, "policy/skipped_update": float(skipped)}
            if self.bad_steps >= train.max_bad_steps:
                raise NonFinite(
                    f"{self.bad_steps} updates in a row were not finite (step {self.step}); the "
                    f"last checkpoint below {self.state} is intact. Lower train.learning_rate, or "
                    "use model.dtype: float32."
                )
        absolute = credit.advantages_BT.abs()
        totals["advantage/mean_abs"] = float(absolute.sum() / credit.mask_BT.sum())
        totals["advantage/max_abs"] = float(absolute.max())
        totals["advantage/zero_share"] = float((credit.credit_BK == 0).all(1).float().mean())
        return totals

    def _gradients(self, rollouts: Sequence[Rollout], credit: Credit) -> dict[str, float]:
        """Accumulate the gradient of the mean token loss, micro-batch by micro-batch."""
        train, device = self.settings.train, self.policy.device
        tokens = float(credit.mask_BT.sum())
        loss_sum = clipped_sum = kl_sum = 0.0
        surprisal_sum = 0.0
        # Longest first: rows of like length share a micro-batch, and memory peaks at once.
        order = sorted(
            range(len(rollouts)),
            key=lambda b: (-len(rollouts[b].prompt_ids), rollouts[b].prompt_id, b),
        )
        sizes = [len(rollouts[b].prompt_ids) // 4 + len(rollouts[b].response_ids) for b in order]
        for run in budgeted(sizes, train.micro_batch_tokens):
            rows = [order[i] for i in run]
            responses = [rollouts[b].response_ids for b in rows]
            contexts: dict[tuple[int, ...], int] = {}
            context_of = [contexts.setdefault(rollouts[b].prompt_ids, len(contexts)) for b in rows]
            logps_BT, mask_BT = response_logps(
                self.policy, list(contexts), responses, context_of,
                self.settings.sampling.temperature,
            )  # fmt: skip
            old_BT = stacked([rollouts[b].logprobs for b in rows], device)
            advantages_BT = credit.advantages_BT[rows, : mask_BT.shape[1]]
            loss, clipped = clipped_surrogate(
                logps_BT, old_BT, advantages_BT, mask_BT, train.clip_low, train.clip_high
            )
            if self.reference is not None:
                with torch.no_grad():
                    reference_BT, _ = response_logps(
                        self.reference, list(contexts), responses, context_of,
                        self.settings.sampling.temperature,
                    )  # fmt: skip
                kl = kl_to_reference(logps_BT, reference_BT, mask_BT)
                loss = loss + train.kl * kl
                kl_sum += float(kl.detach())
            self.accelerator.backward(loss / tokens)
            loss_sum += float(loss.detach())
            clipped_sum += float(clipped)
            surprisal_sum -= _sum(logps_BT.detach(), mask_BT)
        metrics = {
            "policy/loss": loss_sum / tokens,
            "policy/clip_share": clipped_sum / tokens,
            # The mean of −log π over sampled tokens estimates the policy's entropy.
            "policy/entropy": surprisal_sum / tokens,
        }
        return metrics | ({"policy/kl": kl_sum / tokens} if self.reference is not None else {})

    def evaluate(self) -> dict[str, float]:
        """Scores on the valid split; the best policy so far is kept."""
        scores = greedy_and_sampled(
            self.policy, self.task, self.valid_prompts, self.settings
        ).metrics
        self.evaluations.append({"step": self.step, **scores})
        metric, sign = self.settings.train.best_metric, 1.0
        if self.settings.train.best_mode == "min":
            sign = -1.0
        if self.best is None or sign * scores[metric] > sign * self.best[metric]:
            self.policy.save(self.state / f"best-{self.step:06d}")
            self.best = {"step": self.step, metric: scores[metric]}
        return scores

    def save(self) -> None:
        checkpoint.save(
            self.state, self.step, self.policy.model, self.optimizer,
            {"step": self.step, "bad_steps": self.bad_steps, "history": self.history,
             "evaluations": self.evaluations, "best": self.best},
        )  # fmt: skip
        # `.best-…` is what a process that was killed left half-written.
        for folder in (*self.state.glob("best-*"), *self.state.glob(".best-*")):
            if self.best is None or folder != self.best_folder:
                shutil.rmtree(folder)

    def resume(self) -> bool:
        """Continue from the last whole checkpoint, if there is one."""
        found = checkpoint.completed(self.state)
        if not found:
            return False
        saved = checkpoint.restore(found[-1], self.policy.model, self.optimizer)
        self.step, self.bad_steps = saved["step"], saved["bad_steps"]
        self.history, self.evaluations = saved["history"], saved["evaluations"]
        self.best = saved["best"]
        return True

    @property
    def best_folder(self) -> Path:
        if self.best is None:
            raise RuntimeError("no evaluation has been made yet")
        return self.state / f"best-{int(self.best['step']):06d}"

    def run(self, log: RunLog | NoLog) -> None:
        """Train to the end, from wherever `resume` left the state."""
        train = self.settings.train
        with Progress("train", train.steps, start=self.step) as progress:
            if not self.evaluations:
                scores = self.evaluate()
                log.step(0, {f"valid/{name}": value for name, value in scores.items()})
                log.flush()
                self.save()
            while self.step < train.steps:
                metrics, seconds = self.one_step()
                self.step += 1
                self.history.append({"step": self.step, **metrics})
                logged = metrics | {f"time/{name}": value for name, value in seconds.items()}
                if self.step % train.evaluate_every == 0 or self.step == train.steps:
                    scores = self.evaluate()
                    logged |= {f"valid/{name}": value for name, value in scores.items()}
                log.step(self.step, logged)
                if self.step % train.checkpoint_every == 0 or self.step == train.steps:
                    log.flush()
                    self.save()
                progress.update(self.step, metrics, seconds, show=_shown(metrics, seconds))


class Clock:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now


def check_lengths(policy: Policy, prompts: Sequence[Prompt], room: int) -> None:
    """Raise ValueError, before any work, where a prompt leaves no room for `room` new tokens."""
    for prompt in prompts:
        length = len(policy.prompt_ids(prompt.messages))
        if length + room > policy.max_positions:
            raise ValueError(
                f"prompt {prompt.id} ({prompt.split}): {length} tokens and sampling.max_new_tokens "
                f"{room} exceed the model's {policy.max_positions} positions; lower "
                "sampling.max_new_tokens or data.max_prompt_chars"
            )


def _sum(values_BT: Tensor, mask_BT: Tensor) -> float:
    return float((values_BT * mask_BT).sum())


def _shown(metrics: dict[str, float], seconds: dict[str, float]) -> dict[str, float]:
    rewards = {
        name.split("/")[1]: value
        for name, value in metrics.items()
        if name.startswith("reward/") and name.endswith("/mean")
    }
    return rewards | {"s": sum(seconds.values())}


def write_best(trainer: Trainer, target: Path, about: dict[str, Any]) -> None:
    """Publish the best policy as `target`, with `training.json` saying where it comes from."""
    temporary = target.with_name(f".{target.name}.new")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(trainer.best_folder, temporary)
    (temporary / "training.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")
    shutil.rmtree(target, ignore_errors=True)
    temporary.replace(target)
