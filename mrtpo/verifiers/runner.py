"""A pool of killable worker processes: JSON jobs in, results in their order out.

Every job has a hard wall time. A worker that overruns it is killed and replaced, and only that job
gets the status `timeout`; a worker that dies costs only the job it was at (`error`, or `refused`
when it was out of memory). What a killed worker had not begun is given to another; so is, once, the
first job of a worker that died before it said anything, for that worker may have died idle.

Workers are plain subprocesses of a bare interpreter (no site-packages set-up, no import of the main
script), start on first use, and end with `close()`, with the pool's collection, at exit, or by
themselves when this process is gone. The protocol is in `worker`.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtpo.verifiers.worker import OUT_OF_MEMORY

if TYPE_CHECKING:
    from mrtpo.records import Status

START_SECONDS = 60.0  # a worker that is not ready by then is a broken installation, not a slow job
MOST_AT_ONCE = 32  # jobs sent to a worker in one message
_ROOT = str(Path(__file__).resolve().parents[2])
_COMMAND = [
    sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c",
    "import sys; sys.path.insert(0, sys.argv[1]); from mrtpo.verifiers.worker import main; main()",
    _ROOT,
]  # fmt: skip


@dataclass(frozen=True)
class JobResult:
    """What became of one job; `value` is the handler's answer where the status is `ok`."""

    status: Status
    value: Any = None
    detail: str = ""


