"""Reading of BFCL folders: what is read, and errors that name file, row and field."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from mrtpo.benchmarks.bfcl.questions import SCORED, UNSCORED, read_folder

QUESTION = {
    "id": "multiple_0",
    "question": [[{"role": "user", "content": "Add 1 and 2."}]],
    "function": [
        {"name": "g", "description": "", "parameters": {"properties": {}, "required": []}},
        {"name": "f", "description": "adds", "parameters": {
            "type": "dict", "properties": {"x": {"type": "array", "items": {"type": "integer"}}},
            "required": ["x"]}},
    ],
}  # fmt: skip
ANSWER = {"id": "multiple_0", "ground_truth": [{"f": {"x": [[1, 2]]}}]}


def write(folder, rows, answers, category="multiple"):
    (folder / "possible_answer").mkdir(exist_ok=True, parents=True)
    name = f"BFCL_v4_{category}.json"
    for file, found in ((folder / name, rows), (folder / "possible_answer" / name, answers)):
        file.write_text("".join(json.dumps(row) + "\n" for row in found))
    return folder


def changed(value, path, new):
    """A copy with what stands at `path` replaced, or taken out if `new` is ...."""
    value = json.loads(json.dumps(value))
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    if new is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return value


def test_questions_and_answers_are_joined_by_id(tmp_path):
    second = {**QUESTION, "id": "multiple_1-0-0"}
    answers = [{**ANSWER, "id": "multiple_1-0-0"}, ANSWER]
    found = read_folder(write(tmp_path, [QUESTION, second], answers)).questions
    assert [(q.id, q.row, q.category, q.kind, q.language) for q in found] == [
        ("multiple_0", 0, "multiple", "multiple", "python"),
        ("multiple_1-0-0", 1, "multiple", "multiple", "python"),
    ]
    assert found[0].answers == (ANSWER["ground_truth"][0],)
    assert found[0].turns[0][0].content == "Add 1 and 2."


PROPERTY = ["function", 1, "parameters", "properties", "x"]


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (["id"], 3, r"row 0: id: expected text, found 3"),
        (["question"], ..., r"row 0: question: expected a list of turns"),
        (["question", 0, 0, "content"], None, r"row 0: question.0.0.content: expected text"),
        (["function"], ..., r"row 0: function: expected a list"),
        (["function", 1, "name"], ..., r"row 0: function.1.name: expected text"),
        (["function", 0, "parameters"], "x", r"row 0: function.0.parameters.properties: expected"),
        (
            ["function", 1, "parameters", "required"],
            ...,
            r"function.1.parameters.required: expected",
        ),
        (
            [*PROPERTY, "type"],
            "number",
            r"function.1.*properties.x: type: 'number' is none of string",
        ),
        (
            [*PROPERTY, "items"],
            ...,
            r"properties.x: items.type: a list needs the type of its items",
        ),
        (["function", 1, "name"], "h", r"row 0: ground_truth: f is none of the functions"),
    ],
)
def test_a_malformed_question_is_named(tmp_path, path, new, message):
    write(tmp_path, [changed(QUESTION, path, new)], [ANSWER])
    with pytest.raises(ValueError, match=r"BFCL_v4_multiple\.json: .*" + message):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], r"id: possible_answer/BFCL_v4_multiple\.json has no multiple_0"),
        ([ANSWER, ANSWER], r"row 1: id: multiple_0 occurs twice"),
        ([ANSWER, {**ANSWER, "id": "x"}], r"id: no question x"),
        ([{**ANSWER, "ground_truth": []}], r"row 0: ground_truth: expected a list of calls"),
        ([{**ANSWER, "ground_truth": [{"f": {"x": 1}}]}], r"row 0: ground_truth\.0: expected"),
        ([{**ANSWER, "ground_truth": [{"f": {}}] * 2}], r"ground_truth: multiple has one call"),
    ],
)
def test_malformed_answers_are_named(tmp_path, answers, message):
    with pytest.raises(ValueError, match=message):
        read_folder(write(tmp_path, [QUESTION], answers))


def test_a_folder_of_something_else_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"no BFCL_v4_<category>\.json"):
        read_folder(tmp_path)
    file = write(tmp_path, [QUESTION], [ANSWER]) / "BFCL_v4_multiple.json"
    file.write_text(file.read_text() + "{oops\n")
    with pytest.raises(ValueError, match="row 1: not JSON"):
        read_folder(tmp_path)
    (tmp_path / "possible_answer" / "BFCL_v4_multiple.json").unlink()
    with pytest.raises(ValueError, match=r"possible_answer.*missing"):
        read_folder(tmp_path)
    file.write_text(json.dumps(QUESTION) + "\n" + json.dumps(QUESTION))


def test_multi_turn_questions_are_read_and_set_apart(tmp_path):
    row = {"id": "multi_turn_base_0", "question": [QUESTION["question"][0]] * 2, "path": []}
    write(tmp_path, [QUESTION], [ANSWER])
    (tmp_path / "BFCL_v4_multi_turn_base.json").write_text(json.dumps(row))
    (tmp_path / "BFCL_v4_format_sensitivity.json").write_text('{"multiple": ["multiple_0"]}')
    found = read_folder(tmp_path)
    assert found.unscored == {"multi_turn_base": ("multi_turn_base_0",)}
    assert found.formats == {"multiple": ("multiple_0",)}
    assert [q.id for q in found.questions] == ["multiple_0"]


@pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")
def test_every_file_of_the_benchmark_is_read():
    found = read_folder(Path(os.environ["MRTPO_DATA"]) / "bfcl")
    counts = Counter(question.category for question in found.questions)
    assert list(counts) == list(SCORED)
    assert counts == {
        "simple_python": 400, "simple_java": 100, "simple_javascript": 50, "multiple": 200,
        "parallel": 200, "parallel_multiple": 200, "live_simple": 258, "live_multiple": 1053,
        "live_parallel": 16, "live_parallel_multiple": 24, "irrelevance": 240,
        "live_irrelevance": 884, "live_relevance": 16,
    }  # fmt: skip
    assert {c: len(ids) for c, ids in found.unscored.items()} == dict(
        zip(UNSCORED, (200, 200, 200, 200, 100, 155), strict=True)
    )
    assert sum(map(len, found.formats.values())) == 200
