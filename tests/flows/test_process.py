from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.process import Tail, child, plain, run_to_end

STUBBORN = "trap '' TERM; echo deaf; while true; do sleep 0.1; done"


def group_members(group: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pid, pgid, stat in rows if int(pgid) == group and stat[0] != "Z"]


def wait_for(condition, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())


def test_a_finished_child_returns_its_code_and_all_it_printed(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    with child(command, tmp_path, os.environ, tmp_path / "log") as process:
        assert run_to_end(process, lambda: None) == 3
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_a_child_over_its_time_is_ended_with_its_grandchildren(tmp_path: Path) -> None:
    with (
        pytest.raises(TimeoutError, match="longer than 1 s"),
        child(
            ["sh", "-c", "sleep 60 & sleep 60"], tmp_path, os.environ, tmp_path / "log"
        ) as process,
    ):
        run_to_end(process, lambda: None, seconds=1.0)
    assert group_members(process.pid) == []


def test_term_comes_first_so_that_a_child_can_clean_up(tmp_path: Path) -> None:
    command = ["sh", "-c", "trap 'echo cleaned; exit 0' TERM; echo up; sleep 60 & wait"]
    with child(command, tmp_path, os.environ, tmp_path / "log"):
        assert wait_for(lambda: "up" in (tmp_path / "log").read_text())
    assert (tmp_path / "log").read_text() == "up\ncleaned\n"


def test_a_child_that_ignores_term_is_killed_after_the_grace(tmp_path: Path) -> None:
    started = time.monotonic()
    with child(["sh", "-c", STUBBORN], tmp_path, os.environ, tmp_path / "log", 1.0) as process:
        assert wait_for(lambda: "deaf" in (tmp_path / "log").read_text())
    assert group_members(process.pid) == []
    assert 1.0 < time.monotonic() - started < 8.0


@pytest.mark.parametrize("command", ["sleep 60 & sleep 60", STUBBORN])
def test_the_child_ends_when_its_owner_is_killed(tmp_path: Path, command: str) -> None:
    script = f"""
import os, time
from pathlib import Path
from flows.process import child
with child(["sh", "-c", {command!r}], Path("."), os.environ, Path("log"), 1.0) as process:
    Path("group").write_text(str(process.pid))
    os.replace("group", "ready")
    time.sleep(60)
"""
    root = str(Path(__file__).parents[2])
    owner = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": root}
    )
    assert wait_for((tmp_path / "ready").exists, 20.0)
    group = int((tmp_path / "ready").read_text())
    assert group_members(group)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert wait_for(lambda: group_members(group) == [])


def test_a_tail_gives_whole_new_lines_only(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\n")
    tail = Tail(log)
    with open(log, "a") as file:
        file.write("one\ntw")
        file.flush()
        assert tail.lines() == ["one"]
        file.write("o\n")
    assert tail.lines() == ["two"]
    assert tail.lines() == []


def test_a_line_reads_as_a_terminal_leaves_it() -> None:
    assert plain(b" 10%|#\r 20%|##\r\x1b[31mtrain: failed\x1b[0m\r") == "train: failed"
