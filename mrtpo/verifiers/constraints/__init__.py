"""Verifiable constraints by id: kinds of IFEval, IFBench, IF-RLVR, MulDimIF, and exact numbers.

A kind is an id with typed arguments, a sentence that states it, a checker, and where it can be told
the spans of a response that follow or break it. Checkers are pure, and see what they need of the
text and nothing else; they agree with the benchmarks' own code (docs/instructions.md).

| status    | what happened                                      | passed        |
|-----------|----------------------------------------------------|---------------|
| `ok`      | it was checked                                     | True or False |
| `refused` | the response is too long, or took too much memory  | False         |
| `error`   | no such kind, wrong arguments, or a checker's crash | None          |
| `timeout` | it ran out of time (`verifier.ConstraintVerifier`) | None          |

`check` runs in this process and ends on any response, but a long one may keep a slow kind busy for
seconds; where responses are a model's, `verifier.ConstraintVerifier` bounds the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mrtpo.verifiers.constraints import (
    copies,
    custom,
    exact,
    formats,
    keywords,
    layout,
    length,
    local,
    muldimif,
    sentences,
    training,
    words,
)
from mrtpo.verifiers.constraints.kinds import (
    MOST_CHARACTERS,
    ConstraintError,
    Kind,
    Span,
    merged,
    typed_arguments,
)
from mrtpo.verifiers.constraints.text import MissingDataError, require_data

if TYPE_CHECKING:
    from mrtpo.records import Status

__all__ = [
    "KINDS",
    "MOST_CHARACTERS",
    "Constraint",
    "ConstraintError",
    "Kind",
    "MissingDataError",
    "Verdict",
    "check",
    "constraint",
    "require_data_of",
    "sentence",
    "spans",
]

_MODULES = (
    keywords, length, sentences, words, formats, layout, copies, custom, training, exact,
    muldimif, local,
)  # fmt: skip
KINDS: dict[str, Kind] = {id: kind for module in _MODULES for id, kind in module.KINDS.items()}


@dataclass(frozen=True)
class Constraint:
    """A kind's id and its typed arguments, as `constraint` gives them."""

    id: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """`passed` is None where it could not be decided; `detail` then says why."""

    status: Status
    passed: bool | None
    detail: str = ""


def constraint(id: str, arguments: Mapping[str, Any] | None = None) -> Constraint:
    """The constraint that a row of a data set names; nulls among the arguments are dropped.

    Raises ConstraintError on an unknown id and on a missing, unknown or wrong argument.
    """
    kind = KINDS.get(id)
    if kind is None:
        raise ConstraintError(f"unknown constraint {id!r}")
    return Constraint(id, typed_arguments(id, kind, arguments))


def sentence(id: str, arguments: Mapping[str, Any] | None = None) -> str:
    """The constraint in words, for a prompt. Raises ConstraintError as `constraint` does."""
    kind, given = KINDS.get(id), constraint(id, arguments).arguments
    assert kind is not None
    return kind.sentence.format(
        **{name: kind.arguments[name].shown(value) for name, value in given.items()}
    )


def check(id: str, arguments: Mapping[str, Any] | None, response: str) -> Verdict:
    """Whether a response follows a constraint. Never raises; a blank response follows none."""
    try:
        given = constraint(id, arguments).arguments
    except ConstraintError as error:
        return Verdict("error", None, str(error))
    if len(response) > MOST_CHARACTERS:
        return Verdict("refused", False, f"longer than {MOST_CHARACTERS} characters")
    if not response.strip():
        return Verdict("ok", False, "the response is blank")
    try:
        return Verdict("ok", bool(KINDS[id].check(response, **given)))
    except MemoryError:
        return Verdict("refused", False, "memory limit")
    except Exception as error:  # the boundary: deep recursion, a fault of a library
        return Verdict("error", None, f"{type(error).__name__}: {error}"[:200])


def spans(id: str, arguments: Mapping[str, Any] | None, response: str) -> list[Span] | None:
    """The characters (start, end) by which a response follows the constraint or breaks it.

    In order and apart. None where that cannot be told, or whether it follows it cannot.
    """
    verdict = check(id, arguments, response)
    if verdict.status != "ok" or not response.strip():
        return None
    kind = KINDS[id]
    locate = kind.fulfils if verdict.passed else kind.breaks
    if locate is None:
        return None
    try:
        found = locate(response, **constraint(id, arguments).arguments)
    except Exception:  # the boundary, as above
        return None
    return merged(found or []) or None


def require_data_of(ids: Iterable[str]) -> None:
    """Raises MissingDataError if data that some of these kinds need is not installed."""
    require_data({name for id in ids if id in KINDS for name in KINDS[id].needs})
