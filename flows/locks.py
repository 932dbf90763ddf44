"""Locks that the system releases when their holder dies, in whatever way.

`workspace_lock`: DVC allows one reproduction at a time in a workspace, so a second run waits for
the first. `run_lock`: held while a flow run works here, so that a run whose process was killed
together with the server can be told from one that works (`flows/lost.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def workspace_lock(state: Path, owner: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the workspace; wait while another run holds it, saying which."""
    with _opened(state / "workspace.lock") as file:
        if not _take(file):
            file.seek(0)
            say(f"the workspace is in use by {file.read() or 'another run'}: waiting for it")
            while not _take(file):
                time.sleep(1.0)
        file.truncate(0)
        file.write(owner)
        file.flush()
        yield


@contextlib.contextmanager
def run_lock(state: Path, label: str) -> Iterator[None]:
    """Show that the run of this label is at work. Raises RuntimeError if it is already."""
    with _opened(_run_file(state, label)) as file:
        if not _take(file):
            raise RuntimeError(f"{label} is at work in another process")
        yield


def is_lost(state: Path, label: str) -> bool:
    """Whether the run worked here once and does not now."""
    path = _run_file(state, label)
    if not path.exists():
        return False
    with _opened(path) as file:
        return _take(file)


def _run_file(state: Path, label: str) -> Path:
    return state / "flows" / label / "lock"


def _opened(path: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "a+", encoding="utf-8")


def _take(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
