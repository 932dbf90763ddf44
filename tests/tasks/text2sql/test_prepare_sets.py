"""Public sets as prompts: what is dropped, reduced and checked."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from made_up_sets import row, spider, write

from mrtpo.config import settings_from
from mrtpo.tasks.text2sql.prepare import prepare
from mrtpo.validation import DataError, validate_prompts
from mrtpo.verifiers.sql import SQLVerifier

NAMES = ("shop", *(f"db{i}" for i in range(10)))


@pytest.fixture(scope="module")
def verifier():
    made = SQLVerifier(settings_from({"verifier": {"processes": 1}}).verifier)
    yield made
    made.close()


def prepared(folder, tmp_path, verifier, source="spider", **data):
    settings = settings_from({"data": {"source": source, "path": str(folder), **data}})
    (tmp_path / "out").mkdir()
    return prepare(settings, tmp_path / "out", verifier)


def filled_folder(folder, **files):
    """Spider's layout with rows in its databases, ten questions for each of them."""
    folder.mkdir()
    files["train_spider_json"] = [
        row(db_id=name, question=f"{name}: over {i}?", sql=f"SELECT count(*) FROM t WHERE x > {i}")
        for name in NAMES[1:]
        for i in range(10)
    ] + files.pop("more", [])
    dev = [row(question=f"at {i}?", sql=f"SELECT x FROM t WHERE x = {i}") for i in range(5)]
    spider(folder, dev=dev, databases=NAMES, **files)
    for name in NAMES:
        with closing(sqlite3.connect(folder / f"database/{name}/{name}.sqlite")) as connection:
            connection.execute("INSERT INTO t VALUES (1), (2), (3)")
            connection.commit()
    return folder


def test_a_spider_folder_becomes_prompts_that_pass_validation(tmp_path, verifier):
    bad = [
        row(db_id="db2", question="broken", sql="SELECT y FROM t"),
        row(db_id="db2", question="empty", sql="SELECT x FROM t WHERE x = 9"),
        row(db_id="db2", question="long " * 300, sql="SELECT x FROM t"),
    ]
    folder = filled_folder(tmp_path / "in", more=bad)
    made = prepared(folder, tmp_path, verifier, max_prompt_chars=1000)
    counts = made.statistics
    assert counts["rows/train"] == 103 and counts["rows/test"] == 5
    dropped = {name.partition("/")[2]: n for name, n in counts.items() if "dropped/" in name}
    assert dropped == {
        "test/reference returns nothing": 2,
        "train/reference error": 1,
        "train/reference returns nothing": 1,
        "train/prompt over 1000 characters": 1,
    }
    assert {p.difficulty for p in made.prompts["train"]} == {"easy"}
    validate_prompts(pd.DataFrame(made.rows), made.limits, tmp_path / "docs", counts=counts)
    page = (tmp_path / "docs/index.html").read_text()
    assert "<td>dropped</td><td>test</td><td>reference returns nothing</td><td>2</td>" in page
    copied = {path.stem for path in (tmp_path / "out/databases").glob("*/*.sqlite")}
    assert copied == {p.source for prompts in made.prompts.values() for p in prompts}


def test_reduced_prompts_are_counted_by_step(tmp_path, verifier):
    folder = filled_folder(tmp_path / "in")
    limit = len("t: x\nQuestion: db0: over 0?")
    made = prepared(folder, tmp_path, verifier, sample_values=2, max_prompt_chars=limit)
    counts = made.statistics
    assert counts["reduced/train/samples"] == counts["prompts/train"] > 0
    assert max(row["prompt_size"] for row in made.rows) <= limit


@pytest.mark.parametrize(
    ("field", "value", "failing"),
    [("difficulty", None, "not_be_null"), ("difficulty", "hopeless", "be_in_set")],
)
def test_a_sets_own_fields_are_checked(tmp_path, verifier, field, value, failing):
    made = prepared(filled_folder(tmp_path / "in"), tmp_path, verifier)
    frame = pd.DataFrame(made.rows)
    frame.loc[3, field] = value
    with pytest.raises(DataError, match=rf"{failing}\({field}\): 1 row"):
        validate_prompts(frame, made.limits, tmp_path / "docs")


def test_birds_evidence_may_be_missing_here_and_there_but_not_everywhere(tmp_path, verifier):
    folder = filled_folder(tmp_path / "in")
    for old, new in (("train_spider.json", "train.json"), ("dev.json", "dev.json")):
        rows = pd.read_json(folder / old, orient="records").to_dict("records")
        for i, values in enumerate(rows):
            values["SQL"] = values.pop("query")
            values["evidence"] = "x is a number" if i % 4 else ""
        write(folder / new, rows)
    made = prepared(folder, tmp_path, verifier, source="bird")
    frame = pd.DataFrame(made.rows)
    validate_prompts(frame, made.limits, tmp_path / "docs")
    with pytest.raises(DataError, match=r"not_be_null\(evidence\)"):
        validate_prompts(frame.assign(evidence=None), made.limits, tmp_path / "docs")


needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")


@needs_data
@pytest.mark.parametrize("source", ["spider", "spider_syn"])
def test_real_sets_end_to_end(tmp_path, verifier, source):
    made = prepared(
        Path(os.environ["MRTPO_DATA"]) / source, tmp_path, verifier, source=source,
        train_prompts=300, valid_prompts=40, test_prompts=60, prompt="full", sample_values=2,
        match_values=True, max_prompt_chars=6000,
    )  # fmt: skip
    assert [len(made.prompts[split]) for split in ("train", "valid", "test")] == [300, 40, 60]
    counts = made.statistics
    assert counts["rows/train"] == 7000 and counts["rows/test"] == 1034
    assert any(name.startswith("reduced/train/") for name in counts)
    validate_prompts(pd.DataFrame(made.rows), made.limits, tmp_path / "docs", counts=counts)
