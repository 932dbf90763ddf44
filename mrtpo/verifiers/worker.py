"""The inside of a worker: read jobs, answer each, obey the memory limit, die with the parent.

Protocol, one JSON text a line. In: first `{"path", "target", "settings", "megabytes"}`, then lists
of jobs, each list read whole before its first job starts. Out: `"ready"`, then for every job, in
order, any number of `"tick"` (restart my clock) and one `[status, value, detail]`.

`target` is `package.module:factory`; `factory(settings, tick)` returns the function that answers
one job. This module is imported in every worker, so it imports nothing heavy.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

OUT_OF_MEMORY = 77  # exit code of a worker that could not even report its MemoryError


def main() -> None:
    """Serve until the pipe ends. Called by the command line that `runner` starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair; it stops us
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a stray print must not stand between replies
    threading.Thread(target=_die_with_parent, args=(os.getppid(),), daemon=True).start()
    start = json.loads(requests.readline())
    sys.path[:] = start["path"]

    def send(message: Any) -> None:
        replies.write(json.dumps(message).encode() + b"\n")
        replies.flush()

    module, _, name = start["target"].partition(":")
    factory = getattr(importlib.import_module(module), name)
    answer = factory(start["settings"], lambda: send("tick"))
    _limit(start["megabytes"])
    send("ready")
    try:
        for line in requests:
            for job in json.loads(line):
                send(_answered(answer, job))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BrokenPipeError:
        os._exit(0)  # the parent went; nobody is left to answer


def _answered(answer: Callable[[Any], Any], job: Any) -> list[Any]:
    try:
        return ["ok", answer(job), ""]
    except MemoryError:
        return ["refused", None, "memory limit"]
    except Exception as error:  # the boundary: whatever a job does, its status is told
        return ["error", None, f"{type(error).__name__}: {error}"[:200]]


def _limit(megabytes: int) -> None:
    """Bound the address space to `megabytes` beyond what it is now; allow no file and no core."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        most = pages * resource.getpagesize() + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _die_with_parent(parent: int) -> None:
    # Not PR_SET_PDEATHSIG: it fires when the *thread* that started us ends, and pools are started
    # from threads that come and go. The end of the pipe would do for an idle worker, but a busy one
    # does not read, and a process forked from the parent may hold the pipe open.
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
