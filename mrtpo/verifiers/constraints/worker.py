"""What a verifier process does with constraints (`mrtpo.verifiers.worker`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mrtpo.verifiers.constraints import KINDS, check
from mrtpo.verifiers.constraints.text import NLTK_PACKAGES, MissingDataError, load

# Parts of NLTK that are not used here import these if they are there, which takes seconds.
_UNUSED = ("matplotlib", "numpy", "pandas", "scipy", "sklearn")


def make_checker(prefix: str, tick: Callable[[], None]) -> Callable[[Any], Any]:
    """Jobs are `[response, [[id, arguments], …]]`; each constraint may take a job's time.

    The answer has `[status, passed, detail]` for each constraint, or is a message where NLTK data
    that one of them needs is not installed. All data is loaded before the first job.
    """
    sys.prefix = prefix  # a bare interpreter does not know its environment, where NLTK looks too
    sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]
    missing: dict[str, str] = {}
    for package in NLTK_PACKAGES:
        try:
            load([package])
        except MissingDataError as error:
            missing[package] = str(error)

    def answer(job: Any) -> list[list[Any]] | str:
        response, constraints = job
        verdicts = []
        for id, arguments in constraints:
            needs = KINDS[id].needs if id in KINDS else ()
            if lacking := [name for name in needs if name in missing]:
                return missing[lacking[0]]
            tick()
            verdict = check(id, arguments, response)
            verdicts.append([verdict.status, verdict.passed, verdict.detail])
        return verdicts

    return answer
