"""`python -m mrtpo <stage>`: the commands that `dvc.yaml` runs, and that people may run by hand.

`python -m mrtpo score` judges predictions or a checkpoint on a public benchmark.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from mrtpo.benchmarks import BENCHMARKS
from mrtpo.config import SettingsError, load_settings

app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
Params = Annotated[Path, typer.Option(help="Settings file.")]
DEFAULT = Path("params.yaml")


@contextlib.contextmanager
def _stoppable(stage: str) -> Iterator[None]:
    """What a user can put right is told in one line; a stop request unwinds, so that `finally`
    blocks close runs and verifier processes."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    except (SettingsError, ValueError, FileNotFoundError) as error:
        _fail(stage, str(error))
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _run(stage: str, params: Path) -> None:
    with _stoppable(stage):
        settings = load_settings(params)
        getattr(importlib.import_module("mrtpo.stages"), stage)(settings)


def _fail(stage: str, message: str) -> NoReturn:
    typer.secho(f"{stage}: {message}", fg="red", err=True)
    raise typer.Exit(2)


@app.command()
def check(params: Params = DEFAULT) -> None:
    """Validate the settings and say nothing else."""
    try:
        load_settings(params)
    except SettingsError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{params}: fine")


@app.command()
def prepare(params: Params = DEFAULT) -> None:
    """Make or read the data set, validate it, write data/prompts."""
    _run("prepare", params)


@app.command()
def warmstart(params: Params = DEFAULT) -> None:
    """Train the small decoder on demonstrations (or note that a pretrained model is used)."""
    _run("warmstart", params)


@app.command()
def rollout(params: Params = DEFAULT) -> None:
    """Sample groups from the starting policy, verify them, write data/rollouts."""
    _run("rollout", params)


@app.command()
def attribute(params: Params = DEFAULT) -> None:
    """Replay the rollouts, write token weights."""
    _run("attribute", params)


@app.command()
def train(params: Params = DEFAULT) -> None:
    """Train the policy; resumes from the last checkpoint of the same settings, data and code."""
    _run("train", params)


@app.command()
def evaluate(params: Params = DEFAULT) -> None:
    """Score the trained policy on the test split."""
    _run("evaluate", params)


@app.command()
def benchmark(params: Params = DEFAULT) -> None:
    """Score the trained policy on the public sets of `benchmark.names`."""
    _run("benchmark", params)


@app.command()
def score(
    benchmarks: Annotated[
        list[str], typer.Argument(help=f"One or more of: {', '.join(BENCHMARKS)}; or `all`.")
    ],
    data: Annotated[
        Path, typer.Option(help="The benchmark's folder, or one that holds it by its name.")
    ],
    out: Annotated[
        Path,
        typer.Option(help="Verdict file (JSON lines); a folder for several benchmarks."),
    ],
    predictions: Annotated[
        Path | None, typer.Option(help="Answers to judge: JSON lines or the official form.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Or a checkpoint to ask: hub id, folder or GGUF file.")
    ] = None,
    databases: Annotated[
        Path | None, typer.Option(help="Databases, where they are not beside the questions.")
    ] = None,
    samples: Annotated[
        int, typer.Option(min=0, help="Sampled answers beside the greedy one, for a vote.")
    ] = 0,
    temperature: Annotated[
        float | None, typer.Option(help="Of the samples; else sampling.temperature.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Ask only so many questions, drawn by the seed.")
    ] = None,
    answered: Annotated[
        bool, typer.Option(help="Leave questions without a prediction out of the scores.")
    ] = False,
    params: Annotated[
        Path | None,
        typer.Option(help="Settings file (limits, prompt, sampling). [default: params.yaml]"),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, as data.prompt=full; may be repeated."),
    ] = None,
) -> None:
    """Score predictions or a checkpoint on benchmarks, with the official metric of each."""
    from mrtpo.benchmarks.score import score_benchmarks
    from mrtpo.config import Settings, with_overrides

    if (predictions is None) == (model is None):
        _fail("score", "give either --predictions or --model")
    if model is None and (samples or limit):
        _fail("score", "--samples and --limit go with --model; see --answered")
    with _stoppable("score"):
        file = params or DEFAULT
        settings = load_settings(file) if params or file.is_file() else Settings()
        asked = [f"model.path={json.dumps(model)}"] if model else []
        settings = with_overrides(settings, [*(changes or []), *asked])
        score_benchmarks(
            benchmarks, data, out, settings, predictions=predictions, model=model,
            databases=databases, samples=samples, temperature=temperature, limit=limit,
            answered=answered,
        )  # fmt: skip


