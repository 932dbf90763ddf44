"""MulDimIF: reading, judging, the summary, and the official verdicts."""

import json
import os
from pathlib import Path

import pytest

from mrtpo.benchmarks.muldimif import MulDimIF, answer_of, open_benchmark
from mrtpo.benchmarks.score import score_predictions, table
from mrtpo.config import settings_from
from mrtpo.verifiers.muldimif import judge

WORDS = ["Length", "Words", "At most 3 words"]
KEYWORD = ["Content", "Keywords: Must include", "Include the keyword 'tea'"]
PERIOD = ["Punctuation", "Ending punctuation", "It must end with a period"]
SENTENCES = ["Length", "Sentences", "a few sentences"]  # not understood


def question(id, constraints, pattern="Listing", level="Level 1"):
    return {
        "id": id, "conversations": [{"role": "user", "content": f"Ask {id}"}],
        "constraints": constraints, "constraint_pattern": pattern, "difficulty": level,
    }  # fmt: skip


QUESTIONS = [
    question("a", [WORDS, KEYWORD]),
    question("b", [KEYWORD, PERIOD], pattern="Example", level="Level 2"),
    question("c", [SENTENCES], level="Level 2"),
]

needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")


def opened(folder: Path, rows=QUESTIONS) -> MulDimIF:
    (folder / "test.json").write_text(json.dumps(rows))
    return open_benchmark("muldimif", folder, settings_from({}), None)


def scored(folder: Path, answers, rows=QUESTIONS):
    predictions = folder / "predictions.jsonl"
    predictions.write_text("".join(json.dumps(row) + "\n" for row in answers))
    out = folder / "verdicts.jsonl"
    summary = score_predictions(opened(folder, rows), predictions, out)
    return summary, [json.loads(line) for line in out.read_text().splitlines()]


@needs_data
def test_each_prediction_gets_a_row_with_a_judge_for_each_constraint(tmp_path):
    _, rows = scored(
        tmp_path,
        [
            {"prompt": "Ask b", "response": "Green tea."},
            {"id": "c", "response": ""},
            {"id": "a", "response": "<think>No tea, far too many words</think>\n\nTea, please"},
        ],
    )
    assert [(row["id"], row["judges"], row["unparsed"]) for row in rows] == [
        ("b", [1, 1], []),
        ("c", [1], [0]),
        ("a", [1, 1], []),
    ]
    assert {row["status"] for row in rows} == {"ok"}


@needs_data
def test_scores_count_what_has_no_answer_as_failed(tmp_path):
    summary, _ = scored(
        tmp_path,
        [{"id": "a", "response": "so much tea here"}, {"id": "b", "response": "Tea."}],
    )
    assert summary.scores == pytest.approx({"overall": 1 / 3, "macro": 0.5, "micro": 3 / 5})
    groups = {
        grouping: {name: {k: v for k, v in scores.items() if v is not None}
                   for name, scores in found.items()}
        for grouping, found in summary.groups.items()
    }  # fmt: skip
    assert groups["pattern"]["Example"] == {
        "overall": 1, "macro": 1, "micro": 1, "questions": 1,
    }  # fmt: skip
    assert groups["level"]["Level 2"] == pytest.approx(
        {"overall": 0.5, "macro": 0.5, "micro": 2 / 3, "questions": 2}
    )
    assert groups["category"] == {
        "Content": {"overall": 1, "questions": 2},
        "Length": {"overall": 0, "questions": 2},
    }
    assert groups["subcategory"] == {
        "Content_Keywords": {"micro": 1, "questions": 2},
        "Content_Punctuation": {"micro": 1, "questions": 1},
        "Length_Words": {"micro": 0, "questions": 1},
        "Length_Sentences": {"micro": 0, "questions": 1},
    }
    assert summary.counts["unanswered"] == 1
    assert summary.counts["constraints"] == 5
    assert "subcategory" in table(summary)


