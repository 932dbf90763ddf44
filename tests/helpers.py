"""Tiny policies and a task without databases, shared by the tests of the RL core."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    Gemma3TextConfig,
    GPT2Config,
    Lfm2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    OPTConfig,
    Qwen2Config,
    Qwen3Config,
)

from mrtpo.config import Model, Settings, settings_from
from mrtpo.credit import Credit
from mrtpo.loading import new_policy, new_tokenizer
from mrtpo.policy import Policy
from mrtpo.records import Information, Message, Prompt, Reward, Rollout
from mrtpo.tasks import Part, Prepared, Verdict
from mrtpo.tracking import NoLog
from mrtpo.trainer import Trainer

torch.set_num_threads(1)

# Rows share their contexts; grouped heads, learned positions, and ALiBi, which reads the mask.
KINDS = ("llama", "qwen2", "qwen3", "gpt2", "opt", "falcon")
# They cannot: sliding windows, no position ids, states.
WHOLE = ("gemma3", "mistral", "bloom", "lfm2", "mamba")


class Numbers:
    """A tokenizer's place: the text of an id is its number."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return " ".join(str(i) for i in ids)


def number_policy(
    kind: str = "llama", *, vocab: int = 13, ends: Sequence[int] = (0,), positions: int = 64,
    seed: int = 0, std: float = 0.5, **changes: Any,
) -> Policy:  # fmt: skip
    """A random decoder over `vocab` bare ids whose distributions are far from uniform.

    `changes` are laid over its configuration.
    """
    shape = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4)
    common = dict(vocab_size=vocab, pad_token_id=0, bos_token_id=None, eos_token_id=ends[0])
    common |= dict(max_position_embeddings=positions)
    grouped = dict(shape, intermediate_size=24, num_key_value_heads=2)
    layers = ["sliding_attention", "full_attention"]
    make, fields = {
        "llama": (LlamaConfig, grouped),
        "qwen2": (Qwen2Config, grouped),
        "qwen3": (Qwen3Config, grouped | dict(head_dim=4)),
        "gpt2": (GPT2Config, shape),
        "opt": (OPTConfig, shape | dict(ffn_dim=24, word_embed_proj_dim=16)),
        "falcon": (FalconConfig, shape | dict(alibi=True, bias=True)),
        "gemma3": (Gemma3TextConfig, grouped | dict(
            head_dim=4, sliding_window=4, layer_types=layers)),
        "mistral": (MistralConfig, grouped | dict(head_dim=4, sliding_window=4)),
        "bloom": (BloomConfig, dict(hidden_size=16, n_layer=2, n_head=4)),
        "lfm2": (Lfm2Config, grouped | dict(layer_types=["conv", "full_attention"])),
        "mamba": (MambaConfig, dict(hidden_size=16, num_hidden_layers=2, state_size=4)),
    }[kind]  # fmt: skip
    config: Any = make(**(common | fields | changes))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config).float().eval()
        spread(model, std)
    return Policy(model, Numbers(), frozenset(ends), 0, positions, shares=kind in KINDS)


