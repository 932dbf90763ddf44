"""Which values of a database a question mentions."""

import sqlite3
from contextlib import closing

import pytest

from mrtpo.tasks.text2sql.schema import read_schema
from mrtpo.tasks.text2sql.values import MOST, MOST_OF_COLUMN, ValueIndex, matched


def index(tmp_path, rows, column="name TEXT"):
    path = tmp_path / "d.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE city ({column}, nation TEXT)")
        connection.executemany("INSERT INTO city VALUES (?, ?)", rows)
        connection.commit()
    return ValueIndex(path, read_schema(path, "d"))


ROWS = [("New York", "USA"), ("York", "UK"), ("Paris", "France"), (" APG", "France")]


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("Who lives in new york?", {("city", "name"): ("New York", "York")}),
        ("Flights to 'APG'", {("city", "name"): (" APG",)}),
        ("Cities of FRANCE", {("city", "nation"): ("France",)}),
        ("Pariss?", {("city", "name"): ("Paris",)}),
        ("Is the parish old?", {("city", "name"): ("Paris",)}),
        ("Who is it?", {}),
        ("", {}),
    ],
)
def test_values_alike_to_a_part_of_the_question(tmp_path, question, values):
    assert index(tmp_path, ROWS).mentioned(question) == values


def test_a_value_in_two_columns_is_found_in_both(tmp_path):
    found = index(tmp_path, [("Oslo", "Norway"), ("Norway", "Norway")]).mentioned("norway")
    assert found == {("city", "name"): ("Norway",), ("city", "nation"): ("Norway",)}


def test_numbers_blobs_long_and_common_words_are_not_looked_up(tmp_path):
    rows = [(7, "the"), (b"Oslo", "x" * 41), ("a\nb", "Y")]
    found = index(tmp_path, rows, "name")
    assert found.mentioned(f"the 7 Oslo {'x' * 41} a b Y") == {}


def test_the_likeliest_come_first_and_no_more_than_six_of_a_column(tmp_path):
    rows = [(f"Main Street {i}", f"Main Street {i}") for i in range(30)]
    found = index(tmp_path, rows).mentioned("Which shop is in main street 7?")
    assert found["city", "name"][0] == "Main Street 7"
    assert len(found["city", "name"]) == MOST_OF_COLUMN
    assert sum(map(len, found.values())) <= MOST


def test_matches_stand_in_the_schema_beside_the_samples(tmp_path):
    found = index(tmp_path, ROWS).mentioned("Paris")
    columns = matched(read_schema(tmp_path / "d.sqlite", "d", 1), found).tables[0].columns
    assert [(c.values, c.matched) for c in columns] == [
        (("New York",), ("Paris",)),
        (("USA",), ()),
    ]
