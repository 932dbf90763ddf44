"""IFEval and IFBench: reading, the eight variants, counting, and the official verdicts."""

import json
import os
from pathlib import Path

import pytest

from mrtpo.benchmarks.ifeval import IFEvalBenchmark, open_benchmark, read_questions, variants
from mrtpo.benchmarks.score import score_predictions, table
from mrtpo.config import settings_from
from mrtpo.verifiers.constraints import MissingDataError, require_data_of

QUESTIONS = [
    {
        "key": 7, "prompt": "Write. ", "kwargs": [{}],
        "instruction_id_list": ["punctuation:no_comma"],
    },
    {
        "key": "b", "prompt": "Count.", "instruction_id_list": ["count:numbers", "format:list"],
        "kwargs": [{"N": 1.0, "sep": None}, {"sep": "*", "N": None}],
    },
    {
        "key": 9, "prompt": "Shout.", "kwargs": [None],
        "instruction_id_list": ["detectable_format:title"],
    },
]  # fmt: skip


def write(file: Path, rows) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def lines(file: Path):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def opened(tmp_path):
    """Opens a benchmark of the questions above, or of others."""
    made: list[IFEvalBenchmark] = []

    def benchmark(name="ifbench", rows=QUESTIONS):
        file = "IFBench_test.jsonl" if name == "ifbench" else "input_data.jsonl"
        write(tmp_path / file, rows)
        made.append(
            open_benchmark(name, tmp_path, settings_from({"verifier": {"processes": 1}}), None)
        )
        return made[-1]

    yield benchmark
    for one in made:
        one.close()


def test_the_loose_variants_leave_lines_out_and_asterisks():
    assert variants("a\n*b*\nc") == (
        "a\n*b*\nc", "*b*\nc", "a\n*b*", "*b*", "a\nb\nc", "b\nc", "a\nb", "b"
    )  # fmt: skip
    assert variants("*a*") == ("*a*", "", "", "", "a", "", "", "")


def test_verdicts_come_in_the_order_of_the_predictions(tmp_path, opened):
    rows = [
        {"key": "9", "response": "Sure, here:\n<<T>>"},
        {"prompt": "Write.", "response": "Well, here it is:\nIt is."},
        {"key": "b", "prompt": "ignored beside the key", "response": "1 *"},
    ]
    benchmark = opened()
    summary = score_predictions(benchmark, write(tmp_path / "p.jsonl", rows), tmp_path / "v.jsonl")
    assert lines(tmp_path / "v.jsonl") == [
        {"key": key, "sample": None, "strict": strict, "loose": loose, "status": "ok", "detail": ""}
        for key, strict, loose in (
            (9, [True], [True]), (7, [False], [True]), ("b", [True, False], [True, False])
        )
    ]  # fmt: skip
    assert summary.scores == {
        "prompt_loose": 2 / 3, "prompt_strict": 1 / 3,
        "instruction_loose": 3 / 4, "instruction_strict": 2 / 4,
    }  # fmt: skip
    assert next(iter(summary.scores)) == "prompt_loose"
    assert summary.groups["constraints"]["1"]["prompt_loose"] == 1.0
    assert summary.groups["group"]["format"] == {
        "instruction_loose": 0.0, "instruction_strict": 0.0, "questions": 1.0
    }  # fmt: skip
    assert summary.groups["kind"]["count:numbers"]["instruction_strict"] == 1.0
    assert summary.counts["constraints"] == 4
    assert "count:numbers" in table(summary) or len(summary.groups["kind"]) <= 6
    failures = (tmp_path / "v.failures.html").read_text()
    assert "begin with" in failures  # the sentence of the constraint that failed


def test_the_headline_of_ifeval_is_strict(tmp_path, opened):
    file = write(tmp_path / "p.jsonl", [{"key": 7, "response": "So, no."}])
    summary = score_predictions(opened("ifeval"), file, tmp_path / "v.jsonl")
    assert list(summary.scores) == [
        "prompt_strict", "prompt_loose", "instruction_strict", "instruction_loose"
    ]  # fmt: skip


