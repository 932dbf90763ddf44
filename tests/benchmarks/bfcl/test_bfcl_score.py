"""BFCL as a benchmark: rows in, verdict rows and scores out; prompts."""

import json
import os
from pathlib import Path

import pytest

from mrtpo.benchmarks.bfcl.prompts import messages, tools
from mrtpo.benchmarks.bfcl.questions import AST, IRRELEVANCE, SCORED, Folder, Question, read_folder
from mrtpo.benchmarks.bfcl.score import WEIGHTS, Bfcl, official, open_benchmark, plain
from mrtpo.benchmarks.score import score_predictions
from mrtpo.config import settings_from
from mrtpo.records import Message

FUNCTION = {
    "name": "a.f", "description": "Adds.",
    "parameters": {"type": "dict", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
}  # fmt: skip
JAVA = {
    "name": "A.f", "description": "Adds.",
    "parameters": {"type": "dict", "required": [], "properties": {
        "x": {"type": "ArrayList", "items": {"type": "long"}, "description": "what"},
        "y": {"type": "any"}}},
}  # fmt: skip
FITS, FAILS = [{"a.f": {"x": 1}}], [{"a.f": {"x": 2}}]


def question(category, number=0, **changes):
    checked = category in AST
    given = {
        "turns": ((Message("user", "Add 1."),),), "functions": (FUNCTION,),
        "answers": ({"a.f": {"x": [1]}},) if checked else (),
        "file": f"BFCL_v4_{category}.json", "row": number,
    }  # fmt: skip
    return Question(f"{category}_{number}", category, **{**given, **changes})


def benchmark(*categories, **options):
    return Bfcl(Folder(tuple(map(question, categories))), **options)


def judged(bench, tmp_path, *rows):
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [dict(verdict.row) for verdict in bench.judge(bench.read_answers(file))]


def test_a_row_gives_one_verdict_row_in_order(tmp_path):
    bench = benchmark("simple_python", "multiple")
    rows = judged(
        bench, tmp_path,
        {"id": "multiple_0", "calls": FAILS},
        {"id": "simple_python_0", "calls": FITS},
        {"id": "multiple_0", "response": "[a.f(x=1)]"},
    )  # fmt: skip
    assert [(r["id"], r["category"], r["valid"], r["error"], r["calls"]) for r in rows] == [
        ("multiple_0", "multiple", False, "value_error:others", FAILS),
        ("simple_python_0", "simple_python", True, None, FITS),
        ("multiple_0", "multiple", True, None, FITS),
    ]
    assert rows[0]["detail"] == "x: not among [1], found 2"
    assert [row["sample"] for row in rows] == [0, 0, 1]


@pytest.mark.parametrize(
    "calls", ["f", ["f"], [{}], [{"a.f": {"x": 1}, "b": {}}], [{"a.f": [1]}], [None], [[[]]]]
)
def test_a_malformed_call_is_a_verdict(tmp_path, calls):
    row = {"id": "simple_python_0", "calls": calls}
    if not isinstance(calls, list):
        with pytest.raises(ValueError, match="line 1: field calls: expected a list, found 'f'"):
            judged(benchmark("simple_python"), tmp_path, row)
        return
    [verdict] = judged(benchmark("simple_python"), tmp_path, row)
    assert verdict["error"] == "ast_decoder:decoder_wrong_output_format"
    # No call that can be read is no call, also where none is wanted.
    [other] = judged(benchmark("irrelevance"), tmp_path, {"id": "irrelevance_0", "calls": calls})
    assert other["valid"]


def test_calls_nested_too_deep_and_values_that_json_lacks_are_verdicts(tmp_path):
    bench = benchmark("simple_python")
    deep = "[" * 500 + "]" * 500
    file = tmp_path / "predictions.jsonl"
    file.write_text(
        f'{{"id": "simple_python_0", "calls": [{{"a.f": {{"x": {deep}}}}}]}}\n'
        '{"id": "simple_python_0", "calls": [{"a.f": {"x": NaN, "y": Infinity}}]}\n'
        '{"id": "simple_python_0", "response": "a.f(x=1j, y=b\'z\')"}\n'
    )
    summary = score_predictions(bench, file, tmp_path / "v.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [row["calls"] for row in rows] == [
        None, [{"a.f": {"x": "nan", "y": "inf"}}], [{"a.f": {"x": "1j", "y": "b'z'"}}]
    ]  # fmt: skip
    assert summary.scores["mean@3/valid"] == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"calls": []}, "line 1: field id: expected text, found None"),
        ({"id": 3, "calls": []}, "line 1: field id: expected text, found 3"),
        ({"id": "multiple_9", "calls": []}, "field id: the question files have no 'multiple_9'"),
        ({"id": "multi_turn_base_0", "calls": []}, "field id: multi_turn_base_0 cannot be scored"),
        ({"id": "web_search_base_0", "response": ""}, "cannot be scored here .* leave it out"),
        ({"id": "multiple_0"}, "give one of the fields calls and response"),
        ({"id": "multiple_0", "calls": [], "response": ""}, "give one of the fields"),
        ({"id": "multiple_0", "response": None}, "field response: expected text, found None"),
    ],
)
def test_a_malformed_row_is_named_before_any_work(tmp_path, row, message):
    with pytest.raises(ValueError, match=r"predictions\.jsonl: .*" + message):
        judged(benchmark("multiple"), tmp_path, row)


