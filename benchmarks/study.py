"""The study: methods on tasks, a learning rate tuned for each, several seeds, paired by seed.

    python -m benchmarks.study OUT                     everything that study.yaml names
    python -m benchmarks.study OUT --tasks tools --methods gdpo mrtpo
    python -m benchmarks.study OUT --smoke             minutes, to see that all of it works
    python -m benchmarks.study OUT --plan benchmarks/ablations.yaml      one choice at a time
    python -m benchmarks.study OUT --plan benchmarks/conditions.yaml     where it pays

On each task prompts and one warm start are made once; a task with `start` takes its policy from the
one of the plan's `starts` with that name, made on prompts of its own settings. Each method is then
trained with each of `rates` on `tuning_seeds`; the rate with the largest area under the main
reward's training curve is its own. With it the method is trained on seeds 0, 1, … , and scored on
the test split. Runs are processes of one thread, `--processes` at a time; they live below `--work`,
are skipped when done and resume when killed, so that the same command may be given again. A run
that OUT/results.json has already, from the same start and with the same settings, is not made again
either, so that a study can go on on another machine.

Writes OUT/results.json (a row a run: task, method, seed, settings, steps and seconds to each
threshold, areas, finals, the main reward's curve), OUT/<task>.svg, and tables between the lines
`<!-- PLAN -->` and `<!-- /PLAN -->` of `--page`, PLAN being the plan's name, after each run.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks.curves import DONE, branch, link, stages
from benchmarks.pages import chosen, fill
from benchmarks.step import machine
from benchmarks.study_figure import overview
from benchmarks.study_table import area, page, steps_to
from mrtpo.config import Settings, load_settings, with_overrides
from mrtpo.progress import Progress
from mrtpo.report.figures import save_svg

PLAN = Path(__file__).with_name("study.yaml")
SMOKE = ["warmstart.steps=20", "train.steps=2", "train.evaluate_every=2", "train.warmup_steps=1",
         "data.train_prompts=400", "data.valid_prompts=100", "data.test_prompts=100",
         "train.evaluate_prompts=8", "evaluate.prompts=8", "replay.gain_prompts=2"]  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One training: `changes` are its settings beside the task's."""

    task: str
    method: str
    seed: int
    rate: float
    changes: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.method}-{self.seed}-{self.rate:g}"

    @property
    def overrides(self) -> list[str]:
        return [*self.changes, f"train.learning_rate={self.rate!r}", f"seed={self.seed}"]


def read_plan(path: Path, tasks: Sequence[str], methods: Sequence[str]) -> dict[str, Any]:
    """The plan, of the tasks and methods that are asked for, each task with what all have set.
    Raises ValueError on another one."""
    plan: dict[str, Any] = yaml.safe_load(path.read_text())
    for key, wanted in (("tasks", tasks), ("methods", methods)):
        names = chosen(plan[key], wanted, f"{path}: {key}")
        plan[key] = {name: plan[key][name] for name in names}
    for about in plan["tasks"].values():
        about["set"] = [*plan.get("set", []), *about["set"]]
    return plan


def rates_of(task: str, plan: dict[str, Any]) -> list[float]:
    """The learning rates that a task's methods are tried with: its own, or the plan's."""
    rates: list[float] = plan["tasks"][task].get("rates", plan["rates"])
    return rates


def tuning_runs(task: str, plan: dict[str, Any]) -> list[Run]:
    """Every method with every rate, on the seeds kept for it; none where there is one rate."""
    if len(rates := rates_of(task, plan)) == 1:
        return []
    return [
        Run(task, method, seed, rate, tuple(about["set"]))
        for seed in plan["tuning_seeds"]
        for method, about in plan["methods"].items()
        for rate in rates
    ]


def chosen_rates(
    task: str, rows: Sequence[dict[str, Any]], plan: dict[str, Any]
) -> dict[str, float]:
    """By method, the rate with the largest mean area of the main reward."""
    if len(rates := rates_of(task, plan)) == 1:
        return dict.fromkeys(plan["methods"], rates[0])
    frame = pd.DataFrame(rows)
    means = frame.groupby(["method", "rate"])["main_area"].mean()
    return {method: float(means[method].idxmax()) for method in plan["methods"]}


