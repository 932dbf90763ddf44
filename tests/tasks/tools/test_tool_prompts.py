"""Prompts in three styles, and what replays tell and leave out."""

from __future__ import annotations

import json

import pytest
from helpers import text_policy

from mrtpo.contexts import chosen_information, informed
from mrtpo.records import Message, Prompt, template_ids
from mrtpo.tasks.tools.prompts import RULE, build_prompt, kind_of, render, signature, type_word
from mrtpo.tasks.tools.rewards import correctness, format_ok, reference_calls
from mrtpo.tasks.tools.schema import Call, Example, Tool, Turn, tool_from

BOOK = tool_from(
    {
        "name": "flight.book",
        "description": "Book a flight.",
        "parameters": {
            "type": "object",
            "properties": {
                "origin": {"type": "string"},
                "seats": {"type": "integer", "default": 1},
                "cabin": {"enum": ["economy", "business"]},
                "who": {"type": "object", "properties": {"name": {"type": "string"},
                                                         "age": {"type": "integer"}}},
                "days": {"type": "array", "items": {"type": "string"}},
                "note": {},
            },
            "required": ["origin", "who"],
        },
    }
)  # fmt: skip
HISTORY = (
    Turn("user", "Where can I go?"),
    Turn("assistant", "Anywhere.", (Call("flight.list", {"day": "Monday"}),)),
    Turn("tool", "[]"),
    Turn("user", "Then book Oslo."),
)
STYLES = ("compact", "full", "chat")


def example(
    calls: tuple[Call, ...] = (Call("flight.book", {"origin": "Oslo"}),),
    text: str = "",
    turns: tuple[Turn, ...] = (Turn("user", "Book a flight."),),
) -> Example:
    return Example((BOOK,), turns, calls, text, "made up", 0, "s")


def prompt(style: str, **changes: object) -> Prompt:
    return build_prompt(
        example(**changes), id="p", split="train", difficulty="", style=style  # type: ignore[arg-type]
    )  # fmt: skip


def shown(prompt: Prompt, told: set[str], variants: dict[str, str] | None = None) -> str:
    chosen = chosen_information(prompt, variants or {})
    return "\n".join(m.content for m in informed(prompt, chosen, told))


def test_a_tool_in_a_line_names_types_and_what_is_optional() -> None:
    assert signature(BOOK) == (
        "flight.book(origin,seats?:integer,cabin?:economy|business,who:{name,age:integer},"
        "days?:[string],note?:any)"
    )
    assert type_word({"anyOf": [{"type": "string"}, {"type": "null"}]}) == "string|null"
    assert signature(Tool("stop", "", {"type": "object"})) == "stop()"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("calls", "text", "layout"),
    [(2, "", "calls"), (0, "No.", "text"), (1, "Yes.", "both")],
)
def test_the_reference_is_a_faultless_answer(
    style: str, calls: int, text: str, layout: str
) -> None:
    wanted = (Call("flight.book", {"origin": "Łódź"}), Call("flight.book", {}))[:calls]
    made = prompt(style, calls=wanted, text=text)
    assert format_ok(made.reference, made.reference)
    assert tuple(reference_calls(made.reference)) == wanted
    assert correctness(made.reference, made.reference) == (3.0 if calls else 0.0)


@pytest.mark.parametrize("style", STYLES)
def test_told_correctness_is_the_calls_without_tags_and_told_format_the_rows_template(
    style: str,
) -> None:
    made = prompt(style)
    line = '{"name": "flight.book", "parameters": {"origin": "Oslo"}}'
    template = "Format: <think> ... </think>\n<tool_call>\n...\n</tool_call>"
    for told in (set(), {"format"}, {"correctness"}, {"format", "correctness"}):
        text = shown(made, told)
        assert (line in text) == ("correctness" in told)
        assert text.count(template) == ("format" in told)
    assert "<response>" in shown(prompt(style, calls=(), text="No."), {"format"})


def test_a_row_without_calls_tells_nothing_of_correctness() -> None:
    assert set(chosen_information(prompt("compact", calls=(), text="No."), {})) == {"format"}


@pytest.mark.parametrize("style", ["full", "chat"])
def test_the_rule_of_the_prompt_can_be_left_out(style: str) -> None:
    made = prompt(style)
    assert RULE in shown(made, {"format"}, {"format": "rule"})
    assert RULE not in shown(made, set(), {"format": "rule"})


def test_histories_are_kept_in_every_style() -> None:
    dialogue = (
        "<user> Where can I go? </user>\n"
        '<tool_call>\n{"name": "flight.list", "parameters": {"day": "Monday"}}\n</tool_call>\n'
        "<response> Anywhere. </response>\n<obs> [] </obs>\n<user> Then book Oslo. </user>"
    )
    for style in ("compact", "full"):
        assert prompt(style, turns=HISTORY).messages[-1].content.endswith(dialogue)
    chat = prompt("chat", turns=HISTORY).messages
    assert [m.role for m in chat] == ["tools", "system", "user", "assistant", "tool", "user"]
    assert json.loads(prompt("full", turns=HISTORY).payload)["question"] == "Then book Oslo."


def test_a_systems_own_words_are_kept() -> None:
    turns = (Turn("system", "It is Monday."), Turn("user", "Book."))
    assert "It is Monday." in prompt("full", turns=turns).messages[0].content
    assert "It is Monday." in prompt("chat", turns=turns).messages[1].content


def test_kinds_say_what_an_answer_needs() -> None:
    a, b = Call("a", {}), Call("b", {})
    kinds = [kind_of(example(calls, "x")) for calls in ((), (a,), (a, a), (a, b))]
    assert kinds == ["text", "one", "parallel", "several"]


def test_an_answer_without_calls_has_no_tags_for_them() -> None:
    assert render([], "Hi.", "Hm.") == "<think> Hm. </think>\n<response> Hi. </response>"


def test_tools_go_to_the_chat_template_that_has_a_place_for_them() -> None:
    tokenizer = text_policy().tokenizer
    messages = prompt("chat").messages
    with pytest.raises(ValueError, match="no place for tools; use full"):
        template_ids(tokenizer, messages)
    tokenizer.chat_template = (
        "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}" + tokenizer.chat_template
    )
    text = tokenizer.decode(template_ids(tokenizer, messages))
    plain = tokenizer.decode(template_ids(tokenizer, [Message("user", "x")]))
    assert "flight.book" in text and "<|im_start|>tools" not in text and "flight.book" not in plain
