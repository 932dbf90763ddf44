"""One form for tools, calls and conversations, whatever file they come from.

`Tool.parameters` is a JSON Schema of an object. Descriptions of tools come in three shapes, told
apart by content:

    JSON Schema           {"type": "object" | "dict", "properties": {…}, "required": […]}
    flat                  {argument: {"type": …, "description": …, "default": …}}
    wrapped               {"type": "function", "function": {"name": …, "parameters": …}}

Type words of Python, Java, JavaScript and BFCL are mapped (`dict` → object, `float` → number,
`tuple` → array, `List[int]` → array of integers, `any` and what is unknown → no type). In the flat
shape an argument is required unless its type says optional or it has a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match

_TYPES = {
    "string": "str string char character text date datetime",
    "integer": "int integer long short byte bigint",
    "number": "float number double decimal",
    "boolean": "bool boolean",
    "array": "array list tuple set arraylist sequence iterable",
    "object": "dict object hashmap map mapping",
    "null": "none null nonetype",
}
TYPES = {word: name for name, words in _TYPES.items() for word in words.split()}
_NESTED = ("properties", "$defs", "definitions", "patternProperties")
_GENERIC = re.compile(r"(?:typing\.)?([\w.]+)\s*[\[(](.*)[\])]", re.DOTALL)


@dataclass(frozen=True)
class Tool:
    """`parameters`: a JSON Schema whose type is object."""

    name: str
    description: str
    parameters: dict[str, Any]

    @property
    def properties(self) -> dict[str, Any]:
        return dict(self.parameters.get("properties", {}))

    @property
    def required(self) -> list[str]:
        return list(self.parameters.get("required", []))


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation. `role`: system, user, assistant (text, calls or both), tool."""

    role: str
    content: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Example:
    """A request in its conversation, and the reference answer to it: calls, text, or both.

    `file` is relative to the folder that was read, `row` counts from 0. `source` is what splits
    may have to keep apart: the tool, or the file.
    """

    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]
    calls: tuple[Call, ...]
    text: str
    file: str
    row: int
    source: str = ""
    kind: str = ""
    thought: str = ""


def tool_from(value: Any) -> Tool:
    """A tool from any of the three shapes. Raises ValueError naming the field at fault."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict):
        raise ValueError(f"a tool is an object, found {type(value).__name__}")
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"name of a tool: expected text, found {name!r}")
    description = value.get("description") or ""
    if not isinstance(description, str):
        raise ValueError(f"tool {name}: description: expected text, found {description!r}")
    given = value.get("parameters")
    given = value.get("input_schema") if given is None else given
    required = value.get("required")
    if not isinstance(required, list):  # ToolACE has null here; an argument may be called so
        required = None
    try:
        parameters = object_schema({} if given is None else given, required)
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        path = ".".join(map(str, error.absolute_path))
        raise ValueError(f"tool {name}: parameters: {path}: {error.message}") from None
    except ValueError as error:
        raise ValueError(f"tool {name}: parameters: {error}") from None
    return Tool(name, description, parameters)


def object_schema(given: Any, required: Sequence[Any] | None = None) -> dict[str, Any]:
    """The JSON Schema of a tool's parameters, given as a schema or flat.

    `required` is the list that stands beside flat parameters. Raises ValueError.
    """
    if not isinstance(given, dict):
        raise ValueError(f"expected an object, found {type(given).__name__}")
    kind = given.get("type")
    if isinstance(kind, str) and isinstance(given.get("properties", {}), dict):
        schema = _schema(given)
        if schema.get("type") != "object":
            raise ValueError(f"type: {kind!r} is not an object's")
        schema.setdefault("properties", {})
        return schema
    properties: dict[str, Any] = {}
    needed: list[str] = []
    for name, entry in given.items():
        if isinstance(entry, str):  # a bare type word
            entry = {"type": entry}
        if not isinstance(entry, dict):
            raise ValueError(f"{name}: expected an object, found {entry!r}")
        properties[name] = _schema(entry)
        stated = entry.get("required")
        optional = _is_optional(entry.get("type")) or "default" in entry
        if stated is True or (stated is None and required is None and not optional):
            needed.append(name)
    if required is not None:
        needed = [name for name in properties if name in required]
    return {"type": "object", "properties": properties, "required": needed}


def _schema(given: dict[str, Any]) -> dict[str, Any]:
    """One level of a schema with its types mapped, and those below it."""
    schema = {k: v for k, v in given.items() if k not in ("type", "optional")}
    if not isinstance(schema.get("required", []), list):  # flat shape: a flag of the argument
        del schema["required"]
    if not isinstance(schema.get("examples", []), list):
        schema["examples"] = [schema["examples"]]
    if "type" in given:
        schema = {**typed(given["type"]), **schema}
    for key in _NESTED:
        if isinstance(schema.get(key), dict):
            schema[key] = {
                name: _schema(entry if isinstance(entry, dict) else {"type": entry})
                for name, entry in schema[key].items()
            }
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = _schema(schema[key])
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list):
            schema[key] = [_schema(entry) for entry in schema[key]]
    return schema


def typed(word: Any) -> dict[str, Any]:
    """The JSON Schema of a type as written: `int, optional`, `List[Tuple[float, float]]`, `dict`.

    A list of types is a choice. Unknown words give no type.
    """
    if isinstance(word, list):
        return _choice([typed(entry) for entry in word])
    if word is None:
        return {}
    text = str(word).strip()
    if "," in text and text.rsplit(",", 1)[1].strip().lower() == "optional":
        text = text.rsplit(",", 1)[0].strip()
    if found := _GENERIC.fullmatch(text):
        outer, inner = found[1].rpartition(".")[2].lower(), _split(found[2])
        if outer == "optional":
            return typed(inner[0])
        if outer == "union":
            return _choice([typed(part) for part in inner])
        if outer == "literal":
            return {"enum": [part.strip().strip("'\"") for part in inner]}
        if TYPES.get(outer) == "array":
            items = _choice([typed(part) for part in inner if part != "..."])
            return {"type": "array", **({"items": items} if items else {})}
        text = outer
    if "|" in text:
        return _choice([typed(part) for part in text.split("|")])
    name = TYPES.get(text.rpartition(".")[2].lower())
    return {} if name is None else {"type": name}


def _choice(options: list[dict[str, Any]]) -> dict[str, Any]:
    distinct = [option for i, option in enumerate(options) if option not in options[:i]]
    if {} in distinct or not distinct:  # one of them may be anything
        return {}
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _split(text: str) -> list[str]:
    """At the commas that stand in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()] or [""]


def _is_optional(word: Any) -> bool:
    """Whether a type as written says that the argument may be left out."""
    return isinstance(word, str) and "optional" in word.lower()


def call_fault(call: Call, tools: Mapping[str, Tool]) -> str:
    """Why a call is not one of these tools' (unknown tool or argument, missing argument, wrong
    type), or ''."""
    tool = tools.get(call.name)
    if tool is None:
        return f"no tool {call.name}"
    if unknown := sorted(call.arguments.keys() - tool.properties.keys()):
        return f"{call.name} has no argument {', '.join(unknown)}"
    error = best_match(Draft202012Validator(tool.parameters).iter_errors(call.arguments))
    if error is None:
        return ""
    path = ".".join([call.name, *map(str, error.absolute_path)])
    return f"{path}: {error.message}"


def function_object(tool: Tool) -> dict[str, Any]:
    """A tool as chat templates take it (`tools=`)."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }
