"""What a model is asked: BFCL's default prompt in own words, ToolRL's, or by its chat template.

`messages` has these forms:

    bfcl           a system message with the rule and the functions as JSON before those of the
                   question; a system message of the question follows the rule
    compact, full  as the task `tools` asks (`mrtpo.tasks.tools.prompts`), so that a policy trained
                   on it is asked as it was trained; full is in ToolRL's manner
    chat           the functions are handed to the chat template (`tools=`), with JSON Schema types
                   and `any` without a type; it says how calls are written

As in the official set-up, a function says which language it is of, and all arguments of Java and
JavaScript functions are text: source in that language.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from mrtpo.benchmarks.bfcl.questions import Question
from mrtpo.records import Message
from mrtpo.tasks.tools.prompts import messages_of
from mrtpo.tasks.tools.schema import Example, Turn, function_object, tool_from

Form = Literal["bfcl", "compact", "full", "chat"]

RULE = """\
You answer requests by composing calls of the functions below. Call one or several of them, with the
arguments that the request gives. If no function is suitable, or a required argument is not given,
say so instead.

Write calls as one list and nothing else:
[first_function(argument=value, other_argument=value), second_function(argument=value)]

The functions, as JSON:
"""

_LANGUAGES = {"python": "Python 3", "java": "Java 8", "javascript": "JavaScript"}


def messages(question: Question, form: Form = "bfcl") -> tuple[Message, ...]:
    """The messages of the first turn and the functions.

    Raises ValueError naming the question, but for `bfcl`, at a function without a valid schema.
    """
    if form != "bfcl":
        try:
            functions = tools(question)
        except ValueError as error:
            raise ValueError(f"{question.file}: row {question.row} (from 0): {error}") from None
        if form == "chat":
            shown = Message("tools", json.dumps(functions, ensure_ascii=False))
            return (shown, *question.turns[0])
        example = Example(
            tuple(map(tool_from, functions)),
            tuple(Turn(message.role, message.content) for message in question.turns[0]),
            (), "", question.file, question.row,
        )  # fmt: skip
        return tuple(messages_of(example, functions, form))
    asked = list(question.turns[0])
    system = RULE + json.dumps(documents(question), indent=1, ensure_ascii=False)
    if asked and asked[0].role == "system":
        system = f"{system}\n\n{asked.pop(0).content}"
    return (Message("system", system), *asked)


def tools(question: Question) -> list[dict[str, Any]]:
    """The functions for a chat template. Raises ValueError at one without a valid schema."""
    return [function_object(tool_from(document)) for document in documents(question)]


def documents(question: Question) -> list[dict[str, Any]]:
    """The function documents with the language in them."""
    name = _LANGUAGES[question.language]
    found = []
    for function in question.functions:
        parameters = function["parameters"]
        if question.language != "python":
            properties = {
                argument: _as_source(schema, name)
                for argument, schema in parameters["properties"].items()
            }
            parameters = {**parameters, "properties": properties}
        about = f"{function.get('description', '')} (Syntax: {name}.)".strip()
        found.append({**function, "description": about, "parameters": parameters})
    return found


def _as_source(schema: dict[str, Any], language: str) -> dict[str, Any]:
    """A parameter as text that holds source of its type."""
    kind = "any type" if schema["type"] == "any" else f"type {schema['type']}"
    about = f"{schema.get('description', '')} ({language} source of {kind}".strip()
    if isinstance(schema.get("items"), dict):
        about += f", items of type {schema['items']['type']}"
    if "properties" in schema:
        about += f", entries {json.dumps(schema['properties'])}"
    kept = {k: v for k, v in schema.items() if k not in ("items", "properties")}
    return {**kept, "type": "string", "description": f"{about})"}
