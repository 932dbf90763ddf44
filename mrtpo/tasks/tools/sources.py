"""Public tool-calling sets as `Example`s.

    rlla     instruction, input, output; reward_model.ground_truth of parquet files
    toolace  system, conversations of {from, value}
    xlam     query, answers, tools: lists, or such lists as JSON text
    hammer   instruction and output, or xLAM's shape
    apibank  system, user, answer
    bfcl     question, function; of possible_answer the first accepted value of each argument

`layouts` says in which files. A row that is malformed is an error that names file,
row and field. Rows that are sound but of no use (no tools, calls that do not fit the tools, …) are
dropped and counted by reason. Every answer of a conversation is an example with what stands before
it as history.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrtpo.benchmarks.bfcl.questions import AST, IRRELEVANCE, read_folder
from mrtpo.tasks.rows import Values, bad_field, field_text, read_rows
from mrtpo.tasks.tools import dialogues
from mrtpo.tasks.tools.dialogues import NO_TOOL
from mrtpo.tasks.tools.layouts import Kind, files_of, locate
from mrtpo.tasks.tools.rewards import TAGS
from mrtpo.tasks.tools.schema import Call, Example, Tool, Turn, call_fault, tool_from

MISTYPED = "a call with a value of another type"


@dataclass(frozen=True)
class Source:
    """`examples` by split. `rows`: how many were read; `dropped`: how many were not used, why."""

    examples: dict[str, list[Example]]
    rows: dict[str, int]
    dropped: dict[str, dict[str, int]]


class Useless(ValueError):
    """Why a sound row is not used."""


def read_source(kind: Kind, folder: Path, *, mistyped: bool = False) -> Source:
    """All examples of a set; `mistyped`: also those whose calls have values of another type.

    Raises ValueError naming file, row and field on bad input, and if no example is left.
    """
    root = locate(kind, folder)
    examples: dict[str, list[Example]] = {}
    rows: Counter[str] = Counter()
    dropped: dict[str, Counter[str]] = {}
    for split, paths in files_of(kind, root).items():
        kept, reasons = examples.setdefault(split, []), dropped.setdefault(split, Counter())
        seen: set[str] = set()
        for read in _examples(kind, root, paths):
            rows[split] += 1
            fault = read if isinstance(read, str) else useless(read)
            fault = "" if mistyped and fault == MISTYPED else fault
            if isinstance(read, Example) and not fault:
                key = repr((read.tools, read.turns, read.calls, read.text))
                fault = "duplicate" if key in seen else ""
                seen.add(key)
            if fault:
                reasons[fault] += 1
            elif isinstance(read, Example):
                kept.append(read)
    if not any(examples.values()):
        why = sum(dropped.values(), Counter[str]())
        listed = ", ".join(f"{reason}: {n}" for reason, n in sorted(why.items()))
        raise ValueError(f"{root}: no example is left ({listed or 'the files are empty'})")
    return Source(examples, dict(rows), {s: dict(sorted(c.items())) for s, c in dropped.items()})


def _examples(kind: Kind, root: Path, paths: list[Path]) -> Iterator[Example | str]:
    """Examples, or why a row gives none."""
    if kind == "bfcl":
        yield from _bfcl(root)
        return
    for path in paths:
        for row, values in read_rows(path):
            try:
                for tools, turns, calls, text, thought in _READERS[kind](path, row, values):
                    file = path.relative_to(root).as_posix()
                    yield Example(
                        tuple(tools), tuple(turns), tuple(calls), text, file, row,
                        source=f"{file} {row}", thought=thought,
                    )  # fmt: skip
            except Useless as reason:
                yield str(reason)


Read = tuple[list[Tool], list[Turn], tuple[Call, ...], str, str]
Reader = Callable[[Path, int, Values], Iterator[Read]]


def useless(example: Example) -> str:
    """Why an example is not used, or ''."""
    if not example.tools:
        return "no tools"
    names = [tool.name for tool in example.tools]
    if len(set(names)) < len(names):
        return "a tool is shown twice"
    if not any(turn.role == "user" for turn in example.turns):
        return "nobody asks"
    if not example.calls and not example.text:
        return "no answer"
    if any(tag in example.text for tag in TAGS):
        return "a tag in the answer's text"
    tools = {tool.name: tool for tool in example.tools}
    for call in example.calls:
        if fault := call_fault(call, tools):
            return reason(fault, call, tools)
    return ""


def reason(fault: str, call: Call, tools: dict[str, Tool]) -> str:
    """A fault of a call (`schema.call_fault`) as a reason that rows are counted under."""
    if call.name not in tools:
        return "a call of a tool that is not shown"
    if "has no argument" in fault:
        return "a call with an argument that its tool has not"
    if "is a required property" in fault:
        return "a call without a required argument"
    return MISTYPED


def _understood(path: Path, row: int, field: str, parse: Callable[..., Any], *given: Any) -> Any:
    """What `parse` makes of a field. Raises ValueError naming it."""
    try:
        return parse(*given)
    except ValueError as error:
        raise bad_field(path, row, field, str(error)) from None


def _rlla(path: Path, row: int, values: Values) -> Iterator[Read]:
    inner = values.get("extra_info") if "instruction" not in values else values
    if not isinstance(inner, dict):
        raise bad_field(path, row, "extra_info", "missing, and there is no instruction")
    system, dialogue, output = (
        field_text(path, row, inner, name) for name in ("instruction", "input", "output")
    )
    if "reward_model" in values:  # what the published training scores against
        model = values["reward_model"]
        if not isinstance(model, dict):
            raise bad_field(path, row, "reward_model", "expected an object")
        output = field_text(path, row, model, "ground_truth")
    tools = _understood(path, row, "instruction", dialogues.listed_tools, system)
    turns = _understood(path, row, "input", dialogues.tagged_turns, dialogue)
    calls, text, thought = _understood(path, row, "output", dialogues.tagged_answer, output)
    yield tools, turns, calls, text, thought


def _toolace(path: Path, row: int, values: Values) -> Iterator[Read]:
    system = field_text(path, row, values, "system")
    given = values.get("conversations")
    if not isinstance(given, list):
        raise bad_field(path, row, "conversations", "expected a list")
    tools = _understood(path, row, "system", dialogues.embedded_tools, system)
    if not tools:
        raise Useless("no tools")
    turns: list[Turn] = []
    for number, turn in enumerate(given):
        where = f"conversations.{number}"
        if not isinstance(turn, dict) or turn.get("from") not in ("user", "assistant", "tool"):
            raise bad_field(path, row, where, "expected from (user, assistant, tool) and value")
        said = turn.get("value")
        if not isinstance(said, str):
            raise bad_field(path, row, f"{where}.value", "expected text")
        if turn["from"] != "assistant":
            turns.append(Turn(turn["from"], said.strip()))
            continue
        try:
            calls = dialogues.code_calls(said, tools)
        except ValueError:
            raise Useless("calls that cannot be read") from None
        answer = Turn("assistant", "" if calls else said.strip(), calls or ())
        yield tools, list(turns), answer.calls, answer.content, ""
        turns.append(answer)


_ROLES = {"user": "user", "agent": "assistant", "assistant": "assistant", "tool": "tool"}


def _xlam(path: Path, row: int, values: Values) -> Iterator[Read]:
    tools, answers = (_list(path, row, values, name) for name in ("tools", "answers"))
    made = [_understood(path, row, f"tools.{i}", tool_from, tool) for i, tool in enumerate(tools)]
    calls = _understood(path, row, "answers", dialogues.object_calls, answers)
    query = values.get("query")
    if isinstance(query, str):
        turns = [Turn("user", field_text(path, row, values, "query"))]
    elif isinstance(query, list):
        turns = [_turn(path, row, number, turn) for number, turn in enumerate(query)]
        while turns and turns[-1].role == "assistant":  # it announces the call that is asked for
            turns.pop()
    else:
        raise bad_field(path, row, "query", "expected text or a list of messages")
    yield made, turns, calls, "" if calls else NO_TOOL, ""


def _turn(path: Path, row: int, number: int, turn: Any) -> Turn:
    where = f"query.{number}"
    if not isinstance(turn, dict) or turn.get("role") not in _ROLES:
        raise bad_field(path, row, where, f"expected a role ({', '.join(_ROLES)}) and content")
    content = turn.get("content")
    if not isinstance(content, str):
        raise bad_field(path, row, f"{where}.content", "expected text")
    content = content.removesuffix("Generate API Request:").strip()
    if turn["role"] == "assistant" and content.startswith("```"):
        values = _understood(path, row, where, json.loads, dialogues.fenced(content))
        if not isinstance(values, list):
            raise bad_field(path, row, f"{where}.content", "expected a list of calls")
        calls = _understood(path, row, where, dialogues.object_calls, values)
        return Turn("assistant", "", calls)
    return Turn(_ROLES[turn["role"]], content)


def _list(path: Path, row: int, values: Values, field: str) -> list[Any]:
    """A field that is a list, or a list as a JSON text."""
    value = values.get(field)
    if isinstance(value, str):
        value = _understood(path, row, field, json.loads, value)
    if not isinstance(value, list):
        raise bad_field(path, row, field, f"expected a list, found {type(value).__name__}")
    return value


def _hammer(path: Path, row: int, values: Values) -> Iterator[Read]:
    if "instruction" not in values:
        yield from _xlam(path, row, values)
        return
    text = field_text(path, row, values, "instruction")
    output = dialogues.fenced(field_text(path, row, values, "output"))
    parts = {
        "tools": _understood(path, row, "instruction", dialogues.section, text, "AVAILABLE TOOLS"),
        "query": _understood(path, row, "instruction", dialogues.section, text, "QUERY"),
        "answers": output,
    }
    yield from _xlam(path, row, parts)


def _apibank(path: Path, row: int, values: Values) -> Iterator[Read]:
    system, user = (field_text(path, row, values, name) for name in ("system", "user"))
    answer = values.get("answer")
    tools = _understood(path, row, "system", dialogues.listed_tools, system)
    turns = _understood(path, row, "user", dialogues.tagged_turns, user)
    listed = answer if isinstance(answer, list) else [answer]
    calls = _understood(path, row, "answer", dialogues.object_calls, listed)
    yield tools, turns, calls, "", ""


def _bfcl(root: Path) -> Iterator[Example | str]:
    for question in read_folder(root).questions:
        if question.category not in (*AST, *IRRELEVANCE):
            yield f"{question.category}: no reference"
        elif question.language != "python":
            yield f"{question.category}: values in another language"
        else:
            turns = tuple(Turn(m.role, m.content) for turn in question.turns for m in turn)
            calls = tuple(
                Call(name, first_accepted(accepted))
                for answer in question.answers
                for name, accepted in answer.items()
            )
            yield Example(
                tuple(tool_from(function) for function in question.functions), turns, calls,
                "" if calls else NO_TOOL, question.file, question.row, source=question.id,
            )  # fmt: skip


def first_accepted(accepted: dict[str, Any]) -> dict[str, Any]:
    """Arguments with the first accepted value each; left out where that is '', which stands for an
    argument that need not be given."""
    return {
        name: _first_value(values[0])
        for name, values in accepted.items()
        if values and values[0] != ""
    }


def _first_value(value: Any) -> Any:
    if isinstance(value, dict):
        return first_accepted({k: v if isinstance(v, list) else [v] for k, v in value.items()})
    return [_first_value(item) for item in value] if isinstance(value, list) else value


_READERS: dict[Kind, Reader] = {
    "rlla": _rlla, "toolace": _toolace, "xlam": _xlam, "hammer": _hammer, "apibank": _apibank,
}  # fmt: skip
