"""Predictions files of text-to-SQL in their three forms."""

import json

import pytest

from mrtpo.benchmarks.sql_predictions import read_predictions

DATABASES = ["pets", "cars", "pets"]


def written(tmp_path, text):
    file = tmp_path / "p.txt"
    file.write_text(text, encoding="utf-8")
    return file


def test_json_lines_may_answer_some_questions_and_some_of_them_twice(tmp_path):
    rows = [{"index": 2, "sql": "SELECT 1"}, {"index": 0, "sql": ""}, {"index": 2, "sql": "a\nb"}]
    file = written(tmp_path, "".join(json.dumps(row) + "\n\n" for row in rows))
    assert read_predictions(file, DATABASES) == [(2, "SELECT 1"), (0, ""), (2, "a\nb")]


def test_a_single_json_line_is_not_taken_for_birds_object(tmp_path):
    assert read_predictions(written(tmp_path, '{"index": 1, "sql": "x"}'), DATABASES) == [(1, "x")]


def test_spiders_lines_answer_every_question_and_may_carry_the_database(tmp_path):
    file = written(tmp_path, "SELECT 1\tpets\n\nSELECT 'a\tb'\n")
    assert read_predictions(file, DATABASES) == [(0, "SELECT 1"), (1, ""), (2, "SELECT 'a\tb'")]


def test_birds_object_is_keyed_by_position_and_what_is_not_text_is_no_query(tmp_path):
    mark = "\t----- bird -----\t"
    whole = {"0": f"SELECT 1{mark}pets", "2": 0, "1": "SELECT 2"}
    file = written(tmp_path, json.dumps(whole, indent=1))
    assert read_predictions(file, DATABASES) == [(0, "SELECT 1"), (2, ""), (1, "SELECT 2")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"index": 0, "sql": "x"}\n{"index": 3, "sql": "x"}', "line 2: field index: 3 is not in"),
        ('{"index": -1, "sql": "x"}', "line 1: field index: -1 is not in 0 to 2"),
        ('{"index": true, "sql": "x"}', "line 1: field index: expected a whole number"),
        ('{"index": "0", "sql": "x"}', "line 1: field index: expected a whole number, found '0'"),
        ('{"index": 0, "sql": null}', "line 1: field sql: expected text, found NoneType"),
        ('{"index": 0, "query": "x"}', r"line 1: field sql: missing \(the row has index, query\)"),
        ('{"index": 0, "sql": "x"}\n[1]', "line 2: expected an object"),
        ('{"index": 0, "sql": "x"', "line 1: not JSON"),
        ("SELECT 1\nSELECT 2\n", "2 lines for 3 questions"),
        ('{"3": "x"}', "key 3: is not in 0 to 2"),
        ('{"1": "x\\t----- bird -----\\tpets"}', "key 1: is for database 'pets'"),
    ],
)
def test_a_bad_row_is_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"p\.txt: {message}"):
        read_predictions(written(tmp_path, text), DATABASES)
