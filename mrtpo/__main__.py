"""`python -m mrtpo <stage>`: the commands that `dvc.yaml` runs, and that people may run by hand."""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from mrtpo.config import SettingsError, load_settings

app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
Params = Annotated[Path, typer.Option(help="Settings file.")]
DEFAULT = Path("params.yaml")


def _run(stage: str, params: Path) -> None:
    # A stop request must unwind, so that `finally` blocks close runs and verifier processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        settings = load_settings(params)
        getattr(importlib.import_module("mrtpo.stages"), stage)(settings)
    except (SettingsError, ValueError, FileNotFoundError) as error:
        typer.secho(f"{stage}: {error}", fg="red", err=True)
        raise typer.Exit(2) from error


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
    """Replay the rollouts leave-one-out, write token weights and figures."""
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
def report(params: Params = DEFAULT) -> None:
    """Write the self-contained HTML report."""
    _run("report", params)


if __name__ == "__main__":
    app()
