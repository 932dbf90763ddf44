"""The RL loop. One step reads: prompts → rollouts → rewards → replay → token advantages → update.

A step is a function of the settings, the weights and the step's number alone, so a resumed run
gives the same numbers as one that was never stopped. State is saved by `checkpoint`; the best
policy is the one with the best `train.best_metric` on the valid split.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import math
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mrtpo import checkpoint
from mrtpo.advantages import informative_groups
from mrtpo.config import Settings
from mrtpo.credit import (
    Credit,
    assign,
    check_names,
    mix_at,
    replay_metrics,
    reward_metrics,
    reward_names,
    reward_table,
)
from mrtpo.evaluation import greedy_and_sampled, verified
from mrtpo.gain import Gain, gain_metrics, information_gain
from mrtpo.generate import generate
from mrtpo.logprobs import budgeted, response_logps, row_size, stacked
from mrtpo.loss import LOSSES, kl_to_reference, row_scale
from mrtpo.methods import objective, refill_rounds, replays, trusts
from mrtpo.parallel import Ranks
from mrtpo.placement import Replayer
from mrtpo.policy import Policy, recomputing
from mrtpo.progress import NoProgress, Progress
from mrtpo.records import Prompt, Rollout
from mrtpo.replay import Distance, null_replay
from mrtpo.tasks import Task
from mrtpo.tracking import NoLog, RunLog

NULL_ROWS = 8  # responses in a null replay
log = logging.getLogger(__name__)


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
        self.best_metric = settings.train.best_metric or task.best_metric
        if self.best_metric not in known:
            raise ValueError(
                f"train.best_metric: {self.best_metric!r}; accepted: {', '.join(known)}"
            )
        check_names(reward_names(task.reward_names, settings), settings)
        self.ranks = Ranks()
        least = max(settings.train.prompts_per_step, self.ranks.count)
        if least > len(train):
            raise ValueError(
                f"train.prompts_per_step: {settings.train.prompts_per_step} exceeds the "
                f"{len(train)} prompts of the train split"
            )
        if self.ranks.count > settings.train.prompts_per_step:
            raise ValueError(
                f"train.prompts_per_step: {settings.train.prompts_per_step} prompts are too few "
                f"for {self.ranks.count} processes"
            )
        check_lengths(policy, (*train, *valid), settings.sampling.max_new_tokens)
        self.settings, self.policy, self.task, self.state = settings, policy, task, state
        self.train_prompts = list(train)
        self.valid_prompts = list(valid)
        self.reference = reference
        # Who replays; a method that does not has nothing but the policy itself.
        self.who = settings.replay.policy if replays(settings) else "current"
        if self.who == "start" and reference is None:
            raise ValueError("replay.policy: start needs the starting policy as reference")
        self.averaged = copy.deepcopy(policy.model) if self.who == "ema" else None
        self.objective = objective(settings)
        self.optimizer: Any = torch.optim.AdamW(
            policy.model.parameters(),
            lr=settings.train.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.train.weight_decay,
            fused=True,
        )
        # Half precision underflows without it; it does nothing elsewhere.
        self.scaler = torch.amp.GradScaler(
            policy.device.type, init_scale=2.0**12, enabled=policy.compute == torch.float16
        )
        self.step = 0
        self.bad_steps = 0
        self.history: list[dict[str, float]] = []
        self.evaluations: list[dict[str, float]] = []
        self.best: dict[str, float] | None = None
        self.gains: dict[str, Gain] = {}
        self.gains_at: int | None = None
        self.null: dict[str, float] = {}

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

    def answered(self, prompts: Sequence[Prompt], clock: Clock) -> list[Rollout]:
        """Verified groups of rollouts, in the order of the prompts; of all processes, in each."""
        mine = prompts[self.ranks.share(len(prompts))]
        rollouts = self.rollouts(mine, self.step) if mine else []
        clock.lap("generate")
        if mine:
            asked = [prompt for prompt in mine for _ in range(self.settings.sampling.group_size)]
            rollouts = verified(self.task, asked, rollouts)
        rollouts = self.ranks.gather(rollouts)
        clock.lap("verify")
        return rollouts

    def sampled_batch(self, clock: Clock) -> tuple[list[Rollout], float]:
        """The rollouts of this step, and how many groups were sampled to get them.

        With `train.refill`, groups in which every reward is constant make room for other prompts,
        drawn by seed and step. Those of the last round, and those for which no other prompt is
        left, stay and have no advantage.
        """
        prompts = self.batch(self.step)
        rollouts = self.answered(prompts, clock)
        sampled = len(prompts)
        spare = [p for p in self.train_prompts if p not in prompts]
        random.Random(f"refill {self.settings.seed} {self.step}").shuffle(spare)
        for _ in range(refill_rounds(self.settings)):
            table = reward_table(
                rollouts, self.task.reward_names, self.settings, self.policy.device
            )
            informs = informative_groups(
                table.rewards_BK, table.present_BK, table.group_B, table.weight_K
            )
            dull = (~informs).nonzero().flatten().tolist()
            fresh, spare = spare[: len(dull)], spare[len(dull) :]
            if not fresh:
                break
            replaced = set(dull[: len(fresh)])
            groups = table.group_B.tolist()
            kept = [r for r, g in zip(rollouts, groups, strict=True) if g not in replaced]
            rollouts = kept + self.answered(fresh, clock)
            sampled += len(fresh)
        return rollouts, float(sampled)

    @property
    def replayer(self) -> Replayer:
        """Who replays (`replay.policy`), and which rewards the last check does not trust."""
        untrusted = frozenset(name for name, gain in self.gains.items() if not gain.trusted)
        if self.who == "start" and self.reference is not None:
            return Replayer(self.reference, stored=False, untrusted=untrusted)
        if self.who == "ema":
            averaged = dataclasses.replace(self.policy, model=self.averaged)
            return Replayer(averaged, stored=False, untrusted=untrusted)
        return Replayer(self.policy, untrusted=untrusted)

    def one_step(self) -> tuple[dict[str, float], dict[str, float]]:
        """One policy update. Returns metrics and seconds for each phase."""
        clock = Clock()
        rollouts, sampled = self.sampled_batch(clock)
        metrics = self.null_check(rollouts)
        asked = {prompt.id: prompt for prompt in self.train_prompts}
        groups = self.ranks.share(len(rollouts) // self.settings.sampling.group_size)
        size = self.settings.sampling.group_size
        credit = assign(
            self.replayer, [asked[r.prompt_id] for r in rollouts], rollouts,
            self.task.reward_names, self.settings, mix_at(self.settings, self.step),
            step=self.step, rows=slice(groups.start * size, groups.stop * size),
            spans=self.task.spans,
        )  # fmt: skip
        clock.lap("replay")
        metrics |= reward_metrics(rollouts, credit.table)
        metrics |= replay_metrics(credit, self.ranks.gather)
        metrics |= self.update(rollouts, credit)
        clock.lap("update")
        lengths = [len(rollout.response_ids) for rollout in rollouts]
        metrics["response/length"] = sum(lengths) / len(lengths)
        metrics["response/truncated"] = sum(not r.finished for r in rollouts) / len(rollouts)
        if refill_rounds(self.settings):
            metrics["groups/sampled"] = sampled
        return metrics, clock.seconds

    def null_check(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Once a run: what batch shapes alone do to the replay distance, in its unit."""
        if self.null or not replays(self.settings):
            return {}
        own = self.settings.replay
        found = null_replay(
            self.policy, rollouts[:NULL_ROWS], Distance(own.distance, own.top_k),
            temperature=self.settings.sampling.temperature,
        )  # fmt: skip
        self.null = {"replay/null/max": float(found.max()), "replay/null/mean": float(found.mean())}
        if own.floor < self.null["replay/null/max"] and self.ranks.main:
            log.warning(
                "replay.floor %g is below what batch shapes alone make of the distance (up to "
                "%.2g): rounding gets credit; raise it, or use model.dtype: float32",
                own.floor, self.null["replay/null/max"],
            )  # fmt: skip
        return dict(self.null)

    def gain_check(self) -> dict[str, float]:
        """Whether the policy does better when told; rewards where it does not are not replayed."""
        every = self.settings.replay.gain_every
        due = every and self.step % every == 0 and self.gains_at != self.step
        if not due or not trusts(self.settings):
            return {}
        prompts = self.valid_prompts[: self.settings.replay.gain_prompts]
        self.gains = self.ranks.same(
            information_gain(
                self.replayer.policy,
                self.task,
                prompts,
                self.settings,
                step=self.step,
                samples=self.settings.replay.gain_samples,
            )
        )
        self.gains_at = self.step
        untrusted: dict[str, list[str]] = {}
        for name, gain in self.gains.items():
            if not gain.trusted:
                untrusted.setdefault(gain.reason, []).append(name)
        for reason, names in untrusted.items():
            if self.ranks.main:
                whose = f"reward{'s' * (len(names) > 1)} {', '.join(names)}"
                log.warning("step %d: even weights for %s: %s", self.step, whose, reason)
        return gain_metrics(self.gains)

    def update(self, rollouts: Sequence[Rollout], credit: Credit) -> dict[str, float]:
        """`train.epochs` optimiser steps on one batch; a non-finite one is skipped and counted."""
        train = self.settings.train
        totals: dict[str, float] = {}
        skipped = 0
        for _ in range(train.epochs):
            sums = self._gradients(rollouts, credit)
            self.ranks.sum_gradients(self.policy.model.parameters())
            self.scaler.unscale_(self.optimizer)
            norm = float(
                torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), train.max_grad_norm)
            )
            finite = math.isfinite(norm) and math.isfinite(sums["policy/loss"])
            if finite:
                for group in self.optimizer.param_groups:
                    group["lr"] = train.learning_rate * min(
                        1.0, (self.step + 1) / max(1, train.warmup_steps)
                    )
                self.scaler.step(self.optimizer)
                self._average()
            self.scaler.update()
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
        absolute_BT = credit.advantages_BT.abs()
        figures = self.ranks.gather([(float(absolute_BT.sum()), float(absolute_BT.max()))])
        tokens = sum(len(rollout.response_ids) for rollout in rollouts)
        totals["advantage/mean_abs"] = sum(total for total, _ in figures) / tokens
        totals["advantage/max_abs"] = max(most for _, most in figures)
        totals["advantage/zero_share"] = float((credit.credit_BK == 0).all(1).float().mean())
        return totals

    @torch.no_grad()
    def _average(self) -> None:
        """The exponential average of the weights takes in the new ones."""
        if self.averaged is None:
            return
        fresh = 1.0 - self.settings.replay.ema
        for old, new in zip(
            self.averaged.parameters(), self.policy.model.parameters(), strict=True
        ):
            old.lerp_(new, fresh)

    def _gradients(self, rollouts: Sequence[Rollout], credit: Credit) -> dict[str, float]:
        """Accumulate this process's part of the gradient, micro-batch by micro-batch."""
        train, device, temperature = (
            self.settings.train, self.policy.device, self.settings.sampling.temperature,
        )  # fmt: skip
        learner = self.policy
        if train.gradient_checkpointing:
            learner = dataclasses.replace(learner, shares=False)
        lengths_B = torch.tensor([len(r.response_ids) for r in rollouts], device=device)
        tokens = int(lengths_B.sum())
        scale_B = row_scale(
            lengths_B, self.objective.average, self.settings.sampling.max_new_tokens
        )[credit.rows]
        mine = rollouts[credit.rows]
        sums = {"loss": 0.0, "clipped": 0.0, "kl": 0.0, "surprisal": 0.0}
        # Longest first: rows of like length share a micro-batch, and memory peaks at once.
        order = sorted(
            range(len(mine)), key=lambda b: (-len(mine[b].prompt_ids), mine[b].prompt_id, b)
        )
        sizes = [
            row_size(learner, len(mine[b].prompt_ids), len(mine[b].response_ids)) for b in order
        ]
        for run in budgeted(sizes, train.micro_batch_tokens):
            rows = [order[i] for i in run]
            responses = [mine[b].response_ids for b in rows]
            contexts: dict[tuple[int, ...], int] = {}
            context_of = [contexts.setdefault(mine[b].prompt_ids, len(contexts)) for b in rows]
            batch = (list(contexts), responses, context_of, temperature)
            with recomputing(learner.model, train.gradient_checkpointing):
                logps_BT, mask_BT = response_logps(learner, *batch)
                old_BT = stacked([mine[b].logprobs for b in rows], device)
                loss_BT, decided_BT = LOSSES[self.objective.loss](
                    logps_BT, old_BT, credit.advantages_BT[rows, : mask_BT.shape[1]], mask_BT,
                    self.objective.clip_low, self.objective.clip_high,
                )  # fmt: skip
                if self.reference is not None and train.kl > 0:
                    with torch.no_grad():
                        reference_BT, _ = response_logps(self.reference, *batch)
                    kl_BT = kl_to_reference(logps_BT, reference_BT, mask_BT)
                    loss_BT = loss_BT + train.kl * kl_BT
                    sums["kl"] += float(kl_BT.detach().sum())
                loss = (loss_BT.sum(1) * scale_B[rows].to(loss_BT.dtype)).sum()
                self.scaler.scale(loss).backward()
            sums["loss"] += float(loss.detach())
            sums["clipped"] += float(decided_BT.sum())
            sums["surprisal"] -= float((logps_BT.detach() * mask_BT).sum())
        everyone = self.ranks.gather([sums])
        sums = {name: sum(one[name] for one in everyone) for name in sums}
        metrics = {
            "policy/loss": sums["loss"],
            "policy/clip_share": sums["clipped"] / tokens,
            # The mean of −log π over sampled tokens estimates the policy's entropy.
            "policy/entropy": sums["surprisal"] / tokens,
        }
        return metrics | ({"policy/kl": sums["kl"] / tokens} if train.kl > 0 else {})

    def evaluate(self) -> dict[str, float]:
        """Scores on the valid split; the best policy so far is kept."""
        prompts = self.valid_prompts[: self.settings.train.evaluate_prompts]
        scores = greedy_and_sampled(
            self.policy, self.task, prompts[self.ranks.share(len(prompts))], self.settings,
            gather=self.ranks.gather,
        ).metrics  # fmt: skip
        self.evaluations.append({"step": self.step, **scores})
        metric, sign = self.best_metric, 1.0
        if self.settings.train.best_mode == "min":
            sign = -1.0
        if self.best is None or sign * scores[metric] > sign * self.best[metric]:
            if self.ranks.main:
                self.policy.save(self.state / f"best-{self.step:06d}")
            self.best = {"step": self.step, metric: scores[metric]}
        return scores

    def save(self) -> None:
        gains = {name: dataclasses.asdict(gain) for name, gain in self.gains.items()}
        if self.ranks.main:
            checkpoint.save(
                self.state, self.step, self.policy.model, self.optimizer,
                {"step": self.step, "bad_steps": self.bad_steps, "history": self.history,
                 "evaluations": self.evaluations, "best": self.best, "gains": gains,
                 "gains_at": self.gains_at, "null": self.null,
                 "scaler": self.scaler.state_dict()},
                self.averaged,
            )  # fmt: skip
            # `.best-…` is what a process that was killed left half-written.
            for folder in (*self.state.glob("best-*"), *self.state.glob(".best-*")):
                if self.best is None or folder != self.best_folder:
                    shutil.rmtree(folder)
        self.ranks.wait()

    def resume(self) -> bool:
        """Continue from the last whole checkpoint, if there is one."""
        found = checkpoint.completed(self.state)
        if not found:
            return False
        saved = checkpoint.restore(found[-1], self.policy.model, self.optimizer, self.averaged)
        self.step, self.bad_steps = saved["step"], saved["bad_steps"]
        self.history, self.evaluations = saved["history"], saved["evaluations"]
        self.best, self.null = saved["best"], saved["null"]
        self.gains = {name: Gain(**gain) for name, gain in saved["gains"].items()}
        self.gains_at = saved["gains_at"]
        if saved["scaler"]:
            self.scaler.load_state_dict(saved["scaler"])
        return True

    @property
    def best_folder(self) -> Path:
        if self.best is None:
            raise RuntimeError("no evaluation has been made yet")
        return self.state / f"best-{int(self.best['step']):06d}"

    def run(self, runlog: RunLog | NoLog) -> None:
        """Train to the end, from wherever `resume` left the state."""
        train = self.settings.train
        watched = Progress if self.ranks.main else NoProgress
        with watched("train", train.steps, start=self.step) as progress:
            if not self.evaluations:
                scores = self.evaluate()
                runlog.step(0, {f"valid/{name}": value for name, value in scores.items()})
                runlog.flush()
                self.save()
            while self.step < train.steps:
                clock = Clock()
                gains = self.gain_check()
                if gains:
                    clock.lap("gain")
                metrics, seconds = self.one_step()
                metrics, seconds = gains | metrics, clock.seconds | seconds
                self.step += 1
                self.history.append({"step": self.step, **metrics})
                logged = metrics | {f"time/{name}": value for name, value in seconds.items()}
                if self.step % train.evaluate_every == 0 or self.step == train.steps:
                    scores = self.evaluate()
                    logged |= {f"valid/{name}": value for name, value in scores.items()}
                runlog.step(self.step, logged)
                if self.step % train.checkpoint_every == 0 or self.step == train.steps:
                    runlog.flush()
                    self.save()
                progress.update(self.step, metrics, seconds, show=_shown(metrics, seconds))


class Clock:
    """Seconds between laps, summed by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
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


def _shown(metrics: dict[str, float], seconds: dict[str, float]) -> dict[str, float]:
    rewards = {
        name.split("/")[1]: value
        for name, value in metrics.items()
        if name.startswith("reward/") and name.endswith("/mean") and not math.isnan(value)
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
