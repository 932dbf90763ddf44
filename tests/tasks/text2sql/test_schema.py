from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mrtpo.tasks.text2sql.schema import (
    Column,
    ForeignKey,
    Schema,
    Table,
    commented,
    from_ddl,
    from_tables_json,
    read_schema,
    write_empty,
)
from mrtpo.tasks.text2sql.sources import read_questions

SCRIPT = """
CREATE TABLE singer (singer_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, age INT, note);
CREATE TABLE "order" (
    "from" TEXT, "unit price" REAL, singer_id INT REFERENCES SINGER(Singer_ID),
    venue_id INT, PRIMARY KEY ("unit price", "from"), FOREIGN KEY (venue_id) REFERENCES venue,
    FOREIGN KEY ("from") REFERENCES nowhere(x)
);
CREATE TABLE venue (place_id INT PRIMARY KEY, "odd `name`" TEXT);
INSERT INTO singer VALUES (1, 'Ann', 30, NULL), (2, 'O''Neil', 30, x'00ff'), (3, ' APG', 41, 7),
    (4, 'Ann', NULL, '8'), (5, 'a' || char(10) || 'b', 5, '  ');
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make(tmp_path / "shop.sqlite", SCRIPT)


def names(schema: Schema) -> list[tuple[str, list[str]]]:
    return sorted(
        (table.name.lower(), sorted(column.name.lower() for column in table.columns))
        for table in schema.tables
    )


def make(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def test_introspection_finds_tables_columns_and_keys(database):
    schema = read_schema(database, "shop")
    assert [table.name for table in schema.tables] == ["singer", "order", "venue"]
    assert schema.tables[0].columns == (
        Column("singer_id", "INTEGER", True),
        Column("name", "TEXT"),
        Column("age", "INT"),
        Column("note", ""),
    )
    assert [c.name for c in schema.tables[1].columns if c.primary] == ["from", "unit price"]


def test_foreign_keys_take_the_declared_spelling_the_implied_target_and_skip_dangling(database):
    assert read_schema(database, "shop").foreign_keys == (
        ForeignKey("order", "singer_id", "singer", "singer_id"),
        ForeignKey("order", "venue_id", "venue", "place_id"),
    )


def test_composite_foreign_key_gives_one_pair_for_each_column(tmp_path):
    path = make(
        tmp_path / "d.sqlite",
        "CREATE TABLE a (x INT, y INT, PRIMARY KEY (y, x));"
        "CREATE TABLE b (p INT, q INT, FOREIGN KEY (p, q) REFERENCES a);",
    )
    # Without named columns the key refers to the primary key in its own order, y before x.
    assert read_schema(path, "d").foreign_keys == (
        ForeignKey("b", "p", "a", "y"),
        ForeignKey("b", "q", "a", "x"),
    )


def test_sample_values_are_distinct_first_in_row_order_and_on_one_line(database):
    columns = {c.name: c.values for c in read_schema(database, "shop", 5).tables[0].columns}
    assert columns["name"] == ("Ann", "O'Neil", " APG", "a b")
    assert columns["age"] == ("30", "41", "5")
    assert columns["note"] == ("7", "8")  # neither blobs nor blanks
    assert read_schema(database, "shop", 2).tables[0].columns[1].values == ("Ann", "O'Neil")


def test_sample_values_are_cut_and_do_not_depend_on_an_index(tmp_path):
    script = "CREATE TABLE t (x TEXT); INSERT INTO t VALUES ('{}'), ('a');".format("z" * 99)
    plain = read_schema(make(tmp_path / "a.sqlite", script), "d", 2)
    script += "CREATE INDEX i ON t (x);"
    indexed = read_schema(make(tmp_path / "b.sqlite", script), "d", 2)
    assert plain.tables[0].columns[0].values == ("z" * 40, "a")
    assert indexed == plain


def test_text_that_is_not_utf8_loses_only_the_bad_bytes(tmp_path):
    path = make(
        tmp_path / "d.sqlite",
        "CREATE TABLE t (x TEXT); INSERT INTO t VALUES (CAST(x'41ff42' AS TEXT));",
    )
    assert read_schema(path, "d", 1).tables[0].columns[0].values == ("AB",)


def test_reading_works_in_a_read_only_folder_with_odd_names_and_leaves_no_file(tmp_path):
    folder = tmp_path / "50% off? #1"
    folder.mkdir()
    path = make(folder / "d b.sqlite", SCRIPT)
    before = path.read_bytes()
    folder.chmod(0o555)
    try:
        assert len(read_schema(path, "d", 3).tables) == 3
    finally:
        folder.chmod(0o755)
    assert [entry.name for entry in folder.iterdir()] == ["d b.sqlite"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"version https://git-lfs", b""])
def test_a_file_that_is_no_database_is_an_error_with_its_name(tmp_path, content):
    path = tmp_path / "d.sqlite"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"d\.sqlite"):
        read_schema(path, "d")


def test_an_absent_file_is_an_error_and_is_not_created(tmp_path):
    with pytest.raises(ValueError, match="no such database file"):
        read_schema(tmp_path / "d.sqlite", "d")
    assert not (tmp_path / "d.sqlite").exists()


def entry(**changes) -> dict:
    return {
        "db_id": "d",
        "table_names_original": ["a", "sqlite_sequence", "b"],
        "column_names_original": [[-1, "*"], [0, "x"], [0, "y"], [1, "seq"], [2, "a x"]],
        "column_types": ["text", "number", "text", "text", "number"],
        "primary_keys": [1],
        "foreign_keys": [[4, 1]],
        **changes,
    }


def test_tables_json_skips_the_star_and_internal_tables():
    schema = from_tables_json(entry())
    assert schema.tables == (
        Table("a", (Column("x", "number", True), Column("y", "text"))),
        Table("b", (Column("a x", "number"),)),
    )
    assert schema.foreign_keys == (ForeignKey("b", "a x", "a", "x"),)


def test_tables_json_takes_composite_primary_keys_as_lists():
    primary = [c.primary for c in from_tables_json(entry(primary_keys=[[1, 2]])).tables[0].columns]
    assert primary == [True, True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"db_id": None}, "db_id"),
        ({"foreign_keys": [[4, 99]]}, "d: malformed"),
        ({"column_types": []}, "d: malformed"),
    ],
)
def test_a_malformed_tables_json_entry_is_an_error_with_its_name(changes, message):
    with pytest.raises(ValueError, match=message):
        from_tables_json(entry(**changes))


def test_a_missing_tables_json_field_is_named():
    broken = entry()
    del broken["column_types"]
    with pytest.raises(ValueError, match="d: field column_types: missing"):
        from_tables_json(broken)


@pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")
def test_spider_files_and_tables_json_agree():
    folder = Path(os.environ["MRTPO_DATA"]) / "spider"
    entries = json.loads((folder / "tables.json").read_text())
    compared = 0
    for listed in map(from_tables_json, entries):
        path = folder / "database" / listed.db_id / f"{listed.db_id}.sqlite"
        if path.exists():
            found = read_schema(path, listed.db_id, 1)
            assert names(found) == names(listed)
            compared += 1
    assert compared > 100


def test_an_empty_database_has_the_schema_and_no_rows(database, tmp_path):
    schema = read_schema(database, "shop")
    write_empty(schema, tmp_path / "new/empty.sqlite")
    assert read_schema(tmp_path / "new/empty.sqlite", "shop", 3) == schema
    with pytest.raises(ValueError, match="exists already"):
        write_empty(schema, tmp_path / "new/empty.sqlite")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([Column("x", "TEXT); DROP TABLE t; --")], "d.t.x: .* is no type"),
        ([Column("x", "TEXT"), Column("X", "TEXT")], "d.t: duplicate column name"),
    ],
)
def test_a_schema_that_is_no_database_is_an_error_with_its_place(tmp_path, columns, message):
    schema = Schema("d", (Table("t", tuple(columns)),), ())
    with pytest.raises(ValueError, match=message):
        write_empty(schema, tmp_path / "empty.sqlite")


def test_the_spoken_names_of_a_tables_file_are_comments_where_they_say_more():
    spoken = [[-1, "*"], [0, "X"], [0, "years of age"], [1, "seq"], [2, "a x"]]
    schema = from_tables_json(entry(column_names=spoken))
    assert [c.comment for t in schema.tables for c in t.columns] == ["", "years of age", ""]


DDL = """CREATE TABLE "a" (
  "x" INTEGER /* Unique, e.g. (1, 2) */,
  "full name" TEXT /* full_name */,
  PRIMARY KEY ("x")
)

