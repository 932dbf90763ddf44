"""What a replay of up to 12 constraints a prompt costs, and what makes it cheap.

    python -m benchmarks.replay_constraints docs/instructions --page docs/instructions.md

A batch of the embedded instruction task (8 prompts × 8 responses, 12 constraints each) is replayed

    plainly     every context with every response, one padded row each, also the sampling prompt
    shared      as `mrtpo.replay` does it, but with the sampling prompt scored again
    stored      with the log-probabilities that were kept while sampling (`replay`'s own way)
    drawn       the same, with `replay.max_rewards: 4`
    js          shared, with a distance of distributions, which has to score both contexts

by a policy with random weights, which cost as much as trained ones. Also timed: a whole GDPO update
of the batch. Contenders take turns; figures are medians over rounds, and ratios to the update.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.pages import fill
from benchmarks.step import machine
from mrtpo.config import Settings, load_settings, with_overrides
from mrtpo.contexts import Plan, plan_replay
from mrtpo.credit import assign
from mrtpo.evaluation import verified
from mrtpo.generate import generate
from mrtpo.logprobs import response_logps
from mrtpo.placement import drawn_rewards
from mrtpo.policy import Policy
from mrtpo.prefix import right_padded
from mrtpo.records import Prompt, Reward, Rollout
from mrtpo.replay import Distance, measure
from mrtpo.tasks import get_task
from mrtpo.warmstart import start

CONSTRAINTS, PROMPTS, GROUP = 12, 8, 8
SHOWN = {
    "plainly": "every context in a row of its own", "shared": "contexts share what they can",
    "stored": "… and the sampling prompt is not scored again", "drawn": "… 4 of 12 rewards drawn",
    "js": "shared, with `js`",
}  # fmt: skip


def batch(settings: Settings) -> tuple[Policy, list[Prompt], list[Rollout], tuple[str, ...]]:
    """Prompts with 12 constraints, and responses all of whose rewards have an advantage."""
    task = get_task(settings, Path("."))
    prompts = task.prepare().prompts["train"]
    policy = start(settings, prompts, task)
    chosen = prompts[:PROMPTS]
    sampling = settings.sampling
    rollouts = generate(
        policy, [(p.id, policy.prompt_ids(p.messages)) for p in chosen], samples=GROUP,
        temperature=sampling.temperature, max_new_tokens=sampling.max_new_tokens, seed=0, step=0,
    )  # fmt: skip
    asked = [prompt for prompt in chosen for _ in range(GROUP)]
    rollouts = [
        replace(r, rewards=tuple(Reward(x.name, float((r.sample + k) % 2), "ok")
                                 for k, x in enumerate(r.rewards)))
        for r in verified(task, asked, rollouts)
    ]  # fmt: skip
    return policy, asked, rollouts, task.reward_names


@torch.no_grad()
def plainly(policy: Policy, rollouts: Sequence[Rollout], plan: Plan, settings: Settings) -> Tensor:
    """Distances of the pairs, in order, all tokens; each pair is two padded rows."""
    budget = settings.train.micro_batch_tokens
    rows = [
        (context, rollouts[pair.b].response_ids)
        for pair in plan.pairs for context in (pair.told, pair.untold)
    ]  # fmt: skip
    size = max(1, budget // max(len(context) + len(response) for context, response in rows))
    found: list[Tensor] = []
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        ids_BL, mask_BL = right_padded([(*c, *r) for c, r in part], policy.pad_id, policy.device)
        logits_BLV = policy.model(input_ids=ids_BL, attention_mask=mask_BL).logits.float()
        for logits_LV, ids_L, (context, response) in zip(logits_BLV, ids_BL, part, strict=True):
            own = slice(len(context), len(context) + len(response))
            before_TV = logits_LV[own.start - 1 : own.stop - 1] / settings.sampling.temperature
            logps_TV = before_TV.log_softmax(-1)
            found.append(logps_TV.gather(1, ids_L[own, None]).squeeze(1))
    return torch.cat([(a - b).abs() for a, b in zip(found[::2], found[1::2], strict=True)])


def contenders(
    policy: Policy, prompts: Sequence[Prompt], rollouts: Sequence[Rollout], names: Sequence[str],
    settings: Settings,
) -> dict[str, Callable[[], Any]]:  # fmt: skip
    plan = plan_replay(policy, prompts, rollouts, names, lambda b, k: "", variants={})
    drawn = [drawn_rewards(r, range(len(names)), settings, 0) for r in rollouts]
    few = plan_replay(
        policy, prompts, rollouts, names, lambda b, k: "" if k in drawn[b] else "not drawn",
        variants={},
    )  # fmt: skip
    common: dict[str, Any] = {
        "temperature": settings.sampling.temperature,
        "token_budget": settings.train.micro_batch_tokens,
    }

    def shared(plan: Plan, distance: str, stored: bool) -> Callable[[], Any]:
        return lambda: measure(
            policy, rollouts, plan, len(names), Distance(distance), stored=stored, **common
        )

    def update() -> None:
        credit = assign(policy, prompts, rollouts, names, gdpo, 0.0)
        contexts = list(dict.fromkeys(r.prompt_ids for r in rollouts))
        logps_BT, mask_BT = response_logps(
            policy, contexts, [r.response_ids for r in rollouts],
            [contexts.index(r.prompt_ids) for r in rollouts], settings.sampling.temperature,
        )  # fmt: skip
        (-(logps_BT * credit.advantages_BT).sum() / mask_BT.sum()).backward()
        policy.model.zero_grad(set_to_none=True)

    gdpo = with_overrides(settings, ["train.method=gdpo"])
    return {
        "update": update,
        "plainly": lambda: plainly(policy, rollouts, plan, settings),
        "shared": shared(plan, "abs_logprob", False),
        "stored": shared(plan, "abs_logprob", True),
        "drawn": shared(few, "abs_logprob", True),
        "js": shared(plan, "js", False),
    }


def agree(made: dict[str, Callable[[], Any]]) -> float:
    """The largest difference of the shared replay's distances to the plain one's."""
    plain_N, shared = made["plainly"](), made["stored"]()
    live = shared.live_BK[..., None] & shared.mask_BT[:, None].bool()
    return float((shared.distance_BKT[live] - plain_N).abs().max())


def table(result: dict[str, Any]) -> str:
    seconds = {name: statistics.median(found) for name, found in result["seconds"].items()}
    lines = [
        f"{PROMPTS} prompts of {CONSTRAINTS} constraints ({result['prompt_tokens']} tokens), "
        f"{GROUP} responses each ({result['response_tokens']} tokens), medians of "
        f"{result['rounds']} rounds; all replays within {result['difference']:.1e} of the plain "
        "one:",
        "", "| replay | ms | × plain | share of the update |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, shown in SHOWN.items():
        lines.append(
            f"| {shown} | {1000 * seconds[name]:.0f} | {seconds['plainly'] / seconds[name]:.1f} | "
            f"{seconds[name] / seconds['update']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the record")
    parser.add_argument("--page", type=Path, help="Markdown page that holds the table")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = with_overrides(
        load_settings(Path("params.yaml")),
        ["task=instruct", f"data.fewest_constraints={CONSTRAINTS}", "data.train_prompts=200",
         "data.valid_prompts=10", "data.test_prompts=10", "replay.max_rewards=4",
         "sampling.max_new_tokens=64"],
    )  # fmt: skip
    policy, prompts, rollouts, names = batch(settings)
    made = contenders(policy, prompts, rollouts, names, settings)
    difference = agree(made)
    seconds: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(options.rounds):
        for name, go in made.items():
            begun = time.perf_counter()
            go()
            seconds[name].append(time.perf_counter() - begun)
    result = {
        "machine": machine(), "rounds": options.rounds, "difference": difference,
        "prompt_tokens": max(len(r.prompt_ids) for r in rollouts),
        "response_tokens": round(statistics.fmean(len(r.response_ids) for r in rollouts)),
        "seconds": {name: [round(s, 4) for s in found] for name, found in seconds.items()},
    }  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "replay.json").write_text(json.dumps(result, indent=1) + "\n")
    text = table(result)
    print(text)
    if options.page:
        fill(options.page, text, "replay")


if __name__ == "__main__":
    main()
