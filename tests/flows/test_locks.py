from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.locks import is_lost, run_lock, workspace_lock

HOLD = """
import sys, time
from pathlib import Path
from flows.locks import run_lock, workspace_lock
with run_lock(Path("."), "first"), workspace_lock(Path("."), "the first run", print):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path):
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_run_waits_and_says_for_whom_until_the_first_dies(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        holder.kill()

    started = time.monotonic()
    with workspace_lock(tmp_path, "second", say):
        waited = time.monotonic() - started
    assert waited < 10
    assert said == ["the workspace is in use by the first run: waiting for it"]


def test_a_killed_run_is_told_from_one_at_work_and_from_one_that_never_was(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    assert not is_lost(tmp_path, "first")
    with (
        pytest.raises(RuntimeError, match="at work in another process"),
        run_lock(tmp_path, "first"),
    ):
        pass
    holder.kill()
    holder.wait()
    assert is_lost(tmp_path, "first")
    assert not is_lost(tmp_path, "elsewhere")
