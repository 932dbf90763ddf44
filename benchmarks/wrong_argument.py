"""Where replay puts the blame for one wrong argument of a tool call, as in Fig. 7 of the paper.

    python -m benchmarks.wrong_argument WORKSPACE OUT [--page PAGE]

WORKSPACE holds `params.yaml`, `data/prompts` and `models/warmstart` of `task: tools` (such as the
folder `start` that `benchmarks.curves` makes). For every prompt of the valid split whose reference
has an integer among its arguments, a group of four responses is written down: the reference with
that integer raised by one, the reference twice, and one without the end of its thought. The policy
replays them; the first response is looked at.

Writes OUT/wrong_argument.svg, the heat map of the first such prompt that wants one call, and
OUT/wrong_argument.json; puts a summary between the lines `<!-- wrong argument -->` and
`<!-- /wrong argument -->` of `--page`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.pages import fill
from mrtpo.records import Prompt, Rollout
from mrtpo.tasks.tools.prompts import render
from mrtpo.tasks.tools.rewards import body_start, reference_calls
from mrtpo.tasks.tools.schema import Call


def with_wrong_integer(reference: str) -> str | None:
    """A reference whose first integer argument is raised by one; None if it has none."""
    calls = reference_calls(reference)
    for at, call in enumerate(calls):
        for key, value in call.arguments.items():
            if type(value) is int:
                wrong = Call(call.name, {**call.arguments, key: value + 1})
                thought = reference[: body_start(reference)]
                inner = thought.partition("<think>")[2].rpartition("</think>")[0].strip()
                return render([*calls[:at], wrong, *calls[at + 1 :]], "", inner)
    return None


def group(policy: Any, prompt: Prompt) -> list[Rollout]:
    """The four responses as rollouts; none if there is no integer to change."""
    wrong = with_wrong_integer(prompt.reference)
    if wrong is None:
        return []
    broken = prompt.reference.replace("</think>", "", 1)
    asked = policy.prompt_ids(prompt.messages)
    rollouts = []
    for sample, text in enumerate((wrong, prompt.reference, prompt.reference, broken)):
        ids = policy.tokenizer.encode(text, add_special_tokens=False)
        ids = (*ids, policy.tokenizer.eos_token_id)
        rollouts.append(
            Rollout(prompt.id, sample, asked, ids, (0.0,) * len(ids), policy.text(ids), True)
        )
    return rollouts


def looked_at(row: dict[str, Any]) -> dict[str, Any] | None:
    """How the distance of one response lies: its share on responsible tokens, their share of all
    tokens, and whether the token of the largest weight is one of them. None without a distance."""
    total, inside = sum(row["distance"]), row["responsible"]
    if row["skipped"] or total <= 0 or not any(inside):
        return None
    held = sum(d for d, own in zip(row["distance"], inside, strict=True) if own)
    first = max(range(len(inside)), key=row["weight"].__getitem__)
    return {
        "prompt": row["prompt_id"],
        "share": round(held / total, 4),
        "even": round(sum(inside) / len(inside), 4),
        "first": bool(inside[first]),
    }


def summary(found: Sequence[dict[str, Any]], responses: int) -> str:
    """The figures in a sentence."""
    share, even = (statistics.median(row[name] for row in found) for name in ("share", "even"))
    first = sum(row["first"] for row in found) / len(found)
    return (
        f"Of {responses} responses with one wrong integer, replay found a distance in "
        f"{len(found)}. The wrong value, {even:.1%} of the tokens, holds {share:.1%} of the "
        f"distance of correctness (medians), and has the largest weight in {first:.0%}."
    )


def measure(workspace: Path, out: Path, page: Path | None) -> None:
    import torch

    from mrtpo import paths
    from mrtpo.config import load_settings
    from mrtpo.evaluation import verified
    from mrtpo.loading import starting_policy
    from mrtpo.records import read_prompts
    from mrtpo.report.figures import rollout_heat_map, save_svg
    from mrtpo.rollouts import attribution_rows
    from mrtpo.tasks import get_task

    torch.set_num_threads(1)
    out, page = out.resolve(), page and page.resolve()
    os.chdir(workspace)
    settings = load_settings()
    policy, task = starting_policy(settings), get_task(settings, paths.PROMPTS)
    prompts = read_prompts(paths.PROMPTS / "valid.parquet")
    chosen: list[Prompt] = []
    rollouts: list[Rollout] = []
    for prompt in prompts:
        if made := group(policy, prompt):
            chosen.append(prompt)
            judged = verified(task, [prompt] * len(made), made)
            rollouts += [replace(rollout, metrics=()) for rollout in judged]
    rows, _ = attribution_rows(settings, policy, task, chosen, rollouts)
    wrong = [row for row in rows if row["sample"] == 0]
    about = [row for row in wrong if row["reward"] == "correctness"]
    found = [seen for row in about if (seen := looked_at(row)) is not None]
    if not found:
        raise ValueError(f"{workspace}: replay found no distance in any response")
    shown = next(p.id for p in chosen if len(reference_calls(p.reference)) == 1)
    figure = rollout_heat_map(
        [row for row in wrong if row["prompt_id"] == shown], f"{shown}, one integer too high"
    )
    out.mkdir(parents=True, exist_ok=True)
    save_svg(figure, out / "wrong_argument.svg")
    text = summary(found, len(about))
    record = {"prompt_shown": shown, "summary": text, "responses": found}
    (out / "wrong_argument.json").write_text(json.dumps(record, indent=1) + "\n")
    if page:
        fill(page, text, "wrong argument")
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workspace", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--page", type=Path, help="Markdown page that holds the summary")
    options = parser.parse_args()
    measure(options.workspace, options.out, options.page)


if __name__ == "__main__":
    main()
