"""Which questions of a public set are for what, and which are dropped why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from made_up_sets import bird_row, database, row, spider, write

from mrtpo.tasks.text2sql import splits
from mrtpo.tasks.text2sql.sources import read_questions
from mrtpo.tasks.text2sql.splits import copy_databases, fingerprint, read_splits, useful

WANTED = {"train": 100, "valid": 2, "test": 2}


def read(kind, folder, seed=0, **more):
    return read_splits(kind, folder, wanted=WANTED, seed=seed, **more)


def sizes(found):
    return {split: len(rows) for split, rows in found.questions.items()}


def databases_of(found, split):
    return {question.db_id for question in found.questions[split]}


TRAIN_DBS = tuple(f"db{i}" for i in range(10))


def training(count=3):
    return [row(db_id=name, question=f"{name} {i}") for name in TRAIN_DBS for i in range(count)]


def test_test_is_the_scored_split_and_valid_whole_databases_of_train(tmp_path):
    spider(tmp_path, databases=("shop", *TRAIN_DBS), train_spider_json=training())
    found = read("spider", tmp_path)
    assert sizes(found) == {"train": 27, "valid": 3, "test": 1}
    assert databases_of(found, "valid").isdisjoint(databases_of(found, "train"))
    assert found.rows == {"train": 30, "valid": 0, "test": 1}
    assert not any(found.dropped.values())
    again, other = (databases_of(read("spider", tmp_path, seed), "valid") for seed in (0, 1))
    assert again == databases_of(found, "valid") != other


def test_failing_references_repetitions_and_missing_databases_are_dropped_and_counted(tmp_path):
    dev = [
        row(question="kept", _gold_status="ok"),
        row(question="kept", _gold_status=None),
        row(question="kept", sql="SELECT 2"),
        row(question="e", _gold_status="empty"),
        row(question="f", _gold_status="error"),
        row(question="g", db_id="elsewhere"),
    ]
    found = read_questions("spider", spider(tmp_path, dev=dev))
    kept, dropped = useful(found.questions, found.databases)
    assert [(q.question, q.sql) for q in kept] == [("kept", "SELECT 1"), ("kept", "SELECT 2")]
    assert dropped == {
        "database missing": 1,
        "duplicate": 1,
        "gold status empty": 1,
        "gold status error": 1,
    }
    assert len(kept) + sum(dropped.values()) == len(dev)


def test_what_the_test_has_leaves_training(tmp_path):
    leaked = row(question="how MANY")
    train = [*training(), leaked, row(db_id="shop", question="other")]
    databases = ("shop", *TRAIN_DBS)
    spider(tmp_path, databases=databases, train_spider_json=train)
    found = read("spider", tmp_path)
    assert found.dropped["train"] == {"database also in test": 2}
    write(tmp_path / "ehr/mimic_iii/train.json", [leaked, row(question="else"), row(question="x")])
    write(tmp_path / "ehr/mimic_iii/valid.json", [row(question="ELSE!")])
    write(tmp_path / "ehr/mimic_iii/test.json", [row(question="How many?")])
    database(tmp_path / "ehr/database/shop/shop.sqlite")
    found = read("ehrsql", tmp_path / "ehr")
    assert found.dropped["train"] == {"also in test": 1, "also in valid": 1}
    assert sizes(found) == {"train": 1, "valid": 1, "test": 1}


def test_unanswerable_questions_are_dropped(tmp_path):
    impossible = {"db_id": "shop", "question": "?", "query": "null", "is_impossible": True}
    for split in ("train", "valid", "test"):
        rows = [row(question=split), impossible]
        write(tmp_path / f"mimic_iii/{split}.json", rows)
    database(tmp_path / "shop/shop.sqlite")
    found = read("ehrsql", tmp_path)
    assert [found.dropped[split] for split in WANTED] == [{"unanswerable": 1}] * 3


def test_without_databases_of_their_own_splits_are_carved_by_questions_with_all_wordings(tmp_path):
    seeds = [row(question=f"q {i}", sql=f"SELECT {i // 2}") for i in range(20)]
    write(tmp_path / "oncomx/seed.json", [*seeds, row(question="Q 3?", sql="SELECT 1")])
    write(tmp_path / "oncomx/dev.json", [row(question="t")])
    database(tmp_path / "databases/shop/shop.sqlite")
    found = read("sciencebenchmark", tmp_path)
    assert sizes(found)["valid"] in (3, 4) and sum(sizes(found).values()) == 22
    prints = {fingerprint(question) for question in found.questions["valid"]}
    assert prints.isdisjoint(fingerprint(question) for question in found.questions["train"])


def test_a_set_of_one_file_is_divided_by_databases(tmp_path):
    rows = [{**row(db_id=name), "sql": "SELECT 1"} for name in TRAIN_DBS]
    write(tmp_path / "data.json", rows)
    for name in TRAIN_DBS:
        database(tmp_path / f"databases/{name}/{name}.sqlite")
    assert sizes(read("synsql", tmp_path)) == {"train": 7, "valid": 1, "test": 2}


def test_of_a_huge_split_so_many_rows_are_drawn_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "MOST", 20)
    spider(tmp_path, databases=("shop", *TRAIN_DBS), train_spider_json=training())
    found = read("spider", tmp_path)
    assert found.dropped["train"] == {"not drawn": 10}
    rows = sorted(q.row for split in ("train", "valid") for q in found.questions[split])
    assert len(rows) == 20
    assert [q.row for q in found.questions["train"]] == sorted(
        q.row for q in found.questions["train"]
    )
    assert {q.row for q in read("spider", tmp_path, seed=1).questions["train"]} != set(rows)


@pytest.mark.parametrize("kind", ["spider_dk", "spider_realistic"])
def test_a_set_for_tests_only_says_so(tmp_path, kind):
    name = {"spider_dk": "Spider-DK.json", "spider_realistic": "spider-realistic.json"}[kind]
    write(tmp_path / name, [row()])
    with pytest.raises(ValueError, match=rf"{kind} has no questions for training.* score {kind}"):
        read(kind, tmp_path)


def test_without_training_files_the_error_names_them(tmp_path):
    write(tmp_path / "mini_dev_sqlite.json", [bird_row()])
    database(tmp_path / "databases/shop/shop.sqlite")
    with pytest.raises(ValueError, match=r"no questions for training: none of train\.json, "):
        read("bird", tmp_path)


def test_no_database_at_all_is_an_error_that_says_where_they_belong(tmp_path):
    spider(tmp_path, databases=(), train_spider_json=[row()])
    with pytest.raises(ValueError, match=r"any of 1 questions of train; .*data\.databases_path"):
        read("spider", tmp_path)
    spider(tmp_path, dev=[row(db_id="late")], train_spider_json=[row()])
    with pytest.raises(ValueError, match=r"any of 1 questions of test; looked for .*/database"):
        read("spider", tmp_path)


def test_nothing_but_failing_references_is_an_error(tmp_path):
    spider(tmp_path, train_spider_json=[row(_gold_status="empty")])
    with pytest.raises(ValueError, match=r"no question of train is left .gold status empty: 1"):
        read("spider", tmp_path)


def test_too_few_databases_to_set_some_aside_is_an_error(tmp_path):
    spider(tmp_path, databases=("shop", "a"), train_spider_json=[row(db_id="a")])
    with pytest.raises(ValueError, match=r"1 training databases are too few .* for valid"):
        read("spider", tmp_path)


def test_only_named_databases_are_copied_and_as_files_of_their_own(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    spider(folder, databases=("shop", "other"))
    databases = read_questions("spider", folder).databases
    databases.file("shop").chmod(0o444)
    for _ in range(2):  # a second run replaces what the first has left
        copy_databases(databases, {"shop"}, tmp_path / "out")
    copied = [p.relative_to(tmp_path / "out").as_posix() for p in tmp_path.glob("out/**/*.*")]
    assert copied == ["databases/shop/shop.sqlite"]
    target = tmp_path / "out/databases/shop/shop.sqlite"
    assert target.read_bytes() == databases.file("shop").read_bytes()
    assert not target.is_symlink()
    assert target.stat().st_nlink == 1


needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")


@needs_data
def test_real_spider_folder():
    wanted = {"train": 4000, "valid": 200, "test": 400}
    folder = Path(os.environ["MRTPO_DATA"]) / "spider"
    found = read_splits("spider", folder, wanted=wanted, seed=0)
    assert found.rows == {"train": 7000, "valid": 0, "test": 1034}
    assert found.dropped["train"] == {
        "duplicate": 7,
        "gold status empty": 148,
        "gold status error": 3,
        "gold status no_db": 554,
    }
    assert len(found.questions["train"]) + len(found.questions["valid"]) == 6295 - 7
    assert 300 <= len(found.questions["valid"]) < 450
    assert len(found.questions["test"]) == 1034


@needs_data
@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("bird", "bird_minidev", "no questions for training: none of train.json"),
        ("ehrsql", "ehrsql", "no questions for training: none of mimic_iii/train.json"),
        ("synsql", "synsql_sample", "no database file for any of 1000 questions of train"),
    ],
)
def test_real_folders_that_lack_what_training_needs_say_what(kind, name, message):
    with pytest.raises(ValueError, match=message):
        read(kind, Path(os.environ["MRTPO_DATA"]) / name)
