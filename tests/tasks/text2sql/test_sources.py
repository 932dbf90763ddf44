from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_up_sets import bird_row, database, row, spider, write

from mrtpo.tasks.text2sql.schema import connect_readonly, write_empty
from mrtpo.tasks.text2sql.sources import read_questions, scored_split


def test_spider_files_are_read_in_order_and_rows_are_counted_from_0(tmp_path):
    spider(
        tmp_path,
        dev=[row(question="d")],
        train_spider_json=[row(question="a"), row(question="b")],
        train_others_json=[row(question="c", sql=" SELECT 2 ")],
    )
    train = read_questions("spider", tmp_path, "train")
    assert [(q.question, q.file, q.row, q.index) for q in train.questions] == [
        ("a", "train_spider.json", 0, 0),
        ("b", "train_spider.json", 1, 1),
        ("c", "train_others.json", 0, 2),
    ]
    assert train.questions[2].sql == "SELECT 2"
    assert train.databases.file("shop") == tmp_path / "database/shop/shop.sqlite"
    assert [q.question for q in read_questions("spider", tmp_path).questions] == ["d"]


PARSE = {
    "select": [False, [[0, [0, [0, 1, False], None]]]], "from": {"table_units": [1], "conds": []},
    "where": [], "groupBy": [], "having": [], "orderBy": [], "limit": 1, "intersect": None,
    "union": None, "except": None,
}  # fmt: skip


def test_spiders_parse_object_in_sql_is_not_taken_for_the_query(tmp_path):
    parsed = {**row(sql="SELECT 3"), "sql": PARSE}
    found = read_questions("spider", spider(tmp_path, dev=[parsed]))
    assert found.questions[0].sql == "SELECT 3"


def test_bird_fields_and_separate_database_folders(tmp_path):
    (tmp_path / "train.json").write_text(json.dumps([bird_row(db_id="a", evidence=" hint ")]))
    (tmp_path / "dev.json").write_text(
        json.dumps([bird_row(db_id="b", difficulty="simple", evidence=None)])
    )
    database(tmp_path / "train_databases/a/a.sqlite")
    database(tmp_path / "dev_databases/b/b.sqlite")
    train, dev = (read_questions("bird", tmp_path, split) for split in ("train", "dev"))
    assert (train.questions[0].evidence, train.questions[0].difficulty) == ("hint", "")
    assert (dev.questions[0].evidence, dev.questions[0].difficulty) == ("", "simple")
    assert train.databases.file("a") == tmp_path / "train_databases/a/a.sqlite"
    assert dev.databases.file("b") == tmp_path / "dev_databases/b/b.sqlite"


def test_bird_as_unpacked_with_train_and_dev_folders(tmp_path):
    for split in ("train", "dev"):
        database(tmp_path / split / f"{split}_databases/{split}db/{split}db.sqlite")
        rows = [bird_row(db_id=f"{split}db")]
        (tmp_path / split / f"{split}.json").write_text(json.dumps(rows))
    for split in ("train", "dev"):
        found = read_questions("bird", tmp_path, split)
        assert found.questions[0].file == f"{split}/{split}.json"
        assert found.databases.file(f"{split}db") is not None


def test_json_lines_are_told_by_content(tmp_path):
    lines = [json.dumps(row(question=f"q\u2028{i}"), ensure_ascii=False) for i in range(2)]
    found = read_questions("spider", spider(tmp_path, dev="\ufeff" + "\n\n".join(lines) + "\n"))
    assert [(q.question, q.row) for q in found.questions] == [("q\u20280", 0), ("q\u20281", 1)]


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
        read_questions("spider", spider(tmp_path, dev=[row(), bad]))


def test_a_spider_file_read_as_bird_names_the_field_that_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"field SQL: missing .the row has db_id, question"):
        read_questions("bird", spider(tmp_path))


def test_a_database_that_the_tables_file_does_not_know_is_an_error(tmp_path):
    spider(tmp_path, dev=[row(), row(db_id="shpo")], tables_json=[{"db_id": "shop"}])
    with pytest.raises(ValueError, match=r"dev\.json: row 1 .from 0.: field db_id: 'shpo'"):
        read_questions("spider", tmp_path)


def test_a_pointer_file_instead_of_a_database_is_an_error(tmp_path):
    spider(tmp_path)
    (tmp_path / "database/shop/shop.sqlite").write_text("version https://git-lfs.github.com")
    with pytest.raises(ValueError, match=r"shop\.sqlite: not a SQLite database"):
        read_questions("spider", tmp_path).databases.file("shop")


