"""Methods and seeds compared on one task from one warm start, as in Fig. 4 of the paper.

    python -m benchmarks.curves OUT --set task=tools --methods grpo gdpo mrtpo --seeds 0 1 2

`--set` takes any setting. Prompts and the warm start are made once (the stages `prepare` and
`warmstart`, by the seed of the settings); each run is the stages `train` and `evaluate` with its
own method and seed, in one process of one thread. Runs live below `--work`, are skipped when they
are done and resume when they were killed, so the same command may be given again. It fails if a
folder there was made with other settings.

Writes OUT/curves.json (settings, starting scores, one entry a run: rewards while training,
evaluations, test scores), OUT/curves.svg (median and quartiles over seeds), and puts a table
between the lines `<!-- curves -->` and `<!-- /curves -->` of `--page`, if one is named.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks.pages import fill
from benchmarks.step import machine
from mrtpo.config import Settings, load_settings, with_overrides
from mrtpo.report.curve_figures import method_curves
from mrtpo.report.curves import read_comparison
from mrtpo.report.figures import save_svg

DONE = "done.json"
HIDDEN = ("undecided/", "gain/")


def stages(folder: Path, settings: Settings, names: Sequence[str]) -> None:
    """Run stages in `folder` as a workspace, unless that was done with the same settings; tracked
    in `$MLFLOW_TRACKING_URI`, or mlflow.db where this was started.

    Raises ValueError if the folder holds other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    params, text = folder / "params.yaml", yaml.safe_dump(settings.model_dump(), sort_keys=False)
    if params.is_file() and params.read_text() != text:
        raise ValueError(f"{params}: made with other settings; choose another --work, or delete it")
    params.write_text(text)
    if (folder / DONE).is_file():
        return
    surroundings = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    surroundings["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))
    )
    surroundings.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{Path('mlflow.db').resolve()}")
    surroundings["MRTPO_RUN_NAME"] = "-".join(folder.parts[-2:])
    for name in ("MRTPO_STATE", "MRTPO_EVENTS"):  # those of who runs all this
        surroundings.pop(name, None)
    begun = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.curves", "--stages", *names]
    with open(folder / "log.txt", "a") as log:
        code = subprocess.run(command, cwd=folder, env=surroundings, stdout=log, stderr=log)
    if code.returncode:
        raise RuntimeError(f"{folder}: {', '.join(names)} failed; see {folder / 'log.txt'}")
    spent = {"seconds": round(time.monotonic() - begun, 1)}
    (folder / DONE).write_text(json.dumps(spent) + "\n")


def run_stages(names: Sequence[str]) -> None:
    """The stages in this process, in the current folder."""
    import torch

    from mrtpo import stages as all_stages

    torch.set_num_threads(1)
    settings = load_settings()
    for name in names:
        getattr(all_stages, name)(settings)


def branch(folder: Path, start: Path) -> None:
    """A workspace with the prompts and the policy of `start`."""
    link(folder, start, "data/prompts", "models/warmstart")


def link(folder: Path, source: Path, *names: str) -> None:
    """Links in `folder` to folders of `source`, where they are not yet."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to((source / name).resolve(), target_is_directory=True)


def record(folder: Path, method: str, seed: int) -> dict[str, Any]:
    """What a finished run gave."""
    history = pd.read_csv(folder / "reports/train/history.csv")
    evaluations = pd.read_csv(folder / "reports/train/evaluations.csv")
    evaluated = json.loads((folder / "metrics/evaluate.json").read_text())
    trained = json.loads((folder / "metrics/train.json").read_text())
    kept = [
        name
        for name in history.columns
        if (name.startswith("reward/") and name.endswith("/mean")) or name == "response/length"
    ]
    test = {k: v for k, v in evaluated.items() if not isinstance(v, dict)}
    return {
        "method": method, "seed": seed, **json.loads((folder / DONE).read_text()),
        "best_step": trained["best_step"],
        "trusted": {name: gain["trusted"] for name, gain in trained["gain"].items()},
        "test": {k: round(v, 4) for k, v in test.items()},
        "kinds": {
            name.removeprefix("kind/"): {k: round(v, 4) for k, v in scores.items()}
            for name, scores in evaluated.get("groups", {}).items()
            if name.startswith("kind/")
        },
        "history": _columns(history[["step", *kept]]),
        "evaluations": _columns(evaluations),
    }  # fmt: skip


def _columns(frame: pd.DataFrame) -> dict[str, list[float | None]]:
    """Rounded columns; what was not measured is None."""
    return {
        str(name): [None if pd.isna(value) else round(float(value), 4) for value in frame[name]]
        for name in frame.columns
        if not str(name).startswith(HIDDEN)
    }


def table(result: dict[str, Any]) -> str:
    """The start, and test scores: median over seeds and, behind it, the least and the most."""
    runs = result["runs"]
    names = tabled(runs[0]["test"])
    lines = [
        *start_lines(result["start"]), "",
        f"{len(runs)} runs of {result['steps']} steps from this start, {_minutes(runs)} each; "
        f"{runs[0]['test']['prompts']:.0f} test prompts; median over seeds (least to most):", "",
        f"| method | seeds | {' | '.join(names)} |",
        "|---" * (len(names) + 2) + "|",
    ]  # fmt: skip
    for method in dict.fromkeys(run["method"] for run in runs):
        mine = [run for run in runs if run["method"] == method]
        cells = [_spread([run["test"][name] for run in mine]) for name in names]
        lines.append(f"| {method} | {len(mine)} | {' | '.join(cells)} |")
    lines += kind_lines(runs)
    replayed = [run for run in runs if run["trusted"]]
    if replayed:
        counts = [
            f"{name} {sum(run['trusted'][name] for run in replayed)}"
            for name in replayed[0]["trusted"]
        ]
        lines += [
            "",
            f"Runs with replay: {len(replayed)}; their last check found a gain from what is told "
            f"in: {', '.join(counts)}.",
        ]
    return "\n".join(lines)


def kind_lines(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Greedy test scores by kind of prompt: median over the seeds of each method, in order."""
    kinds = runs[0]["kinds"]
    if len(kinds) < 2:
        return []
    methods = list(dict.fromkeys(run["method"] for run in runs))
    names = [name for name in tabled(next(iter(kinds.values()))) if name != "response_length"]
    lines = ["", f"By kind of prompt, medians of {' / '.join(methods)}:", "",
             f"| kind | prompts | {' | '.join(names)} |",
             "|---" * (len(names) + 2) + "|"]  # fmt: skip
    for kind, scores in kinds.items():
        cells = []
        for name in names:
            medians = [
                statistics.median(r["kinds"][kind][name] for r in runs if r["method"] == method)
                for method in methods
            ]
            cells.append(" / ".join(map(_number, medians)))
        lines.append(f"| {kind} | {scores['prompts']:.0f} | {' | '.join(cells)} |")
    return lines


