"""Calls written as Java or JavaScript: `Name.method(argument=value, …)`; one call, values as text.

The official decoder parses with a grammar of the language and takes the first call. Here the text
must be one call and nothing else but a `;`. Arguments are cut at commas outside of brackets and
quotes. A value is its source text without outer quotes, and must look like an expression: words
without quotes (`name=John Doe`) do not. As in the original, a Java object loses the body that may
follow its constructor (`new HashMap<K, V>() {{ … }}`), and of the arguments without a name only a
bare word is seen.
"""

from __future__ import annotations

import re
from typing import Any

from mrtpo.benchmarks.bfcl.pythonic import Unreadable

UNNAMED = "*"
"""The argument of a bare word, which no function has."""

_HEAD = re.compile(r"\s*([A-Za-z_$][\w$]*(?:\s*\.\s*[A-Za-z_$][\w$]*)*)\s*\(")
_NAMED = re.compile(r"\s*([A-Za-z_$][\w$.]*)\s*=(?![=>])")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
# In this order: texts, the types of a generic class, whose commas cut nothing, brackets, commas.
_TEXT = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`"""
_TOKEN = re.compile(
    _TEXT + r"""|new\s+[\w.]+\s*<[\w\s,.<>?&\[\]]{0,200}>|["'`()\[\]{},]""",
    re.DOTALL,
)
_BODY = re.compile(r"(new\s+[\w.]+\s*(?:<[\w\s,.<>?&\[\]]{0,200}>)?)\s*\(")
_PIECE = re.compile(
    _TEXT + r"|(?P<number>\d[\w.]*)|[A-Za-z_$][\w$]*|::|/(?:[^/\\\n]|\\.)+/\w*|\S", re.DOTALL
)
_BEFORE_OPERAND = {
    "async", "await", "delete", "function", "in", "instanceof", "new", "of", "typeof", "void",
}  # fmt: skip
_CLOSES = {")": "(", "]": "[", "}": "{"}


def java_calls(text: str) -> list[dict[str, Any]]:
    """Raises Unreadable with the reason."""
    return [_call(text, java=True)]


def javascript_calls(text: str) -> list[dict[str, Any]]:
    """Raises Unreadable with the reason."""
    return [_call(text, java=False)]


def _call(text: str, *, java: bool) -> dict[str, Any]:
    head = _HEAD.match(text)
    if head is None:
        raise Unreadable("no call `name(…)`")
    parts, end = _parts(text, head.end())
    if text[end:].strip() not in ("", ";"):
        raise Unreadable("more than one call, or text after it")
    arguments: dict[str, Any] = {}
    for part in parts:
        named = _NAMED.match(part)
        value = part[named.end() :].strip() if named else part.strip()
        if named and not value:
            raise Unreadable(f"{named[1]} has no value")
        name = named[1] if named else UNNAMED
        if fault := _fault(value, "*%=&|^,?.<>/" if java else "*%=&|^,?.<>"):
            raise Unreadable(f"{name}: {fault}")
        if named is None and not _WORD.fullmatch(value):
            continue
        if name in arguments:
            raise Unreadable(f"{name} is given twice")
        arguments[name] = _unquoted(_without_body(value) if java else value)
    return {re.sub(r"\s", "", head[1]): arguments}


def _parts(text: str, start: int) -> tuple[list[str], int]:
    """What the commas cut between an opened bracket and its end, and where that is."""
    parts: list[str] = []
    opened, begun = ["("], start
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in ("(", "[", "{"):
            opened.append(mark)
        elif mark in _CLOSES:
            if opened.pop() != _CLOSES[mark]:
                raise Unreadable(f"a `{mark}` that closes nothing")
            if not opened:
                last = text[begun : token.start()]
                return ([*parts, last] if parts or last.strip() else []), token.end()
        elif mark == "," and len(opened) == 1:
            parts.append(text[begun : token.start()])
            begun = token.end()
        elif mark in ("'", '"', "`"):
            raise Unreadable(f"a {mark} without its end")
    raise Unreadable("a bracket without its end")


def _fault(value: str, no_start: str) -> str:
    """Why a value is no expression, as far as words outside of its brackets tell, or ''."""
    if value[:1] and value[0] in no_start:
        return f"starts with {value[0]}"
    depth, before, chosen = 0, "", False
    for piece in _PIECE.finditer(value):
        mark = piece[0]
        if mark in ("@", "#", "\\"):
            return f"a {mark} outside of quotes"
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        if depth or mark in ")]}":
            before = mark if mark in "]}" else ""
            continue
        operand = mark[0] in "\"'`$_" or mark[0].isalnum()
        if operand and before and {before, mark}.isdisjoint(_BEFORE_OPERAND):
            return f"{before} and {mark} with nothing between"
        if piece["number"] and mark.count(".") > 1:
            return f"{mark} is no number"
        chosen = chosen or mark == "?"
        if mark == ":" and not chosen:
            return "a `:` outside of brackets"
        before = mark if operand else ""
    return "ends with a dot" if value.endswith(".") and not before else ""


def _without_body(value: str) -> str:
    made = _BODY.match(value)
    if made is None:
        return value
    _, end = _parts(value, made.end())
    return value[:end] if value[end:].lstrip().startswith("{") else value


def _unquoted(value: str) -> str:
    whole = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if whole else value
