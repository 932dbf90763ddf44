"""ToolRL's test set as a benchmark: rows in, verdicts and scores out."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from mrtpo.benchmarks.rlla import open_benchmark
from mrtpo.benchmarks.score import score_predictions
from mrtpo.config import Settings

CALL = '<think> a </think>\n<tool_call>\n{"name": "f", "parameters": {"n": 1}}\n</tool_call>'
TEXT = "<think> a </think>\n<response> Which? </response>"
WRONG = CALL.replace(": 1}", ": 2}")


def written(folder: Path, references: list[object]) -> Path:
    prompt = [{"role": "system", "content": "Tools"}, {"role": "user", "content": "Do f"}]
    rows = [{"prompt": prompt, "reward_model": {"ground_truth": r}} for r in references]
    pd.DataFrame(rows).to_parquet(folder / "test.parquet")
    return folder


def test_responses_are_judged_by_toolrls_rewards(tmp_path: Path):
    benchmark = open_benchmark("rlla", written(tmp_path, [CALL, CALL, TEXT]), Settings(), None)
    answers = [{"row": 0, "response": CALL}, {"row": 1, "response": WRONG},
               {"row": 2, "response": "Which?"}]  # fmt: skip
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    found = score_predictions(benchmark, tmp_path / "answers.jsonl", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["exact"] for row in rows] == [True, False, True]
    assert [row["format"] for row in rows] == [True, True, False]
    assert [row["correctness"] for row in rows] == [3.0, 1.0, 0.0]
    assert found.scores == {"exact": 2 / 3, "format": 2 / 3, "correctness": 2.0}


def test_a_row_without_a_response_has_failed_and_is_not_in_the_mean(tmp_path: Path):
    benchmark = open_benchmark("rlla", written(tmp_path, [CALL, CALL]), Settings(), None)
    (tmp_path / "answers.jsonl").write_text(json.dumps({"row": 1, "response": CALL}))
    found = score_predictions(benchmark, tmp_path / "answers.jsonl", tmp_path / "out.jsonl")
    assert found.scores == {"exact": 0.5, "format": 0.5, "correctness": 3.0}


@pytest.mark.parametrize(
    ("row", "fault"),
    [({"row": 2, "response": ""}, "field row: expected a number from 0 to 1, found 2"),
     ({"row": True, "response": ""}, "field row"),
     ({"row": 0, "response": None}, "line 1: field response: expected text")],
)  # fmt: skip
def test_a_bad_prediction_names_line_and_field(tmp_path: Path, row: dict, fault: str):
    benchmark = open_benchmark("rlla", written(tmp_path, [CALL, CALL]), Settings(), None)
    (tmp_path / "answers.jsonl").write_text(json.dumps(row))
    with pytest.raises(ValueError, match=fault):
        benchmark.read_answers(tmp_path / "answers.jsonl")


def test_a_bad_question_names_file_row_and_field(tmp_path: Path):
    with pytest.raises(ValueError, match=r"test.parquet: row 1 \(from 0\): field reward_model"):
        open_benchmark("rlla", written(tmp_path, [CALL, None]), Settings(), None)
    unreadable = CALL.replace('"name"', "name")
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): field reward_model.ground_truth"):
        open_benchmark("rlla", written(tmp_path, [unreadable]), Settings(), None)


def test_every_published_reference_has_the_full_scores(tmp_path: Path):
    data = os.environ.get("MRTPO_DATA")
    if not data or not (Path(data) / "rlla_4k").is_dir():
        pytest.skip("MRTPO_DATA has no rlla_4k")
    benchmark = open_benchmark("rlla", Path(data), Settings(), None)
    answers = [benchmark.from_response(i, q.reference, None) for i, q in enumerate(benchmark.set)]
    found = benchmark.summarise(benchmark.judge(answers), range(benchmark.questions))
    assert (benchmark.questions, found.scores) == (
        80, {"exact": 1.0, "format": 1.0, "correctness": 3.0},
    )  # fmt: skip
    assert benchmark.prompt(0).messages[-1].content.startswith("**Dialogue Records History**")