def test_an_absent_or_empty_folder_is_an_error_that_lists_the_names(tmp_path):
    with pytest.raises(ValueError, match="not a folder"):
        read_questions("spider", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"none of train\.json, .*mini_dev_sqlite\.json"):
        read_questions("bird", tmp_path)


def test_every_row_is_read_for_scoring_also_those_of_no_use_for_training(tmp_path):
    dev = [row(), row(), row(db_id="absent"), row(sql="SELECT", _gold_status="error")]
    found = read_questions("spider", spider(tmp_path, dev=dev))
    assert (found.split, len(found.questions)) == ("dev", 4)
    assert found.questions[3].status == "error"
    assert found.databases.file("absent") is None


def test_the_scored_split_is_the_first_of_the_sets_own_that_is_there(tmp_path):
    write(tmp_path / "mini_dev_sqlite.json", [bird_row()])
    assert scored_split("bird", tmp_path) == "mini_dev"
    write(tmp_path / "dev.json", [bird_row()])
    assert scored_split("bird", tmp_path) == "dev"
    assert read_questions("bird", tmp_path, "mini_dev").questions[0].file == "mini_dev_sqlite.json"
    with pytest.raises(ValueError, match=r"bird has no split valid; it has train, dev, mini_dev"):
        read_questions("bird", tmp_path, "valid")


@pytest.mark.parametrize("place", ["set", "parent"])
def test_spider_syn_asks_its_own_question_and_finds_spiders_databases_beside_it(tmp_path, place):
    asked = {
        "db_id": "shop",
        "SpiderQuestion": "old",
        "SpiderSynQuestion": "new",
        "query": "SELECT 1",
    }
    write(tmp_path / "Spider-Syn/dev.json", [asked])
    database(tmp_path / "spider/database/shop/shop.sqlite")
    write(tmp_path / "spider/tables.json", [{"db_id": "shop"}])
    found = read_questions("spider_syn", tmp_path / ("Spider-Syn" if place == "set" else ""))
    assert (found.questions[0].question, found.questions[0].difficulty) == ("new", "easy")
    assert found.databases.file("shop") == tmp_path / "spider/database/shop/shop.sqlite"


def test_spider_dk_has_databases_of_its_own_and_names_the_knowledge_a_row_needs(tmp_path):
    rows = [row(db_id="new_shop", type=0), row(db_id="shop", type=34), row(db_id="shop", type=2)]
    write(tmp_path / "spider_dk/Spider-DK.json", rows)
    database(tmp_path / "spider_dk/database/new_shop/new_shop.sqlite")
    database(tmp_path / "elsewhere/database/shop/shop.sqlite")
    found = read_questions("spider_dk", tmp_path / "spider_dk", databases=tmp_path / "elsewhere")
    assert [q.category for q in found.questions] == ["none", "T3+T4", "T2"]
    assert found.databases.file("new_shop") and found.databases.file("shop")


def test_spider_realistic_in_both_forms_gives_the_query_text(tmp_path):
    rows = [{**row(sql="SELECT 1"), "sql": ["SELECT 1"]}, {**row(sql="SELECT 2"), "sql": PARSE}]
    write(tmp_path / "spider-realistic.json", rows)
    found = read_questions("spider_realistic", tmp_path).questions
    assert [(q.sql, q.difficulty) for q in found] == [("SELECT 1", "easy"), ("SELECT 2", "easy")]


def test_spider_test_has_its_own_database_folder(tmp_path):
    write(tmp_path / "test.json", [row(db_id="late")])
    write(tmp_path / "test_tables.json", [{"db_id": "late"}])
    write(tmp_path / "tables.json", [{"db_id": "early"}])
    database(tmp_path / "test_database/late/late.sqlite")
    found = read_questions("spider", tmp_path, "test")
    assert found.databases.file("late") == tmp_path / "test_database/late/late.sqlite"


def test_ehrsql_rows_of_both_hospitals_with_unanswerable_ones_flagged(tmp_path):
    answerable = {**row(db_id="mimic_iii"), "department": "['nursing']", "is_impossible": False}
    unanswerable = {
        "db_id": "mimic_iii", "question": "?", "query": "null", "department": ["nursing"],
        "is_impossible": True,
    }  # fmt: skip
    write(tmp_path / "mimic_iii/valid.json", [answerable, unanswerable])
    write(tmp_path / "eicu/valid.json", [{**row(db_id="eicu"), "is_impossible": False}])
    database(tmp_path / "mimic_iii/mimic_iii.sqlite")
    found = read_questions("ehrsql", tmp_path, "valid")
    assert [(q.answerable, q.sql, q.index) for q in found.questions] == [
        (True, "SELECT 1", 0),
        (False, "", 1),
        (True, "SELECT 1", 2),
    ]
    assert {q.category for q in found.questions[:2]} == {"nursing"}
    assert found.databases.file("mimic_iii") == tmp_path / "mimic_iii/mimic_iii.sqlite"


