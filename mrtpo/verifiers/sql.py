"""Model-written SQL, verified: does it run, and what do metrics say of its result.

Statements run in killable worker processes (`runner`) within the limits of `config.Verifier` and
`sql_worker`. A status is never turned into a number here:

| status    | what happened                                   | executable | scores                |
|-----------|-------------------------------------------------|------------|-----------------------|
| `ok`      | it ran                                          | True       | what the metrics say  |
| `error`   | the engine rejected it                          | False      | False or 0, see below |
| `refused` | not a single SELECT, or beyond a limit          | False      | False or 0            |
| `timeout` | it ran out of time                              | None       | None                  |

Scores are None without a reference and where the reference itself fails; they and `executable` are
None where the verifier failed (no such database, a dead process; status `error`). `spider_exec` and
`ehrsql` judge the form of the query that those official metrics run, which may run where the query
as written does not (`> =`), so they can be True beside `executable` False, and None beside `ok` if
that form runs out of time; all else judges the query as written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtpo.verifiers.runner import JobResult, WorkerPool
from mrtpo.verifiers.sql_metrics import METRICS

if TYPE_CHECKING:
    from mrtpo.config import Verifier
    from mrtpo.records import Status


@dataclass(frozen=True)
class SQLJob:
    """A statement, the database it is for, the reference statement, if there is one, and what is
    asked: metrics by name (`sql_metrics.METRICS`), and how many rows of both results to show.

    Raises ValueError on a metric that is not known and on a negative `preview`.
    """

    database: str | Path
    predicted: str
    reference: str | None = None
    metrics: tuple[str, ...] = ("spider_exec", "bird_ex")
    preview: int = 0

    def __post_init__(self) -> None:
        if unknown := [name for name in self.metrics if name not in METRICS]:
            known = ", ".join(METRICS)
            raise ValueError(f"no such SQL metric: {', '.join(unknown)}; there are: {known}")
        if self.preview < 0:
            raise ValueError(f"preview is a number of rows, not {self.preview}")


@dataclass(frozen=True)
class Preview:
    """The beginning of a result: names and cells as texts of at most 60 characters."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int


@dataclass(frozen=True)
class SQLOutcome:
    """What became of a job.

    `detail` is the engine's message or the reason of a refusal. `scores` has an entry for each
    metric asked for. `rows` and `digest` (equal just if two results of a database are equal as sets
    of rows, as BIRD's EX has it) are None unless it ran; so are the previews, of the queries as
    written, and where none was asked for.
    """

    status: Status
    detail: str
    executable: bool | None
    scores: dict[str, bool | float | None]
    rows: int | None
    digest: str | None
    predicted_preview: Preview | None = None
    reference_preview: Preview | None = None


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
                (
                    str(job.database),
                    self._cut(job.predicted),
                    self._cut(job.reference),
                    job.metrics,
                    job.preview,
                )
                for job in jobs
            ]
        )
        return [_outcome(job, result) for job, result in zip(jobs, results, strict=True)]

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


def _outcome(job: SQLJob, result: JobResult) -> SQLOutcome:
    if result.status == "ok":
        status, detail, executable, scores, rows, digest, predicted, reference = result.value
        named = dict(zip(job.metrics, scores, strict=True))
        return SQLOutcome(
            status,
            detail,
            executable,
            named,
            rows,
            digest,
            _preview(predicted),
            _preview(reference),
        )
    refused = result.status == "refused"
    failed = {name: METRICS[name].failed if refused else None for name in job.metrics}
    return SQLOutcome(result.status, result.detail, False if refused else None, failed, None, None)


def _preview(shown: list[Any] | None) -> Preview | None:
    if shown is None:
        return None
    columns, rows, total = shown
    return Preview(tuple(columns), tuple(map(tuple, rows)), total)


def _reference_outcome(result: JobResult) -> ReferenceOutcome:
    if result.status == "ok":
        status, detail, rows, columns = result.value
        return ReferenceOutcome(status, detail, rows, tuple(columns or ()))
    return ReferenceOutcome(result.status, result.detail, None, ())
