"""Agreement with the official checker's verdicts, and the answers against themselves."""

import json
import os
from pathlib import Path

import pytest

from mrtpo.benchmarks.bfcl.check import check_calls
from mrtpo.benchmarks.bfcl.decode import decode
from mrtpo.benchmarks.bfcl.questions import AST, read_folder

pytestmark = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")

# Answers whose first accepted values the official checker rejects: an argument that the function
# does not have, an item or value of another type than the schema's.
REJECTED = {
    "parallel_multiple_12", "parallel_multiple_26", "live_simple_106-63-0", "live_simple_112-68-0",
    "live_multiple_507-149-4", "live_multiple_862-181-3", "live_multiple_964-207-0",
}  # fmt: skip
# Their items are read as text and the answers have integers, or bare text stands in the answer
# where a list of values belongs.
UNREACHABLE = {"simple_java_36", "simple_java_64", "simple_java_65"}


@pytest.fixture(scope="module")
def questions():
    found = read_folder(Path(os.environ["MRTPO_DATA"]) / "bfcl").questions
    return {question.id: question for question in found}


def fault_of(question, calls):
    return check_calls(
        question.functions, calls, question.answers, question.kind, question.language
    )


def test_every_verdict_and_every_kind_of_fault_is_the_official_one(questions):
    file = Path(os.environ["MRTPO_DATA"]) / "oracles" / "bfcl_ast.verdicts.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) > 4000
    different = []
    for row in rows:
        fault = fault_of(questions[row["id"]], row["prediction"])
        found = (fault is None, None if fault is None else fault.kind)
        if found != (row["valid"], row["error_type"]):
            different.append((row["id"], row["mutation"], found))
    assert different == []


def first(values):
    """The first accepted value; objects within one are plain."""
    return next((value for value in values if value != ""), "")


def plain(value):
    """An accepted value as one that a call may have: at each key of an object the first."""
    if isinstance(value, dict):
        return {key: first(v) if isinstance(v, list) else v for key, v in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def first_calls(question):
    return [
        {name: {k: plain(first(v)) for k, v in accepted.items() if first(v) != ""}}
        for answer in question.answers
        for name, accepted in answer.items()
    ]


def test_answers_fit_themselves_but_for_the_known_ones(questions):
    python = [q for q in questions.values() if q.category in AST and q.language == "python"]
    rejected = {q.id for q in python if fault_of(q, first_calls(q)) is not None}
    assert len(python) == 2351
    assert rejected == REJECTED


def java(value, named, items):
    """A value as Java source. Text in an array has no quotes: the checker would keep them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        written = ", ".join(java(item, items, None) for item in value)
        if named == "Array":
            return f"new {items}[]{{{written}}}"
        quoted = ", ".join(f'"{item}"' if isinstance(item, str) else java(item, items, None)
                           for item in value)  # fmt: skip
        return f"new ArrayList<{items}>(Arrays.asList({quoted}))"
    if isinstance(value, dict):
        puts = " ".join(f'put("{k}", {json.dumps(v)});' for k, v in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    return f"{value}L" if named == "long" else f"{value}"


def javascript(value, named, items):
    return value if isinstance(value, str) else json.dumps(value)


def as_source(question):
    schemas = question.functions[0]["parameters"]["properties"]
    written = java if question.language == "java" else javascript
    return [
        {
            name: {
                key: written(value, schemas[key]["type"], schemas[key].get("items", {}).get("type"))
                for key, value in arguments.items()
            }
        }
        for call in first_calls(question)
        for name, arguments in call.items()
    ]


def test_answers_of_java_and_javascript_fit_themselves_as_source_text(questions):
    others = [q for q in questions.values() if q.language != "python"]
    rejected = {q.id for q in others if fault_of(q, as_source(q)) is not None}
    assert len(others) == 150
    assert rejected == UNREACHABLE


def test_python_answers_survive_being_written_and_decoded(questions):
    for question in questions.values():
        if question.category not in AST or question.language != "python":
            continue
        made = first_calls(question)
        text = ", ".join(
            f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"
            for call in made
            for name, arguments in call.items()
        )
        if all(key.isidentifier() for call in made for a in call.values() for key in a):
            assert decode(text, "python").calls == made, question.id