def start_lines(start: dict[str, Any]) -> list[str]:
    """Scores of the warm start by what it is told: information on a reward must raise it. None of
    a pretrained model."""
    if "train" not in start:
        return []
    names = tabled(start["train"])
    rows = [("train, sampled", start["train"])]
    rows += [(f"the same, told {name}", scores) for name, scores in sorted(start["told"].items())]
    rows += [("valid, sampled", start["valid"]), ("valid, greedy", start["valid_greedy"])]
    return [
        "The starting policy:", "", f"| prompts | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
        *(f"| {label} | {' | '.join(_number(scores[n]) for n in names)} |"
          for label, scores in rows),
    ]  # fmt: skip


def tabled(scores: Iterable[str]) -> list[str]:
    """The scores that tables show."""
    left_out = ("prompts", "truncated", "sampled/truncated")
    return [name for name in scores if name not in left_out and not name.startswith("undecided/")]


def _minutes(runs: Sequence[dict[str, Any]]) -> str:
    return f"{statistics.median(run['seconds'] for run in runs) / 60:.1f} minutes"


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def _spread(values: Sequence[float]) -> str:
    low, high = _number(min(values)), _number(max(values))
    return f"{_number(statistics.median(values))} ({low} to {high})"


def compare(options: argparse.Namespace) -> None:
    """All runs, then the record, the figure and the table; also after each run, as far as it is."""
    settings = with_overrides(load_settings(options.params), options.set)
    work = options.work or Path("runs") / f"curves-{settings.task}"
    start = work / "start"
    stages(start, settings, ("prepare", "warmstart"))
    result: dict[str, Any] = {
        "task": settings.task, "steps": settings.train.steps, "changed": options.set,
        "machine": machine(),
        "start": json.loads((start / "metrics/warmstart.json").read_text()),
        "runs": [],
    }  # fmt: skip
    for seed in options.seeds:
        for method in options.methods:
            folder = work / f"{method}-{seed}"
            own = with_overrides(settings, [f"train.method={method}", f"seed={seed}"])
            branch(folder, start)
            stages(folder, own, ("train", "evaluate"))
            result["runs"].append(record(folder, method, seed))
            print(f"{method} {seed}: {json.dumps(result['runs'][-1]['test'])}", flush=True)
            write(result, options)


def write(result: dict[str, Any], options: argparse.Namespace) -> None:
    order = {method: at for at, method in enumerate(options.methods)}
    ordered = sorted(result["runs"], key=lambda run: (order[run["method"]], run["seed"]))
    options.out.mkdir(parents=True, exist_ok=True)
    whole = result | {"runs": ordered}
    file = options.out / "curves.json"
    file.write_text(json.dumps(whole) + "\n")
    save_svg(method_curves(read_comparison(file)), options.out / "curves.svg")
    if options.page:
        fill(options.page, table(whole), "curves")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?", help="folder of the record and the figure")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--methods", nargs="+", default=["grpo", "gdpo", "mrtpo"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--work", type=Path, help="folder of the runs [runs/curves-<task>]")
    parser.add_argument("--page", type=Path, help="Markdown page that holds the table")
    parser.add_argument("--stages", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.out and not options.stages:
        parser.error("name the folder OUT")
    return options


if __name__ == "__main__":
    given = parse()
    if given.stages:
        run_stages(given.stages)
    else:
        compare(given)
