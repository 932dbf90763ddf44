"""Text of the tool-calling task: prompts, references, and what each verifier reveals.

Three styles. `compact`: a line a tool, `name(argument,other?:type)`, and the request; the
format is not stated, so the replay adds it. `full`, in ToolRL's manner: numbered tools with their
parameters as JSON, the output format, the dialogue in one user message. `chat`: the tools go to the
model's chat template (`tools=`) and the dialogue stays in turns.

What replays tell: of format, the tag template that applies to the row; of correctness, the
reference calls as lines of JSON, without tags.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from mrtpo.records import Information, Message, Prompt
from mrtpo.tasks.tools.rewards import call_lines, layout
from mrtpo.tasks.tools.schema import Call, Example, Tool, Turn, function_object

Style = Literal["compact", "full", "chat"]

CALL = '{"name": ..., "parameters": {...}}'
TEMPLATES = {
    "calls": "<think> ... </think>\n<tool_call>\n...\n</tool_call>",
    "text": "<think> ... </think>\n<response> ... </response>",
    "both": "<think> ... </think>\n<tool_call>\n...\n</tool_call>\n<response> ... </response>",
    "thought": "<think> ... </think>",
}
RULE = f"""\
Write every answer in these parts, each tag once, in this order, and nothing around them:
<think> what you consider </think>
<tool_call>
{CALL}
</tool_call>
<response> what you say to the user </response>
Always think. Then call tools, or respond, or both. Each call is one line of JSON with the tool's
name and an object of its parameters (empty if there are none); several calls are several lines."""
INTRODUCTION = (
    "You help a user over several turns. You may call tools, whose results come back to you, "
    "and you answer in words where no tool is needed."
)


def render(calls: Sequence[Call], text: str, thought: str) -> str:
    """A well-formed answer: calls, text, or both."""
    parts = [f"<think> {thought} </think>"]
    if calls:
        parts.append(f"<tool_call>\n{call_lines(calls)}\n</tool_call>")
    if text:
        parts.append(f"<response> {text} </response>")
    return "\n".join(parts)


def build_prompt(example: Example, *, id: str, split: str, difficulty: str, style: Style) -> Prompt:
    """The prompt of one example, with what each verifier checks as replay text.

    The payload holds the request, the tools as chat templates take them, and the reference text.
    """
    reference = render(example.calls, example.text, example.thought or "The reference.")
    template = TEMPLATES[layout(reference)]
    information = [Information("format", "template", "append", f"Format: {template}")]
    if style != "compact":
        information.append(Information("format", "rule", "prompt", RULE))
    if example.calls:
        lines = call_lines(example.calls)
        information.append(
            Information("correctness", "reference", "append", f"Reference calls:\n{lines}")
        )
    functions = [function_object(tool) for tool in example.tools]
    payload = {
        "question": question_of(example.turns), "tools": functions, "text": example.text,
    }  # fmt: skip
    return Prompt(
        id=id, split=split, kind=example.kind or kind_of(example), difficulty=difficulty,
        source=example.source, messages=tuple(messages_of(example, functions, style)),
        information=tuple(information), reference=reference,
        payload=json.dumps(payload, ensure_ascii=False),
    )  # fmt: skip


def kind_of(example: Example) -> str:
    """What an example needs: text, one call, several calls of one tool or of different ones."""
    names = {call.name for call in example.calls}
    if not names:
        return "text"
    if len(example.calls) == 1:
        return "one"
    return "parallel" if len(names) == 1 else "several"


def question_of(turns: Sequence[Turn]) -> str:
    """What was asked last."""
    return next((turn.content for turn in reversed(turns) if turn.role == "user"), "")


def messages_of(example: Example, functions: Sequence[Any], style: Style) -> list[Message]:
    if style == "compact":
        tools = "\n".join(map(signature, example.tools))
        return [Message("user", f"{tools}\n{compact_dialogue(example.turns)}")]
    system = [turn.content for turn in example.turns if turn.role == "system" and turn.content]
    turns = [turn for turn in example.turns if turn.role != "system"]
    if style == "full":
        listed = "\n".join(
            f"{n}. Name: {tool.name}\nDescription: {tool.description}\nParameters: "
            f"{json.dumps(tool.parameters, ensure_ascii=False)}"
            for n, tool in enumerate(example.tools, start=1)
        )
        text = "\n\n".join([INTRODUCTION, *system, f"Tools:\n{listed}", f"Output format:\n{RULE}"])
        return [Message("system", text), Message("user", f"Dialogue:\n{dialogue(turns)}")]
    text = "\n\n".join([INTRODUCTION, *system, f"Output format:\n{RULE}"])
    found = [Message("tools", json.dumps(functions, ensure_ascii=False)), Message("system", text)]
    return found + [_chat_message(turn) for turn in turns]


def _chat_message(turn: Turn) -> Message:
    if turn.role != "assistant":
        return Message(turn.role, turn.content)
    return Message("assistant", answer_in_history(turn))


def answer_in_history(turn: Turn) -> str:
    """An earlier answer with its tags; the thought is not kept."""
    parts = []
    if turn.calls:
        parts.append(f"<tool_call>\n{call_lines(turn.calls)}\n</tool_call>")
    if turn.content:
        parts.append(f"<response> {turn.content} </response>")
    return "\n".join(parts)


def dialogue(turns: Sequence[Turn]) -> str:
    """The turns as text in ToolRL's tags: <user>, <tool_call>, <response>, <obs>."""
    tags = {"user": "user", "tool": "obs"}
    return "\n".join(
        f"<{tags[turn.role]}> {turn.content} </{tags[turn.role]}>"
        if turn.role in tags
        else answer_in_history(turn)
        for turn in turns
    )


def compact_dialogue(turns: Sequence[Turn]) -> str:
    """`Request: …` for a single turn, else the dialogue."""
    if len(turns) == 1:
        return f"Request: {turns[0].content}"
    return dialogue([turn for turn in turns if turn.role != "system"])


def signature(tool: Tool) -> str:
    """A tool in a line: `flight.book(origin,seats:integer,cabin?:economy|business)`. What has
    no type is a string."""
    required = tool.required
    return f"{tool.name}({_fields(tool.properties, required)})"


def _fields(properties: dict[str, Any], required: Sequence[str]) -> str:
    words = {name: type_word(schema) for name, schema in properties.items()}
    return ",".join(
        f"{name}{'' if name in required else '?'}{'' if word == 'string' else f':{word}'}"
        for name, word in words.items()
    )


def type_word(schema: dict[str, Any]) -> str:
    """A type in a few characters: `integer`, `a|b`, `[string]`, `{name,age:integer}`, `any`."""
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return "|".join(type_word(option) for option in schema["anyOf"])
    name = schema.get("type", "any")
    if isinstance(name, list):
        return "|".join(name)
    if name == "array":
        return f"[{type_word(schema.get('items') or {})}]"
    if name == "object" and (properties := schema.get("properties")):
        return f"{{{_fields(properties, schema.get('required', list(properties)))}}}"
    return str(name)
