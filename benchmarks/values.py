"""The same rollouts and rewards through TRL's `GRPOTrainer` and ours: do the numbers agree?

    python -m benchmarks.values [--json FILE]

Needs the optional dependencies `bench`. Our `generate` samples responses, which are cut to unequal
lengths; prompts are of unequal length too. TRL gets the same ids through its `rollout_func`, the
same rewards, weights and clip. One loss and its gradients are then compared in float32, before any
clipping of the gradient's norm.

Where the definitions differ, and how that is accounted for:

- ε under a standard deviation: 1e-4 in TRL, `mrtpo.advantages.EPSILON` here. The rows "as built"
  show what this makes; in the rows "TRL's ε" our code runs with 1e-4.
- Standard deviations: both unbiased (ddof 1); both are held against float64 formulas.
- GDPO's last step: TRL subtracts the batch's mean, ours does not, because a sum of group-centred
  advantages has mean 0: `mean of sums` shows what is subtracted. Both take σ over rollouts.
- Denominator: TRL's `loss_type="dapo"` and ours are the sum over tokens by all tokens of the batch.
- π_old: TRL takes the detached log-probabilities of the same pass, so every ratio is 1; ours are
  those kept while sampling, equal up to rounding. No ratio is near the clip.
- Padding: TRL pads prompts on the left without position ids; rotary positions are relative, so that
  makes rounding only.

Exit status 1 if, with TRL's ε, anything differs by more than its tolerance.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.step import machine

TRL_EPSILON = 1e-4
TOLERANCES = {"formula": 1e-5, "advantages": 1e-5, "loss": 1e-6, "gradient": 1e-5}
RESPONSE, GROUP, LENGTHS, REWARDS = 48, 8, (40, 64, 96), 3


def formula(rewards_BK: np.ndarray, group: int, method: str, epsilon: float) -> np.ndarray:
    """Advantages of full groups in float64, weights 1: GDPO, or GRPO on the sum."""
    if method == "grpo":
        rewards_BK = rewards_BK.sum(1, keepdims=True)
    grouped_NGK = rewards_BK.reshape(-1, group, rewards_BK.shape[1])
    centred_NGK = grouped_NGK - grouped_NGK.mean(1, keepdims=True)
    scaled_NGK = centred_NGK / (grouped_NGK.std(1, ddof=1, keepdims=True) + epsilon)
    total_B = scaled_NGK.sum(2).reshape(-1)
    return total_B if method == "grpo" else total_B / (total_B.std(ddof=1) + epsilon)


def relative_norm(one: np.ndarray, other: np.ndarray) -> float:
    """‖one − other‖ / ‖other‖."""
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def greatest(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Differences of advantages, loss, all gradients as one vector, and each parameter's."""
    names = sorted(theirs["gradients"])
    if names != sorted(ours["gradients"]):
        raise ValueError("the two models have different parameters")
    one, other = ([side["gradients"][n] for n in names] for side in (ours, theirs))
    flat = [np.concatenate([g.ravel() for g in side]) for side in (one, other)]
    return {
        "advantages": greatest(ours["advantages"], theirs["advantages"]),
        "loss": abs(ours["loss"] - theirs["loss"]),
        "gradient": relative_norm(*flat),
        "gradient_max": greatest(*flat),
        "parameters": {
            name: {"max": greatest(a, b), "relative": relative_norm(a, b)}
            for name, a, b in zip(names, one, other, strict=True)
        },
    }


