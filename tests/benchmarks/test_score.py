"""Scoring of a made-up benchmark (`sums`): files written, unanswered questions, samples, resume."""

import json
from html.parser import HTMLParser

import pytest
from sums import Sums, write
from typer.testing import CliRunner

from mrtpo import benchmarks
from mrtpo.__main__ import app
from mrtpo.benchmarks.base import Answer, Judged, majority, numbered, tally
from mrtpo.benchmarks.score import beside, chosen, score_predictions, table
from mrtpo.report.failures import failures_page


@pytest.fixture
def sums(tmp_path):
    return Sums(write(tmp_path / "sums"))


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs `mrtpo score` in an empty folder, with `sums` among the benchmarks."""
    monkeypatch.setitem(benchmarks.BENCHMARKS, "sums", "sums")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, ["score", *map(str, arguments)])


def predictions(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_there_is_one_verdict_row_for_each_prediction_in_its_order(tmp_path, sums):
    given = [(3, "9"), (0, "0"), (2, "5")]
    file = predictions(tmp_path / "p.jsonl", [{"id": q, "answer": a} for q, a in given])
    summary = score_predictions(sums, file, tmp_path / "out" / "v.jsonl")
    assert lines(tmp_path / "out" / "v.jsonl") == [
        {"id": 3, "right": True}, {"id": 0, "right": True}, {"id": 2, "right": False}
    ]  # fmt: skip
    assert summary.scores == {"right": 0.5, "close": 0.75}
    assert json.loads((tmp_path / "out" / "v.summary.json").read_text())["scores"] == summary.scores


def test_a_question_without_a_prediction_has_failed_unless_it_is_left_out(tmp_path, sums):
    file = predictions(tmp_path / "p.jsonl", [{"id": 1, "answer": "3"}])
    whole = score_predictions(sums, file, tmp_path / "v.jsonl")
    part = score_predictions(sums, file, tmp_path / "v.jsonl", answered=True)
    assert (whole.scores["right"], part.scores["right"]) == (0.25, 1.0)
    assert whole.counts["unanswered"] == 3
    assert whole.groups["level"]["odd"]["right"] == 0.5
    assert part.groups["level"] == {"odd": {"right": 1.0, "close": 1.0, "questions": 1.0}}


def test_what_could_not_be_decided_has_not_passed_and_a_score_without_a_decision_is_none():
    def judged(question, close):
        return Judged(question, None, {}, {"close": close})

    some = tally("x", [judged(0, None), judged(1, 1.0)], range(2), ("close",), {})
    none = tally("x", [judged(0, None), judged(1, None)], range(2), ("close",), {})
    assert some.scores == {"close": 0.5}
    assert none.scores == {"close": None}


def test_repeated_questions_give_the_mean_the_vote_and_the_best_of_their_samples(tmp_path, sums):
    rows = [(1, "3"), (1, "3"), (1, "4"), (2, "7"), (2, "7"), (2, "6")]
    file = predictions(tmp_path / "p.jsonl", [{"id": q, "answer": a} for q, a in rows])
    scores = score_predictions(sums, file, tmp_path / "v.jsonl", answered=True).scores
    assert scores["mean@3/right"] == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert scores["majority@3/right"] == 0.5
    assert scores["pass@3/right"] == 1.0
    assert "right" not in scores  # no answer is more the answer than another


def test_the_greedy_answer_and_the_samples_are_scored_apart(sums):
    answers = [Answer(1, "3"), Answer(1, "4", 0), Answer(1, "4", 1)]
    scores = sums.summarise(sums.judge(answers), [1]).scores
    assert scores["right"] == 1.0
    assert scores["mean@2/right"] == scores["majority@2/right"] == 0.0


def test_of_equal_votes_the_earliest_wins_and_a_failure_has_no_vote():
    def judged(vote, at):
        return Judged(0, at, {}, {}, vote=vote)

    assert majority([judged(None, 0), judged("b", 1), judged("a", 2)]).sample == 1
    assert majority([judged("b", 0), judged("a", 1), judged("a", 2)]).sample == 1
    assert majority([judged(None, 0), judged(None, 1)]) is None


def test_answers_are_numbered_only_where_a_question_has_several():
    assert [a.sample for a in numbered([Answer(2, ""), Answer(0, "")])] == [None, None]
    assert [a.sample for a in numbered([Answer(2, ""), Answer(0, ""), Answer(2, "")])] == [0, 0, 1]


def test_a_limit_draws_by_the_seed_and_keeps_the_order(sums):
    drawn = chosen(sums, 2, seed=1)
    assert drawn == chosen(sums, 2, seed=1) == sorted(drawn)
    assert len({tuple(chosen(sums, 2, seed)) for seed in range(20)}) > 1
    assert chosen(sums, None, 0) == chosen(sums, 9, 0) == [0, 1, 2, 3]


def test_the_table_shows_scores_groups_counts_and_notes(sums):
    text = table(sums.summarise(sums.judge([Answer(0, "0"), Answer(1, "?")]), range(4)))
    for piece in ("right", "25.0", "even", "odd", "unanswered 2", "sums of two"):
        assert piece in text


class _Text(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_the_page_of_failures_shows_what_was_given_as_text(sums):
    judged = sums.judge([Answer(0, "0"), Answer(1, "<script>alert(1)</script>")])
    page = _Text()
    page.feed(failures_page(sums.summarise(judged, range(2)), judged, "right"))
    assert "<script>alert(1)</script>" in page.text
    assert "script" not in page.tags
    assert "1 of 2 answers miss right" in " ".join(page.text.split())


def test_the_command_scores_a_predictions_file_in_any_folder(tmp_path, command):
    write(tmp_path / "sums")
    file = predictions(tmp_path / "p.jsonl", [{"id": q, "answer": 3 * q} for q in range(4)])
    done = command("sums", "--data", "sums", "--predictions", file, "--out", "v.jsonl")
    assert done.exit_code == 0, done.output
    assert [row["right"] for row in lines(tmp_path / "v.jsonl")] == [True] * 4
    assert "100.0" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sums", "--data", "sums"], "--predictions or --model"),
        (["other", "--data", "sums", "--predictions", "p.jsonl"], "no benchmark 'other'"),
        (["sums", "--data", "nowhere", "--predictions", "p.jsonl"], "nowhere is not a folder"),
        (["sums", "--data", "sums", "--predictions", "none.jsonl"], "none.jsonl is not a file"),
        (["sums", "--data", "sums", "--predictions", "bad.jsonl"], "bad.jsonl: line 2: not JSON"),
        (["sums", "--data", "sums", "--predictions", "p.jsonl", "--limit", "1"], "--answered"),
        (["sums", "all", "--data", ".", "--predictions", "p.jsonl"], "answers one benchmark"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(tmp_path, command, arguments, message):
    write(tmp_path / "sums")
    predictions(tmp_path / "p.jsonl", [{"id": 0, "answer": "0"}])
    (tmp_path / "bad.jsonl").write_text('{"id": 0, "answer": "0"}\n{"id": \n')
    done = command(*arguments, "--out", "v.jsonl")
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "v.jsonl").exists()


def test_files_beside_a_verdict_file_share_its_name(tmp_path):
    assert beside(tmp_path / "a.b.jsonl", "summary.json") == tmp_path / "a.b.summary.json"
