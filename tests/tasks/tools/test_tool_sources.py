"""Readers of public tool-calling sets: on small files in their format, and on the real ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mrtpo.config import settings_from
from mrtpo.tasks.tools.dialogues import (
    NO_TOOL,
    code_calls,
    embedded_tools,
    listed_tools,
    tagged_answer,
    tagged_turns,
)
from mrtpo.tasks.tools.layouts import locate
from mrtpo.tasks.tools.prepare import divided, prepare
from mrtpo.tasks.tools.schema import Call, Example, Tool, Turn
from mrtpo.tasks.tools.sources import Source, first_accepted, read_source

NEWS: dict[str, Any] = {
    "name": "Get News", "description": "News.\n1. Name: of a kind", "parameters": {
        "page": {"type": "int", "description": "Which."},
        "topic": {"type": "str, optional", "description": "", "default": "all"},
    },
}  # fmt: skip
SYSTEM = f"""You help.

**Available Tools**
In your response, you can use the following tools:
1. Name: {NEWS["name"]}
Description: {NEWS["description"]}
Parameters: {json.dumps(NEWS["parameters"])}
2. Stop: Stops all.
Parameters: {{'now': {{'type': 'bool', 'description': 'It\\'s now.'}}}}

**Steps for Each Turn**
1. **Think:** do."""
CALL = '{"name": "Get News", "parameters": {"page": 1}}'
DIALOGUE = f"""**Dialogue Records History**
<user> News? </user>

<think> I call <tool_call> now. </think>
<tool_call>
{CALL}
</tool_call>
<obs> [] </obs>

<think> No. </think>
<response> None today. </response>
<user> And page 1? </user>
"""
ANSWER = f"<think> As <tool_call> says. </think>\n<tool_call>\n{CALL}\n</tool_call>"


def rlla_row(**changes: Any) -> dict[str, Any]:
    return {"instruction": SYSTEM, "input": DIALOGUE, "output": ANSWER, **changes}


def write(path: Path, rows: list[Any], lines: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows)
    path.write_text(text)
    return path


def only(source: Source) -> Example:
    (example,) = [e for found in source.examples.values() for e in found]
    return example


# ToolRL


def test_numbered_tools_are_read_with_json_or_python_parameters() -> None:
    news, stop = listed_tools(SYSTEM)
    assert (news.name, stop.name) == ("Get News", "Stop")
    assert news.description == NEWS["description"] and stop.description == "Stops all."
    assert news.required == ["page"] and news.properties["topic"]["default"] == "all"
    assert stop.properties == {"now": {"type": "boolean", "description": "It's now."}}


def test_a_dialogue_keeps_its_turns_and_leaves_thoughts_out() -> None:
    assert tagged_turns(DIALOGUE) == [
        Turn("user", "News?"),
        Turn("assistant", "", (Call("Get News", {"page": 1}),)),
        Turn("tool", "[]"),
        Turn("assistant", "None today."),
        Turn("user", "And page 1?"),
    ]
    both = f"<user> a </user><tool_call>\n{CALL}\n</tool_call>\n<response> b </response>"
    assert tagged_turns(both)[1] == Turn("assistant", "b", (Call("Get News", {"page": 1}),))


def test_an_answer_is_calls_text_and_a_thought_without_tags() -> None:
    assert tagged_answer(ANSWER) == (
        (Call("Get News", {"page": 1}),), "", "As tool_call says.",
    )  # fmt: skip
    text = "<think> Hm. </think>\n<response> No. </response>"
    assert tagged_answer(text) == ((), "No.", "Hm.")


def test_rlla_is_read_raw_and_as_verl_has_it(tmp_path: Path) -> None:
    write(tmp_path / "rlla_rl.json", [rlla_row()])
    truth = ANSWER.replace('"page": 1', '"page": 2')
    parquet = {
        "data_source": "rlla", "prompt": [{"role": "system", "content": SYSTEM}],
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "test", "index": 0, **rlla_row()},
    }  # fmt: skip
    pd.DataFrame([parquet]).to_parquet(tmp_path / "test.parquet")
    source = read_source("rlla", tmp_path)
    (train,), (test,) = source.examples["train"], source.examples["test"]
    assert train.calls == (Call("Get News", {"page": 1}),)
    assert test.calls == (Call("Get News", {"page": 2}),)
    assert [t.name for t in train.tools] == ["Get News", "Stop"] and len(train.turns) == 5
    assert (test.file, test.row) == ("test.parquet", 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"output": 3}, "field output: expected text, found int"),
        ({"output": "<tool_call>\nx\n</tool_call>"}, "field output: the reference has"),
        ({"input": ""}, "field input: empty"),
        ({"instruction": "1. Name: F\nDescription: d"}, "field instruction: tool F: no parameters"),
        (
            {"instruction": "1. Name: F\nDescription: d\nParameters: {oops"},
            "field instruction: tool F: parameters are no JSON",
        ),
    ],
)
def test_a_malformed_row_is_named_with_its_field(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    file = write(tmp_path / "rlla_sft.json", [rlla_row(), rlla_row(**changes)])
    with pytest.raises(ValueError, match=said) as raised:
        read_source("rlla", tmp_path)
    assert str(raised.value).startswith(f"{file}: row 1 (from 0): ")


def test_useless_rows_are_counted_by_reason(tmp_path: Path) -> None:
    def calls(line: str) -> dict[str, Any]:
        return rlla_row(output=f"<think> a </think>\n<tool_call>\n{line}\n</tool_call>")

    rows = [
        rlla_row(),
        rlla_row(),
        rlla_row(instruction="No tools today."),
        rlla_row(input="<obs> [] </obs>"),
        rlla_row(output="<think> a </think>"),
        calls('{"name": "Get", "parameters": {}}'),
        calls('{"name": "Get News", "parameters": {"page": 1, "size": 2}}'),
        calls('{"name": "Get News", "parameters": {}}'),
        calls('{"name": "Get News", "parameters": {"page": "1"}}'),
    ]
    write(tmp_path / "rlla_sft.json", rows)
    source = read_source("rlla", tmp_path)
    assert source.rows == {"train": 9} and only(source).row == 0
    assert source.dropped["train"] == {
        "duplicate": 1,
        "no tools": 1,
        "nobody asks": 1,
        "no answer": 1,
        "a call of a tool that is not shown": 1,
        "a call with an argument that its tool has not": 1,
        "a call without a required argument": 1,
        "a call with a value of another type": 1,
    }
    kept = read_source("rlla", tmp_path, mistyped=True).examples["train"]
    assert [example.row for example in kept] == [0, 8]


# ToolACE


TOOLS = [
    {"name": "Market Trends.get", "description": "d", "required": None, "parameters": {
        "type": "dict", "properties": {"country": {"type": "string"}, "n": {"type": "int"}},
        "required": ["country"]}},
    {"name": "Market", "description": "d", "parameters": {"type": "dict", "properties": {}}},
]  # fmt: skip
ACE = {
    "system": f"You compose functions. Here is a list [in JSON]:\n{json.dumps(TOOLS)}.\nReturn "
    "[func1(params=value...), func2(params)] only.",
    "conversations": [
        {"from": "user", "value": "Trends?"},
        {"from": "assistant", "value": '[Market Trends.get(country="us", n=3), Market()]'},
        {"from": "tool", "value": "[{}]"},
        {"from": "assistant", "value": "All fell."},
    ],
}


def test_every_answer_of_a_toolace_conversation_is_an_example(tmp_path: Path) -> None:
    write(tmp_path / "data.json", [ACE])
    first, second = read_source("toolace", tmp_path).examples[""]
    assert first.calls == (
        Call("Market Trends.get", {"country": "us", "n": 3}), Call("Market", {}),
    )  # fmt: skip
    assert [turn.role for turn in second.turns] == ["user", "assistant", "tool"]
    assert (second.calls, second.text) == ((), "All fell.")
    assert second.turns[1].calls == first.calls and first.source == second.source


def test_calls_in_brackets_are_told_from_text_in_brackets() -> None:
    tools = [Tool(name, "", {}) for name in ("get", "Get It (all)")]
    assert code_calls("[get(a=[1, -2.5], b={'c': None}, d=True)]", tools) == (
        Call("get", {"a": [1, -2.5], "b": {"c": None}, "d": True}),
    )
    assert code_calls('[Get It (all)(q="get(x)")]', tools) == (
        Call("Get It (all)", {"q": "get(x)"}),
    )
    assert code_calls("[see above]", tools) is code_calls("get(a=1)", tools) is None
    with pytest.raises(ValueError, match="calls that cannot be read"):
        code_calls("[get(a=)]", tools)


def test_a_conversation_whose_calls_cannot_be_read_is_left_at_that_answer(tmp_path: Path) -> None:
    broken = [*ACE["conversations"][:3], {"from": "assistant", "value": "[Market(a=)]"}]  # type: ignore[index]
    write(tmp_path / "data.json", [{**ACE, "conversations": broken}])
    source = read_source("toolace", tmp_path)
    assert len(source.examples[""]) == 1
    assert source.dropped[""] == {"calls that cannot be read": 1}


def test_a_turn_of_an_unknown_kind_is_named(tmp_path: Path) -> None:
    write(tmp_path / "data.json", [{**ACE, "conversations": [{"from": "bot", "value": "x"}]}])
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): field conversations.0: expected from"):
        read_source("toolace", tmp_path)


def test_the_list_of_tools_is_found_in_prose() -> None:
    assert [t.name for t in embedded_tools(ACE["system"])] == ["Market Trends.get", "Market"]  # type: ignore[arg-type]
    assert embedded_tools("No [tools] here [1].") == []


# xLAM, Hammer, API-Bank


def test_xlam_keeps_its_lists_as_text(tmp_path: Path) -> None:
    row = {
        "id": 0, "query": "News?", "tools": json.dumps([NEWS]),
        "answers": json.dumps([{"name": "Get News", "arguments": {"page": 1}}]),
    }  # fmt: skip
    write(tmp_path / "xlam_function_calling_60k.json", [row])
    example = only(read_source("xlam", tmp_path))
    assert example.calls == (Call("Get News", {"page": 1}),)
    assert example.turns == (Turn("user", "News?"),) and example.tools[0].required == ["page"]
    write(tmp_path / "xlam_function_calling_60k.json", [{**row, "answers": "[oops"}])
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): field answers: "):
        read_source("xlam", tmp_path)


def test_hammer_masks_names_and_answers_nothing_with_a_text(tmp_path: Path) -> None:
    text = (
        "[BEGIN OF TASK INSTRUCTION]\nCall.\n[END OF TASK INSTRUCTION]\n"
        f"[BEGIN OF AVAILABLE TOOLS]\n{json.dumps([NEWS])}\n[END OF AVAILABLE TOOLS]\n"
        "[BEGIN OF QUERY]\nNews?\n[END OF QUERY]\n"
    )
    rows = [
        {"instruction": text, "input": "", "output": "```\n[]\n```"},
        {"instruction": text, "input": "",
         "output": '```\n[{"name": "Get News", "arguments": {"page": 2}}]\n```'},
    ]  # fmt: skip
    write(tmp_path / "masking_sft_data_example.json", rows)
    none, some = read_source("hammer", tmp_path).examples["train"]
    assert (none.calls, none.text) == ((), NO_TOOL)
    assert (some.calls, some.text) == ((Call("Get News", {"page": 2}),), "")


def test_hammers_tests_have_turns_of_four_roles(tmp_path: Path) -> None:
    call = '```[{"name": "Get News", "arguments": {"page": 1}}]```'
    query = [
        {"role": "user", "content": "News?"},
        {"role": "assistant", "content": call},
        {"role": "tool", "content": "[]\nGenerate API Request:"},
        {"role": "agent", "content": "Let me look again.\nGenerate API Request:"},
    ]
    answers = [{"tool": "Get News", "parameters": {"page": 2}}]
    write(tmp_path / "test" / "a.json", [{"query": query, "tools": [NEWS], "answers": answers}])
    example = only(read_source("hammer", tmp_path))
    assert [turn.role for turn in example.turns] == ["user", "assistant", "tool"]
    assert example.turns[1].calls and example.turns[2].content == "[]"
    assert example.calls == (Call("Get News", {"page": 2}),)


def test_api_bank_answers_with_one_call_or_a_list(tmp_path: Path) -> None:
    answer = {"name": "Get News", "parameters": {"page": 1}}
    rows = [
        {"system": SYSTEM, "user": DIALOGUE, "answer": answer, "other": {}},
        {"system": SYSTEM, "user": "<user> Hi </user>", "answer": [answer], "other": {}},
    ]
    write(tmp_path / "level-1-api_processed.json", rows)
    found = read_source("apibank", tmp_path).examples[""]
    assert [example.calls for example in found] == [(Call("Get News", {"page": 1}),)] * 2


def test_of_accepted_values_the_first_counts_and_an_empty_one_is_left_out() -> None:
    accepted = {"a": [1, 2], "b": ["", "x"], "c": [{"d": [3], "e": [""]}], "f": [[{"g": [4]}]]}
    assert first_accepted(accepted) == {"a": 1, "c": {"d": 3}, "f": [{"g": 4}]}


# Folders and splits


def test_a_set_is_found_below_the_folder_that_holds_it(tmp_path: Path) -> None:
    file = write(tmp_path / "rlla_4k" / "rlla_sft.json", [rlla_row()])
    assert locate("rlla", tmp_path) == file.parent
    with pytest.raises(ValueError, match=r"none of data.json.*, nor below toolace, ToolACE"):
        locate("toolace", tmp_path)
    with pytest.raises(ValueError, match="not a folder"):
        locate("toolace", tmp_path / "absent")


def test_a_set_without_an_example_is_an_error_with_the_reasons(tmp_path: Path) -> None:
    write(tmp_path / "rlla_sft.json", [rlla_row(instruction="none")])
    with pytest.raises(ValueError, match=r"no example is left \(no tools: 1\)"):
        read_source("rlla", tmp_path)


def test_answers_of_one_conversation_stay_in_one_split() -> None:
    examples = [
        Example((), (Turn("user", str(n)),), (), "x", "f", n // 3, source=f"f {n // 3}")
        for n in range(90)
    ]
    rest, taken = divided(examples, 9, 0, "test")
    assert len(taken) == 9 and len(rest) == 81
    assert {e.source for e in rest}.isdisjoint({e.source for e in taken})
    assert divided(examples, 9, 0, "test") == (rest, taken)
    assert divided(examples, 9, 1, "test") != (rest, taken)


def test_prompts_that_are_too_long_and_questions_of_the_test_are_left_out(tmp_path: Path) -> None:
    rows = [rlla_row(input=f"<user> Page {n}? </user>") for n in range(30)]
    rows.append(rlla_row(input=f"<user> {'x' * 9000} </user>"))
    write(tmp_path / "rlla_sft.json", rows)
    tested = {"reward_model": {"ground_truth": ANSWER}, "extra_info": rows[0]}
    pd.DataFrame([tested]).to_parquet(tmp_path / "test.parquet")
    data = {"source": "rlla", "path": str(tmp_path), "prompt": "full", "max_prompt_chars": 4000}
    prepared = prepare(settings_from({"task": "tools", "data": data}))
    sizes = {split: len(prompts) for split, prompts in prepared.prompts.items()}
    assert sum(sizes.values()) == 30 and sizes["test"] == 1 and sizes["valid"] == 3
    assert prepared.statistics["dropped/train/prompt too long"] == 1
    assert prepared.statistics["dropped/train/also in valid or test"] in (0, 1)
    asked = [p.messages[-1].content for p in prepared.prompts["train"]]
    assert not any("Page 0?" in text for text in asked)


needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")


@needs_data
@pytest.mark.parametrize(
    ("kind", "rows", "kept"),
    [
        ("rlla", {"train": 400, "test": 80}, {"train": 333, "test": 62}),
        ("hammer", {"train": 10, "test": 934}, {"train": 8, "test": 737}),
        ("apibank", {"": 597}, {"": 462}),
    ],
)
def test_real_sets_are_read_whole(kind: Any, rows: dict[str, int], kept: dict[str, int]) -> None:
    """A fifth of the calls have numbers as text, which `data.mistyped` keeps or drops."""
    source = read_source(kind, Path(os.environ["MRTPO_DATA"]))
    assert source.rows == rows
    assert {split: len(found) for split, found in source.examples.items()} == kept


@needs_data
def test_real_bfcl_questions_have_their_first_accepted_answers() -> None:
    source = read_source("bfcl", Path(os.environ["MRTPO_DATA"]))
    by_id = {example.source: example for example in source.examples[""]}
    assert len(by_id) > 3400
    assert by_id["simple_python_0"].calls == (
        Call("calculate_triangle_area", {"base": 10, "height": 5, "unit": "units"}),
    )
    assert by_id["irrelevance_0"].text == NO_TOOL
