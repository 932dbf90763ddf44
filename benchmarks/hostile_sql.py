"""Ten thousand hostile statements against a real database: what becomes of them, and of us.

    python -m benchmarks.hostile_sql [--data FOLDER] [--number 10000] [--out docs/verifiers]

Statements (`hostile_statements`) go to the verifier in batches, with a harmless query of known
result after every tenth. Checked: every batch ends within its bound, every statement has a status,
every harmless query is right, nothing is written (the database's folder, the working directory and
the temporary directory are listed and hashed before and after; no worker holds a file open for
writing, sampled), and memory stays bounded (the resident memory of this process and of all workers,
sampled). Ends with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.hostile_statements import FAMILIES, statements
from mrtpo.config import Verifier
from mrtpo.verifiers.sql import SQLJob, SQLOutcome, SQLVerifier

STATUSES = ("ok", "error", "refused", "timeout")
PAGE = os.sysconf("SC_PAGE_SIZE")
MEBIBYTE = 2**20
SAMPLE_SECONDS = 0.02


def tables_of(database: Path) -> dict[str, list[str]]:
    """Columns by table, quoted where they must be."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    found = {
        f'"{name}"': [f'"{row[1]}"' for row in connection.execute(f'PRAGMA table_info("{name}")')]
        for (name,) in connection.execute(names).fetchall()
    }
    connection.close()
    return found


def contents(folders: Sequence[Path]) -> dict[str, str]:
    """Every file below the folders, with a hash of what is in it and when it was changed."""
    return {
        str(path): f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
        if path.is_file()
        else "folder"
        for folder in folders
        for path in sorted(folder.rglob("*"))
    }


class Watch:
    """Largest resident memory of this process and of each child that it gets meanwhile, in bytes,
    and what files such a child held open for writing that are not this process's too, as where
    messages go; sampled by a thread while the context is open."""

    def __init__(self) -> None:
        self.driver = self.worker = 0
        self.start = PAGE * int(_proc("self", "statm").split()[1])
        self._others = set(_children())
        self.writable: set[str] = set()
        self._own = _open_for_writing("self")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self.driver = max(self.driver, PAGE * int(_proc("self", "statm").split()[1]))
            own = _proc("self", "cmdline")
            # Between fork and exec a child is a picture of this process, memory and all.
            ours = set(_children()) - self._others
            for pid in (pid for pid in ours if _proc(pid, "cmdline") not in ("", own)):
                if fields := _proc(pid, "statm").split():
                    self.worker = max(self.worker, PAGE * int(fields[1]))
                self.writable |= _open_for_writing(pid) - self._own


def _open_for_writing(pid: str) -> set[str]:
    """Paths of the regular files that a process could write to."""
    found = set()
    for fd in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = os.readlink(fd)
        except OSError:  # closed, or the process has ended
            continue
        flags = _proc(pid, f"fdinfo/{fd.name}").partition("flags:")[2].split()[:1]
        writable = flags and int(flags[0], 8) & os.O_ACCMODE != os.O_RDONLY
        if writable and target.startswith("/") and target != os.devnull:
            found.add(target)
    return found


def _children() -> list[str]:
    tasks = Path("/proc/self/task").iterdir()
    return [pid for task in tasks for pid in _proc(f"self/task/{task.name}", "children").split()]


def _proc(pid: str, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="ascii")
    except OSError:  # it has ended
        return ""


def harmless(database: Path, n: int, table: str, column: str) -> SQLJob:
    sql = f"SELECT {column} FROM {table} ORDER BY 1 LIMIT {n % 50 + 1}"
    return SQLJob(database, f"{sql} /* {n} */", sql)


def attack(
    verifier: SQLVerifier, database: Path, folder: Path, seed: int, number: int, batch: int
) -> dict[str, Any]:
    """Run `number` statements; returns what happened as plain data."""
    limits = verifier.limits
    tables = tables_of(database)
    table = sorted(tables)[0]
    counts: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    details: Counter[str] = Counter()
    failed: list[dict[str, str]] = []
    slowest: dict[str, float] = defaultdict(float)
    good = late = 0
    made = list(statements(seed, number, tables, folder))
    start = time.monotonic()
    for at in range(0, number, batch):
        families: list[str | None] = []
        jobs: list[SQLJob] = []
        for n, (family, text) in enumerate(made[at : at + batch], at):
            # The statement is also its own reference at times: references come from files.
            gold = text if n % 97 == 0 else f"SELECT count(*) FROM {table}"
            families.append(family)
            jobs.append(SQLJob(database, text, gold))
            if n % 10 == 9:
                families.append(None)
                jobs.append(harmless(database, n, table, tables[table][0]))
        began = time.monotonic()
        outcomes = verifier.run(jobs)
        seconds = time.monotonic() - began
        # A job may run four queries: as written, as Spider runs it, and the reference both ways.
        slow = sum(outcome.status == "timeout" for outcome in outcomes)
        bound = 10 + (4 * limits.seconds + 1) * (slow + len(jobs) / 10) / limits.processes
        late += seconds > bound
        slowest["batch"] = max(slowest["batch"], seconds)
        for attempt, job, outcome in zip(families, jobs, outcomes, strict=True):
            if attempt is not None:
                counts[attempt][outcome.status] += 1
                details[_kind(outcome)] += 1
            elif outcome.status == "ok" and all(outcome.scores.values()):
                good += 1
            else:
                failed.append({"sql": job.predicted, "why": f"{outcome.status} {outcome.detail}"})
    return {
        "seconds": round(time.monotonic() - start, 1),
        "statements": number,
        "statuses": {family: dict(counts[family]) for family in counts},
        "details": dict(details.most_common()),
        "harmless": {"right": good, "failed": failed},
        "batches": {"size": batch, "over_bound": late, "slowest_s": round(slowest["batch"], 1)},
    }


