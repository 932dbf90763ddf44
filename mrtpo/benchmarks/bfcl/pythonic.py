"""Calls written as Python: `[f(a=1, b='x'), g.h(c=[1, 2])]`, read as a syntax tree and never run.

Values are literals, or text where they are names, subscripts or calls without named arguments; a
call with named arguments is `{name: {argument: value}}`. Positional arguments are not seen, as in
the official decoder, whose other habits are kept too: the last of equal names counts, a name that
is not made of words (`f()()`) is what remains of it. Sums of literals are worked out within limits;
`+5` is 5 here, where the original negates it. Whatever else stands there cannot be decoded.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable
from typing import Any

MOST_BITS = 4096  # of an integer
MOST_TEXT = 10_000  # characters of text that is worked out

_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}  # fmt: skip


class Unreadable(ValueError):
    """Text that holds no calls; the message is the reason."""


def python_calls(text: str) -> list[dict[str, Any]]:
    """The calls of one expression: a call, or a list, tuple or set of calls.

    Raises Unreadable, or what the parser raises: SyntaxError, ValueError, RecursionError,
    MemoryError.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parser warns of `\\d` in a text
        body = ast.parse(text.strip().strip("'"), mode="eval").body
    if isinstance(body, ast.Call):
        return [_call(body)]
    if not isinstance(body, ast.List | ast.Tuple | ast.Set):
        raise Unreadable(f"{_kind(body)} instead of calls")
    calls = []
    for item in body.elts:
        if not isinstance(item, ast.Call):
            raise Unreadable(f"{_kind(item)} instead of a call")
        calls.append(_call(item))
    return calls


def _call(node: ast.Call) -> dict[str, Any]:
    words, function = [], node.func
    while isinstance(function, ast.Attribute):
        words.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        words.append(function.id)
    # `**more` has no name: it stays as an argument that no function has.
    arguments = {given.arg or "**": _value(given.value) for given in node.keywords}
    return {".".join(reversed(words)): arguments}


def _value(node: ast.expr | None) -> Any:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, int) and node.value.bit_length() > MOST_BITS:
            raise Unreadable(f"an integer of more than {MOST_BITS} bits")
        return "..." if node.value is ... else node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return {
            _value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)
        }
    if isinstance(node, ast.UnaryOp):
        return _signed(node)
    if isinstance(node, ast.BinOp):
        return _worked_out(node)
    if isinstance(node, ast.Call):
        return _call(node) if node.keywords else ast.unparse(node)
    if isinstance(node, ast.Subscript):
        return ast.unparse(node)
    raise Unreadable(f"{_kind(node)} instead of a value")


def _signed(node: ast.UnaryOp) -> Any:
    value = _value(node.operand)
    if isinstance(node.op, ast.USub | ast.UAdd) and isinstance(value, int | float | complex):
        return -value if isinstance(node.op, ast.USub) else +value
    raise Unreadable(f"{_kind(node.op)} of {_kind(node.operand)}")


def _worked_out(node: ast.BinOp) -> Any:
    """A sum, product, … of literals; only of sizes that stay small."""
    if isinstance(node.left, ast.Name) or isinstance(node.right, ast.Name):
        raise Unreadable("a sum with a name in it")
    left, right = _value(node.left), _value(node.right)
    operation = _OPERATIONS.get(type(node.op))
    if operation is None or not _small(node.op, left, right):
        raise Unreadable(f"{_kind(node.op)} of values that it is not worked out for")
    return operation(left, right)


def _small(operation: ast.operator, left: Any, right: Any) -> bool:
    numbers = [value for value in (left, right) if isinstance(value, int | float)]
    if isinstance(operation, ast.Add) and type(left) is type(right) and type(left) in (str, list):
        return len(left) + len(right) <= MOST_TEXT
    if isinstance(operation, ast.Mult) and isinstance(left, str) and isinstance(right, int):
        return len(left) * max(right, 0) <= MOST_TEXT
    if len(numbers) < 2:
        return False
    whole = [value.bit_length() for value in numbers if isinstance(value, int)]
    if isinstance(operation, ast.Pow) and len(whole) == 2:
        return whole[0] * abs(right) <= MOST_BITS
    return sum(whole) <= MOST_BITS


def _kind(node: ast.AST | None) -> str:
    return "a mapping taken apart" if node is None else type(node).__name__
