"""What `test_parallel` runs in one process and, as this script, in several.

`python -m torch.distributed.run … tests/parallel_cases.py FOLDER` writes `FOLDER/rank-<n>.pt`.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch
from helpers import Dull, kill, trainer, watched

from mrtpo import checkpoint
from mrtpo.tracking import NoLog
from mrtpo.trainer import NonFinite, Trainer

TRAINED: dict[str, dict[str, Any]] = {
    **{name: {"train": {"method": name}}
       for name in ("grpo", "gdpo", "mrtpo", "mrtpo_shuffled", "cort")},
    "averages": {"train": {"method": "mrtpo", "average": "responses", "epochs": 2,
                           "micro_batch_tokens": 40}, "replay": {"policy": "ema", "ema": 0.5}},
    "refill": {"train": {"method": "dapo"}},
    "gain": {"replay": {"gain_every": 1, "gain_prompts": 2, "gain_samples": 2}},
}  # fmt: skip


def fresh(folder: Path, values: dict[str, Any], **changes: Any) -> Trainer:
    """A trainer on three prompts a step, which two processes share unevenly. Plain descent, because
    Adam's first steps magnify rounding."""
    train = {"prompts_per_step": 3, "learning_rate": 0.1, **values.get("train", {})}
    values = {"replay": {"gain_every": 0}, **values, "train": train}
    made = trainer(folder, values, prompts=12, **changes)
    made.optimizer = torch.optim.SGD(made.policy.model.parameters(), lr=0.1)
    return made


def weights(made: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in made.policy.model.parameters()])


def trained(folder: Path, name: str) -> dict[str, Any]:
    """Two steps: what was sampled and measured, and where the policy came to."""
    made = fresh(folder, TRAINED[name], task=Dull() if name == "refill" else None)
    seen = watched(made)
    metrics = []
    for _ in range(2):
        metrics.append(made.gain_check() | made.one_step()[0])
        made.step += 1
    rollouts = [r for batch, _ in seen for r in batch]
    return {
        "rollouts": [(r.prompt_id, r.sample, r.response_ids, r.rewards) for r in rollouts],
        "logprobs": torch.tensor([sum(r.logprobs) for r in rollouts]),
        "own": sum(len(credit.mask_BT) for _, credit in seen),
        "metrics": metrics,
        "policy": weights(made),
    }


def evaluated(folder: Path) -> list[dict[str, float]]:
    """Scores of three prompts, and of one, which leaves a process without any."""
    made = [fresh(folder, {"train": {"evaluate_prompts": count}}) for count in (3, 1)]
    return [one.evaluate() for one in made]


def broken_in_one(folder: Path) -> dict[str, Any]:
    """A gradient that is not finite in the last process alone: once, and until the run stops."""
    made = fresh(folder, {"train": {"max_bad_steps": 2}})
    inner = made._gradients

    def gradients(*args: Any) -> dict[str, float]:
        sums = inner(*args)
        if made.step < 2 and made.ranks.own == made.ranks.count - 1:
            next(iter(made.policy.model.parameters())).grad[0, 0] = math.nan
        return sums

    made._gradients = gradients  # type: ignore[method-assign]
    before = weights(made)
    first, _ = made.one_step()
    bad_steps, still = made.bad_steps, torch.equal(before, weights(made))
    made.step += 1
    try:
        made.one_step()
        said = ""
    except NonFinite as error:
        said = str(error)
    return {"skipped": first["policy/skipped_update"], "bad_steps": bad_steps, "still": still,
            "said": said.split(";")[0]}  # fmt: skip


def half_a_run(folder: Path) -> dict[str, Any]:
    """A run of four steps that ends after the checkpoint of the second."""
    made = fresh(folder, {"train": {"method": "mrtpo"}})
    written = []
    inner = checkpoint.save

    def save(root: Path, step: int, *args: Any) -> Path:
        written.append(step)
        return inner(root, step, *args)

    checkpoint.save = save  # type: ignore[assignment]
    try:
        kill(made, "rollouts", 2)
    except KeyboardInterrupt:
        pass
    finally:
        checkpoint.save = inner
    return {"written": written, "step": made.step}


def rest_of_a_run(folder: Path) -> dict[str, Any]:
    """What is left of the run in that folder."""
    made = fresh(folder, {"train": {"method": "mrtpo"}})
    resumed = made.resume() and made.step
    made.run(NoLog())
    return {"resumed": resumed, "history": made.history, "evaluations": made.evaluations,
            "policy": weights(made), "best": made.best}  # fmt: skip


def main(folder: Path) -> None:
    found: dict[str, Any] = {name: trained(folder / name, name) for name in TRAINED}
    found["evaluated"] = evaluated(folder / "evaluated")
    found["broken"] = broken_in_one(folder / "broken")
    found["half"] = half_a_run(folder / "half by two")
    found["rest"] = rest_of_a_run(folder / "half by one")
    made = fresh(folder, {})
    found["ranks"] = {
        "own": made.ranks.own,
        "main": made.ranks.main,
        "gathered": made.ranks.gather([made.ranks.own] * made.ranks.own),
        "same": made.ranks.same({"of": made.ranks.own}),
        "share": made.ranks.share(3),
    }
    torch.save(found, folder / f"rank-{made.ranks.own}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
