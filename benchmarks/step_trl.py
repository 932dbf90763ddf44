"""TRL's `GRPOTrainer` as a contender, in the fastest set-up found for a CPU.

Chosen: all rows in one micro-batch and none accumulated, no gradient checkpointing, no reference
(`beta` 0), float32, plain-text prompts (no chat template to render), no logging, saving or
progress bar, no check of the loss for NaN, PyTorch's fused AdamW (TRL's own choice), attention by
`scaled_dot_product_attention`, and `loss_type` "dapo" (mean over all tokens, as ours). The entropy
is computed with every loss: TRL has no switch for it. A static cache and continuous batching are
options of `--trl-option`.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.fixture import (
    BETAS,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    as_text,
    make_prompts,
    new_tokenizer,
    reward_value,
)

AGGREGATION = {"trl_grpo": "sum_then_normalize", "trl_gdpo": "normalize_then_sum"}
REWARDS = 3
PROMPTS = 64


class TimedGRPO(GRPOTrainer):
    """`GRPOTrainer` that notes the seconds of its phases and the lengths of what it sampled."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.seconds: dict[str, float] = {}
        self.lengths: set[tuple[int, int]] = set()
        self.rows = 0

    def _generate_single_turn(self, prompt_ids: Any, *given: Any, **named: Any) -> Any:
        made = self._timed("generate", super()._generate_single_turn, prompt_ids, *given, **named)
        self.lengths = {(len(p), len(c)) for p, c in zip(prompt_ids, made[0], strict=True)}
        self.rows = len(made[0])
        return made

    def _calculate_rewards(self, *given: Any, **named: Any) -> Any:
        return self._timed("verify", super()._calculate_rewards, *given, **named)

    def compute_loss(self, *given: Any, **named: Any) -> Any:
        return self._timed("forward", super().compute_loss, *given, **named)

    def _timed(self, name: str, function: Any, *given: Any, **named: Any) -> Any:
        start = time.perf_counter()
        result = function(*given, **named)
        self.seconds[name] = time.perf_counter() - start
        return result


class Pacer(TrainerCallback):
    """Holds the training loop at the end of every step until the parent asks for the next."""

    def __init__(self, spec: dict[str, Any], channel: Any) -> None:
        self.spec, self.channel = spec, channel
        self.trainer: Any = None
        self.wall = self.cpu = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.channel.ready(trainer="GRPOTrainer")
        self._wait(control)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        expected = {(self.spec["tokens"], self.spec["response"])}
        if self.trainer.lengths != expected:
            raise ValueError(f"(prompt, response) lengths {self.trainer.lengths}, not {expected}")
        seconds = dict(self.trainer.seconds)
        # Loss, backward pass, optimiser and whatever else the loop does.
        seconds["update"] = wall - seconds["generate"] - seconds["verify"]
        self.channel.step(wall, cpu, seconds, self.trainer.rows)
        self._wait(control)

    def _wait(self, control: Any) -> None:
        control.should_training_stop = not self.channel.asked()
        self.wall, self.cpu = time.perf_counter(), time.process_time()


def reward_function(k: int) -> Any:
    def value(completions: list[str], **rest: Any) -> list[float]:
        return [reward_value(k, text) for text in completions]

    value.__name__ = f"r{k}"
    return value


def config_of(spec: dict[str, Any], aggregation: str, output: str, **changes: Any) -> GRPOConfig:
    rows = spec["group"] * spec["prompts"]
    values: dict[str, Any] = dict(
        output_dir=output, use_cpu=True, bf16=False, seed=0, max_steps=1_000_000,
        per_device_train_batch_size=rows, gradient_accumulation_steps=1, steps_per_generation=1,
        num_iterations=1, num_generations=spec["group"], max_completion_length=spec["response"],
        temperature=1.0, beta=0.0, loss_type="dapo", multi_objective_aggregation=aggregation,
        learning_rate=LEARNING_RATE, lr_scheduler_type="constant", warmup_steps=0,
        adam_beta1=BETAS[0], adam_beta2=BETAS[1], weight_decay=0.0, max_grad_norm=MAX_GRAD_NORM,
        gradient_checkpointing=False, logging_strategy="no", logging_nan_inf_filter=False,
        save_strategy="no", eval_strategy="no", report_to=[], disable_tqdm=True,
        dataloader_pin_memory=False, log_completions=False,
    )  # fmt: skip
    return GRPOConfig(**(values | changes))


def serve_trl(spec: dict[str, Any], channel: Any) -> None:
    prompts = make_prompts(PROMPTS, spec["tokens"], REWARDS, "append")
    options = dict(spec.get("trl_options") or {})
    attention = options.pop("attn_implementation", "sdpa")
    model = AutoModelForCausalLM.from_pretrained(
        spec["folder"], dtype=torch.float32, attn_implementation=attention
    )
    with tempfile.TemporaryDirectory() as output:
        pacer = Pacer(spec, channel)
        pacer.trainer = TimedGRPO(
            model=model,
            reward_funcs=[reward_function(k) for k in range(REWARDS)],
            args=config_of(spec, AGGREGATION[spec["contender"]], output, **options),
            train_dataset=Dataset.from_list([{"prompt": as_text(p)} for p in prompts]),
            processing_class=new_tokenizer(),
            callbacks=[pacer],
        )
        pacer.trainer.train()
