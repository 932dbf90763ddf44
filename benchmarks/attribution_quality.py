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
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.attribution_scores import DISTANCES, FORMS, POOLS, Case, Row, measured
from benchmarks.curves import fill
from benchmarks.probe_set import TASKS, prompts_of, read_probes, tasks_of
from mrtpo.config import Settings, load_settings, with_overrides
from mrtpo.policy import Policy
from mrtpo.records import Rollout
from mrtpo.report.quality import bootstrap

METRICS = ("share", "hit@1", "hit@3", "auroc")
EVERY = "all"
ROOT = Path(__file__).parents[1]


def probe_cases(policy: Policy, settings: Settings) -> list[Case]:
    """The probes as responses of the policy's tokens, with what their verifiers say of them."""
    probes = read_probes()
    with tempfile.TemporaryDirectory() as folder:
        prompts, tasks = prompts_of(probes, Path(folder)), tasks_of(Path(folder), settings)
        cases = []
        for probe, prompt in zip(probes, prompts, strict=True):
            ids = policy.tokenizer.encode(probe.response, add_special_tokens=False)
            ids = (*ids, policy.tokenizer.eos_token_id)
            rewards: tuple[Any, ...] = ()
            if probe.task in tasks:
                rewards = tasks[probe.task].verify([prompt], [probe.response])[0].rewards
            rollout = Rollout(
                probe.id, 0, policy.prompt_ids(prompt.messages), ids, (0.0,) * len(ids),
                policy.text(ids), True, rewards,
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
        cases.append(Case(settings.task, rollout.prompt_id, prompt, replace(rollout), signs, known))
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


def pick(summary: Iterable[Row], **wanted: str) -> Row | None:
    return next((r for r in summary if all(r[k] == v for k, v in wanted.items())), None)


def shown(interval: Sequence[float]) -> str:
    mean, low, high = interval
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def tables(result: dict[str, Any]) -> str:
    """The Markdown tables of a result."""
    summary, default = result["summary"], result["default"]
    tasks = [task for task in TASKS if any(r["task"] == task for r in summary)]
    lines = [
        f"{result['about']} Distance `{default['distance']}`, contexts `{default['form']}`, "
        f"pooling `{default['pool']}`; 95 % intervals.", "",
        "| task | reward | verdict | n | tokens | share | hit@1 | hit@3 | AUROC | placebo AUROC |",
        "|---" * 10 + "|",
    ]  # fmt: skip
    for row in sorted(
        (r for r in summary if all(r[k] == v for k, v in default.items())), key=_order
    ):
        placebo = pick(
            summary, **{k: row[k] for k in ("task", "reward", "verdict", "distance")},
            form="placebo", pool="none",
        )  # fmt: skip
        assert placebo is not None
        cells = [shown(row[m]) for m in METRICS]
        lines.append(
            f"| {row['task']} | {row['reward']} | {row['verdict']} | {row['n']} | "
            f"{row['uniform']:.2f} | {' | '.join(cells)} | {placebo['auroc'][0]:.2f} |"
        )
    heads = [f"{task} {verdict}" for task in tasks for verdict in ("pass", "fail")]
    lines += ["", "AUROC of all rewards together, leave-one-out / add-one-in / placebo:", "",
              f"| distance | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]  # fmt: skip
    for distance in DISTANCES:
        lines.append(f"| {distance} | {' | '.join(_forms(summary, tasks, distance))} |")
    lines += ["", f"AUROC and hit@1 of `{default['distance']}` by pooling, leave-one-out:", "",
              f"| pool | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]  # fmt: skip
    for pool in POOLS:
        cells = []
        for task in tasks:
            for verdict in ("pass", "fail"):
                own = pick(summary, task=task, reward=EVERY, verdict=verdict, pool=pool,
                           form=FORMS[0], distance=default["distance"])  # fmt: skip
                cells.append(f"{own['auroc'][0]:.2f}, {own['hit@1'][0]:.2f}" if own else "")
        lines.append(f"| {pool} | {' | '.join(cells)} |")
    lines += ["", f"Share of each reward's distance (`{default['distance']}`) on the tokens of "
              "each; in brackets, of the tokens:", "", "| task | reward | on | n | share |",
              "|---" * 5 + "|"]  # fmt: skip
    for row in result["confusion"]:
        if row["distance"] == default["distance"]:
            lines.append(
                f"| {row['task']} | {row['reward']} | {row['on']} | {row['n']} | "
                f"{shown(row['share'])} [{row['uniform']:.2f}] |"
            )
    null = max(r["largest"] for r in summary if r["form"] == "null"
               and r["distance"] in ("js", "abs_logprob"))  # fmt: skip
    lines += ["", f"Null replay: no distance `js` or `abs_logprob` above {null:.1g}."]
    return "\n".join(lines)


def _order(row: Row) -> tuple[int, bool, str, str]:
    return TASKS.index(row["task"]), row["reward"] == EVERY, row["reward"], row["verdict"]


def _forms(summary: Sequence[Row], tasks: Sequence[str], distance: str) -> Iterable[str]:
    for task in tasks:
        for verdict in ("pass", "fail"):
            found = [
                pick(summary, task=task, reward=EVERY, verdict=verdict, distance=distance,
                     pool="none", form=form) for form in FORMS[:3]
            ]  # fmt: skip
            yield " / ".join(f"{r['auroc'][0]:.2f}" for r in found if r)


def figure_of(summary: Sequence[Row], path: Path) -> None:
    """AUROC by distance: leave-one-out, add-one-in and placebo, a panel for each task and
    verdict."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from mrtpo.report.figures import BLUE, FAINT, INK, ORANGE, STYLE

    tasks = [task for task in TASKS if any(r["task"] == task for r in summary)]
    looks = {FORMS[0]: (BLUE, "o", -0.2), FORMS[1]: (ORANGE, "s", 0.0), FORMS[2]: (FAINT, "x", 0.2)}
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure = Figure((7.6, 2.7 * len(tasks) + 0.6))
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(tasks), 2, squeeze=False, sharex=True, sharey=True)
        for task, line in zip(tasks, grid, strict=True):
            for verdict, axes in zip(("pass", "fail"), line, strict=True):
                for form, (colour, marker, shift) in looks.items():
                    for at, distance in enumerate(DISTANCES):
                        row = pick(summary, task=task, reward=EVERY, verdict=verdict, form=form,
                                   distance=distance, pool="none")  # fmt: skip
                        if row is None:
                            continue
                        mean, low, high = row["auroc"]
                        name = form.replace("_", "-") if at == 0 else None
                        axes.plot([low, high], [at + shift] * 2, color=colour, lw=1.2)
                        axes.plot(mean, at + shift, marker, color=colour, ms=4.5, label=name)
                axes.axvline(0.5, color=INK, lw=0.8, ls=":")
                axes.set(title=f"{task}, {verdict}", xlim=(0, 1.02))
                axes.set_yticks(range(len(DISTANCES)), DISTANCES)
        grid[0, 0].invert_yaxis()
        for axes in grid[-1]:
            axes.set_xlabel("AUROC of the responsible tokens (mean, 95 %)")
        handles, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="upper right", ncols=3, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / (2.7 * len(tasks) + 0.6)))
        figure.savefig(path, metadata={"Date": None, "Creator": None})


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
        cases = probe_cases(policy, settings)
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
        fill(page, text, (f"<!-- quality {options.name} -->", f"<!-- /quality {options.name} -->"))
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