CREATE TABLE "b" (
  "y" TEXT /* what it
means */,
  CONSTRAINT fk FOREIGN KEY ("y") REFERENCES a ("x")
)"""


def test_ddl_with_comments_becomes_a_schema():
    schema = from_ddl("d", DDL)
    assert schema.tables == (
        Table("a", (Column("x", "INTEGER", True, comment="Unique, e.g. (1, 2)"),
                    Column("full name", "TEXT"))),
        Table("b", (Column("y", "TEXT", comment="what it means"),)),
    )  # fmt: skip
    assert schema.foreign_keys == (ForeignKey("b", "y", "a", "x"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DROP TABLE a", "schema of d: DROP TABLE a .*not a CREATE TABLE"),
        ("CREATE TABLE a (x INT)\n\nCREATE TABLE b (", "schema of d: CREATE TABLE b"),
        ("", "not a CREATE TABLE"),
    ],
)
def test_ddl_that_is_no_schema_is_an_error_with_its_statement(text, message):
    with pytest.raises(ValueError, match=message):
        from_ddl("d", text)


def test_comments_are_added_in_any_case_of_the_names():
    schema = Schema(
        "d", (Table("T", (Column("Born", "INT"), Column("b", "INT", comment="kept"))),), ()
    )
    columns = (
        commented(schema, {("t", "born"): "year  of birth", ("t", "x"): "?"}).tables[0].columns
    )
    assert [c.comment for c in columns] == ["year of birth", "kept"]


@pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")
def test_all_real_synsql_schemas_are_read():
    file = Path(os.environ["MRTPO_DATA"]) / "synsql_sample"
    for question in read_questions("synsql", file).questions[::5]:
        schema = from_ddl(question.db_id, question.ddl)
        assert len(schema.tables) == question.ddl.count("CREATE TABLE")
        assert any(column.comment for table in schema.tables for column in table.columns)