def gradients_of(model: Any) -> dict[str, np.ndarray]:
    return {
        name: parameter.grad.detach().numpy().copy()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def sampled(policy: Any, prompts: Sequence[Any]) -> list[Any]:
    """Rollouts of unequal length with their rewards."""
    from benchmarks.fixture import Checksums
    from mrtpo.evaluation import verified
    from mrtpo.generate import generate

    rollouts = generate(
        policy, [(p.id, policy.prompt_ids(p.messages)) for p in prompts], samples=GROUP,
        temperature=1.0, max_new_tokens=RESPONSE, seed=0, step=0,
    )  # fmt: skip
    cut = []
    for b, rollout in enumerate(rollouts):
        kept = RESPONSE - 5 * (b % GROUP)
        ids = rollout.response_ids[:kept]
        cut.append(
            replace(
                rollout, response_ids=ids, logprobs=rollout.logprobs[:kept], text=policy.text(ids)
            )
        )
    asked = [prompt for prompt in prompts for _ in range(GROUP)]
    task: Any = Checksums(REWARDS)
    return verified(task, asked, cut)


def ours(
    method: str, epsilon: float | None, folder: Path, prompts: Sequence[Any], rollouts: Any
) -> dict[str, Any]:
    """Our advantages, loss and gradients; `epsilon` None keeps our own."""
    from benchmarks.fixture import Checksums, loaded_policy, reward_names, step_settings
    from mrtpo import advantages, credit
    from mrtpo.trainer import Trainer

    settings = step_settings(method, group=GROUP, prompts=len(prompts), response=RESPONSE)
    policy = loaded_policy(folder)
    task: Any = Checksums(REWARDS)
    trainer = Trainer(settings, policy, task, prompts, prompts[:1], folder / "state")
    asked = [prompt for prompt in prompts for _ in range(GROUP)]
    used = advantages.EPSILON if epsilon is None else epsilon
    with patch.object(advantages, "EPSILON", used):
        given = credit.assign(policy, asked, rollouts, reward_names(REWARDS), settings, 0.0)
    metrics = trainer._gradients(rollouts, given)
    return {
        "advantages": given.advantages_BT[:, 0].numpy().astype(float),
        "loss": metrics["policy/loss"],
        "gradients": gradients_of(policy.model),
    }


def theirs(method: str, folder: Path, prompts: Sequence[Any], rollouts: Any) -> dict[str, Any]:
    """TRL's advantages, loss and gradients on the same rollouts."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback
    from trl import GRPOTrainer

    from benchmarks.fixture import as_text, new_tokenizer
    from benchmarks.step_trl import AGGREGATION, config_of

    found: dict[str, Any] = {}
    by_text: dict[str, list[Any]] = {}
    texts = {prompt.id: as_text(prompt) for prompt in prompts}
    for rollout in rollouts:
        by_text.setdefault(texts[rollout.prompt_id], []).append(rollout)
    order: list[Any] = []
    # By ids: TRL decodes without special tokens, so a text with one of them would differ.
    values = {rollout.response_ids: [r.value for r in rollout.rewards] for rollout in rollouts}

    def reward(k: int) -> Any:
        def value(completion_ids: list[list[int]], **rest: Any) -> list[float]:
            return [values[tuple(ids)][k] for ids in completion_ids]

        value.__name__ = f"r{k}"
        return value

    def handed(asked: list[str], trainer: Any) -> dict[str, Any]:
        at = {text: iter(made) for text, made in by_text.items()}
        order[:] = [next(at[text]) for text in asked]
        return {
            "prompt_ids": [list(rollout.prompt_ids) for rollout in order],
            "completion_ids": [list(rollout.response_ids) for rollout in order],
            "logprobs": None,
        }

    class Noting(GRPOTrainer):
        def compute_loss(self, *given: Any, **named: Any) -> Any:
            loss = super().compute_loss(*given, **named)
            found["loss"] = float(loss.detach())
            return loss

    class Reader(TrainerCallback):
        def on_pre_optimizer_step(self, *given: Any, **named: Any) -> None:
            found["gradients"] = gradients_of(named["model"])

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    spec = {"group": GROUP, "prompts": len(prompts), "response": RESPONSE}
    aggregation = AGGREGATION[f"trl_{method}"]
    trainer = Noting(
        model=model,
        reward_funcs=[reward(k) for k in range(REWARDS)],
        args=config_of(spec, aggregation, str(folder / "trl"), max_steps=1, max_grad_norm=0.0),
        train_dataset=Dataset.from_list([{"prompt": texts[p.id]} for p in prompts]),
        processing_class=new_tokenizer(),
        rollout_func=handed,
        callbacks=[Reader()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    # TRL shuffles its prompts: bring the advantages back into the rollouts' order.
    by_rollout = {
        (rollout.prompt_id, rollout.sample): advantage
        for rollout, advantage in zip(order, trainer._logs["advantages"], strict=True)
    }
    keys = [(rollout.prompt_id, rollout.sample) for rollout in rollouts]
    return found | {"advantages": np.array([by_rollout[key] for key in keys])}


def compare(method: str, folder: Path, prompts: Sequence[Any], rollouts: Any) -> dict[str, Any]:
    """Everything about one method, and whether all is within its tolerance."""
    from mrtpo.advantages import EPSILON

    rewards_BK = np.array([[r.value for r in rollout.rewards] for rollout in rollouts])
    trl = theirs(method, folder, prompts, rollouts)
    built = ours(method, None, folder, prompts, rollouts)
    alike = ours(method, TRL_EPSILON, folder, prompts, rollouts)
    single_BK = rewards_BK.astype(np.float32)
    result: dict[str, Any] = {
        "formula": {
            "trl": greatest(trl["advantages"], formula(rewards_BK, GROUP, method, TRL_EPSILON)),
            "ours": greatest(built["advantages"], formula(rewards_BK, GROUP, method, EPSILON)),
        },
        "as built": compared(built, trl),
        "TRL's ε": compared(alike, trl),
        "mean of sums": float(formula(single_BK, GROUP, method, TRL_EPSILON).mean()),
        "loss_trl": trl["loss"],
        "gradient_norm_trl": float(
            np.sqrt(sum(float((g.astype(float) ** 2).sum()) for g in trl["gradients"].values()))
        ),
    }
    found = {"formula": max(result["formula"].values()), **result["TRL's ε"]}
    result["agrees"] = all(found[name] <= limit for name, limit in TOLERANCES.items())
    return result


def show(method: str, result: dict[str, Any]) -> None:
    norm, mean = result["gradient_norm_trl"], result["mean of sums"]
    print(f"\n{method}: TRL's loss {result['loss_trl']:.3e}, gradient norm {norm:.3e}")
    print(f"  mean of sums: {mean:.1e}")
    for side, value in result["formula"].items():
        print(f"  advantages of {side} against float64: {value:.1e}")
    columns = ("advantages", "loss", "gradient", "gradient_max")
    print(f"  {'':12}" + "".join(f"{column:>14}" for column in columns))
    for row in ("as built", "TRL's ε"):
        print(f"  {row:12}" + "".join(f"{result[row][column]:14.1e}" for column in columns))
    limits = [f"{TOLERANCES[c]:14.0e}" if c in TOLERANCES else f"{'–':>14}" for c in columns]
    print(f"  {'tolerance':12}" + "".join(limits))
    print(f"  {'parameter (TRL’s ε)':48}{'max':>10}{'relative':>10}")
    for name, value in result["TRL's ε"]["parameters"].items():
        print(f"  {name:48}{value['max']:10.1e}{value['relative']:10.1e}")
    print(f"  {'agree' if result['agrees'] else 'DISAGREE'}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    options = parser.parse_args()
    import torch

    from benchmarks.fixture import loaded_policy, make_prompts, save_model

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model("0.9M", folder)
        prompts = [
            replace(make_prompts(1, tokens, REWARDS, "append")[0], id=f"p{tokens}")
            for tokens in LENGTHS
        ]
        rollouts = sampled(loaded_policy(folder), prompts)
        results = {m: compare(m, folder, prompts, rollouts) for m in ("gdpo", "grpo")}
    for method, result in results.items():
        show(method, result)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        record = {**machine(), "tolerances": TOLERANCES, "methods": results}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(result["agrees"] for result in results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