def test_a_flag_that_is_no_flag_is_an_error(tmp_path):
    write(tmp_path / "dev.json", [{**row(), "is_impossible": "false"}])
    with pytest.raises(ValueError, match=r"row 0 .* field is_impossible: expected true or false"):
        read_questions("ehrsql", tmp_path)


def test_sciencebenchmark_by_domain_and_in_one_file(tmp_path):
    for domain in ("oncomx", "sdss"):
        write(tmp_path / f"{domain}/dev.json", [row(db_id=domain)])
    found = read_questions("sciencebenchmark", tmp_path).questions
    assert [(q.file, q.index) for q in found] == [("oncomx/dev.json", 0), ("sdss/dev.json", 1)]
    write(tmp_path / "one/dev.json", [row(db_id="oncomx")])
    assert read_questions("sciencebenchmark", tmp_path / "one").questions[0].file == "dev.json"


def synsql_row(**more) -> dict:
    return {
        "db_id": "shop", "sql_complexity": "Complex", "question_style": "Vague", "question": "q",
        "external_knowledge": "k", "cot": "c", "sql": "SELECT 1", **more,
    }  # fmt: skip


CHAT = (
    '<|im_start|>system\nBe helpful.\n\nDatabase Schema:\nCREATE TABLE "t" (\n  "x" TEXT\n)\n\n'
    "External Knowledge:\nk\n\nSQL Complexity Level: Complex\n<|im_end|>\n<|im_start|>user\nq\n"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n"
)


def test_synsql_rows_have_knowledge_complexity_and_style(tmp_path):
    write(tmp_path / "data.json", [synsql_row()])
    question = read_questions("synsql", tmp_path, "train").questions[0]
    assert (question.evidence, question.difficulty, question.category) == ("k", "Complex", "Vague")
    assert (question.sql, question.ddl) == ("SELECT 1", "")


def test_of_a_rendered_chat_only_the_schema_is_taken(tmp_path):
    rewarded = synsql_row(
        prompt=[{"role": "user", "content": CHAT}],
        reward_model={"style": "rule", "ground_truth": {"db_id": "shop", "sql": "SELECT 1"}},
    )
    sparse = {**rewarded}
    del sparse["sql"], sparse["db_id"]
    pq.write_table(pa.Table.from_pylist([rewarded, {**sparse, "sql": "SELECT 1", "db_id": "shop"}]),
                   tmp_path / "test.parquet")  # fmt: skip
    for question in read_questions("synsql", tmp_path).questions:
        assert question.ddl == 'CREATE TABLE "t" (\n  "x" TEXT\n)'
        assert (question.question, question.sql, question.db_id) == ("q", "SELECT 1", "shop")
    write(tmp_path / "data.json", [sparse])
    assert read_questions("synsql", tmp_path, "train").questions[0].db_id == "shop"


def test_a_reference_that_the_row_contradicts_is_an_error(tmp_path):
    truth = {"db_id": "shop", "sql": "SELECT 2"}
    write(tmp_path / "data.json", [synsql_row(reward_model={"ground_truth": truth})])
    with pytest.raises(ValueError, match=r"row 0 .*ground_truth\.sql: differs from field sql"):
        read_questions("synsql", tmp_path, "train")


