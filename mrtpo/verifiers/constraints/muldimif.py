"""MulDimIF's twelve checker classes as kinds, whose argument is the constraint's own text.

So a prompt may mix them with others. MulDimIF's own scoring (`verifiers.muldimif`) differs in one
thing: there a blank response follows what it does not break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mrtpo.verifiers.constraints.kinds import Argument, Kind, Spans
from mrtpo.verifiers.muldimif.classes import CLASSES, read
from mrtpo.verifiers.muldimif.kinds import MOST_IN_TEXT


def _read(value: Any) -> str | None:
    right = isinstance(value, str) and value.strip() and len(value) <= MOST_IN_TEXT
    return value if right else None


OWN_TEXT = Argument(f"a text that is not blank, of at most {MOST_IN_TEXT} characters", _read)


def _check(name: str) -> Callable[..., bool]:
    return lambda response, text: read(name, text).check(response)


def _fulfils(name: str) -> Callable[..., Spans]:
    return lambda response, text: read(name, text).fulfils(response)


def _breaks(name: str) -> Callable[..., Spans]:
    return lambda response, text: read(name, text).breaks(response)


KINDS = {
    f"muldimif:{name}": Kind(
        _check(name),
        "{text}",
        {"text": OWN_TEXT},
        fulfils=_fulfils(name),
        breaks=_breaks(name),
        needs=("punkt_tab",) if name == "Content_Punctuation" else (),
    )
    for name in CLASSES
}
