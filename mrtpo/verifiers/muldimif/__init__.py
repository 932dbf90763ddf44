"""Verification of MulDimIF's constraints, each of which is checked by its own text.

    judge("Length", "Words", "The answer must be at most 50 words", response) -> Verdict

The twelve checker classes stand by the names of the official scorer. A class reads a constraint's
text into a typed rule once (`classes.read` keeps the last ones) and applies it to responses. What
the official scorer cannot read is decided as it decides, and flagged (`Verdict.unparsed`).
"""

from __future__ import annotations

from mrtpo.verifiers.constraints.kinds import MOST_CHARACTERS, Span, merged
from mrtpo.verifiers.muldimif.classes import CLASSES, read
from mrtpo.verifiers.muldimif.kinds import (
    KINDS,
    MOST_IN_TEXT,
    Checker,
    TooMuchError,
    Verdict,
    kind_of,
)

__all__ = ["CLASSES", "KINDS", "Checker", "Verdict", "checker_of", "judge", "kind_of", "spans"]


def checker_of(category: str, subcategory: str, constraint: str) -> Checker:
    """A constraint's checker. Raises ValueError if its kind is unknown or its text too long."""
    kind = kind_of(category, subcategory)
    if kind is None:
        raise ValueError(f"no such kind of constraint: {category!r}, {subcategory!r}")
    if len(constraint) > MOST_IN_TEXT:
        raise ValueError(f"a constraint of more than {MOST_IN_TEXT} characters")
    return read(kind.checker, constraint)


def judge(category: str, subcategory: str, constraint: str, response: str) -> Verdict:
    """Whether a response follows a constraint. Never raises.

    What takes too long to look at is `refused` and not passed. An unknown kind, a missing library
    and a checker's fault are an `error`, of which nothing is decided.
    """
    try:
        checker = checker_of(category, subcategory, constraint)
    except ValueError as error:
        return Verdict("error", None, str(error))
    unparsed = checker.unparsed
    if len(response) > MOST_CHARACTERS:
        return Verdict("refused", False, f"longer than {MOST_CHARACTERS} characters", unparsed)
    try:
        return Verdict("ok", bool(checker.check(response)), unparsed=unparsed)
    except TooMuchError as error:
        return Verdict("refused", False, str(error), unparsed)
    except RecursionError:
        return Verdict("refused", False, "nested too deeply", unparsed)
    except Exception as error:  # the boundary: a fault here must not end a run
        return Verdict("error", None, f"{type(error).__name__}: {error}"[:200], unparsed)


def spans(category: str, subcategory: str, constraint: str, response: str) -> list[Span] | None:
    """The characters (start, end) by which a response follows the constraint or breaks it.

    In order and apart. None where that cannot be told, or whether it follows it cannot.
    """
    verdict = judge(category, subcategory, constraint, response)
    if verdict.status != "ok":
        return None
    checker = checker_of(category, subcategory, constraint)
    found = checker.fulfils(response) if verdict.passed else checker.breaks(response)
    return merged(found or []) or None
