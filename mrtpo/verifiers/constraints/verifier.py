"""Constraints checked in killable processes, with a bound on the time of each check."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from mrtpo.verifiers.constraints import (
    MOST_CHARACTERS,
    Constraint,
    MissingDataError,
    Verdict,
)
from mrtpo.verifiers.runner import JobResult, WorkerPool

Job = tuple[str, Sequence[Constraint]]


class ConstraintVerifier:
    """Checks responses in `processes` worker processes; a check that takes `seconds` is stopped.

    A context manager.
    """

    def __init__(self, *, processes: int = 2, seconds: float = 5.0, megabytes: int = 512) -> None:
        self._pool = WorkerPool(
            "mrtpo.verifiers.constraints.worker:make_checker",
            sys.prefix,
            processes=processes,
            seconds=seconds,
            megabytes=megabytes,
        )

    def run(self, jobs: Sequence[Job]) -> list[list[Verdict]]:
        """For each response and its constraints a verdict of each constraint, in order.

        Raises MissingDataError if NLTK data that a kind needs is not installed.
        """
        verdicts = self._run(jobs)
        # What was stopped is checked one by one, so that only the one at fault pays.
        again = [
            (i, k)
            for i, (_, constraints) in enumerate(jobs)
            for k in range(len(constraints))
            if len(constraints) > 1 and _stopped(verdicts[i])
        ]
        single = self._run([(jobs[i][0], [jobs[i][1][k]]) for i, k in again])
        for (i, k), verdict in zip(again, single, strict=True):
            verdicts[i][k] = verdict[0]
        return verdicts

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> ConstraintVerifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, jobs: Sequence[Job]) -> list[list[Verdict]]:
        results = self._pool.run([_message(*job) for job in jobs])
        return [_verdicts(result, job[1]) for result, job in zip(results, jobs, strict=True)]


def _message(response: str, constraints: Sequence[Constraint]) -> list[Any]:
    # A response that is too long is refused unread: enough is sent to see that it is.
    return [response[: MOST_CHARACTERS + 1], [[c.id, dict(c.arguments)] for c in constraints]]


def _verdicts(result: JobResult, constraints: Sequence[Constraint]) -> list[Verdict]:
    if result.status != "ok":
        passed = False if result.status == "refused" else None
        return [Verdict(result.status, passed, result.detail) for _ in constraints]
    if isinstance(result.value, str):
        raise MissingDataError(result.value)
    return [Verdict(*fields) for fields in result.value]


def _stopped(verdicts: Sequence[Verdict]) -> bool:
    """Whether the process ended before it could answer, for all constraints alike."""
    return all(v.status in ("timeout", "error", "refused") for v in verdicts)