def spread(model: Any, std: float) -> None:
    """Redraw all matrices with a larger spread, so that contexts matter from the start."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=std)


def text_policy(seed: int = 0, *, positions: int = 256, std: float | None = 0.3) -> Policy:
    """A one-layer decoder with a real tokenizer and chat template."""
    tokenizer = new_tokenizer(["Answer with letters. Be plain. "] * 4, 300, ())
    policy = new_policy(tokenizer, Model(hidden_size=16, layers=1, heads=2), positions, seed)
    if std is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            spread(policy.model, std)
    return policy


def prompt(number: int = 0, undecided: str = "", **changes: Any) -> Prompt:
    """A prompt of `Letters`; `undecided` names a reward whose verifier times out."""
    information = (
        Information("letter", "rule", "prompt", "Answer with letters."),
        Information("plain", "rule", "append", f"Plain means plain {number}."),
        Information("plain", "verdict", "append", "The judge says: {detail}"),
    )
    fields: dict[str, Any] = dict(
        id=f"p{number}", split="train", kind="odd" if number % 2 else "even", difficulty="easy",
        source="made up", information=information, reference="abc",
        messages=(
            Message("system", "\nAnswer with letters.\nBe brief.\n"),
            Message("user", f"Question {number}{'?' * (1 + number % 3)}"),
        ),
        payload=json.dumps({"question": f"Question {number}", "undecided": undecided}),
    )  # fmt: skip
    return Prompt(**(fields | changes))


class Letters:
    """`letter`: a letter among the first four characters (0/1); `plain`: share of ASCII."""

    name = "letters"
    reward_names: tuple[str, ...] = ("letter", "plain")
    metric_names: tuple[str, ...] = ("short",)
    words: tuple[str, ...] = ()
    copying = 0
    noise = MappingProxyType({"letter": 0.5})
    best_metric = "plain"

    def prepare(self) -> Prepared:
        raise NotImplementedError

    def verify(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[Verdict]:
        return [self._verdict(p, r) for p, r in zip(prompts, responses, strict=True)]

    def _verdict(self, prompt: Prompt, response: str) -> Verdict:
        undecided = json.loads(prompt.payload)["undecided"]
        values = {
            "letter": float(any(c.isascii() and c.isalpha() for c in response[:4])),
            "plain": sum(c.isascii() for c in response) / max(1, len(response)),
        }
        rewards = tuple(
            Reward(name, None, "timeout", "took too long")
            if name == undecided
            else Reward(name, value, "ok", f"{name} was {value:.2f}")
            for name, value in values.items()
        )
        return Verdict(rewards, (Reward("short", float(len(response) < 6), "ok"),))

    def demonstration(
        self, prompt: Prompt, told: frozenset[str], noise: dict[str, float], rng: random.Random
    ) -> str:
        return "abc" if "letter" in told or rng.random() > noise.get("letter", 0.0) else "123"

    def parts(self, prompt: Prompt, response: str) -> list[Part]:
        return [Part("head", 0, min(4, len(response)))]

    def spans(
        self, prompt: Prompt, response: str, praised: Collection[str] = ()
    ) -> dict[str, list[tuple[int, int]]]:
        beyond = [(i, i + 1) for i, c in enumerate(response) if not c.isascii()]
        return {"letter": [(0, min(4, len(response)))], "plain": beyond}

    def answer(self, response: str) -> str:
        return response

    def close(self) -> None:
        pass


class Dull(Letters):
    """Every reward is 1 for prompts of even number; others are judged as `Letters` does."""

    def _verdict(self, prompt: Prompt, response: str) -> Verdict:
        made = super()._verdict(prompt, response)
        if int(prompt.id[1:]) % 2:
            return made
        return Verdict(tuple(Reward(r.name, 1.0, "ok") for r in made.rewards), made.metrics)


def tiny_settings(values: dict[str, Any] | None = None) -> Settings:
    """Settings for seconds of work; `values` are laid over them section by section.

    Replay in its plainest form: log-ratios, scaled in a response to a mean of 1, leave-one-out.
    """
    merged: dict[str, Any] = {
        "seed": 3,
        "sampling": {"group_size": 4, "max_new_tokens": 6},
        "train": {"steps": 4, "prompts_per_step": 2, "learning_rate": 0.01, "warmup_steps": 2,
                  "evaluate_every": 2, "evaluate_prompts": 3, "checkpoint_every": 2,
                  "best_metric": "plain"},
        "replay": {"distance": "directional_logprob", "normalise": "mean", "scale": "response",
                   "contexts": "leave_one_out", "mix_start": 0.5, "mix_end": 0.0},
        "evaluate": {"batch_size": 2},
    }  # fmt: skip
    for section, entries in (values or {}).items():
        old = merged.get(section)
        merged[section] = {**old, **entries} if isinstance(old, dict) else entries
    return settings_from(merged)


def trainer(
    state: Path, values: dict[str, Any] | None = None, *, task: Any = None, prompts: int = 5,
    policy: Policy | None = None, reference: Policy | None = None,
) -> Trainer:  # fmt: skip
    """A trainer on `Letters` with a fresh tiny policy; equal arguments give equal trainers."""
    train = [prompt(n) for n in range(prompts)]
    valid = [prompt(n, split="valid") for n in range(100, 104)]
    return Trainer(
        tiny_settings(values), policy or text_policy(), task or Letters(), train, valid, state,
        reference,
    )  # fmt: skip


def rollout(
    ids: Sequence[int], rewards: dict[str, float | None] | Sequence[Reward] = (), *,
    prompt_id: str = "p0", sample: int = 0, prompt_ids: Sequence[int] = (1, 2),
) -> Rollout:  # fmt: skip
    """A made-up rollout; rewards by value are `ok`, or `timeout` where the value is None."""
    if isinstance(rewards, dict):
        rewards = [
            Reward(name, value, "timeout" if value is None else "ok")
            for name, value in rewards.items()
        ]
    return Rollout(
        prompt_id, sample, tuple(prompt_ids), tuple(ids), (0.0,) * len(ids), "text", True,
        tuple(rewards),
    )  # fmt: skip


def mask_of(lengths: Sequence[int]) -> Tensor:
    """`mask_BT` of right-padded rows, as numbers."""
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).to(torch.float64)


def weights_equal(one: Policy, other: Policy) -> bool:
    """Whether two policies have the same weights to the bit."""
    return states_equal(one.model, other.model)


def states_equal(one: Any, other: Any) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Log(NoLog):
    """Remembers what was logged, by step."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.metrics: list[dict[str, float]] = []
        self.finals: dict[str, Any] = {}

    def finish_metrics(self, metrics: Any, prefix: str = "final") -> None:
        self.finals[prefix] = dict(metrics)

    def step(self, step: int, metrics: Any) -> None:
        self.steps.append(step)
        self.metrics.append(dict(metrics))