def test_a_question_without_a_prediction_has_failed(tmp_path, opened):
    file = write(tmp_path / "p.jsonl", [{"key": 7, "response": "Fine."}])
    summary = score_predictions(opened(), file, tmp_path / "v.jsonl")
    assert summary.scores["prompt_loose"] == 1 / 3
    assert summary.scores["instruction_loose"] == 1 / 4
    assert summary.counts["unanswered"] == 2


def test_a_blank_response_follows_nothing(tmp_path, opened):
    file = write(tmp_path / "p.jsonl", [{"key": 7, "response": " \n"}])
    score_predictions(opened(), file, tmp_path / "v.jsonl")
    assert lines(tmp_path / "v.jsonl")[0]["loose"] == [False]


@pytest.mark.parametrize(
    ("response", "passed"),
    [
        ("<think>So, then,</think>\n\nFine.", True),
        ("So, then,</think>Fine.", True),  # where the prompt itself opens it
        ("<think>Fine.", False),
        ("<think></think>A, b.", False),
        ("Fine <think>", True),
    ],
)
def test_the_think_part_is_not_judged(tmp_path, opened, response, passed):
    file = write(tmp_path / "p.jsonl", [{"key": 7, "response": response}])
    score_predictions(opened(), file, tmp_path / "v.jsonl")
    assert lines(tmp_path / "v.jsonl")[0]["strict"] == [passed]


def test_several_responses_to_a_prompt_are_its_samples(tmp_path, opened):
    given = ["a", "a, b", "x\na, b"]
    rows = [{"key": 7, "response": response} for response in given]
    file = write(tmp_path / "p.jsonl", rows)
    summary = score_predictions(opened(), file, tmp_path / "v.jsonl", answered=True)
    assert [row["sample"] for row in lines(tmp_path / "v.jsonl")] == [0, 1, 2]
    assert summary.scores["mean@3/prompt_strict"] == pytest.approx(1 / 3)
    assert summary.scores["mean@3/instruction_loose"] == pytest.approx(2 / 3)
    assert summary.scores["pass@3/prompt_loose"] == 1.0


def test_a_prompt_of_another_version_is_told_and_counted_but_in_no_score(tmp_path, opened):
    rows = [
        {"prompt": "Of old.", "response": "a"}, {"key": 7, "response": "a"},
        {"prompt": "Of old, too.", "response": "a"},
    ]  # fmt: skip
    file = write(tmp_path / "p.jsonl", rows)
    for answered, score in ((False, 1 / 3), (True, 1.0)):
        summary = score_predictions(opened(), file, tmp_path / "v.jsonl", answered=answered)
        assert summary.scores["prompt_loose"] == score
        assert summary.counts["unknown prompts"] == 2
    verdicts = lines(tmp_path / "v.jsonl")
    assert [row["status"] for row in verdicts] == ["error", "ok", "error"]
    assert verdicts[0]["detail"] == "no question of ifbench has this prompt"


def test_what_could_not_be_decided_is_null_and_counted(tmp_path, opened):
    rows = [{"key": 1, "prompt": "p", "instruction_id_list": ["detectable_format:json_format"],
             "kwargs": [{}]}]  # fmt: skip
    file = write(tmp_path / "p.jsonl", [{"key": 1, "response": "[" * 20_000}])
    summary = score_predictions(opened("ifeval", rows), file, tmp_path / "v.jsonl")
    (row,) = lines(tmp_path / "v.jsonl")
    assert (row["strict"], row["loose"], row["status"]) == ([None], [None], "error")
    assert "RecursionError" in row["detail"]
    assert summary.counts["status error"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"response": "a"}, "line 1: field key: missing, and so is prompt"),
        ({"key": 8, "response": "a"}, "line 1: field key: no question of ifbench: 8"),
        ({"prompt": "Other.", "response": "a"}, "field prompt: none is of a question of ifbench"),
        ({"key": 7}, "line 1: field response: expected text, found nothing"),
        ({"key": 7, "response": None}, "line 1: field response: expected text, found NoneType"),
    ],
)
def test_predictions_at_fault_are_named(tmp_path, opened, row, message):
    with pytest.raises(ValueError, match=message):
        opened().read_answers(write(tmp_path / "p.jsonl", [row]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instruction_id_list": ["no:such"]}, r"line 2: constraint 0 \(from 0\): unknown .*such"),
        ({"kwargs": [{"N": 1}]}, "line 2: constraint 0 .*has no argument 'N'"),
        ({"kwargs": []}, "line 2: field kwargs: expected a list, one for each"),
        ({"kwargs": ["N"]}, r"line 2: field kwargs\[0\]: expected an object"),
        ({"instruction_id_list": []}, "line 2: field instruction_id_list"),
        ({"prompt": " "}, "line 2: field prompt"),
        ({"key": None}, "line 2: field key"),
        ({"key": "9"}, "line 2: field key: '9' is there twice"),
    ],
)
def test_questions_at_fault_are_named(tmp_path, change, message):
    rows = [QUESTIONS[2], {**QUESTIONS[0], **change}]
    with pytest.raises(ValueError, match=message):
        read_questions(write(tmp_path / "q.jsonl", rows))


