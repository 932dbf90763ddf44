"""The stages: what `python -m mrtpo <stage>` does. Each reads files, writes files, and keeps no
state.

Stages import what they need when they run, so that each loads only what it uses.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrtpo import paths
from mrtpo.config import Settings


def write_metrics(stage: str, metrics: Mapping[str, Any]) -> None:
    """`metrics/<stage>.json`: sorted and rounded, so that equal runs give equal files."""
    file = paths.metrics_file(stage)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_rounded(metrics), indent=1, sort_keys=True) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def read_split(split: str) -> list[Any]:
    from mrtpo.records import read_prompts

    prompts = read_prompts(paths.PROMPTS / f"{split}.parquet")
    if not prompts:
        raise ValueError(f"{paths.PROMPTS / f'{split}.parquet'}: no prompts")
    return prompts


def training_state() -> Path:
    """Where the training of the policy at hand kept its state, its MLflow run among it."""
    about = json.loads((paths.POLICY / "training.json").read_text())
    return paths.state_root() / f"train-{about['fingerprint']}"


def prepare(settings: Settings) -> None:
    """Make or read the data set, validate it, and only then put it in place."""
    import pandas as pd

    from mrtpo.data_docs import left_out
    from mrtpo.records import write_prompts
    from mrtpo.tasks import get_task
    from mrtpo.validation import validate_prompts

    building = paths.PROMPTS.with_name(".prompts.new")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    task = get_task(settings, building)
    try:
        prepared = task.prepare()
    finally:
        task.close()
    for split, prompts in prepared.prompts.items():
        write_prompts(building / f"{split}.parquet", prompts)
    counts = prepared.statistics
    for what, split, why, number in left_out(counts):
        print(f"prepare: {what:7} {split:5} {number:7}  {why}")
    summary = validate_prompts(
        pd.DataFrame(prepared.rows), prepared.limits, paths.DATA_DOCS, counts=counts
    )
    shutil.rmtree(paths.PROMPTS, ignore_errors=True)
    building.replace(paths.PROMPTS)
    checks = {"expectations": len(summary.checks), "rows": summary.rows}
    write_metrics("prepare", {**counts, **checks})
    print(
        f"prepare: {summary.rows} prompts in {paths.PROMPTS}, {len(summary.checks)} expectations "
        f"met; see {paths.DATA_DOCS / 'index.html'}"
    )


def warmstart(settings: Settings) -> None:
    """Train the small decoder, or write down which pretrained model takes its place."""
    if settings.model.path is not None:
        paths.WARMSTART.mkdir(parents=True, exist_ok=True)
        note = f"model.path: {settings.model.path}\n"
        (paths.WARMSTART / "skipped.txt").write_text(note)
        write_metrics("warmstart", {"skipped": 1})
        print(f"warmstart: skipped, the policy starts from {settings.model.path}")
        return
    from mrtpo.checkpoint import fingerprint
    from mrtpo.tasks import get_task
    from mrtpo.warmstart import supervised

    relevant = settings.model_dump(include={"task", "seed", "model", "warmstart", "sampling"})
    root = paths.state_root() / f"warmstart-{fingerprint(relevant, [paths.PROMPTS])}"
    task = get_task(settings, paths.PROMPTS)
    try:
        policy, metrics = supervised(settings, read_split("train"), read_split("valid"), task, root)
    finally:
        task.close()
    policy.save(paths.WARMSTART)
    shutil.rmtree(root, ignore_errors=True)
    write_metrics("warmstart", metrics)


def rollout(settings: Settings) -> None:
    """Sample groups from the starting policy and verify them."""
    from mrtpo.loading import starting_policy
    from mrtpo.records import write_rollouts
    from mrtpo.rollouts import sample
    from mrtpo.tasks import get_task

    task = get_task(settings, paths.PROMPTS)
    try:
        rollouts, metrics = sample(
            settings, starting_policy(settings), task, read_split(settings.rollout.split)
        )
    finally:
        task.close()
    write_rollouts(paths.ROLLOUTS, rollouts)
    write_metrics("rollout", metrics)


def attribute(settings: Settings) -> None:
    """Replay the rollouts; write token weights."""
    from mrtpo.loading import starting_policy
    from mrtpo.records import read_rollouts
    from mrtpo.rollouts import attribution_rows, write_attribution
    from mrtpo.tasks import get_task

    rollouts = read_rollouts(paths.ROLLOUTS)
    task = get_task(settings, paths.PROMPTS)
    try:
        rows, metrics = attribution_rows(
            settings, starting_policy(settings), task, read_split(settings.rollout.split), rollouts
        )
    finally:
        task.close()
    write_attribution(paths.ATTRIBUTION, rows)
    write_metrics("attribute", metrics)


def train(settings: Settings) -> None:
    """Train the policy, resuming from the last checkpoint of the same settings, data and code."""
    from mrtpo.training import in_processes, train_policy

    if in_processes(settings):  # each of them comes here by itself
        return
    if metrics := train_policy(settings):
        write_metrics("train", metrics)


def evaluate(settings: Settings) -> None:
    """Score the trained policy on the test split, and keep every prediction."""
    from mrtpo.evaluation import (
        by_group,
        greedy_and_sampled,
        prediction_rows,
        prediction_schema,
    )
    from mrtpo.loading import load_policy
    from mrtpo.progress import Progress
    from mrtpo.records import write_parquet
    from mrtpo.tasks import get_task
    from mrtpo.tracking import RunLog

    prompts = read_split(settings.evaluate.split)[: settings.evaluate.prompts]
    policy = load_policy(paths.POLICY, settings.model, paths.state_root())
    task = get_task(settings, paths.PROMPTS)
    try:
        with Progress("evaluate", len(prompts), unit="prompt") as progress:
            scores = greedy_and_sampled(policy, task, prompts, settings, progress)
    finally:
        task.close()
    rows = prediction_rows(task, prompts, scores.rollouts)
    write_parquet(paths.PREDICTIONS, rows, prediction_schema(task))
    groups = by_group(prompts, scores.rollouts)
    write_metrics("evaluate", {**scores.metrics, "prompts": len(prompts), "groups": groups})
    with RunLog.reopen(settings, training_state()) as log:
        log.finish_metrics(scores.metrics)
    # Not every reward need be any of these prompts'.
    passes = [n for n in (*task.reward_names, *task.metric_names) if n in scores.metrics]
    shown = ", ".join(f"{name} {scores.metrics[name]:.3f}" for name in passes)
    print(f"evaluate: {len(prompts)} {settings.evaluate.split} prompts, greedy: {shown}")


def benchmark(settings: Settings) -> None:
    """Score the trained policy on the public sets that `benchmark.names` lists."""
    names = settings.benchmark.names
    shutil.rmtree(paths.BENCHMARKS, ignore_errors=True)
    paths.BENCHMARKS.mkdir(parents=True)
    if not names:
        (paths.BENCHMARKS / "none.txt").write_text("benchmark.names is empty\n")
        write_metrics("benchmark", {"benchmarks": 0})
        print("benchmark: none named in benchmark.names")
        return
    from mrtpo.benchmarks.score import score_benchmarks
    from mrtpo.checkpoint import fingerprint
    from mrtpo.config import benchmark_folder
    from mrtpo.tracking import RunLog

    relevant = settings.model_dump(
        include={"task", "seed", "data", "model", "sampling", "verifier", "benchmark"}
    )
    state = paths.state_root() / f"benchmark-{fingerprint(relevant, [paths.POLICY])}"
    databases = settings.benchmark.databases
    summaries = score_benchmarks(
        names, benchmark_folder(settings.benchmark), paths.BENCHMARKS, settings,
        model=str(paths.POLICY), databases=Path(databases) if databases else None,
        samples=settings.benchmark.samples, limit=settings.benchmark.limit, state=state,
    )  # fmt: skip
    shutil.rmtree(state)
    metrics = {name: found.headline() for name, found in summaries.items()}
    write_metrics("benchmark", {"benchmarks": len(names), **metrics})
    with RunLog.reopen(settings, training_state()) as log:
        log.finish_metrics({name: found.scores for name, found in summaries.items()}, "benchmark")


def explore(settings: Settings) -> None:
    """Write the page in which the credit of every response can be looked at, and the figures."""
    from mrtpo.report.explorer import write_explorer
    from mrtpo.report.paper import attribution_figures, replace_figures
    from mrtpo.report.source import read_attribution
    from mrtpo.tracking import RunLog

    found = read_attribution(settings)
    write_explorer(paths.EXPLORER, found, settings.report.responses)
    made = {one.number: one for one in attribution_figures(found)}
    written = replace_figures(paths.FIGURES, list(made.values()))
    with RunLog.reopen(settings, training_state()) as log:
        if log.page:
            print(f"MLflow: {log.page}", flush=True)
        log.figure(paths.EXPLORER)
        for one in written:
            for name in (one.svg, one.png, one.data):
                log.figure(paths.FIGURES / name)
            log.table(f"figure_{one.number}", made[one.number].table())
    print(f"explore: {paths.EXPLORER}, {paths.FIGURES}")


def report(settings: Settings) -> None:
    """Write the HTML report."""
    from mrtpo.report.html import write_report
    from mrtpo.report.results import read_results

    write_report(paths.REPORT, read_results(settings))
    print(f"report: {paths.REPORT}")
