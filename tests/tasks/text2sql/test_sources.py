from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mrtpo.tasks.text2sql.sources import copy_databases, read_folder


def row(db_id: str = "shop", question: str = "How many?", sql: str = "SELECT 1", **more) -> dict:
    return {"db_id": db_id, "question": question, "query": sql, **more}


def bird_row(**more) -> dict:
    values = row(**more)
    values["SQL"] = values.pop("query")
    return values


def database(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x INT)")


def spider(
    folder: Path, dev: object = None, databases: tuple[str, ...] = ("shop",), **files
) -> Path:
    """A Spider folder; further files by name, with `_json` for `.json`."""
    files["dev_json"] = [row()] if dev is None else dev
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("_json", ".json")).write_text(text, encoding="utf-8")
    for db_id in databases:
        database(folder / "database" / db_id / f"{db_id}.sqlite")
    return folder


def test_spider_files_are_read_in_order_and_rows_are_counted_from_0(tmp_path):
    spider(
        tmp_path,
        dev=[row(question="d")],
        train_spider_json=[row(question="a"), row(question="b")],
        train_others_json=[row(question="c", sql=" SELECT 2 ")],
    )
    source = read_folder("spider", tmp_path)
    assert [(q.question, q.file, q.row) for q in source.train] == [
        ("a", "train_spider.json", 0),
        ("b", "train_spider.json", 1),
        ("c", "train_others.json", 0),
    ]
    assert source.train[2].sql == "SELECT 2"
    assert [q.question for q in source.dev] == ["d"]
    assert source.rows == {"train": 3, "dev": 1}
    assert source.dropped == {"train": {}, "dev": {}}
    assert source.databases == {"shop": tmp_path / "database/shop/shop.sqlite"}


def test_spiders_parse_object_in_sql_is_not_taken_for_the_query(tmp_path):
    parsed = {**row(sql="SELECT 3"), "sql": {"select": [False, []]}}
    source = read_folder("spider", spider(tmp_path, dev=[parsed]))
    assert source.dev[0].sql == "SELECT 3"


def test_bird_fields_and_separate_database_folders(tmp_path):
    (tmp_path / "train.json").write_text(json.dumps([bird_row(db_id="a", evidence=" hint ")]))
    (tmp_path / "dev.json").write_text(
        json.dumps([bird_row(db_id="b", difficulty="simple", evidence=None)])
    )
    database(tmp_path / "train_databases/a/a.sqlite")
    database(tmp_path / "dev_databases/b/b.sqlite")
    source = read_folder("bird", tmp_path)
    assert (source.train[0].evidence, source.train[0].difficulty) == ("hint", "")
    assert (source.dev[0].evidence, source.dev[0].difficulty) == ("", "simple")
    assert source.databases == {
        "a": tmp_path / "train_databases/a/a.sqlite",
        "b": tmp_path / "dev_databases/b/b.sqlite",
    }


def test_bird_as_unpacked_with_train_and_dev_folders(tmp_path):
    for split in ("train", "dev"):
        database(tmp_path / split / f"{split}_databases/{split}db/{split}db.sqlite")
        rows = [bird_row(db_id=f"{split}db")]
        (tmp_path / split / f"{split}.json").write_text(json.dumps(rows))
    source = read_folder("bird", tmp_path)
    assert [q.file for q in source.train + source.dev] == ["train/train.json", "dev/dev.json"]


def test_mini_dev_alone_gives_an_empty_train_split(tmp_path):
    (tmp_path / "mini_dev_sqlite.json").write_text(json.dumps([bird_row()]))
    database(tmp_path / "databases/shop/shop.sqlite")
    source = read_folder("bird", tmp_path)
    assert (len(source.train), len(source.dev)) == (0, 1)


def test_json_lines_are_told_by_content(tmp_path):
    lines = [json.dumps(row(question=f"q\u2028{i}"), ensure_ascii=False) for i in range(2)]
    source = read_folder("spider", spider(tmp_path, dev="\ufeff" + "\n\n".join(lines) + "\n"))
    assert [(q.question, q.row) for q in source.dev] == [("q\u20280", 0), ("q\u20281", 1)]


def test_failing_references_repetitions_and_missing_databases_are_dropped_and_counted(tmp_path):
    train = [
        row(question="kept", _gold_status="ok"),
        row(question="kept", _gold_status=None),
        row(question="kept", sql="SELECT 2"),
        row(question="e", _gold_status="empty"),
        row(question="f", _gold_status="error"),
        row(question="g", db_id="elsewhere"),
    ]
    source = read_folder("spider", spider(tmp_path, **{"train_spider.min_json": train}))
    assert [(q.question, q.sql) for q in source.train] == [
        ("kept", "SELECT 1"),
        ("kept", "SELECT 2"),
    ]
    assert source.dropped["train"] == {
        "database missing": 1,
        "duplicate": 1,
        "gold status empty": 1,
        "gold status error": 1,
    }
    assert source.rows["train"] == len(source.train) + sum(source.dropped["train"].values())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"db_id": "shop", "question": "?"}, "row 1 .from 0.: field query: missing"),
        (row(question=5), "row 1 .from 0.: field question: expected text, found int"),
        (row(sql=["SELECT 1"]), "row 1 .from 0.: field query: expected text, found list"),
        (row(question="  "), "row 1 .from 0.: field question: empty"),
        (row(db_id="../shop"), "row 1 .from 0.: field db_id: '../shop' is not a plain name"),
        (row(db_id=".."), "row 1 .from 0.: field db_id"),
        (row(evidence=3), "row 1 .from 0.: field evidence: expected text"),
        (row(_gold_status=1), "row 1 .from 0.: field _gold_status: expected text"),
        (["SELECT 1"], "row 1 .from 0.: expected an object"),
        (row(question=5, _gold_status="error"), "row 1 .from 0.: field question"),
    ],
)
def test_a_malformed_row_is_an_error_with_file_row_and_field(tmp_path, bad, message):
    with pytest.raises(ValueError, match=r"dev\.json: " + message):
        read_folder("spider", spider(tmp_path, dev=[row(), bad]))


