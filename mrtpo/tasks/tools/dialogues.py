"""Tools, turns and answers out of the texts in which public sets keep them.

    ToolRL    system: `1. Name: X\\nDescription: …\\nParameters: {…}` …; user: <user>, <obs>,
              <think>, <tool_call> and <response> in a row; answers in the same tags
    ToolACE   system: prose around a JSON list of tools; calls as `[Name(a=1), Other(b="x")]`
    Hammer    one text with sections `[BEGIN OF AVAILABLE TOOLS]` and `[BEGIN OF QUERY]`

Everything raises ValueError that says what is wrong with the text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from mrtpo.benchmarks.bfcl.pythonic import python_calls
from mrtpo.tasks.tools.rewards import TAGS, body_start, reference_calls
from mrtpo.tasks.tools.schema import Call, Tool, Turn, tool_from

_ENTRY = r"(?:^|\n){n}\. (?:Name: )?(?P<name>[^\n]+?)(?:\nDescription: |: )"
_PIECE = re.compile(r"<(user|obs|tool_call|response)>(.*?)</\1>", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_DECODER = json.JSONDecoder()
NO_TOOL = "None of the tools can do that."
"""The reference text of requests that no tool fits, in sets that give none."""


def listed_tools(text: str) -> list[Tool]:
    """ToolRL's numbered tools; parameters as JSON or as a Python dict."""
    start = text.find("**Available Tools**")
    text = text[max(start, 0) :].split("\n**Steps for Each Turn**")[0]
    tools: list[Tool] = []
    at = 0
    while found := re.compile(_ENTRY.format(n=len(tools) + 1)).search(text, at):
        opened = text.find("\nParameters: ", found.end() - 1)
        if opened < 0:
            raise ValueError(f"tool {found['name']}: no parameters")
        first = opened + len("\nParameters: ")
        parameters, at = _parameters(found["name"], text, first)
        description = text[found.end() : opened].strip()
        tools.append(
            tool_from({"name": found["name"], "description": description, "parameters": parameters})
        )
    return tools


def _parameters(name: str, text: str, start: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except ValueError:
        line = text[start:].split("\n", 1)[0]
        try:
            return ast.literal_eval(line.strip()), start + len(line)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise ValueError(f"tool {name}: parameters are no JSON: {line[:60]!r}") from None


def tagged_turns(text: str) -> list[Turn]:
    """A dialogue in ToolRL's tags; thoughts are left out, calls and text of one answer joined."""
    turns: list[Turn] = []
    open_answer = False
    for piece in _PIECE.finditer(_THOUGHT.sub("", text)):
        kind, content = piece[1], piece[2].strip()
        if kind in ("user", "obs"):
            turns.append(Turn("user" if kind == "user" else "tool", content))
            open_answer = False
            continue
        calls = _lines(content) if kind == "tool_call" else ()
        said = content if kind == "response" else ""
        if open_answer:
            last = turns.pop()
            turns.append(Turn("assistant", last.content or said, (*last.calls, *calls)))
        else:
            turns.append(Turn("assistant", said, calls))
        open_answer = kind == "tool_call"
    return turns


def _lines(block: str) -> tuple[Call, ...]:
    return tuple(reference_calls(f"<tool_call>\n{block}\n</tool_call>"))


def tagged_answer(text: str) -> tuple[tuple[Call, ...], str, str]:
    """Calls, text and thought of an answer in ToolRL's tags."""
    begin = body_start(text)
    rest = text[begin:]
    said = rest.partition("<response>")[2].rpartition("</response>")[0].strip()
    thought = text[:begin].partition("<think>")[2].rpartition("</think>")[0].strip()
    return tuple(reference_calls(text)), said, untagged(thought)


def untagged(text: str) -> str:
    """A thought that mentions tags by their names alone, so that it may stand between tags."""
    for tag in TAGS:
        text = text.replace(tag, tag.strip("</>"))
    return text


def embedded_tools(text: str) -> list[Tool]:
    """The first JSON list of objects with names inside a text; empty if there is none."""
    at = text.find("[")
    while at >= 0:
        try:
            value, _ = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list) and value and all(map(_is_named, value)):
            return [tool_from(entry) for entry in value]
        at = text.find("[", at + 1)
    return []


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and ("name" in value or "function" in value)


def code_calls(text: str, tools: Iterable[Tool]) -> tuple[Call, ...] | None:
    """Calls written as `[Name(a=1), Other(b="x")]`; None where the text is no such list.

    Names may have blanks and signs that no language allows. Raises ValueError where it is a list of
    calls of these tools that cannot be read.
    """
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    names = sorted((tool.name for tool in tools), key=len, reverse=True)
    replaced: dict[str, str] = {}
    for number, name in enumerate(names):
        pattern = re.compile(rf"(?<=[\[,\s]){re.escape(name)}(?=\s*\()")
        stand_in = f"tool_{number}_"
        text, count = pattern.subn(stand_in, text)
        if count:
            replaced[stand_in] = name
    try:
        found = python_calls(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        if not replaced:  # text in brackets
            return None
        raise ValueError(f"calls that cannot be read: {error}") from None
    return tuple(
        Call(replaced.get(name, name), dict(arguments))
        for call in found
        for name, arguments in call.items()
    )


def section(text: str, name: str) -> str:
    """A section of Hammer's instructions."""
    inner = text.partition(f"[BEGIN OF {name}]")[2]
    if f"[END OF {name}]" not in inner:
        raise ValueError(f"no section {name}")
    return inner.partition(f"[END OF {name}]")[0].strip()


def object_calls(values: Sequence[Any]) -> tuple[Call, ...]:
    """Calls as objects: `name` or `tool` or `function`, `arguments` or `parameters`."""
    calls = []
    for value in values:
        if not isinstance(value, dict):
            raise ValueError(f"a call is an object, found {type(value).__name__}")
        name = next((value[key] for key in ("name", "tool", "function") if key in value), None)
        given: Any = next((value[k] for k in ("arguments", "parameters") if k in value), {})
        if isinstance(given, str):
            given = json.loads(given)
        if not isinstance(name, str) or not isinstance(given, dict):
            raise ValueError(f"a call has a name and an object of arguments, found {value!r:.80}")
        calls.append(Call(name, given))
    return tuple(calls)


def fenced(text: str) -> str:
    """A text without the code fence around it."""
    return text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