def _kind(outcome: SQLOutcome) -> str:
    """The detail without what is particular to a statement."""
    text = outcome.detail.split(":")[0] if outcome.status == "error" else outcome.detail
    words = [word for word in text.split() if not any(char in word for char in "0123456789\"'(")]
    return f"{outcome.status}: {' '.join(words)[:60]}".strip(": ")


@contextmanager
def isolated(database: Path) -> Iterator[tuple[Path, Path, list[Path]]]:
    """A copy of the database, a folder to write to, and all folders that are watched, one of which
    is the working directory and one the temporary directory of this process and its workers."""
    before = Path.cwd(), {name: os.environ.get(name) for name in ("TMPDIR", "SQLITE_TMPDIR")}
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root) / name for name in ("database", "working", "temporary")]
        for folder in folders:
            folder.mkdir()
        copy = folders[0] / database.name
        shutil.copy(database, copy)
        os.chdir(folders[1])
        os.environ["TMPDIR"] = os.environ["SQLITE_TMPDIR"] = str(folders[2])
        try:
            yield copy, folders[1], folders
        finally:
            os.chdir(before[0])
            for name, value in before[1].items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def hostile_run(
    database: Path, limits: Verifier, seed: int, number: int, batch: int = 200
) -> dict[str, Any]:
    """Attack a copy of a database, and check what must hold. `log["broken"]` says what did not."""
    with isolated(database) as (copy, folder, folders), Watch() as watch:
        before = contents(folders)
        with SQLVerifier(limits) as verifier:
            log = attack(verifier, copy, folder, seed, number, batch)
        after = contents(folders)
    log["limits"] = limits.model_dump()
    log["files"] = {
        "before": len(before),
        "changed": sorted(set(before.items()) ^ set(after.items())),
    }
    log["memory_MiB"] = {
        "driver": watch.driver // MEBIBYTE, "largest worker": watch.worker // MEBIBYTE
    }  # fmt: skip
    log["files_open_for_writing"] = sorted(watch.writable)
    answered = sum(sum(counts.values()) for counts in log["statuses"].values())
    unknown = {s for counts in log["statuses"].values() for s in counts} - set(STATUSES)
    checks = {
        "a batch took longer than its bound": log["batches"]["over_bound"],
        "a statement has no status": answered != number or unknown,
        "a harmless query failed": log["harmless"]["failed"],
        "something was written": log["files"]["changed"] or watch.writable,
        "a worker took more memory than it may": watch.worker > (limits.megabytes + 64) * MEBIBYTE,
        "this process took too much memory": watch.driver - watch.start > 1024 * MEBIBYTE,
    }
    log["broken"] = [name for name, broken in checks.items() if broken]
    return log


def table(log: dict[str, Any]) -> str:
    """The count by family and status as Markdown."""
    lines = [f"| family | {' | '.join(STATUSES)} |", "|---" * (len(STATUSES) + 1) + "|"]
    total: Counter[str] = Counter()
    for family, counts in log["statuses"].items():
        lines.append(f"| {family} | {' | '.join(str(counts.get(s, 0)) for s in STATUSES)} |")
        total.update(counts)
    lines.append(f"| all | {' | '.join(str(total[s]) for s in STATUSES)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MRTPO_DATA", ".")))
    parser.add_argument("--db", default="world_1", help="a database of Spider's")
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--out", type=Path, help="folder for hostile.json")
    options = parser.parse_args()
    database = options.data / "spider" / "database" / options.db / f"{options.db}.sqlite"
    limits = Verifier(seconds=options.seconds)
    log = {"seed": options.seed, "database": options.db, "sqlite": sqlite3.sqlite_version}
    log |= hostile_run(database.resolve(), limits, options.seed, options.number)
    print(table(log))
    rest = {key: value for key, value in log.items() if key not in ("statuses", "details")}
    print(json.dumps(rest, indent=1))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "hostile.json").write_text(json.dumps(log, indent=1) + "\n")
    sys.exit(f"broken: {'; '.join(log['broken'])}" if log["broken"] else 0)


if __name__ == "__main__":
    main()
