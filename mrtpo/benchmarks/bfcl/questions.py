"""BFCL v4's files: questions, function documents, accepted answers.

    BFCL_v4_<category>.json                   one JSON object a line: id, question, function
    possible_answer/BFCL_v4_<category>.json   one JSON object a line: id, ground_truth
    BFCL_v4_format_sensitivity.json           one JSON object: category → ids

`question` is a list of turns of messages `{role, content}`. `function` is a list of `{name,
description, parameters}` with `parameters` as a JSON Schema whose types are BFCL's (`types`). An
answer is a list of calls `{name: {argument: [accepted values]}}`. Answers are joined by id.

A folder may hold some of the categories. Multi-turn, memory and web-search files are read, so that
what is there can be named, but not scored: their answers need simulated interfaces, the web, or a
memory. Errors name file, row (counted from 0) and field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrtpo.benchmarks.bfcl.check import Call, Kind
from mrtpo.benchmarks.bfcl.types import Language, schema_fault
from mrtpo.records import Message

AST = (
    "simple_python", "simple_java", "simple_javascript", "multiple", "parallel",
    "parallel_multiple", "live_simple", "live_multiple", "live_parallel",
    "live_parallel_multiple",
)  # fmt: skip
IRRELEVANCE = ("irrelevance", "live_irrelevance")
RELEVANCE = ("live_relevance",)
SCORED = (*AST, *IRRELEVANCE, *RELEVANCE)
UNSCORED = (
    "multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context",
    "web_search", "memory",
)  # fmt: skip
PREFIX = "BFCL_v4_"
FORMATS = "format_sensitivity"


@dataclass(frozen=True)
class Question:
    """`answers`: accepted calls, empty where none are checked. `row` counts from 0."""

    id: str
    category: str
    turns: tuple[tuple[Message, ...], ...]
    functions: tuple[dict[str, Any], ...]
    answers: tuple[Call, ...]
    file: str
    row: int

    @property
    def language(self) -> Language:
        if self.category == "simple_java":
            return "java"
        return "javascript" if self.category == "simple_javascript" else "python"

    @property
    def kind(self) -> Kind:
        if "parallel" in self.category:
            return "parallel"
        return "multiple" if "multiple" in self.category else "simple"


@dataclass(frozen=True)
class Folder:
    """`questions` are those that can be scored, in the order of `SCORED` and of their files.

    `unscored`: ids of the other questions by category. `formats`: ids that the test of prompt
    formats uses, by category.
    """

    questions: tuple[Question, ...]
    unscored: dict[str, tuple[str, ...]] = field(default_factory=dict)
    formats: dict[str, tuple[str, ...]] = field(default_factory=dict)


def read_folder(folder: Path) -> Folder:
    """A folder of BFCL v4 files. Raises ValueError naming what is missing or wrong."""
    there = [name for name in (*SCORED, *UNSCORED) if (folder / _name(name)).is_file()]
    if not there:
        raise ValueError(f"{folder}: no {_name('<category>')} with a category of BFCL v4")
    questions: list[Question] = []
    unscored: dict[str, tuple[str, ...]] = {}
    for category in there:
        rows = list(_questions(folder, category))
        if category in UNSCORED:
            unscored[category] = tuple(question.id for question in rows)
        else:
            questions += rows
    seen: dict[str, Question] = {}
    for question in questions:
        if question.id in seen:
            raise ValueError(f"{question.file}: row {question.row}: id: {question.id} occurs twice")
        seen[question.id] = question
    return Folder(tuple(questions), unscored, _formats(folder))


def _name(category: str) -> str:
    return f"{PREFIX}{category}.json"


def _questions(folder: Path, category: str) -> Iterator[Question]:
    answers = _answers(folder, category) if category in AST else {}
    rows = list(_rows(folder / _name(category)))
    for where, number, row in rows:
        if category in SCORED and not isinstance(row.get("function"), list):
            raise ValueError(f"{where}: function: expected a list")
        functions = tuple(row.get("function", ()))
        question = Question(
            row["id"], category, _turns(where, row.get("question")), functions,
            answers.pop(row["id"], ()), _name(category), number,
        )  # fmt: skip
        if category in SCORED:
            for i, function in enumerate(functions):
                if fault := _function_fault(function):
                    raise ValueError(f"{where}: function.{i}.{fault}")
        if category in AST and (fault := _answers_fault(question)):
            raise ValueError(f"{where}: {fault}")
        yield question
    if answers:
        raise ValueError(
            f"{folder / 'possible_answer' / _name(category)}: id: no question {min(answers)}"
        )


def _rows(file: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Objects of a file of JSON lines with an id that is text; `where` names file and row."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8: {error}") from error
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines):
        where = f"{file}: row {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{where}: expected an object")
        if not isinstance(row.get("id"), str):
            raise ValueError(f"{where}: id: expected text, found {row.get('id')!r}")
        yield where, number, row


def _answers(folder: Path, category: str) -> dict[str, tuple[Call, ...]]:
    file = folder / "possible_answer" / _name(category)
    if not file.is_file():
        raise ValueError(f"{file}: missing; it has the answers to {_name(category)}")
    answers: dict[str, tuple[Call, ...]] = {}
    for where, _, row in _rows(file):
        truth = row.get("ground_truth")
        if not isinstance(truth, list) or not truth:
            raise ValueError(f"{where}: ground_truth: expected a list of calls")
        for i, call in enumerate(truth):
            if not _is_answer(call):
                raise ValueError(
                    f"{where}: ground_truth.{i}: expected {{name: {{argument: [accepted values]}}}}"
                )
        if row["id"] in answers:
            raise ValueError(f"{where}: id: {row['id']} occurs twice")
        answers[row["id"]] = tuple(truth)
    return answers


def _is_answer(call: Any) -> bool:
    if not isinstance(call, dict) or len(call) != 1:
        return False
    arguments = next(iter(call.values()))
    return isinstance(arguments, dict) and all(isinstance(v, list) for v in arguments.values())


def _turns(where: str, given: Any) -> tuple[tuple[Message, ...], ...]:
    if not isinstance(given, list) or not all(isinstance(turn, list) for turn in given):
        raise ValueError(f"{where}: question: expected a list of turns of messages")
    for i, turn in enumerate(given):
        for j, message in enumerate(turn):
            for key in ("role", "content"):
                if not isinstance(message, dict) or not isinstance(message.get(key), str):
                    raise ValueError(f"{where}: question.{i}.{j}.{key}: expected text")
    return tuple(
        tuple(Message(message["role"], message["content"]) for message in turn) for turn in given
    )


def _function_fault(function: Any) -> str:
    """What is wrong with a function document, from its field on, or ''."""
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return "name: expected text"
    if not isinstance(function.get("description", ""), str):
        return "description: expected text"
    parameters = function.get("parameters")
    if not isinstance(parameters, dict) or not isinstance(parameters.get("properties"), dict):
        return "parameters.properties: expected an object"
    if not isinstance(parameters.get("required"), list):
        return "parameters.required: expected a list"
    return ""


def _answers_fault(question: Question) -> str:
    """What keeps the checker from using a question's answers, or ''."""
    if not question.answers:
        return f"id: possible_answer/{question.file} has no {question.id}"
    if not question.functions:
        return "function: expected a function"
    if question.kind != "parallel" and len(question.answers) != 1:
        return f"ground_truth: {question.category} has one call, found {len(question.answers)}"
    named = {function["name"]: i for i, function in reversed([*enumerate(question.functions)])}
    for answer in question.answers:
        name = next(iter(answer))
        if name not in named:
            return f"ground_truth: {name} is none of the functions"
        properties = question.functions[named[name]]["parameters"]["properties"]
        for argument, schema in properties.items():
            if fault := schema_fault(question.language, schema):
                return f"function.{named[name]}.parameters.properties.{argument}: {fault}"
    return ""


def _formats(folder: Path) -> dict[str, tuple[str, ...]]:
    file = folder / _name(FORMATS)
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: not JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(ids, list) for ids in found.values()):
        raise ValueError(f"{file}: expected one object, category → list of ids")
    return {category: tuple(ids) for category, ids in found.items()}
