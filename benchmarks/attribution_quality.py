"""How well replay finds the tokens that each reward is about, by distance, contexts and pooling.

    python -m benchmarks.attribution_quality OUT --model MODEL --probes [--name NAME] [--page PAGE]
    python -m benchmarks.attribution_quality OUT --workspace DIR [--prompts 64] [--samples 4]

`--probes`: the hand-written responses of `benchmarks/probes`, replayed by MODEL. `--workspace`: a
folder with `params.yaml`, `data/prompts` and `models/warmstart`, whose policy answers training
prompts and replays its own answers; what is responsible there is what the task says. `--set` takes
any setting (`replay.variants`).

Writes OUT/NAME.json (for each task, reward, verdict, form, distance and pooling: share, hit@1,
hit@3 and AUROC with 95 % intervals; `mrtpo.report.quality`, `benchmarks.attribution_scores`),
OUT/NAME.svg, and tables between `<!-- quality NAME -->` and `<!-- /quality NAME -->` of `--page`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.attribution_scores import Case, Row, measured
from benchmarks.attribution_tables import EVERY, METRICS, figure_of, tables
from benchmarks.pages import fill
from benchmarks.probe_set import TASKS, prompts_of, read_probes, tasks_of
from mrtpo.config import Settings, load_settings, with_overrides
from mrtpo.policy import Policy
from mrtpo.records import Rollout
from mrtpo.report.quality import bootstrap
from mrtpo.tasks.text2sql.spans import format_faults

ROOT = Path(__file__).parents[1]


def probe_cases(policy: Policy, settings: Settings, chosen: Sequence[str]) -> list[Case]:
    """The probes as responses of the policy's tokens, with what their verifiers say of them."""
    probes = [probe for probe in read_probes() if probe.task in chosen]
    with tempfile.TemporaryDirectory() as folder:
        prompts, tasks = prompts_of(probes, Path(folder)), tasks_of(Path(folder), settings)
        cases = []
        for probe, prompt in zip(probes, prompts, strict=True):
            ids = policy.tokenizer.encode(probe.response, add_special_tokens=False)
            ids = (*ids, policy.tokenizer.eos_token_id)
            (verdict,) = tasks[probe.task].verify([prompt], [probe.response])
            rollout = Rollout(
                probe.id, 0, policy.prompt_ids(prompt.messages), ids, (0.0,) * len(ids),
                policy.text(ids), True, verdict.rewards,
            )  # fmt: skip
            signs = {name: 1 if passed else -1 for name, passed in probe.passes.items()}
            cases.append(Case(probe.task, probe.id, prompt, rollout, signs, probe.spans))
        for task in tasks.values():
            task.close()
    return cases


def own_cases(policy: Policy, settings: Settings, split: str) -> list[Case]:
    """What the workspace's policy answers; answers to one prompt are one cluster."""
    from mrtpo import paths
    from mrtpo.records import read_prompts
    from mrtpo.rollouts import sample
    from mrtpo.tasks import get_task

    task = get_task(settings, paths.PROMPTS)
    prompts = read_prompts(paths.PROMPTS / f"{split}.parquet")
    rollouts, _ = sample(settings, policy, task, prompts)
    by_id = {prompt.id: prompt for prompt in prompts}
    most = {"correctness": settings.rewards.tools.largest}
    cases = []
    for rollout in rollouts:
        prompt = by_id[rollout.prompt_id]
        signs = {
            r.name: 1 if r.value >= most.get(r.name, 1.0) else -1
            for r in rollout.rewards
            if r.value is not None
        }
        known = task.spans(prompt, rollout.text)
        if settings.task == "text2sql" and signs.get("format") == -1:
            # The method `oracle` blames all tags; here, as in the probes, what is wrong alone.
            known["format"] = format_faults(rollout.text) or known["format"]
        cases.append(Case(settings.task, rollout.prompt_id, prompt, rollout, signs, known))
    task.close()
    return cases


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def summarised(rows: Sequence[Row]) -> list[Row]:
    """Mean and interval of each metric by task, reward, verdict, form, distance and pool; rewards
    and verdicts also all together."""
    widened = [
        {**row, "reward": reward, "verdict": verdict}
        for row in rows
        for reward in (row["reward"], EVERY)
        for verdict in (row["verdict"], EVERY)
    ]
    keys = ("task", "reward", "verdict", "form", "distance", "pool")
    return [
        {
            **dict(zip(keys, key, strict=True)), "n": len(own),
            "uniform": round(sum(r["uniform"] for r in own) / len(own), 4),
            "sum": _digits(sum(r["sum"] for r in own) / len(own)),
            "largest": _digits(max(r["largest"] for r in own)),
            **{m: _interval([r[m] for r in own], [r["cluster"] for r in own]) for m in METRICS},
        }
        for key, own in grouped(widened, *keys).items()
    ]  # fmt: skip