def test_a_folder_without_the_questions_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(ValueError, match=r"IFBench_test.jsonl: not there"):
        open_benchmark("ifbench", tmp_path, settings_from({"verifier": {"processes": 1}}), None)


# --- the official verdicts ---

needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")

# (key, place of the constraint, score): verdicts that are ours, not the official run's.
KEPT = {
    # langdetect without a seed: on this text it says pt for two seeds in three, else en.
    (1389, 0, "strict"),
    # and on this one de for three seeds in ten, else en.
    (1645, 0, "loose"),
    # From 3.10 on NLTK ends a sentence at a curly quotation mark: 60 sentences for 58.
    (1879, 0, "strict"), (1879, 0, "loose"),
}  # fmt: skip


def real(name):
    folder = Path(os.environ["MRTPO_DATA"]) / name
    benchmark = open_benchmark(name, folder, settings_from({"verifier": {"processes": 1}}), None)
    try:
        require_data_of({c.id for question in benchmark.set for c in question.constraints})
    except MissingDataError as error:
        pytest.skip(str(error))
    return benchmark, folder


@needs_data
def test_ifeval_verdicts_agree_with_the_official_ones(tmp_path):
    benchmark, folder = real("ifeval")
    assert benchmark.questions == 541
    strict, loose = (lines(folder / f"eval_results_{mode}.jsonl") for mode in ("strict", "loose"))
    rows = [{"prompt": row["prompt"], "response": row["response"]} for row in strict]
    summary = score_predictions(benchmark, write(tmp_path / "p.jsonl", rows), tmp_path / "v.jsonl")
    benchmark.close()
    official = {
        mode: {row["prompt"]: row["follow_instruction_list"] for row in found}
        for mode, found in (("strict", strict), ("loose", loose))
    }
    kept = {
        (row["key"], k, mode)
        for prompt, row in zip(strict, lines(tmp_path / "v.jsonl"), strict=True)
        for mode in ("strict", "loose")
        for k, passed in enumerate(row[mode])
        if passed is not official[mode][prompt["prompt"]][k]
    }
    assert kept == KEPT
    assert summary.counts["unanswered"] == 0
    assert summary.scores["prompt_strict"] == pytest.approx(0.861, abs=0.005)
    assert summary.scores["prompt_loose"] == pytest.approx(0.896, abs=0.005)


@needs_data
def test_ifbench_verdicts_agree_with_the_official_ones(tmp_path):
    benchmark, folder = real("ifbench")
    assert benchmark.questions == 300
    oracle = Path(os.environ["MRTPO_DATA"]) / "oracles" / "ifbench_sample_output.verdicts.jsonl"
    score_predictions(benchmark, folder / "sample_output.jsonl", tmp_path / "v.jsonl")
    benchmark.close()
    found = {row["key"]: row for row in lines(tmp_path / "v.jsonl")}
    rows = [row for row in lines(oracle) if row["has_response"]]
    assert len(rows) >= 150
    disagreeing = [
        row for row in rows for mode in ("strict", "loose") if found[row["key"]][mode] != row[mode]
    ]  # fmt: skip
    assert disagreeing == []