class _Worker:
    """One process, the jobs it was sent and has not answered, and when it must have answered."""

    def __init__(self, first_line: bytes) -> None:
        self.process = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.owed: deque[int] = deque()
        self.ready = self.heard = False
        self.deadline = time.monotonic() + START_SECONDS
        self.buffer = b""
        self.send(first_line)

    def send(self, line: bytes) -> bool:
        """Write a line; False if the process is gone. It reads whole lines before it works on them,
        so this does not block on a hanging job."""
        assert self.process.stdin is not None
        view = memoryview(line)
        try:
            while view:
                view = view[self.process.stdin.write(view) :]
        except BrokenPipeError:
            return False
        return True

    def receive(self) -> list[Any] | None:
        """Messages that have arrived; None at the end of the stream."""
        data = os.read(self.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def fileno(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def stop(self) -> int:
        """Kill and collect the process; returns its exit code (its own, if it was already gone)."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        return self.process.wait()


class WorkerPool:
    """Runs jobs of one kind; `target` and `settings` say which (see `worker`).

    `seconds` is the wall time of a job, `megabytes` the memory a worker may take beyond its start.
    Calls from several threads take turns.
    """

    def __init__(
        self,
        target: str,
        settings: Any = None,
        *,
        processes: int = 2,
        seconds: float = 10.0,
        megabytes: int = 512,
    ) -> None:
        self.processes, self.seconds = processes, seconds
        self._start = {"target": target, "settings": settings, "megabytes": megabytes}
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._owner = os.getpid()
        weakref.finalize(self, _stop_all, self._workers, self._owner)  # at exit too

    def run(self, jobs: Sequence[Any]) -> list[JobResult]:
        """One result per job, in order. Raises RuntimeError only if no worker can be started."""
        with self._lock:
            try:
                return _Run(self, jobs).finish()
            except BaseException:
                # Also KeyboardInterrupt and SystemExit: the answers still under way must not be
                # taken for those of the next call.
                _stop_all(self._workers, self._owner)
                raise

    def close(self) -> None:
        """Stop all workers. A later `run` starts new ones."""
        with self._lock:
            _stop_all(self._workers, self._owner)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_worker(self) -> _Worker:
        path = [_ROOT, *(entry or os.getcwd() for entry in sys.path)]
        worker = _Worker(json.dumps({**self._start, "path": path}).encode() + b"\n")
        self._workers.append(worker)
        return worker


class _Run:
    """One call of `WorkerPool.run`: hands out jobs, collects answers, replaces the fallen."""

    def __init__(self, pool: WorkerPool, jobs: Sequence[Any]) -> None:
        self.pool, self.jobs, self.workers = pool, jobs, pool._workers
        self.results: list[JobResult | None] = [None] * len(jobs)
        self.waiting = deque(range(len(jobs)))
        self.tried_again: set[int] = set()
        # Several helpings for each worker, so that slow jobs do not pile up behind one of them.
        self.helping = min(MOST_AT_ONCE, math.ceil(len(jobs) / (4 * pool.processes)))

    def finish(self) -> list[JobResult]:
        with selectors.DefaultSelector() as self.selector:
            for worker in self.workers:
                self.selector.register(worker, selectors.EVENT_READ)
            while self.waiting or any(worker.owed for worker in self.workers):
                self._hand_out()
                self._collect()
        assert all(result is not None for result in self.results)
        return [result for result in self.results if result is not None]

    def _hand_out(self) -> None:
        needed = math.ceil(len(self.waiting) / self.helping) if self.waiting else 0
        while len(self.workers) < min(self.pool.processes, needed):
            self.selector.register(self.pool.start_worker(), selectors.EVENT_READ)
        for worker in list(self.workers):
            if not (worker.ready and not worker.owed and self.waiting):
                continue
            indices = [self.waiting.popleft() for _ in range(min(self.helping, len(self.waiting)))]
            message = json.dumps([self.jobs[i] for i in indices]).encode() + b"\n"
            if worker.send(message):
                worker.owed.extend(indices)
                worker.heard = False
                worker.deadline = time.monotonic() + self.pool.seconds
            else:  # it fell while idle: no job is to blame
                self.waiting.extendleft(reversed(indices))
                self._remove(worker)

    def _collect(self) -> None:
        # Who is late is decided before looking for answers, so that an answer that lies in the pipe
        # counts even if this process was too busy to fetch it in time.
        now = time.monotonic()
        late = [worker for worker in self.workers if worker.deadline <= now]
        next_deadline = min((worker.deadline for worker in self.workers), default=now)
        patience = max(0.0, next_deadline - now) if next_deadline < math.inf else None
        answering = {key.fileobj for key, _ in self.selector.select(patience)}
        for worker in list(self.workers):
            if worker in answering:
                self._receive(worker)
            elif worker in late:
                self._fallen(worker, late=True)

    def _receive(self, worker: _Worker) -> None:
        messages = worker.receive()
        if messages is None:
            return self._fallen(worker)
        for message in messages:
            if message == "ready":
                worker.ready = True
            elif message != "tick":
                self.results[worker.owed.popleft()] = JobResult(*message)
        if messages:
            worker.heard = True
            worker.deadline = time.monotonic() + self.pool.seconds if worker.owed else math.inf

    def _fallen(self, worker: _Worker, late: bool = False) -> None:
        code = self._remove(worker)
        if not worker.ready:
            reason = f"not ready after {START_SECONDS:g} s" if late else f"exit code {code}"
            raise RuntimeError(f"a verifier process did not start ({reason}); see its messages")
        if not worker.owed:
            return
        first = worker.owed[0]
        if worker.heard or late or code == OUT_OF_MEMORY or first in self.tried_again:
            self.results[worker.owed.popleft()] = self._verdict_on_the_fallen(code, late)
        else:
            self.tried_again.add(first)
        self.waiting.extendleft(reversed(worker.owed))

    def _verdict_on_the_fallen(self, code: int, late: bool) -> JobResult:
        if late:
            return JobResult("timeout", detail=f"killed after {self.pool.seconds:g} s")
        if code == OUT_OF_MEMORY:
            return JobResult("refused", detail="memory limit")
        return JobResult("error", detail=f"the verifier process died (exit code {code})")

    def _remove(self, worker: _Worker) -> int:
        self.selector.unregister(worker)
        self.workers.remove(worker)
        return worker.stop()


def _stop_all(workers: list[_Worker], owner: int) -> None:
    if os.getpid() == owner:  # a forked copy of the pool does not own the processes
        while workers:
            workers.pop().stop()
