"""Text-to-SQL benchmarks on made-up folders in the official layouts, and on the real sets."""

import json
import os
import sqlite3
from pathlib import Path

import pytest

from mrtpo.benchmarks.base import Answer
from mrtpo.benchmarks.score import open_benchmark, score_predictions
from mrtpo.config import settings_from

DATA = os.environ.get("MRTPO_DATA")
real = pytest.mark.skipif(not DATA, reason="MRTPO_DATA names no folder of data")
TABLES = {
    "db_id": "cars", "table_names_original": ["car"], "table_names": ["car"],
    "column_names_original": [[-1, "*"], [0, "id"], [0, "name"]],
    "column_names": [[-1, "*"], [0, "id"], [0, "name"]],
    "column_types": ["text", "number", "text"], "primary_keys": [1], "foreign_keys": [],
}  # fmt: skip


def database(folder, db_id, rows, name=None):
    path = folder / db_id / f"{name or db_id}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE pet (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executemany("INSERT INTO pet VALUES (?, ?)", rows)
    connection.commit()
    connection.close()
    return path


@pytest.fixture
def folder(tmp_path):
    """Spider's layout: `pets` with two instances, `cars` in the tables file alone."""
    root = tmp_path / "spider"
    database(root / "database", "pets", [(1, "Rex"), (2, "Mia")])
    database(root / "database", "pets", [(1, "Rex"), (2, "Mia"), (3, "Rex")], name="pets_2")
    questions = [
        ("pets", "SELECT name FROM pet"),
        ("pets", "SELECT count(*) FROM pet WHERE name = 'Rex'"),
        ("cars", "SELECT name FROM car"),
        ("pets", "SELECT nothing FROM pet"),
    ]
    rows = [{"db_id": db, "query": sql, "question": f"question {i}?"}
            for i, (db, sql) in enumerate(questions)]  # fmt: skip
    (root / "dev.json").write_text(json.dumps(rows))
    tables = [TABLES, {**TABLES, "db_id": "pets"}]
    (root / "tables.json").write_text(json.dumps(tables))
    return root


@pytest.fixture
def opened():
    """Opens benchmarks with a short time limit, and closes them."""
    made = []

    def make(name, folder, **limits):
        settings = settings_from({"benchmark": {"seconds": 0.5, **limits}})
        made.append(open_benchmark(name, Path(folder), settings))
        return made[-1]

    yield make
    for benchmark in made:
        benchmark.close()


def rows_of(benchmark, answers):
    return [judged.row for judged in benchmark.judge([Answer(*answer) for answer in answers])]