def test_a_given_folder_of_databases_goes_first_and_may_hold_several_instances(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    spider(folder)
    for name in ("shop.sqlite", "shop_1.sqlite", "notes.txt"):
        database(tmp_path / "suite/shop" / name)
    found = read_questions("spider", folder, databases=tmp_path / "suite").databases
    assert [path.name for path in found.files("shop")] == ["shop.sqlite", "shop_1.sqlite"]
    assert found.file("shop") == tmp_path / "suite/shop/shop.sqlite"
    assert found.files("nowhere") == []


def test_the_schema_is_the_databases_own_else_that_of_the_tables_file(tmp_path):
    columns = [[-1, "*"], [0, "y"]]
    described = {
        "db_id": "big", "table_names_original": ["u"], "column_names_original": columns,
        "column_types": ["text", "number"], "primary_keys": [[1]], "foreign_keys": [],
    }  # fmt: skip
    tables = [{"db_id": "shop"}, described]
    spider(tmp_path, dev=[row(), row(db_id="big")], tables_json=tables)
    databases = read_questions("spider", tmp_path).databases
    assert databases.schema("shop").tables[0].name == "t"
    assert databases.schema("big").tables[0].columns[0].primary
    assert databases.schema("other") is None
    with pytest.raises(ValueError, match=r"tables\.json: .*shop: field table_names_original"):
        databases.schema("shop", comments=True)


def test_what_columns_mean_is_taken_from_the_tables_file_and_birds_descriptions(tmp_path):
    described = {
        "db_id": "shop", "table_names_original": ["T"], "column_types": ["text", "number"],
        "column_names_original": [[-1, "*"], [0, "X"]], "column_names": [[-1, "*"], [0, "extent"]],
        "primary_keys": [], "foreign_keys": [],
    }  # fmt: skip
    spider(tmp_path, tables_json=[described])
    databases = read_questions("spider", tmp_path).databases
    assert databases.schema("shop").tables[0].columns[0].comment == ""
    assert databases.schema("shop", comments=True).tables[0].columns[0].comment == "extent"
    folder = tmp_path / "database/shop/database_description"
    folder.mkdir()
    header = "original_column_name,column_name,column_description,data_format,value_description"
    text = f'{header}\nx ,ex,"how far, in caf\xe9s",integer,"0: near\n1: far"\n'
    for raw in (text.encode("cp1252"), text.encode("utf-8-sig")):
        (folder / "t.csv").write_bytes(raw)
        column = databases.schema("shop", comments=True).tables[0].columns[0]
        assert column.comment == "how far, in caf\xe9s; 0: near 1: far"
    (folder / "t.csv").write_text("name,meaning\n")
    with pytest.raises(ValueError, match=r"t\.csv: no header with original_column_name"):
        databases.schema("shop", comments=True)


needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")


def real(kind: str, name: str, split: str | None = None):
    return read_questions(kind, Path(os.environ["MRTPO_DATA"]) / name, split)


@needs_data
def test_real_sets_on_spiders_databases():
    syn = real("spider_syn", "spider_syn")
    assert len(syn.questions) == 1034
    assert "vocalists" in syn.questions[0].question
    dk = real("spider_dk", "spider_dk")
    assert Counter(q.category for q in dk.questions) == {
        "none": 270, "T1": 76, "T2": 63, "T3": 69, "T4": 20, "T5": 33, "T3+T4": 2, "T2+T3": 2,
    }  # fmt: skip
    realistic = real("spider_realistic", "spider_realistic")
    assert len(realistic.questions) == 508
    for found in (syn, dk, realistic):
        assert all(found.databases.file(q.db_id) for q in found.questions)


@needs_data
def test_real_bird_mini_dev_folder_has_no_databases():
    found = real("bird", "bird_minidev")
    assert Counter(q.difficulty for q in found.questions) == {
        "simple": 148,
        "moderate": 250,
        "challenging": 102,
    }
    assert sum(bool(q.evidence) for q in found.questions) == 498
    assert not any(found.databases.file(q.db_id) for q in found.questions)


@needs_data
def test_all_real_bird_mini_dev_references_compile_on_empty_databases(tmp_path):
    found = real("bird", "bird_minidev")
    for db_id in {q.db_id for q in found.questions}:
        write_empty(found.databases.schema(db_id), tmp_path / f"{db_id}.sqlite")
    for question in found.questions:
        with closing(connect_readonly(tmp_path / f"{question.db_id}.sqlite")) as connection:
            assert connection.execute(question.sql).fetchall() is not None


@needs_data
def test_real_ehrsql_rows_and_which_cannot_be_answered():
    valid, test = real("ehrsql", "ehrsql", "valid"), real("ehrsql", "ehrsql")
    assert test.split == "test"
    counts = [Counter((q.db_id, q.answerable) for q in found.questions) for found in (valid, test)]
    assert counts[0]["mimic_iii", False] == 362
    assert sum(counts[0].values()) == 1122 + 1117
    assert counts[1]["mimic_iii", False] == 588
    assert sum(counts[1].values()) == 1786 + 1792
    assert {t.name for t in valid.databases.schema("eicu").tables} > {"patient", "diagnosis"}


@needs_data
def test_real_synsql_rows_carry_their_schema():
    questions = real("synsql", "synsql_sample").questions
    assert len(questions) == 1000
    assert all(q.ddl.startswith("CREATE TABLE") for q in questions)
    assert not any("<|im_" in q.question + q.ddl + q.evidence for q in questions)
    assert len({q.db_id for q in questions}) == 961
    assert sum(bool(q.evidence) for q in questions) == 216