def test_a_spider_file_read_as_bird_names_the_field_that_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"field SQL: missing .the row has db_id, question"):
        read_folder("bird", spider(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{},\n{]", "line 2: not JSON"),
        ('{"db_id": "a"}\n\n{"db_id"', "line 3: not JSON"),
        ("[]", "no rows"),
        (" \n", "no rows"),
        ("[1]", "row 0 .from 0.: expected an object"),
    ],
)
def test_a_file_that_is_no_list_of_rows_is_an_error(tmp_path, text, message):
    with pytest.raises(ValueError, match=r"dev\.json: " + message):
        read_folder("spider", spider(tmp_path, dev=text))


def test_text_in_another_encoding_is_an_error_with_the_file(tmp_path):
    spider(tmp_path)
    (tmp_path / "dev.json").write_bytes('[{"question": "café"}]'.encode("latin-1"))
    with pytest.raises(ValueError, match=r"dev\.json: not UTF-8"):
        read_folder("spider", tmp_path)


def test_a_database_that_the_tables_file_does_not_know_is_an_error(tmp_path):
    spider(tmp_path, dev=[row(), row(db_id="shpo")], tables_json=[{"db_id": "shop"}])
    with pytest.raises(ValueError, match=r"dev\.json: row 1 .from 0.: field db_id: 'shpo'"):
        read_folder("spider", tmp_path)


def test_a_database_that_the_tables_file_knows_may_be_absent(tmp_path):
    tables = [{"db_id": "shop"}, {"db_id": "big"}]
    spider(tmp_path, dev=[row(), row(db_id="big")], tables_json=tables)
    assert read_folder("spider", tmp_path).dropped["dev"] == {"database missing": 1}


def test_no_database_at_all_is_an_error_that_says_where_they_belong(tmp_path):
    with pytest.raises(ValueError, match=r"any of 1 questions; expected database/<db_id>"):
        read_folder("spider", spider(tmp_path, databases=()))


def test_a_pointer_file_instead_of_a_database_is_an_error(tmp_path):
    spider(tmp_path)
    (tmp_path / "database/shop/shop.sqlite").write_text("version https://git-lfs.github.com")
    with pytest.raises(ValueError, match=r"shop\.sqlite: not a SQLite database"):
        read_folder("spider", tmp_path)


def test_nothing_but_failing_references_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"no question is left .gold status empty: 1"):
        read_folder("spider", spider(tmp_path, dev=[row(_gold_status="empty")]))


def test_an_absent_or_empty_folder_is_an_error_that_lists_the_names(tmp_path):
    with pytest.raises(ValueError, match="not a folder"):
        read_folder("spider", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"none of train\.json, .*mini_dev_sqlite\.json"):
        read_folder("bird", tmp_path)


def test_only_named_databases_are_copied_and_as_files_of_their_own(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    spider(folder, dev=[row(), row(db_id="other")], databases=("shop", "other"))
    source = read_folder("spider", folder)
    source.databases["shop"].chmod(0o444)
    for _ in range(2):  # a second run replaces what the first has left
        copy_databases(source, {"shop"}, tmp_path / "out")
    copied = [p.relative_to(tmp_path / "out").as_posix() for p in tmp_path.glob("out/**/*.*")]
    assert copied == ["databases/shop/shop.sqlite"]
    target = tmp_path / "out/databases/shop/shop.sqlite"
    assert target.read_bytes() == source.databases["shop"].read_bytes()
    assert not target.is_symlink()
    assert target.stat().st_nlink == 1


needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")


@needs_data
def test_real_spider_folder():
    source = read_folder("spider", Path(os.environ["MRTPO_DATA"]) / "spider")
    assert source.rows == {"train": 7000, "dev": 1034}
    assert source.dropped["train"] == {
        "duplicate": 7,
        "gold status empty": 148,
        "gold status error": 3,
        "gold status no_db": 554,
    }
    assert len(source.train) == 6295 - 7
    assert len(source.dev) == 1034
    assert {q.db_id for q in source.dev}.isdisjoint(q.db_id for q in source.train)


@needs_data
def test_real_bird_mini_dev_folder_has_no_databases():
    with pytest.raises(ValueError, match="no database file for any of 500 questions"):
        read_folder("bird", Path(os.environ["MRTPO_DATA"]) / "bird_minidev")