@pytest.mark.parametrize(
    ("response", "none_wanted", "some_wanted"),
    [
        ("[a.f(x=7)]", False, True), ("None of them fits.", True, False), ("", True, False),
        ("[]", True, False), ("[nothing.asked()]", False, True),
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', False, True),
        ('<tool_call>\n{"name": "None", "parameters": {}}\n</tool_call>', True, False),
    ],
)  # fmt: skip
def test_irrelevance_wants_no_call_and_relevance_any(tmp_path, response, none_wanted, some_wanted):
    bench = benchmark("irrelevance", "live_relevance")
    none, some = judged(
        bench, tmp_path,
        {"id": "irrelevance_0", "response": response},
        {"id": "live_relevance_0", "response": response},
    )  # fmt: skip
    assert (none["valid"], some["valid"]) == (none_wanted, some_wanted)
    assert none["error"] in (None, "irrelevance_error:decoder_success")
    assert some["error"] in (None, "relevance_error:decoder_failed")


def test_responses_are_decoded_in_the_form_that_is_asked_for(tmp_path):
    text = '<tool_call>\n{"name": "a.f", "arguments": {"x": 1}}\n</tool_call>'
    row = {"id": "simple_python_0", "response": text}
    for form, error in [
        ("auto", None), ("qwen", None), ("python", "ast_decoder:decoder_failed"),
        ("toolrl", "simple_function_checker:wrong_count"),
    ]:  # fmt: skip
        [verdict] = judged(benchmark("simple_python", form=form), tmp_path, row)
        assert verdict["error"] == error
    underscored = {"id": "simple_python_0", "calls": [{"a_f": {"x": 1}}]}
    [verdict] = judged(benchmark("simple_python", underscored=True), tmp_path, underscored)
    assert verdict["valid"]


def test_the_format_rate_is_toolrls_and_of_responses_only(tmp_path):
    bench = benchmark("simple_python", "irrelevance")
    called = (
        '<think> a </think>\n<tool_call>\n{"name": "a.f", "parameters": {"x": 1}}\n</tool_call>'
    )
    said = "<think> a </think>\n<response> b </response>"
    rows = [
        {"id": f"{category}_0", "response": text}
        for category in ("simple_python", "irrelevance")
        for text in (called, said)
    ]
    assert [r["format"] for r in judged(bench, tmp_path, *rows)] == [True, False, False, True]
    [without] = judged(bench, tmp_path, {"id": "simple_python_0", "calls": FITS})
    assert "format" not in without
    answers = bench.judge(bench.read_answers(tmp_path / "predictions.jsonl"))
    assert bench.summarise(answers, [0, 1]).scores["format"] is None


def test_official_scores_are_means_of_groups_and_live_is_weighted_by_count():
    shares = (0.9, 0.6, 0.3, 0.8, 0.7, 0.5, 0.4, 0.2, 1, 0, 0.5, 0.7, 0.25)
    share = dict(zip(SCORED, shares, strict=True))
    count = {"live_simple": 1, "live_multiple": 6, "live_parallel": 2, "live_parallel_multiple": 1}
    groups = {c: {"valid": v, "questions": count.get(c, 9.0)} for c, v in share.items()}
    found = official(groups, "valid")
    assert found == pytest.approx(
        {
            "non_live": (0.6 + 0.8 + 0.7 + 0.5) / 4,
            "live": (0.4 * 1 + 0.2 * 6 + 1 * 2 + 0 * 1) / 10,
            "irrelevance": 0.6,
            "single_turn": (0.65 + 0.36 + 0.6) / 3,
            "relevance": 0.25,
        }
    )
    del groups["live_parallel"], groups["simple_java"]
    part = official(groups, "valid")
    assert [part[k] for k in ("non_live", "live", "single_turn")] == [None] * 3
    assert part["irrelevance"] == pytest.approx(0.6)
    assert sum(WEIGHTS.values()) == 100