def _interval(values: Sequence[float], clusters: Sequence[str]) -> list[float]:
    found = bootstrap(values, clusters)
    return [round(x, 4) for x in (found.mean, found.low, found.high)]


def _digits(value: float) -> float:
    return float(f"{value:.3g}")


def confused(lies: Sequence[Row]) -> list[Row]:
    """Mean share of each reward's distance on each reward's tokens, and the tokens' share."""
    keys = ("task", "distance", "reward", "on")
    found = []
    for key, own in grouped((r for r in lies if r["share"] == r["share"]), *keys).items():
        shares, even = [r["share"] for r in own], [r["uniform"] for r in own]
        found.append(
            {**dict(zip(keys, key, strict=True)), "n": len(own),
             "share": _interval(shares, [r["cluster"] for r in own]),
             "uniform": round(sum(even) / len(even), 4)}
        )  # fmt: skip
    return found


def measure(options: argparse.Namespace) -> None:
    import torch

    from mrtpo.loading import starting_policy

    torch.set_num_threads(1)
    out, page = options.out.resolve(), options.page and options.page.resolve()
    if options.workspace:
        os.chdir(options.workspace)
        changes = [f"rollout.prompts={options.prompts}", f"sampling.group_size={options.samples}"]
        settings = with_overrides(load_settings(), [*changes, *options.set])
        policy = starting_policy(settings)
        cases = own_cases(policy, settings, options.split)
        about = (f"{options.prompts} {options.split} prompts, {options.samples} answers each by "
                 "the warm start, replayed by itself; intervals over prompts.")  # fmt: skip
    else:
        model = Path(options.model).resolve() if Path(options.model).exists() else options.model
        settings = with_overrides(
            load_settings(ROOT / "params.yaml"), [f"model.path={model}", *options.set]
        )
        policy = starting_policy(settings)
        cases = probe_cases(policy, settings, options.tasks)
        about = (f"{len(cases)} hand-written responses, replayed by {Path(options.model).stem}; "
                 "intervals over responses.")  # fmt: skip
    rows: list[Row] = []
    lies: list[Row] = []
    for number, case in enumerate(cases, start=1):
        own, where = measured(policy, case, settings.replay.variants, settings.sampling.temperature)
        rows += [row for row in own if row["auroc"] == row["auroc"]]
        lies += where
        if number % 20 == 0:
            print(f"{number} of {len(cases)} responses", flush=True)
    replay = settings.replay
    result = {
        "about": about, "settings": options.set, "responses": len(cases),
        "default": {"form": replay.contexts, "distance": replay.distance, "pool": replay.pool},
        "confusion": confused(lies), "summary": summarised(rows),
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    write(result, out / f"{options.name}.json")
    figure_of(result["summary"], out / f"{options.name}.svg")
    text = tables(result)
    if page:
        fill(page, text, f"quality {options.name}")
    print(text)


def write(result: dict[str, Any], path: Path) -> None:
    """JSON with one line for each entry of its lists."""
    head = {k: v for k, v in result.items() if not isinstance(v, list) or k == "settings"}
    text = json.dumps(head)[:-1]
    for name in ("confusion", "summary"):
        text += f',\n"{name}": [\n' + ",\n".join(map(json.dumps, result[name])) + "]"
    path.write_text(text + "}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--name", help="of the files and of the page's marks")
    parser.add_argument("--probes", action="store_true")
    parser.add_argument("--model", help="hub id, folder or GGUF file that replays the probes")
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS, help="of the probes")
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--split", default="train", choices=("train", "valid", "test"))
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--page", type=Path, help="Markdown page that holds the tables")
    options = parser.parse_args()
    if options.probes == bool(options.workspace) or (options.probes and not options.model):
        parser.error("give --workspace, or --probes with --model")
    options.name = options.name or ("probes" if options.probes else options.workspace.name)
    measure(options)


if __name__ == "__main__":
    main()
