"""Tools in one form: type words, the three shapes, and calls against their schema."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mrtpo.tasks.tools.schema import Call, call_fault, function_object, tool_from, typed


@pytest.mark.parametrize(
    ("word", "schema"),
    [
        ("int", {"type": "integer"}),
        ("int, optional", {"type": "integer"}),
        ("Optional[str]", {"type": "string"}),
        ("typing.List[int]", {"type": "array", "items": {"type": "integer"}}),
        ("list(str)", {"type": "array", "items": {"type": "string"}}),
        ("List", {"type": "array"}),
        ("Tuple[float, float]", {"type": "array", "items": {"type": "number"}}),
        (
            "List[List[float]], optional",
            {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        ),
        (
            "List[Union[int, float]]",
            {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "number"}]}},
        ),
        ("Dict[str, int]", {"type": "object"}),
        ("dict", {"type": "object"}),
        ("float", {"type": "number"}),
        ("tuple", {"type": "array"}),
        ("HashMap", {"type": "object"}),
        ("java.lang.Long", {"type": "integer"}),
        (["string", "null"], {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("str | None", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("Literal['a', 'b']", {"enum": ["a", "b"]}),
        ("any", {}),
        ("Callable[[float], float]", {}),
        ("np.ndarray", {}),
        ("", {}),
        (None, {}),
    ],
)
def test_type_words_become_json_schema(word: Any, schema: dict[str, Any]) -> None:
    assert typed(word) == schema


FLAT = {
    "name": "forecast",
    "description": "Weather of the next days.",
    "parameters": {
        "city": {"description": "Where.", "type": "str"},
        "days": {"description": "How many.", "type": "int, optional"},
        "unit": {"description": "C or F.", "type": "str", "default": "C"},
        "position": {"type": "Tuple[float, float]", "required": True},
    },
}


def test_flat_parameters_are_required_unless_optional_or_with_a_default() -> None:
    tool = tool_from(FLAT)
    assert tool.required == ["city", "position"]
    assert tool.properties["unit"] == {"type": "string", "description": "C or F.", "default": "C"}
    assert tool.properties["position"] == {"type": "array", "items": {"type": "number"}}
    assert tool_from({**FLAT, "required": ["days"]}).required == ["days"]


def test_a_list_of_required_arguments_may_be_null() -> None:
    assert tool_from({**FLAT, "required": None}) == tool_from(FLAT)


def test_types_of_bfcl_are_mapped_at_every_depth() -> None:
    tool = tool_from(
        {
            "name": "book",
            "description": "d",
            "parameters": {
                "type": "dict",
                "required": ["who"],
                "properties": {
                    "who": {
                        "type": "dict",
                        "properties": {"age": {"type": "float"}, "x": {"type": "any"}},
                    },
                    "seats": {"type": "tuple", "items": {"type": "dict", "properties": {}}},
                },
            },
        }
    )
    assert tool.parameters == {
        "type": "object",
        "required": ["who"],
        "properties": {
            "who": {"type": "object", "properties": {"age": {"type": "number"}, "x": {}}},
            "seats": {"type": "array", "items": {"type": "object", "properties": {}}},
        },
    }


def test_wrapped_and_bare_tools_are_one() -> None:
    tool = tool_from(FLAT)
    assert tool_from(function_object(tool)) == tool
    assert tool_from({"name": "stop", "parameters": {}}).parameters == {
        "type": "object", "properties": {}, "required": [],
    }  # fmt: skip


def test_an_argument_may_be_called_type() -> None:
    tool = tool_from({"name": "f", "parameters": {"type": {"type": "str"}, "x": "int"}})
    assert tool.properties == {"type": {"type": "string"}, "x": {"type": "integer"}}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("forecast", "a tool is an object, found str"),
        ({"parameters": {}}, "name of a tool: expected text, found None"),
        ({"name": "f", "description": 3}, "tool f: description: expected text, found 3"),
        ({"name": "f", "parameters": [1]}, "tool f: parameters: expected an object, found list"),
        ({"name": "f", "parameters": {"a": 3}}, "tool f: parameters: a: expected an object"),
        ({"name": "f", "parameters": {"type": "string", "properties": {}}}, "not an object's"),
        (
            {"name": "f", "parameters": {"a": {"type": "str", "enum": "x"}}},
            "tool f: parameters: properties.a.enum: 'x' is not of type 'array'",
        ),
    ],
)
def test_a_tool_that_cannot_be_used_is_named(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tool_from(value)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"city": "Oslo", "position": [1, 2.5]}, ""),
        ({"city": "Oslo", "position": [1, 2], "days": 3, "unit": "F"}, ""),
        ({"city": "Oslo"}, "forecast: 'position' is a required property"),
        ({"city": "Oslo", "position": [], "day": 3}, "forecast has no argument day"),
        ({"city": 3, "position": []}, "forecast.city: 3 is not of type 'string'"),
        ({"city": "Oslo", "position": ["x"]}, "forecast.position.0: 'x' is not of type 'number'"),
        (
            {"city": "Oslo", "position": [], "days": True},
            "forecast.days: True is not of type 'integer'",
        ),
    ],
)
def test_a_call_is_checked_against_its_tool(arguments: dict[str, Any], fault: str) -> None:
    assert call_fault(Call("forecast", arguments), {"forecast": tool_from(FLAT)}) == fault


def test_an_unknown_tool_is_a_fault() -> None:
    assert call_fault(Call("f", {}), {}) == "no tool f"


def _real_tools(root: Path) -> Iterator[Any]:
    files = set((root / "bfcl").glob("BFCL_v4_*.json"))
    for file in sorted(files - {root / "bfcl" / "BFCL_v4_format_sensitivity.json"}):
        for line in file.read_text().split("\n")[:-1]:
            yield from json.loads(line).get("function", [])
    for file in sorted((root / "hammer" / "test").glob("*.json")):
        for row in json.loads(file.read_text()):
            yield from row["tools"]


@pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")
def test_every_real_tool_has_a_valid_schema() -> None:
    count = 0
    for value in _real_tools(Path(os.environ["MRTPO_DATA"])):
        Draft202012Validator.check_schema(tool_from(value).parameters)
        count += 1
    assert count > 10_000
