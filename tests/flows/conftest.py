"""A small project of its own, whose stages are a script: the flows' mechanics without training.

The script stands for `python -m mrtpo`: it takes steps of `verifier.seconds`, keeps its place in
`$MRTPO_STATE`, tells its progress in `$MRTPO_EVENTS`. Seed 13 fails, seed 14 is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
# pytest puts tests/ first, where the folder flows/ would pass for the package of that name.
sys.path.append(str(REPOSITORY))
STAGE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
import yaml

stage, params = sys.argv[1], yaml.safe_load(open("params.yaml"))
seed = params["seed"]
if stage == "prepare":
    Path("data").mkdir(exist_ok=True)
    Path("data/prompts").write_text(f"prompts {seed}")
elif stage == "train":
    if seed == 13:
        sys.exit("train: params.yaml: seed 13 brings bad luck")
    if seed == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    print("MLflow: /#/experiments/7/runs/abc", flush=True)
    place = Path(os.environ["MRTPO_STATE"]) / f"train-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    subprocess.Popen(["sleep", "600"]).pid if params["train"]["kl"] else None
    steps, start = params["train"]["steps"], 0
    if (place / "step").exists():
        start = int((place / "step").read_text())
        print(f"resumed at {start}", flush=True)
    for step in range(start + 1, steps + 1):
        time.sleep(params["verifier"]["seconds"])
        (place / "step").write_text(str(step))
        with open(os.environ["MRTPO_EVENTS"], "a") as events:
            event = {"stage": "train", "step": step, "total": steps,
                     "metrics": {"reward": step / 10}, "seconds": {"update": 0.5}}
            events.write(json.dumps(event) + "\\n")
    Path("models").mkdir(exist_ok=True)
    Path("models/policy").write_text(f"policy {params['train']['method']} {seed} {steps}")
    Path("metrics").mkdir(exist_ok=True)
    Path("metrics/train.json").write_text(json.dumps({"reward": 0.5, "names": {"run": 1}}))
else:
    Path("reports").mkdir(exist_ok=True)
    Path("reports/report.html").write_text(Path("models/policy").read_text())
"""
GRAPH = """
stages:
  prepare:
    cmd: python stage.py prepare
    params: [seed, data, {sources.yaml: ["${data.source}"]}]
    outs: [data/prompts]
  train:
    cmd: python stage.py train
    deps: [data/prompts, stage.py, "tasks/${task}"]
    params: [seed, train]
    outs: [models/policy]
    metrics: [{metrics/train.json: {cache: false}}]
  report:
    cmd: python stage.py report
    deps: [models/policy]
    outs: [reports/report.html]
"""


def run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "project"
    (folder / ".dvc").mkdir(parents=True)
    for name in ("params.yaml", "sources.yaml", ".dvcignore", ".gitignore", ".dvc/config"):
        shutil.copy(REPOSITORY / name, folder / name)
    shutil.copy(REPOSITORY / ".dvc" / ".gitignore", folder / ".dvc" / ".gitignore")
    (folder / "stage.py").write_text(STAGE)
    (folder / "tasks").mkdir()
    (folder / "tasks" / "text2sql").write_text("What train depends on, by a setting.")
    (folder / "dvc.yaml").write_text(GRAPH)
    params = (folder / "params.yaml").read_text()
    params = params.replace("  seconds: 2.0", "  seconds: 0.01").replace("steps: 60", "steps: 20")
    (folder / "params.yaml").write_text(params)
    run_git(folder, "init", "--quiet", "--initial-branch", "main")
    run_git(folder, "config", "user.name", "tester")
    run_git(folder, "config", "user.email", "tester@localhost")
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "-m", "A project")
    return folder


@pytest.fixture(scope="session")
def finished_template(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "project"
    shutil.copytree(template, folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "MRTPO_STATE": str(folder.parent), "MRTPO_EVENTS": os.devnull}
    env = {**os.environ, **own}
    command = [sys.executable, "-m", "dvc", "repro", "--quiet"]
    subprocess.run(command, cwd=folder, env=env, check=True)
    return folder


@pytest.fixture
def finished(finished_template: Path, project: Path) -> Path:
    """The project with every stage up to date, and nothing of that committed."""
    shutil.rmtree(project)
    return Path(shutil.copytree(finished_template, project))


@pytest.fixture
def project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy for one test; the flows take it for their workspace."""
    folder = tmp_path / "project"
    shutil.copytree(template, folder)
    monkeypatch.setenv("MRTPO_ROOT", str(folder))
    for name in ("MRTPO_STATE", "MLFLOW_TRACKING_URI", "MRTPO_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def set_params(project: Path) -> Callable[[str, str], None]:
    """Replace text in the project's params.yaml; it must be there."""

    def replace(old: str, new: str) -> None:
        text = (project / "params.yaml").read_text()
        assert old in text
        (project / "params.yaml").write_text(text.replace(old, new))

    return replace


@pytest.fixture
def git() -> Callable[..., str]:
    return run_git


@pytest.fixture
def processes_of() -> Callable[..., list[str]]:
    """Command lines of processes that work in a folder or below; those that are about to end get
    a few seconds for it."""

    def listed(folder: Path, patience: float = 0.0) -> list[str]:
        until = time.monotonic() + patience
        while (found := there(folder)) and time.monotonic() < until:
            time.sleep(0.1)
        return found

    def there(folder: Path) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    cwd, line = os.readlink(entry / "cwd"), (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if line and Path(cwd).is_relative_to(folder):
                    found.append(line.replace(b"\0", b" ").decode().strip())
        return found

    return listed