def test_the_summary_never_has_an_overall_and_says_what_is_not_run(tmp_path):
    bench = benchmark(*SCORED)
    answers = bench.judge([bench.from_response(i, "[a.f(x=1)]", None) for i in range(len(SCORED))])
    summary = bench.summarise(answers, range(len(SCORED)))
    assert not any("overall" in name for name in summary.scores)
    assert "multi-turn (30 %) and agentic (40 %" in " ".join(summary.notes)
    assert summary.groups["category"]["irrelevance"]["valid"] == 0
    assert summary.scores["relevance"] == 1
    assert len(answers) == len(SCORED)


def test_questions_without_a_row_have_failed_and_are_counted(tmp_path):
    bench = benchmark("simple_python", "multiple")
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps({"id": "multiple_0", "calls": FITS}))
    summary = score_predictions(bench, file, tmp_path / "v.jsonl")
    assert summary.scores["valid"] == 0.5
    assert summary.counts["unanswered"] == 1


def test_a_question_is_asked_as_the_policy_was_trained():
    asked = question("simple_python")
    (user,) = messages(asked, "compact")
    assert user.content == "a.f(x:integer)\nRequest: Add 1."
    system, user = messages(asked, "full")
    assert "<tool_call>" in system.content and "1. Name: a.f\n" in system.content
    assert user.content == "Dialogue:\n<user> Add 1. </user>"


def test_functions_go_to_the_chat_template_as_tools():
    asked = question("simple_python")
    shown, *rest = messages(asked, "chat")
    assert (shown.role, json.loads(shown.content)) == ("tools", tools(asked))
    assert tuple(rest) == asked.turns[0]


def test_a_function_that_no_chat_can_show_names_its_row():
    parameters = {"type": "dict", "properties": {"x": {"type": "integer", "minimum": "a"}}}
    broken = question("simple_python", functions=({**FUNCTION, "parameters": parameters},))
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): tool a.f: parameters: .*minimum"):
        messages(broken, "full")


def test_the_prompt_has_the_rule_the_functions_and_the_questions_own_messages():
    asked = question("simple_python")
    system, user = messages(asked)
    assert (system.role, user) == ("system", Message("user", "Add 1."))
    documents = json.loads(system.content[system.content.index("[\n") :])
    assert documents[0]["parameters"] == FUNCTION["parameters"]
    assert documents[0]["description"].startswith("Adds.")
    own = (Message("system", "Be brief."), Message("user", "Add 1."))
    system, user = messages(question("simple_python", turns=(own,)))
    assert system.content.endswith("]\n\nBe brief.") and user.role == "user"


def test_tools_have_json_schema_types_and_java_arguments_are_text():
    [tool] = tools(question("simple_python"))
    assert tool["function"]["parameters"] == {
        "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"],
    }  # fmt: skip
    [tool] = tools(question("simple_java", functions=(JAVA,)))
    properties = tool["function"]["parameters"]["properties"]
    assert {name: schema["type"] for name, schema in properties.items()} == dict.fromkeys(
        "xy", "string"
    )
    assert "items of type long" in properties["x"]["description"]
    assert JAVA["parameters"]["properties"]["x"]["type"] == "ArrayList"  # left as it was


def test_values_that_json_lacks_become_text():
    assert plain({1: (float("nan"), b"x", [1.5, True, None])}) == {
        "1": ["nan", "b'x'", [1.5, True, None]]
    }


needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")


@needs_data
def test_every_question_of_the_benchmark_can_be_asked():
    folder = Path(os.environ["MRTPO_DATA"]) / "bfcl"
    bench = open_benchmark("bfcl", folder, settings_from({}), None)
    for place, asked in enumerate(bench.folder.questions):
        prompt = bench.prompt(place)
        assert prompt.messages[0].role == "system" and len(prompt.messages) > 1
        for tool in tools(asked):
            assert tool["function"]["parameters"]["type"] == "object"


@needs_data
def test_saying_nothing_scores_only_in_irrelevance():
    bench = Bfcl(read_folder(Path(os.environ["MRTPO_DATA"]) / "bfcl"))
    answers = [bench.from_response(i, "", None) for i in range(bench.questions)]
    summary = bench.summarise(bench.judge(answers), range(bench.questions))
    assert {c: g["valid"] for c, g in summary.groups["category"].items()} == {
        category: float(category in IRRELEVANCE) for category in SCORED
    }
    assert summary.scores["single_turn"] == pytest.approx(1 / 3)
    assert "multi_turn_base (200)" in summary.notes[0]
