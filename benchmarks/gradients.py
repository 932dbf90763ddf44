r"""How much signal a method's gradient holds, before any training: methods on the same batches.

    python -m benchmarks.gradients OUT --name text2sql --workspace DIR --page docs/study.md
    python -m benchmarks.gradients OUT --name execution --workspace DIR \
        --set "rewards.weights={format: 0.0, executability: 0.0}"

A policy gradient is a mean over few responses and mostly noise. Credit on the right tokens should
leave the expected gradient's direction alone and take noise away. Both can be measured at one
policy: its batches (2 prompts of 8 responses) are sampled once, every variant of `--plan` gives
their tokens its advantages, and the gradients g of the batches are compared, per variant:

    signal   |E g|² / E|g − E g|²: one over the batches that have to be averaged until signal and
             noise are equal, times as many as GDPO's in the last column
    cosine   of E g and of GDPO's and the known spans' E g: whether it pulls the same way

E g is never estimated as a mean's length, which noise would inflate: |E g|² is the mean product of
two different batches, and so is the product of two variants' E g.

Writes OUT/<name>.json, and a table between the lines `<!-- gradients <name> -->` and
`<!-- /gradients <name> -->` of `--page`. Intervals are bootstraps over batches.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from benchmarks.pages import chosen, fill
from benchmarks.study_table import RIVAL
from mrtpo import paths
from mrtpo.config import Settings, load_settings, with_overrides
from mrtpo.credit import assign, mix_at
from mrtpo.evaluation import verified
from mrtpo.generate import generate
from mrtpo.loading import starting_policy
from mrtpo.logprobs import chosen_logps
from mrtpo.policy import Policy
from mrtpo.prefix import response_hidden, right_padded
from mrtpo.progress import Progress
from mrtpo.records import Prompt, Rollout, read_prompts
from mrtpo.tasks import Task, get_task

PLAN = Path(__file__).with_name("gradients.yaml")
PROMPTS, DRAWS = 2, 1000
KNOWN = "oracle_max"


def read_variants(path: Path, wanted: Sequence[str]) -> dict[str, list[str]]:
    """The plan's variants with the settings of all, GDPO among them, the others as `wanted`.

    Raises ValueError on a name that the plan does not have.
    """
    plan = yaml.safe_load(path.read_text())
    variants: dict[str, list[str]] = plan["variants"]
    names = chosen(variants, {*wanted, RIVAL} if wanted else (), f"{path}: variants")
    return {name: [*plan["all"], *variants[name]] for name in names}


def batches(
    policy: Policy, task: Task, prompts: Sequence[Prompt], settings: Settings, count: int
) -> Iterator[tuple[list[Prompt], list[Rollout]]]:
    """Verified batches of `PROMPTS` groups, each of other prompts."""
    for number in range(count):
        asked = prompts[number * PROMPTS : (number + 1) * PROMPTS]
        rollouts = generate(
            policy, [(p.id, policy.prompt_ids(p.messages)) for p in asked],
            samples=settings.sampling.group_size, temperature=settings.sampling.temperature,
            max_new_tokens=settings.sampling.max_new_tokens, seed=settings.seed, step=number,
        )  # fmt: skip
        by_id = {prompt.id: prompt for prompt in asked}
        rows = [by_id[rollout.prompt_id] for rollout in rollouts]
        yield rows, verified(task, rows, rollouts)


def gradients(
    policy: Policy, task: Task, prompts: list[Prompt], rollouts: list[Rollout],
    variants: dict[str, Settings],
) -> dict[str, Tensor]:  # fmt: skip
    """The gradient (P,) of each variant's on-policy objective on one batch, in float32."""
    asked = {prompt.id: prompt for prompt in prompts}
    number = {prompt_id: at for at, prompt_id in enumerate(asked)}
    contexts = [policy.prompt_ids(prompt.messages) for prompt in asked.values()]
    weights = [param for param in policy.model.parameters() if param.requires_grad]
    responses = [rollout.response_ids for rollout in rollouts]
    hidden_BTD, mask_BT = response_hidden(
        policy, contexts, responses, [number[r.prompt_id] for r in rollouts]
    )
    ids_BT, _ = right_padded(responses, policy.pad_id, policy.device)
    found = {}
    for name, settings in variants.items():
        with torch.no_grad():
            credit = assign(
                policy, prompts, rollouts, task.reward_names, settings, mix_at(settings, 0),
                spans=task.spans,
            )  # fmt: skip
        temperature = settings.sampling.temperature
        logps_BT = chosen_logps(policy, hidden_BTD, ids_BT, mask_BT, temperature)
        parts = torch.autograd.grad(
            logps_BT, weights, credit.advantages_BT / mask_BT.sum(), retain_graph=True
        )
        found[name] = torch.cat([part.flatten() for part in parts])
    return found


def products(left_NP: Tensor, right_NP: Tensor) -> Tensor:
    """Inner products (N, N) of two variants' gradients, in float64."""
    return left_NP.double() @ right_NP.double().T