def final_runs(task: str, plan: dict[str, Any], rates: dict[str, float]) -> list[Run]:
    """By seed, so that an unfinished study has whole pairs."""
    most = max(about["seeds"] for about in plan["methods"].values())
    return [
        Run(task, method, seed, rates[method], tuple(about["set"]))
        for seed in range(most)
        for method, about in plan["methods"].items()
        if seed < about["seeds"]
    ]


def row_of(run: Run, folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What a finished run says of its method."""
    history = pd.read_csv(folder / "reports/train/history.csv")
    metrics = json.loads((folder / "metrics/evaluate.json").read_text())
    seconds = json.loads((folder / DONE).read_text())["seconds"]
    rewards = {
        name.split("/")[1]: history[name]
        for name in history.columns
        if name.startswith(("reward/", "metric/")) and name.endswith("/mean")
    }
    reached = {str(t): steps_to(rewards[about["main"]], t) for t in about["thresholds"]}
    spent = {t: None if n is None else round(seconds * n / len(history), 1)
             for t, n in reached.items()}  # fmt: skip
    spread = [c for c in history.columns if c.endswith("/n_eff_share")]
    return {
        "task": run.task, "method": run.method, "seed": run.seed, "rate": run.rate,
        "settings": run.overrides, "seconds": seconds,
        "steps_to": reached, "seconds_to": spent,
        "main_area": round(area(rewards[about["main"]]), 5),
        "main_curve": [round(float(v), 4) for v in rewards[about["main"]]],
        "areas": {name: round(area(column), 5) for name, column in rewards.items()},
        "test": {k: round(v, 5) for k, v in metrics.items() if not isinstance(v, dict)},
        "response_length": round(float(history["response/length"].mean()), 3),
        "grad_norm": round(float(history["policy/grad_norm"].mean()), 4),
        "n_eff_share": round(float(history[spread].mean(axis=None)), 4) if spread else None,
    }  # fmt: skip


class Study:
    """The runs of one task, and what is known of them so far (`found`)."""

    def __init__(
        self, task: str, plan: dict[str, Any], options: argparse.Namespace, known: dict[str, Any]
    ) -> None:
        self.task, self.plan, self.about = task, plan, plan["tasks"][task]
        self.work, self.options = options.work / task, options
        changes = [
            *self.about["set"], *(SMOKE if options.smoke else []),
            f"tracking.experiment={options.plan.stem}-{task}",
        ]  # fmt: skip
        self.settings: Settings = with_overrides(load_settings(options.params), changes)
        start = json.loads((self._start() / "metrics/warmstart.json").read_text())
        same = known.get("start") == start and known.get("about") == self.about
        self.known = [*known["tuning"], *known["runs"]] if same else []
        if not same:
            known = {"tuning": [], "rates": {}, "runs": []}
        # Methods that are not asked for keep what they have, the others what still is theirs.
        asked = {name: list(about["set"]) for name, about in plan["methods"].items()}
        self.found = {"about": self.about, "start": start, "rates": known["rates"]}
        self.others: dict[str, list[dict[str, Any]]] = {}
        for where in ("tuning", "runs"):
            rows = known[where]
            self.others[where] = [row for row in rows if row["method"] not in asked]
            own = [row for row in rows if row["settings"][:-2] == asked.get(row["method"])]
            self.found[where] = self.others[where] + own

    def _start(self) -> Path:
        """Prompts and policy below `work`/start, and where that policy was made: there, or, if the
        task names one of the plan's `starts`, in a folder that tasks share."""
        folder = self.work / "start"
        if (name := self.about.get("start")) is None:
            stages(folder, self.settings, ("prepare", "warmstart"))
            return folder
        shared = self.options.work / "starts" / name
        smoke = SMOKE if self.options.smoke else []
        settings = with_overrides(
            load_settings(self.options.params),
            [*self.plan.get("set", []), *self.plan["starts"][name], *smoke],
        )
        stages(shared, settings, ("prepare", "warmstart"))
        stages(folder, self.settings, ("prepare",))
        link(folder, shared, "models/warmstart")
        return shared

    def go(self, write: Callable[[], None]) -> None:
        """Tuning, then the runs that count; `write` is called after each."""
        self._trained(tuning_runs(self.task, self.plan), "tuning", write)
        rates = chosen_rates(self.task, self.found["tuning"], self.plan)
        self.found["rates"] = self.found["rates"] | rates
        self._trained(final_runs(self.task, self.plan, rates), "runs", write)

    def _trained(self, runs: Sequence[Run], where: str, write: Callable[[], None]) -> None:
        lock = threading.Lock()
        place = {run.name: at for at, run in enumerate(runs)}
        made = {name: row for name, row in ((r.name, self._made(r)) for r in runs) if row}
        rows = {place[name]: row for name, row in made.items()}

        def keep() -> None:
            self.found[where] = [*self.others[where], *(rows[at] for at in sorted(rows))]
            write()

        def one(run: Run) -> None:
            row = self._row(run)
            with lock:
                rows[place[run.name]] = row
                keep()
                progress.update(len(rows), {run.name: row["main_area"]})

        keep()
        with (
            Progress(f"{self.task}: {where}", len(runs), len(rows), "run") as progress,
            ThreadPoolExecutor(self.options.processes) as threads,
        ):
            list(threads.map(one, [run for run in runs if run.name not in made]))

    def _made(self, run: Run) -> dict[str, Any] | None:
        """The row that the record has of a run, with the same settings and from the same start."""
        return next((r for r in self.known if r["settings"] == run.overrides), None)

    def _row(self, run: Run) -> dict[str, Any]:
        folder = self.work / run.name
        branch(folder, self.work / "start")
        settings = with_overrides(self.settings, run.overrides)
        stages(folder, settings, ("train", "evaluate"))
        row = row_of(run, folder, self.about)
        print(f"{self.task} {run.name}: {self.about['main']} {row['main_area']}", flush=True)
        return row


def study(options: argparse.Namespace) -> None:
    plan = read_plan(options.plan, options.tasks, options.methods)
    if options.smoke:
        if not options.methods:
            plan["methods"] = {name: plan["methods"][name] for name in plan["figure"]}
        plan["tuning_seeds"] = plan["tuning_seeds"][:1]
        for name, about in plan["tasks"].items():
            about["rates"] = rates_of(name, plan)[:2]
        for about in plan["methods"].values():
            about["seeds"] = min(2, about["seeds"])
    path = options.out / "results.json"
    tasks = json.loads(path.read_text())["tasks"] if path.is_file() else {}
    options.out.mkdir(parents=True, exist_ok=True)
    for task in plan["tasks"]:
        own = Study(task, plan, options, tasks.get(task, {}))
        tasks[task] = own.found

        def write(own: Study = own) -> None:
            temporary = path.with_suffix(".new")
            temporary.write_text(json.dumps({"machine": machine(), "tasks": tasks}) + "\n")
            temporary.replace(path)
            if own.found["runs"]:
                figure = overview(own.found["runs"], own.about, plan["figure"])
                save_svg(figure, options.out / f"{own.task}.svg")
                if options.page:
                    fill(options.page, page(tasks), options.plan.stem)

        own.go(write)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the record and the figures")
    parser.add_argument("--plan", type=Path, default=PLAN)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    parser.add_argument("--tasks", nargs="+", default=[])
    parser.add_argument("--methods", nargs="+", default=[])
    parser.add_argument("--work", type=Path, help="[runs/<the plan's name>]")
    parser.add_argument("--page", type=Path, help="Markdown page that holds the tables")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time [2]")
    parser.add_argument(
        "--smoke", action="store_true", help="tiny runs, two seeds, the figure's methods"
    )
    options = parser.parse_args()
    options.work = options.work or Path("runs", options.plan.stem)
    return options


if __name__ == "__main__":
    study(parse())
