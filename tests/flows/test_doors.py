"""The ways in: make, `python -m flows.serve`, prefect.yaml, and what they say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flows import serve
from flows.summary import summary

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with the Makefile and nothing installed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *arguments], cwd=folder, env=own, capture_output=True, text=True)


def test_make_refuses_a_python_of_another_version_and_says_which_it_wants(bare: Path) -> None:
    old = bare / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = make(bare, "test", f"PYTHON={old}")
    assert done.returncode != 0
    assert "is Python 3.9.2; needed: 3.11 or 3.12" in done.stdout
    assert not (bare / ".venv").exists()


def test_make_installs_again_only_when_the_requirements_change(bare: Path) -> None:
    (bare / ".venv").mkdir()
    (bare / ".venv" / ".installed").touch()
    assert "install" not in make(bare, "--dry-run", "run").stdout
    os.utime(bare / "constraints.txt", (2e9, 2e9))
    assert "pip" in make(bare, "--dry-run", "run").stdout


def test_make_clean_keeps_the_cache_the_databases_and_prefects_home(bare: Path) -> None:
    kept = ["mlflow.db", "state/prefect/prefect.db", ".dvc/cache/x", "metrics/train.json"]
    gone = ["data/prompts/x", "models/policy/x", "reports/x", "runs/a/x", "state/train-1/x"]
    for name in (*kept, *gone):
        (bare / name).parent.mkdir(parents=True, exist_ok=True)
        (bare / name).touch()
    assert make(bare, "clean").returncode == 0
    assert [name for name in kept if not (bare / name).exists()] == []
    assert [name for name in gone if (bare / name).exists()] == []


def test_nothing_reports_usage_once_the_package_is_imported() -> None:
    code = "import json, os, mrtpo; print(json.dumps(dict(os.environ)))"
    env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    seen = json.loads(done.stdout)
    assert seen["PREFECT_SERVER_ANALYTICS_ENABLED"] == seen["GX_ANALYTICS_ENABLED"] == "false"
    assert seen["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert (
        seen["DO_NOT_TRACK"] == seen["DVC_NO_ANALYTICS"] == seen["HF_HUB_DISABLE_TELEMETRY"] == "1"
    )
    assert seen["OMP_NUM_THREADS"] == "3"  # what the user says counts


def test_serving_without_a_server_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert serve.main() == 2
    assert "make ui" in capsys.readouterr().err


def test_work_pools_get_the_deployments_that_are_served() -> None:
    listed = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert [entry["name"] for entry in listed] == list(serve.NAMES)
    for entry in listed:
        path, _, function = entry["entrypoint"].partition(":")
        assert f"\ndef {function}(" in (ROOT / path).read_text()
        assert entry["work_pool"] == {"name": "local"}


def test_the_summary_shows_each_stages_plain_numbers_and_the_files(finished: Path) -> None:
    (finished / "metrics" / "train.json").write_text(
        json.dumps({"reward": 0.51234, "reward/format/mean": 1.0, "kinds": {"join": 1}, "ok": True})
    )
    assert summary(finished) == [
        "     train  reward 0.5123",
        "",
        f"    policy  {finished / 'models' / 'policy'}",
        f"    report  {finished / 'reports' / 'report.html'}",
    ]