def test_a_verdict_tells_how_the_query_ended_and_each_score(folder, opened):
    answers = [
        (0, "SELECT name FROM pet ORDER BY id DESC"),
        (0, "SELECT id FROM pet"),
        (0, "SELECT name FROM pets"),
        (0, "DROP TABLE pet"),
        (0, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT count(*) FROM c"),
    ]
    found = rows_of(opened("spider", folder), answers)
    keys = ("index", "status", "executable", "spider_exec", "bird_ex")
    assert [tuple(row[key] for key in keys) for row in found] == [
        (0, "ok", True, True, True),
        (0, "ok", True, False, False),
        (0, "error", False, False, False),
        (0, "refused", False, False, False),
        (0, "timeout", None, None, None),
    ]
    assert "no such table: pets" in found[2]["detail"]


def test_the_test_suite_asks_every_database_beside_the_first(folder, opened):
    benchmark = opened("spider", folder)
    assert "spider_test_suite" in benchmark.metrics
    right, lucky = rows_of(
        benchmark, [(1, "SELECT count(*) FROM pet WHERE name = 'Rex'"), (1, "SELECT 1")]
    )
    assert (right["spider_exec"], right["spider_test_suite"]) == (True, True)
    assert (lucky["spider_exec"], lucky["spider_test_suite"]) == (True, False)


def test_an_absent_database_is_compiled_on_empty_tables_and_not_judged(folder, opened):
    benchmark = opened("spider", folder)
    judged = benchmark.judge([Answer(2, "SELECT name FROM car"), Answer(2, "SELECT x FROM car")])
    assert [j.row["executable"] for j in judged] == [True, False]
    assert [j.row["spider_exec"] for j in judged] == [None, None]
    summary = benchmark.summarise(judged, [2])
    assert summary.scores == {
        "spider_exec": None, "bird_ex": None, "spider_test_suite": None, "executable": 0.5
    }  # fmt: skip
    assert "No database for 1 of 1 (cars)" in summary.notes[0]


def test_a_reference_that_fails_decides_nothing_and_is_told(folder, opened):
    benchmark = opened("spider", folder)
    judged = benchmark.judge([Answer(3, "SELECT name FROM pet")])
    assert judged[0].row["spider_exec"] is None
    assert "fails on 1 questions (index 3)" in benchmark.summarise(judged, [3]).notes[0]


def test_the_vote_goes_to_the_result_that_most_samples_have(folder, opened):
    benchmark = opened("spider", folder)
    sqls = ["SELECT id FROM pet", "SELECT name FROM pet", "SELECT name FROM pet WHERE id > 0", "x"]
    judged = benchmark.judge([Answer(0, sql, at) for at, sql in enumerate(sqls)])
    scores = benchmark.summarise(judged, [0]).scores
    assert scores["majority@4/spider_exec"] == 1.0
    assert scores["mean@4/spider_exec"] == 0.5


def test_both_results_are_kept_for_the_page_of_failures(folder, opened):
    (judged,) = opened("spider", folder).judge([Answer(0, "SELECT id FROM pet")])
    expected, given = judged.results
    assert (expected.columns, expected.cells) == (("name",), (("Rex",), ("Mia",)))
    assert (given.columns, given.cells, given.rows) == (("id",), (("1",), ("2",)), 2)


def test_scores_by_difficulty_come_from_easy_to_hard(folder, opened):
    benchmark = opened("spider", folder)
    judged = benchmark.judge([Answer(i, q.sql) for i, q in enumerate(benchmark.set.questions)])
    groups = benchmark.summarise(judged, range(4)).groups["difficulty"]
    assert sum(group["questions"] for group in groups.values()) == 4
    assert list(groups) == [d for d in ("easy", "medium", "hard", "extra") if d in groups]


def test_spiders_variants_find_spiders_databases_beside_them(folder, opened):
    syn = folder.parent / "spider_syn"
    syn.mkdir()
    row = {"db_id": "pets", "query": "SELECT name FROM pet", "SpiderSynQuestion": "titles?",
           "SpiderQuestion": "names?"}  # fmt: skip
    (syn / "dev.json").write_text(json.dumps([row]))
    for place in (syn, folder.parent):
        benchmark = opened("spider_syn", place)
        (judged,) = benchmark.judge([Answer(0, "SELECT name FROM pet")])
        assert judged.row["spider_exec"] is True
        assert judged.asked == "titles?"


def test_a_question_about_an_unknown_database_is_named(folder, opened):
    rows = json.loads((folder / "dev.json").read_text())
    rows[1]["db_id"] = "ships"
    (folder / "dev.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match=r"dev\.json: row 1 \(from 0\): field db_id: 'ships'"):
        opened("spider", folder)


def test_hostile_predictions_each_get_a_row_and_the_files_can_be_written(folder, opened, tmp_path):
    hostile = ["SELECT '\ud800'", "x" * 100_000, "SELECT '<script>'", "\x00", "ATTACH 'a' AS b",
               "SELECT randomblob(1e9)"]  # fmt: skip
    file = tmp_path / "p.jsonl"
    file.write_text("".join(json.dumps({"index": 0, "sql": sql}) + "\n" for sql in hostile))
    score_predictions(opened("spider", folder), file, tmp_path / "v.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [row["sql"] for row in rows] == hostile
    assert "<script>" not in (tmp_path / "v.failures.html").read_text()
    assert list(tmp_path.glob("**/a")) == []


def test_an_unanswerable_question_of_ehrsql_wants_an_abstention(tmp_path, opened):
    root = tmp_path / "ehrsql"
    database(root / "database", "eicu", [(1, "Rex")])
    (root / "eicu").mkdir()
    rows = [
        {"db_id": "eicu", "question": "who?", "query": "SELECT name FROM pet"},
        {"db_id": "eicu", "question": "why?", "query": "nan", "is_impossible": True},
    ]
    (root / "eicu" / "test.json").write_text(json.dumps(rows))
    benchmark = opened("ehrsql", root)
    judged = benchmark.judge([Answer(0, "select name from pet"), Answer(1, "null")])
    assert [j.row["ehrsql"] for j in judged] == [True, True]
    scores = benchmark.summarise(judged, range(2)).scores
    assert (scores["ehrsql"], scores["f1_ans"], scores["f1_exec"]) == (1.0, 1.0, 1.0)
    judged = benchmark.judge([Answer(0, "null"), Answer(1, "select name from pet")])
    assert [j.row["ehrsql"] for j in judged] == [False, False]
    assert benchmark.summarise(judged, range(2)).scores["f1_ans"] == 0.0


@real
def test_spiders_and_birds_verdicts_on_spider_dev_are_the_official_ones(tmp_path, opened):
    official = (Path(DATA) / "oracles/spider_dev_exec.verdicts.jsonl").read_text()
    oracle = [json.loads(line) for line in official.splitlines()]
    file = tmp_path / "p.jsonl"
    rows = [{"index": row["dev_index"], "sql": row["pred"]} for row in oracle]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = opened("spider", Path(DATA) / "spider", seconds=30.0)
    score_predictions(benchmark, file, tmp_path / "v.jsonl")
    found = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    keys = ("spider_exec", "bird_ex", "executable")
    differing = [
        (expected["dev_index"], expected["pred"])
        for expected, row in zip(oracle, found, strict=True)
        if any(expected[key] != row[key] for key in keys)
    ]
    assert differing == []


@real
@pytest.mark.parametrize("name", ["spider", "spider_syn", "spider_dk", "spider_realistic"])
def test_golds_are_right_by_their_own_standard(name, opened):
    benchmark = opened(name, DATA, seconds=30.0)
    questions = benchmark.set.questions
    judged = benchmark.judge([Answer(i, q.sql) for i, q in enumerate(questions)])
    wrong = [questions[j.question].sql for j in judged if j.row["spider_exec"] is not True]
    faulty = {"spider_dk": ["new_pets_1"]}.get(name, [])  # one gold has a syntax error
    assert [questions[j.question].db_id for j in judged if j.row["spider_exec"] is not True] == (
        faulty
    ), wrong


@real
def test_bird_minidevs_golds_all_compile_on_empty_tables(opened):
    benchmark = opened("bird_minidev", Path(DATA) / "bird_minidev")
    questions = benchmark.set.questions
    judged = benchmark.judge([Answer(i, q.sql) for i, q in enumerate(questions)])
    assert len(judged) == 500
    assert [j.row for j in judged if j.row["executable"] is not True] == []
    summary = benchmark.summarise(judged, range(500))
    assert summary.scores["bird_ex"] is None
    assert {g: v["questions"] for g, v in summary.groups["difficulty"].items()} == {
        "simple": 148, "moderate": 250, "challenging": 102
    }  # fmt: skip


def test_a_checkpoint_is_asked_in_the_form_and_within_the_size_of_the_settings(folder):
    settings = settings_from({"data": {"prompt": "full"}})
    benchmark = open_benchmark("spider", folder, settings)
    text = benchmark.prompt(0).messages[-1].content
    assert "CREATE TABLE pet" in text
    assert "question 0?" in text
    assert benchmark.from_response(0, "```sql\nSELECT 1\n```", None).given == "SELECT 1"
    benchmark.close()
    small = open_benchmark("spider", folder, settings_from({"data": {"max_prompt_chars": 20}}))
    with pytest.raises(ValueError, match=r"dev\.json: row 0 .* above the limit of 20"):
        small.prompt(0)
    small.close()
