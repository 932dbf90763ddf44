"""Model-written SQL, verified: does it run, and does it give the reference's result.

Statements run in killable worker processes (`runner`) within the limits of `config.Verifier` and
`sql_worker`. A status is never turned into a number here:

| status    | what happened                                   | executable | verdicts              |
|-----------|-------------------------------------------------|------------|-----------------------|
| `ok`      | it ran                                          | True       | True or False         |
| `error`   | the engine rejected it                          | False      | False, see below      |
| `refused` | not a single SELECT, or beyond a limit          | False      | False                 |
| `timeout` | it ran out of time                              | None       | None                  |

Verdicts are None without a reference and where the reference itself fails; all three are None
where the verifier failed (no such database, a dead process; status `error`). `spider_exec` judges
the form of the query that Spider's official metric runs, which may run where the query as written
does not (`> =`), so it can be True beside `executable` False, and None beside `ok` if that form
runs out of time; `bird_ex` and `executable` judge the query as written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtpo.verifiers.runner import JobResult, WorkerPool

if TYPE_CHECKING:
    from mrtpo.config import Verifier
    from mrtpo.records import Status


@dataclass(frozen=True)
class SQLJob:
    """A statement, the database it is for, and the reference statement, if there is one."""

    database: str | Path
    predicted: str
    reference: str | None = None


@dataclass(frozen=True)
class SQLOutcome:
    """`detail` is the engine's message or the reason of a refusal; `rows` is None unless it ran."""

    status: Status
    detail: str
    executable: bool | None
    spider_exec: bool | None
    bird_ex: bool | None
    rows: int | None


@dataclass(frozen=True)
class ReferenceOutcome:
    """What a reference statement gave; `rows` is None and `columns` empty unless it ran."""

    status: Status
    detail: str
    rows: int | None
    columns: tuple[str, ...]


class SQLVerifier:
    """Verifies statements in `limits.processes` worker processes. A context manager."""

    def __init__(self, limits: Verifier) -> None:
        self.limits = limits
        settings = {
            "seconds": limits.seconds, "rows": limits.rows, "sql_chars": limits.sql_chars
        }  # fmt: skip
        # The engine stops a query itself at `seconds`; a job that says nothing for this long hangs.
        # (It says so at the start of a query if the last quarter of `seconds` passed in silence.)
        self._pool = WorkerPool(
            "mrtpo.verifiers.sql_worker:make_engine",
            settings,
            processes=limits.processes,
            seconds=1.25 * limits.seconds + 1.0,
            megabytes=limits.megabytes,
        )

    def run(self, jobs: Sequence[SQLJob]) -> list[SQLOutcome]:
        """One outcome per job, in order. Equal jobs are run once."""
        results = self._run(
            [
                (str(job.database), self._cut(job.predicted), self._cut(job.reference))
                for job in jobs
            ]
        )
        return [_outcome(result) for result in results]

    def run_reference(self, jobs: Sequence[SQLJob]) -> list[ReferenceOutcome]:
        """Run each job's reference, for data preparation. Raises ValueError if one has none."""
        if missing := [i for i, job in enumerate(jobs) if job.reference is None]:
            raise ValueError(f"jobs without a reference: {missing[:5]}")
        results = self._run([(job.database, self._cut(job.reference)) for job in jobs])
        return [_reference_outcome(result) for result in results]

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> SQLVerifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, jobs: list[tuple[Any, ...]]) -> list[JobResult]:
        distinct = {job: i for i, job in enumerate(dict.fromkeys(jobs))}
        absolute = [[os.path.abspath(database), *rest] for database, *rest in distinct]
        results = self._pool.run(absolute)
        return [results[distinct[job]] for job in jobs]

    def _cut(self, sql: str | None) -> str | None:
        # A statement that is too long is refused unread: enough is sent to see that it is.
        return sql and sql[: self.limits.sql_chars + 1]


def _outcome(result: JobResult) -> SQLOutcome:
    if result.status == "ok":
        return SQLOutcome(*result.value)
    refused: Any = False if result.status == "refused" else None
    return SQLOutcome(result.status, result.detail, refused, refused, refused, None)


def _reference_outcome(result: JobResult) -> ReferenceOutcome:
    if result.status == "ok":
        status, detail, rows, columns = result.value
        return ReferenceOutcome(status, detail, rows, tuple(columns or ()))
    return ReferenceOutcome(result.status, result.detail, None, ())
