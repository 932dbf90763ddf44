"""Child processes whose end is certain.

A child runs in a session of its own, its output goes to a file. Leaving `child(...)`, by whatever
way, ends the whole process group: TERM, a grace period in which checkpoints and runs are closed,
then KILL. Two ways are not enough by themselves: `subprocess.run` kills its child at once when
interrupted, and a child in its own session outlives a parent that dies from `kill -9`. For the
latter a guard, a shell that waits on a pipe from us, ends the group when that pipe closes.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

GRACE_SECONDS = 20.0  # below Prefect's own 30 s, after which it kills the flow's process
POLL_SECONDS = 0.5
# The owner's death closes the pipe, `cat` ends, and the group is ended as `stop` does it.
_GUARD = """cat >/dev/null; kill -s TERM -- "-$1" 2>/dev/null || exit 0
n=0; while [ $n -lt "$2" ] && kill -s 0 -- "-$1" 2>/dev/null; do sleep 1; n=$((n+1)); done
kill -s KILL -- "-$1" 2>/dev/null"""
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@contextlib.contextmanager
def child(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    output: Path,
    grace: float = GRACE_SECONDS,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start `command`; on leaving, nothing of its process group is left."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "ab") as sink:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", str(process.pid), str(int(grace))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except BaseException:
        stop(process, 0.0)
        raise
    try:
        yield process
    finally:
        stop(process, grace)
        _signal_group(guard.pid, signal.SIGKILL)
        guard.communicate()


def stop(process: subprocess.Popen[bytes], grace: float = GRACE_SECONDS) -> None:
    """End a process group: TERM, wait up to `grace` seconds for all of it, KILL."""
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + seconds
        _signal_group(process.pid, number)
        while _group_alive(process) and time.monotonic() < deadline:
            time.sleep(0.02)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _group_alive(process: subprocess.Popen[bytes]) -> bool:
    process.poll()  # reaps the leader, which would count as a member while a zombie
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def run_to_end(
    process: subprocess.Popen[bytes], tick: Callable[[], None], seconds: float | None = None
) -> int:
    """Wait in the main thread, where a cancel can interrupt, calling `tick` twice a second.

    Returns the exit code. Raises TimeoutError after `seconds`; the caller's `child` ends the group.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        try:
            code = process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        tick()
        if code is not None:
            return code
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError(f"ran longer than {seconds:.0f} s")


class Tail:
    """Whole lines that were appended to a file since the last look."""

    def __init__(self, path: Path) -> None:
        self.path, self.rest = path, b""
        self.position = path.stat().st_size if path.exists() else 0

    def lines(self) -> list[str]:
        """New lines; of a line that was overwritten in place (a progress bar) what shows last."""
        if not self.path.exists():
            return []
        with open(self.path, "rb") as file:
            file.seek(self.position)
            new = file.read()
        self.position += len(new)
        *whole, self.rest = (self.rest + new).split(b"\n")
        return [plain(line) for line in whole]


def plain(line: bytes) -> str:
    """A line as a terminal would leave it: no colours, the text after the last carriage return."""
    text = _COLOUR.sub("", line.decode("utf-8", "replace")).rstrip("\r ")
    return text.rsplit("\r", 1)[-1].rstrip()