@needs_data
def test_several_answers_to_a_question_are_samples(tmp_path):
    answers = [{"id": "a", "response": text} for text in ("tea", "no", "so much tea here", "tea")]
    summary, rows = scored(tmp_path, answers, QUESTIONS[:1])
    assert [row["sample"] for row in rows] == [0, 1, 2, 3]
    assert summary.scores["mean@4/overall"] == 0.5
    assert summary.scores["pass@4/overall"] == 1
    assert summary.scores["mean@4/micro"] == 0.75
    assert summary.groups["subcategory"]["Length_Words"]["mean@4/micro"] == 0.75


@needs_data
def test_what_cannot_be_decided_is_null_in_a_row_and_counts_as_not_passed(tmp_path):
    rows = [question("a", [["Tone", "Humour", "Be funny"], KEYWORD])]
    summary, verdicts = scored(tmp_path, [{"id": "a", "response": "tea"}], rows)
    assert verdicts[0]["judges"] == [None, 1]
    assert (verdicts[0]["status"], summary.counts["status error"]) == ("error", 1)
    assert "no such kind" in verdicts[0]["detail"]
    assert summary.scores == {"overall": None, "macro": 0.5, "micro": 0.5}


@needs_data
def test_a_hostile_response_is_refused_and_not_passed(tmp_path):
    deep = "[" * 50_000 + "]" * 50_000
    rows = [question("a", [["Format", "Json", "at least two levels of nesting"]])]
    _, verdicts = scored(
        tmp_path, [{"id": "a", "response": deep}, {"id": "a", "response": "x" * 2_000_000}], rows
    )
    assert [(row["judges"], row["status"]) for row in verdicts] == [([0], "refused")] * 2


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("and so they said", "and so they said"),  # ends in letters of the token
        ("It ends <|im_end|>", "It ends"),
        ("It ends.<|eot_id|>\n", "It ends."),
        ("It ends. \n", "It ends. \n"),
        ("<think>a</think>b</think>\n\n c", " c"),
        ("<think>never closed", ""),
    ],
)
def test_the_answer_is_without_thoughts_and_end_tokens(response, answer):
    assert answer_of(response) == answer


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"response": "x"}, r"line 1: field id: missing, and so is prompt"),
        ({"id": "z", "response": "x"}, r"line 1: field id: no question of muldimif: 'z'"),
        ({"prompt": "Ask z", "response": "x"}, r"line 1: field prompt: no question"),
        ({"id": "a", "response": ["x"]}, r"line 1: field response: expected text, found list"),
        ({"id": "a"}, r"line 1: field response: expected text, found nothing"),
    ],
)
def test_faults_of_predictions_name_line_and_field(tmp_path, row, fault):
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=fault):
        opened(tmp_path).read_answers(file)


def test_faults_of_questions_name_file_row_and_field(tmp_path):
    with pytest.raises(ValueError, match=r"test\.json: not there"):
        open_benchmark("muldimif", tmp_path, settings_from({}), None)
    with pytest.raises(ValueError, match=r"row 1 \(from 0\): field id: 'a' is there twice"):
        opened(tmp_path, [QUESTIONS[0], QUESTIONS[0]])


def test_a_checkpoint_is_asked_the_conversation(tmp_path):
    prompt = opened(tmp_path).prompt(1)
    assert [m.content for m in prompt.messages] == ["Ask b"]
    assert (prompt.kind, prompt.difficulty) == ("Example", "Level 2")


@needs_data
def test_agreement_with_the_official_verdicts():
    data = Path(os.environ["MRTPO_DATA"])
    benchmark = open_benchmark("muldimif", data / "muldimif", settings_from({}), None)
    assert benchmark.questions == 1200
    responses = json.loads((data / "oracles/muldimif_canned.responses.json").read_text())
    rows = {row.id: row for row in benchmark.set}
    differing = []
    checked = 0
    for line in (data / "oracles/muldimif_canned.verdicts.jsonl").read_text().splitlines():
        oracle = json.loads(line)
        for name, judges in oracle["judges"].items():
            for c, official in zip(rows[oracle["id"]].constraints, judges, strict=True):
                verdict = judge(c.category, c.subcategory, c.text, responses[name])
                checked += 1
                if verdict.passed is not bool(official):
                    differing.append((oracle["id"], name, c, verdict))
    assert not differing
    assert checked > 10_000