Source = Annotated[
    Path | None,
    typer.Argument(help="A run's folder, an attribution file, or rollouts. [default: here]"),
]
Replaying = Annotated[
    str | None,
    typer.Option("--model", help="The policy that sampled the rollouts: folder, GGUF, hub id."),
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="A setting, as replay.distance=js; repeatable.")
]
OwnParams = Annotated[Path | None, typer.Option(help="Settings file. [default: the run's own]")]


@app.command()
def explore(
    source: Source = None,
    out: Annotated[Path | None, typer.Option(help="The page.")] = None,
    model: Replaying = None,
    params: OwnParams = None,
    changes: Changes = None,
) -> None:
    """Write a page in which the credit of every response can be looked at.

    Without arguments this is the stage: in the workspace, with the figures.
    """
    if not (source or out or model or changes):
        return _run("explore", params or DEFAULT)
    from mrtpo.paths import EXPLORER
    from mrtpo.report.explorer import write_explorer
    from mrtpo.report.opening import opened

    with _stoppable("explore"):
        found = opened(source, params, changes or [], model)
        file = write_explorer(out or EXPLORER, found, found.settings.report.responses)
        print(f"explore: {file}")


@app.command()
def explain(
    source: Source = None,
    prompt: Annotated[
        str | None, typer.Option(help="Its id. [default: the response most worth a look]")
    ] = None,
    sample: Annotated[int | None, typer.Option(help="Which of its responses.")] = None,
    reward: Annotated[str | None, typer.Option(help="One reward. [default: all]")] = None,
    show: Annotated[
        Literal["advantage", "weight", "distance"], typer.Option(help="What the colours tell.")
    ] = "advantage",
    top: Annotated[int, typer.Option(min=0, help="Tokens listed.")] = 5,
    model: Replaying = None,
    params: OwnParams = None,
    changes: Changes = None,
) -> None:
    """Print one response as heat maps: which tokens each reward is about."""
    from rich.console import Console

    from mrtpo.report import terminal
    from mrtpo.report.opening import opened
    from mrtpo.report.source import pick

    with _stoppable("explain"):
        found = opened(source, params, changes or [], model)
        rows = pick(found, prompt, sample)
        terminal.explain(Console(highlight=False), found, rows, show, reward, top)


@app.command()
def figures(
    source: Source = None,
    out: Annotated[Path | None, typer.Option(help="The folder. [default: reports/figures]")] = None,
    curves: Annotated[
        list[Path] | None,
        typer.Option(help="A curves.json of benchmarks.curves: Fig. 4 or 5; repeatable."),
    ] = None,
    runs: Annotated[
        bool, typer.Option("--runs", help="Fig. 4 or 5 from the finished runs in MLflow.")
    ] = False,
    prompt: Annotated[
        str | None, typer.Option(help="Of the response. [default: those most worth a look]")
    ] = None,
    sample: Annotated[int | None, typer.Option(help="Which of its responses.")] = None,
    model: Replaying = None,
    params: OwnParams = None,
    changes: Changes = None,
) -> None:
    """Write the paper's figures as SVG and PNG, with their data as CSV.

    Fig. 1, 2, 6 and the replay (3 text-to-SQL, 7 tool calls, 8 instructions) come from SOURCE; Fig.
    4 (tool calls) and 5 (others) from `--curves` or `--runs`, which need no SOURCE.
    """
    from mrtpo import paths
    from mrtpo.config import Settings, with_overrides
    from mrtpo.report import paper
    from mrtpo.report.curves import comparison_of_runs, read_comparison
    from mrtpo.report.opening import opened
    from mrtpo.runs import other_runs

    with _stoppable("figures"):
        compared = [read_comparison(file) for file in curves or []]
        if runs:
            file = params or DEFAULT
            settings = load_settings(file) if params or file.is_file() else Settings()
            settings = with_overrides(settings, changes or [])
            kept = other_runs(settings, paper.drawn_metric)
            compared.append(comparison_of_runs(settings.task, kept))
        made = paper.comparison_figures(compared)
        if source or prompt or sample is not None or model or not compared:
            found = opened(source, params, changes or [], model)
            made = paper.attribution_figures(found, prompt, sample) + made
        for one in paper.write_figures(out or paths.FIGURES, made):
            print(f"figures: {(out or paths.FIGURES) / one.svg}  {one.caption}")


@app.command()
def report(params: Params = DEFAULT) -> None:
    """Write the self-contained HTML report."""
    _run("report", params)


if __name__ == "__main__":
    app()