def assert_same(one: Trainer, other: Trainer) -> None:
    """Two trainings are the same to the bit, in weights, optimiser and all that was measured."""
    assert one.step == other.step
    assert one.history == other.history
    assert one.evaluations == other.evaluations
    assert one.best == other.best
    assert (one.gains, one.gains_at, one.null) == (other.gains, other.gains_at, other.null)
    assert one.scaler.state_dict() == other.scaler.state_dict()
    if one.averaged is not None or other.averaged is not None:
        assert states_equal(one.averaged, other.averaged)
    assert weights_equal(one.policy, other.policy)
    a, b = one.optimizer.state_dict()["state"], other.optimizer.state_dict()["state"]
    for key in a:
        assert all(torch.equal(a[key][name], b[key][name]) for name in ("exp_avg", "exp_avg_sq"))
    assert one.best_folder.is_dir() and other.best_folder.name == one.best_folder.name


def kill(made: Trainer, where: str, at_step: int) -> None:
    """Run until `where` is reached in the step after `at_step`, and stop there as a kill would."""
    target = made.task if where == "verify" else made
    if where == "checkpoint":
        target, where = made, "save"
    inner = getattr(target, where)

    def dying(*args: Any, **kwargs: Any) -> Any:
        if made.step >= at_step:
            raise KeyboardInterrupt
        return inner(*args, **kwargs)

    setattr(target, where, dying)
    made.run(NoLog())


def poison(made: Trainer, steps: set[int], passes: set[int] | None = None) -> None:
    """Make the gradient NaN in the given steps, in all passes over the batch or in those named."""
    inner = made._gradients
    done: Counter[int] = Counter()

    def gradients(rollouts: Any, credit: Any) -> dict[str, float]:
        sums = inner(rollouts, credit)
        now = done[made.step]
        done[made.step] += 1
        if made.step in steps and (passes is None or now in passes):
            next(iter(made.policy.model.parameters())).grad[0, 0] = math.nan
        return sums

    made._gradients = gradients  # type: ignore[method-assign]


def watched(made: Trainer) -> list[tuple[list[Rollout], Credit]]:
    """The rollouts and credit of every step, as they reach the update."""
    seen: list[tuple[list[Rollout], Credit]] = []
    inner = made.update

    def update(rollouts: Any, credit: Credit) -> dict[str, float]:
        seen.append((list(rollouts), credit))
        return inner(rollouts, credit)

    made.update = update  # type: ignore[method-assign]
    return seen


def assert_close_policies(one: Policy, other: Policy, tolerance: float = 1e-5) -> None:
    a, b = one.model.state_dict(), other.model.state_dict()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=tolerance)


def gradient_step(
    state: Path, values: dict[str, Any], reference: Policy | None = None
) -> tuple[Policy, dict[str, float]]:
    """The policy after one plain gradient step on a batch of mixed lengths, and its metrics."""
    train = {"learning_rate": 1.0, "warmup_steps": 0, "max_grad_norm": 1e9}
    values = {**values, "train": {**train, **values.get("train", {})}}
    made = trainer(state, values, reference=reference)
    # Plain descent: Adam's first step is the sign of a gradient, which magnifies rounding.
    made.optimizer = torch.optim.SGD(made.policy.model.parameters(), lr=1.0)
    metrics, _ = made.one_step()
    return made.policy, metrics
