"""A model's response as calls, or the reason why it has none. Nothing is ever run.

    python   as BFCL's default prompt asks: `[f(a=1), g(b='x')]`; brackets and back-ticks may be
             missing; of Java and JavaScript questions one call in that language
    json     a list or an object: name and arguments | parameters, also within `function`
    qwen     every `<tool_call>\\n{…}\\n</tool_call>`, with `arguments`; bad JSON is skipped
    toolrl   the last `<tool_call>`, one object a line, with `parameters`; bad lines and the name
             "none" are skipped
    auto     what the response looks like, after its last `</think>`: tags (objects or lists, by
             block or by line, either key), then JSON, then `python`; code fences are taken off

The first four follow the official handlers and that of ToolRL. A response without tags has no calls
for `qwen` and `toolrl`, which is not a failure to decode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mrtpo.benchmarks.bfcl.codelike import java_calls, javascript_calls
from mrtpo.benchmarks.bfcl.pythonic import Unreadable, python_calls
from mrtpo.benchmarks.bfcl.types import Language

Form = Literal["auto", "python", "json", "qwen", "toolrl"]

LONGEST = 200_000  # characters of a response that is decoded
DEEPEST = 64  # lists and objects within each other

_FENCED = re.compile(r"```[\w+-]*[ \t]*\n?(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Decoded:
    """`calls` is None where there is a `reason`. Calls may still be malformed (`well_formed`)."""

    calls: list[Any] | None
    reason: str = ""


def decode(text: str, form: Form = "auto", language: Language = "python") -> Decoded:
    """Calls of a response in this form. Never raises on a text.

    Raises ValueError at an unknown form.
    """
    if form not in get_args(Form):
        raise ValueError(f"form: {form!r} is none of {', '.join(get_args(Form))}")
    if len(text) > LONGEST:
        return Decoded(None, f"longer than {LONGEST} characters")
    try:
        calls = _READERS[form](text, language)
        if too_deep(calls):
            raise Unreadable(f"lists and objects within each other more than {DEEPEST} times")
    except RecursionError:
        return Decoded(None, "brackets within each other more often than can be read")
    except MemoryError:
        return Decoded(None, "more than the parser's memory holds")
    except SyntaxError as error:
        return Decoded(None, f"not a call: {error.msg}"[:200])
    except (ArithmeticError, TypeError, ValueError) as error:
        return Decoded(None, str(error).split("\n")[0][:200] or type(error).__name__)
    return Decoded(calls)


def too_deep(value: Any) -> bool:
    """Whether lists and objects stand within each other more than `DEEPEST` times."""
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(DEEPEST):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(item, dict | list | tuple)
        ]
        if not level:
            break
    return bool(level)


def _code(text: str, language: Language) -> list[Any]:
    """The official default decoder."""
    text = text.strip("`\n ")
    text = text if text.startswith("[") else f"[{text}"
    text = text if text.endswith("]") else f"{text}]"
    if language == "python":
        return python_calls(text)
    return (java_calls if language == "java" else javascript_calls)(text[1:-1])


def _json(text: str, language: Language) -> list[Any]:
    text = text.strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    return [_call(item) for item in _items(json.loads(text))]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _call(value: Any, keys: tuple[str, ...] = ("arguments", "parameters")) -> dict[str, Any]:
    """`{name: arguments}` of an object. Raises Unreadable naming what it lacks."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict):
        raise Unreadable(f"a call is an object, found {type(value).__name__}")
    name = value.get("name", value.get("function"))
    if name is None and len(value) == 1 and isinstance(next(iter(value.values())), dict):
        return value  # {name: {argument: value}} already
    if not isinstance(name, str):
        raise Unreadable("a call without a name")
    given = [key for key in keys if key in value]
    if not given:
        raise Unreadable(f"{name}: no {' or '.join(keys)}")
    arguments = value[given[0]]
    if isinstance(arguments, str) and "arguments" in keys:
        arguments = json.loads(arguments)  # OpenAI's form
    return {name: arguments}


def _qwen(text: str, language: Language) -> list[Any]:
    calls = []
    for block in _blocks(text):
        value = _loaded(block)
        if value is None:
            continue
        if not isinstance(value, dict) or not isinstance(value.get("arguments"), dict):
            raise Unreadable("a <tool_call> that is no object with arguments")
        if not isinstance(value.get("name"), str):
            raise Unreadable("a <tool_call> without a name")
        calls.append({value["name"]: value["arguments"]})
    return calls


def _blocks(text: str) -> Iterator[str]:
    opening, closing, end = "<tool_call>\n", "\n</tool_call>", 0
    while (start := text.find(opening, end)) >= 0:
        start += len(opening)
        end = text.find(closing, start)
        if end < 0:
            return
        yield text[start:end]
        end += len(closing)


def _toolrl(text: str, language: Language) -> list[Any]:
    if "<tool_call>" not in text:
        return []
    block = text.rpartition("<tool_call>")[2].partition("</tool_call>")[0]
    return list(_named(_loaded(line) for line in block.strip().split("\n")))


def _named(values: Iterator[Any]) -> Iterator[dict[str, Any]]:
    for value in values:
        if not isinstance(value, dict) or "parameters" not in value:
            continue
        name = value.get("name")
        if isinstance(name, str) and name.strip().lower() != "none":
            yield {name: value["parameters"]}


def _loaded(text: str) -> Any:
    """JSON, or None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _auto(text: str, language: Language) -> list[Any]:
    text = text.rpartition("</think>")[2].strip()
    if "<tool_call>" in text:
        return _tagged(text)
    if fenced := _FENCED.search(text):
        text = fenced[1].strip()
    if text[:1] in ("{", "[") and (value := _loaded(text)) is not None:
        return [_call(item) for item in _items(value)]
    return _code(text, language)


def _tagged(text: str) -> list[Any]:
    """Calls of every block: each a JSON value, or one a line. Raises Unreadable if none is one."""
    calls, faults = [], []
    for part in text.split("<tool_call>")[1:]:
        block = part.partition("</tool_call>")[0].strip()
        whole = _loaded(block)
        values = _items(whole) if whole is not None else map(_loaded, block.split("\n"))
        for value in values:
            try:
                call = _call(value)
            except ValueError as error:
                faults.append(str(error))
                continue
            if next(iter(call)).strip().lower() != "none":
                calls.append(call)
    if faults and not calls:
        raise Unreadable(f"no call in <tool_call>: {faults[0]}")
    return calls


_READERS: dict[str, Callable[[str, Language], list[Any]]] = {
    "auto": _auto, "python": _code, "json": _json, "qwen": _qwen, "toolrl": _toolrl,
}  # fmt: skip
