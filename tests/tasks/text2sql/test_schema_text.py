from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mrtpo.tasks.text2sql.schema import Column, Schema, Table, read_schema
from mrtpo.tasks.text2sql.schema_text import RESERVED, compact, ddl, quoted

SCRIPT = """
CREATE TABLE singer (singer_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, age INT, note);
CREATE TABLE "order" (
    "from" TEXT, "unit price" REAL, singer_id INT REFERENCES SINGER(Singer_ID),
    venue_id INT, PRIMARY KEY ("unit price", "from"), FOREIGN KEY (venue_id) REFERENCES venue
);
CREATE TABLE venue (place_id INT PRIMARY KEY, "odd `name`" TEXT);
INSERT INTO singer VALUES (1, 'Ann', 30, NULL), (2, 'O''Neil', 30, x'00ff'), (3, ' APG', 41, 7),
    (4, 'Ann', NULL, '8');
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make(tmp_path / "shop.sqlite", SCRIPT)


def make(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def test_ddl_shows_types_examples_and_keys(database):
    text = ddl(read_schema(database, "shop", 2))
    assert text.startswith(
        "CREATE TABLE singer (\n"
        "    singer_id INTEGER, -- example: [1, 2]\n"
        "    name TEXT, -- example: ['Ann', 'O''Neil']\n"
        "    age INT, -- example: [30, 41]\n"
        "    note, -- example: [7, 8]\n"
        "    PRIMARY KEY (singer_id)\n"
        ");\n\nCREATE TABLE `order` (\n    `from` TEXT,\n    `unit price` REAL,"
    )
    assert "FOREIGN KEY (venue_id) REFERENCES venue (place_id)" in text
    assert "`odd ``name```" in text


def test_numbers_kept_as_text_are_shown_quoted():
    schema = Schema("d", (Table("t", (Column("zip", "VARCHAR(5)", values=("012",)),)),), ())
    assert "-- example: ['012']" in ddl(schema)


def test_ddl_runs_and_reads_back_as_the_same_schema(database, tmp_path):
    schema = read_schema(database, "shop", 3)
    copy = make(tmp_path / "copy.sqlite", ddl(schema))
    assert read_schema(copy, "shop") == read_schema(database, "shop")


def test_compact_is_one_line_a_table(database):
    assert compact(read_schema(database, "shop")).splitlines() == [
        "singer: singer_id name age note",
        "`order`: `from` `unit price` singer_id venue_id -> venue.place_id",
        "venue: place_id `odd ``name```",
    ]
    assert "age [30, 41]" in compact(read_schema(database, "shop", 2))


def test_every_word_that_sqlite_refuses_bare_is_reserved():
    words = """ABORT ACTION AFTER ALWAYS ANALYZE ASC ATTACH BEFORE BEGIN BY CASCADE COLUMN CONFLICT
        CURRENT DATABASE DEFERRED DESC DETACH DO EACH END EXCLUDE EXCLUSIVE EXPLAIN FAIL FILTER
        FIRST FOLLOWING FOR GENERATED GLOB GROUPS IGNORE IMMEDIATE INDEXED INITIALLY INSTEAD KEY
        LAST LIKE MATCH MATERIALIZED NO NULLS OF OFFSET OTHERS OVER PARTITION PLAN PRAGMA
        PRECEDING QUERY RANGE RECURSIVE REGEXP REINDEX RELEASE RENAME REPLACE RESTRICT ROLLBACK
        ROW ROWS SAVEPOINT TEMP TEMPORARY TIES TRIGGER UNBOUNDED VACUUM VIEW VIRTUAL WITHOUT"""
    for word in {*words.split(), *RESERVED}:
        name = quoted(word)
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(f"CREATE TABLE {name} ({name} TEXT, x INT)")
            connection.execute(f"INSERT INTO {name} VALUES ('a', 1)")
            query = f"SELECT T1.{name} FROM {name} AS T1 JOIN {name} ON T1.x = {name}.x ORDER BY 1"
            assert connection.execute(query).fetchall() == [("a",)], word


def test_after_a_column_stand_what_it_means_and_first_the_values_that_are_asked_for():
    column = Column("n", "TEXT", values=("a", "b"), matched=("z", "b"), comment="nation")
    text = ddl(Schema("d", (Table("t", (column, Column("m", "INT", comment="only"))),), ()))
    assert "    n TEXT, -- nation, example: ['z', 'b', 'a']\n    m INT -- only\n" in text
    assert compact(Schema("d", (Table("t", (column,)),), ())) == "t: n ['z', 'b', 'a']"


def test_at_most_six_values_are_shown_unless_more_are_sampled():
    few = Column("x", "INT", values=("1", "2"), matched=tuple("3456789"))
    many = Column("x", "INT", values=tuple("123456789"))
    for column, shown in ((few, "[3, 4, 5, 6, 7, 8]"), (many, "[1, 2, 3, 4, 5, 6, 7, 8, 9]")):
        assert compact(Schema("d", (Table("t", (column,)),), ())) == f"t: x {shown}"