def between(products_NN: Tensor, draw: Tensor) -> float:
    """Mean product of different batches among those drawn: an unbiased estimate of E g · E h."""
    drawn_NN = products_NN[draw][:, draw]
    other_NN = draw[:, None] != draw[None, :]
    return float(drawn_NN[other_NN].mean())


def signal(own_NN: Tensor, draw: Tensor) -> float:
    """|E g|² / E|g − E g|²."""
    length = between(own_NN, draw)
    return length / (float(own_NN.diagonal()[draw].mean()) - length)


def cosine(own_NN: Tensor, other_NN: Tensor, cross_NN: Tensor, draw: Tensor) -> float:
    """Cosine of two variants' expected gradients; nan where a length is not told from 0."""
    own, other = between(own_NN, draw), between(other_NN, draw)
    if own <= 0 or other <= 0:
        return float("nan")
    return between(cross_NN, draw) / (own * other) ** 0.5


def interval(value: Any, count: int, seed: int = 0) -> list[float]:
    """A statistic of all batches, and its 95 % bootstrap interval."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.tensor(
        [value(torch.randint(count, (count,), generator=generator)) for _ in range(DRAWS)]
    )
    ends = drawn.nanquantile(torch.tensor([0.025, 0.975]))
    return [round(float(x), 4) for x in (value(torch.arange(count)), *ends)]


def compared(found: dict[str, Tensor], rival: str, known: str) -> list[dict[str, Any]]:
    """A row a variant: `signal`, `times` the rival's, cosines with it and with known spans."""
    own = {name: products(g_NP, g_NP) for name, g_NP in found.items()}
    rows = []
    for name, g_NP in found.items():
        count = len(g_NP)
        row: dict[str, Any] = {"variant": name, "batches": count}
        row["norm"] = round(float(g_NP.norm(dim=1).median()), 4)
        row["signal"] = interval(lambda d, n=name: signal(own[n], d), count)
        row["times"] = interval(lambda d, n=name: signal(own[n], d) / signal(own[rival], d), count)
        for other in (rival, known):
            if other in found:
                cross_NN = products(g_NP, found[other])
                row[f"cosine {other}"] = interval(
                    lambda d, n=name, o=other, c=cross_NN: cosine(own[n], own[o], c, d), count
                )
        rows.append(row)
    return rows


def table(rows: Sequence[dict[str, Any]], rival: str, known: str) -> str:
    others = [o for o in (rival, known) if any(f"cosine {o}" in row for row in rows)]
    head = ["variant", "norm", "signal", f"× {rival}", *(f"cosine with {o}" for o in others)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row["variant"], f"{row['norm']:.2f}", _cell(row["signal"]), _cell(row["times"])]
        cells += [_cell(row[f"cosine {o}"]) for o in others]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: Sequence[float]) -> str:
    middle, low, high = (f"{x:.2f}" for x in value)
    return f"{middle} ({low} to {high})"


def measure(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    out, page = options.out.resolve(), options.page and options.page.resolve()
    plan = read_variants(options.plan, options.variants)
    os.chdir(options.workspace)
    base = with_overrides(load_settings(), options.set)
    variants = {name: with_overrides(base, changes) for name, changes in plan.items()}
    policy = starting_policy(base)
    task = get_task(base, paths.PROMPTS)
    prompts = read_prompts(paths.PROMPTS / "train.parquet")
    if len(prompts) < options.batches * PROMPTS:
        raise ValueError(
            f"{options.workspace}: {len(prompts)} train prompts, too few for "
            f"{options.batches} batches of {PROMPTS}; give fewer --batches"
        )
    found: dict[str, list[Tensor]] = {name: [] for name in variants}
    with Progress("gradients", options.batches) as progress:
        for number, (asked, rollouts) in enumerate(
            batches(policy, task, prompts, base, options.batches), start=1
        ):
            for name, g_P in gradients(policy, task, asked, rollouts, variants).items():
                found[name].append(g_P)
            progress.update(number)
    task.close()
    rows = compared({n: torch.stack(g) for n, g in found.items()}, RIVAL, KNOWN)
    out.mkdir(parents=True, exist_ok=True)
    about = {
        "task": base.task, "batches": options.batches, "prompts": PROMPTS,
        "group_size": base.sampling.group_size, "set": options.set, "variants": plan,
    }  # fmt: skip
    (out / f"{options.name}.json").write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
    text = table(rows, RIVAL, KNOWN)
    if page:
        fill(page, text, f"gradients {options.name}")
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the record")
    parser.add_argument("--name", required=True, help="of the record and of the page's marks")
    parser.add_argument("--workspace", type=Path, required=True,
                        help="a folder with params.yaml, prompts and a warm start")  # fmt: skip
    parser.add_argument("--plan", type=Path, default=PLAN, help="variants: their settings")
    parser.add_argument("--variants", nargs="+", default=[])
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE",
                        help="settings of every variant, before the plan's")  # fmt: skip
    parser.add_argument("--batches", type=int, default=128)
    parser.add_argument("--page", type=Path, help="Markdown page that holds the table")
    options = parser.parse_args()
    options.plan = options.plan.resolve()
    measure(options)


if __name__ == "__main__":
    main()
