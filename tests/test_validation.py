from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from mrtpo.validation import COLUMNS, DataError, Limits, validate_prompts

LIMITS = Limits(max_prompt_chars=200)
KINDS = ("select", "join", "nested")


def table(rows: int = 36) -> pd.DataFrame:
    splits = [("train", "train", "valid", "test")[i // 3 % 4] for i in range(rows)]
    return pd.DataFrame(
        {
            "id": [f"q{i}" for i in range(rows)],
            "split": splits,
            "kind": [KINDS[i % 3] for i in range(rows)],
            "difficulty": [None if i % 2 else "easy" for i in range(rows)],
            "source": [f"{split}_db{i % 2}" for i, split in enumerate(splits)],
            "prompt": [f"\nHow <b>many</b> $x in {i}?" for i in range(rows)],
            "prompt_chars": [30 + i % 5 for i in range(rows)],
            "reference": "SELECT 1",
            "reference_status": "ok",
            "reference_rows": 1,
            "file": "made.json",
            "row": [100 + i for i in range(rows)],
            "fingerprint": [f"f{i}" for i in range(rows)],
        }
    )


def changed(column: str, place: int, value: object) -> pd.DataFrame:
    frame = table()
    frame[column] = frame[column].astype(object)
    frame.loc[place, column] = value
    return frame


def error(frame: pd.DataFrame, folder: Path, limits: Limits = LIMITS, extra=()) -> DataError:
    with pytest.raises(DataError) as caught:
        validate_prompts(frame, limits, folder / "docs", extra)
    return caught.value


def failed(found: DataError) -> list[tuple[str, str, int]]:
    return [(c.expectation, c.field, c.failed_rows) for c in found.summary.failures]


def test_a_sound_table_passes_and_every_column_is_checked(tmp_path):
    limits = replace(LIMITS, unseen_sources=True, largest_kind=0.4, smallest_kind=0.3)
    summary = validate_prompts(table(), limits, tmp_path / "docs")
    assert summary.rows == 36
    assert summary.failures == ()
    assert {c.field for c in summary.checks} >= set(COLUMNS) - {"difficulty"}
    assert "all passed" in (tmp_path / "docs/index.html").read_text()


@pytest.mark.parametrize(
    ("column", "value", "expectation"),
    [
        ("split", "tset", "expect_column_values_to_be_in_set"),
        ("prompt_chars", 201, "expect_column_values_to_be_between"),
        ("prompt_chars", 0, "expect_column_values_to_be_between"),
        ("reference_status", "timeout", "expect_column_values_to_be_in_set"),
        ("reference_rows", 0, "expect_column_values_to_be_between"),
        ("prompt", " \n ", "expect_column_values_to_match_regex"),
        ("reference", "", "expect_column_values_to_match_regex"),
        ("id", None, "expect_column_values_to_not_be_null"),
        ("kind", None, "expect_column_values_to_not_be_null"),
        ("prompt", None, "expect_column_values_to_not_be_null"),
        ("prompt_chars", None, "expect_column_values_to_not_be_null"),
        ("reference_status", None, "expect_column_values_to_not_be_null"),
        ("reference_rows", None, "expect_column_values_to_not_be_null"),
        ("fingerprint", None, "expect_column_values_to_not_be_null"),
    ],
)
def test_a_bad_value_fails_its_own_expectation_and_the_row_is_named(
    tmp_path, column, value, expectation
):
    found = error(changed(column, 7, value), tmp_path)
    assert failed(found) == [(expectation, column, 1)]
    (row,) = found.summary.failures[0].rows
    assert (row.file, row.row, row.field) == ("made.json", 107, column)
    assert row.id == "q7" or column == "id"
    assert f"{expectation}({column}): 1 row\n  made.json, row 107, id" in str(found)


def test_ids_must_be_unique_and_all_bearers_are_named(tmp_path):
    found = error(changed("id", 8, "q2"), tmp_path)
    assert failed(found) == [("expect_column_values_to_be_unique", "id", 2)]
    assert [row.row for row in found.summary.failures[0].rows] == [102, 108]


def test_a_question_in_two_splits_is_a_leak_and_both_rows_are_named(tmp_path):
    found = error(changed("fingerprint", 9, "f0"), tmp_path)  # 0 is in train, 9 in test
    ((_, field, rows),) = failed(found)
    assert (field, rows) == ("splits of fingerprint", 2)
    assert "made.json, row 100, id q0: splits of fingerprint = 'train+test (ids: q0, q9)'" in str(
        found
    )


def test_a_question_twice_in_one_split_is_no_leak(tmp_path):
    validate_prompts(changed("fingerprint", 1, "f0"), LIMITS, tmp_path / "docs")


def test_a_plus_in_an_id_or_fingerprint_is_no_leak(tmp_path):
    frame = table().assign(id=lambda f: f["id"] + "+x", fingerprint=lambda f: f["id"] + "+y")
    validate_prompts(frame, LIMITS, tmp_path / "docs")


def test_a_database_in_train_and_test_is_a_leak_only_where_sources_must_be_unseen(tmp_path):
    frame = changed("source", 9, "train_db0")
    validate_prompts(frame, LIMITS, tmp_path / "docs")
    found = error(frame, tmp_path, replace(LIMITS, unseen_sources=True))
    assert {c.field for c in found.summary.failures} == {"splits of source"}
    assert "made.json, row 109, id q9" in str(found)


def test_train_and_valid_may_share_a_database(tmp_path):
    limits = replace(LIMITS, unseen_sources=True)
    validate_prompts(changed("source", 6, "train_db0"), limits, tmp_path / "docs")


def test_each_split_must_have_rows(tmp_path):
    frame = table()
    found = error(frame[frame["split"] != "test"], tmp_path)
    assert failed(found) == [("expect_column_distinct_values_to_contain_set", "split", 0)]
    assert "missing: test" in str(found)


def test_a_kind_that_is_too_frequent_is_named_with_its_split_and_share(tmp_path):
    found = error(changed("kind", 10, "select"), tmp_path, replace(LIMITS, largest_kind=0.4))
    assert failed(found) == [("expect_column_values_to_be_between", "share", 1)]
    assert "test/select: share = 0.44" in str(found)


def test_a_kind_that_a_split_lacks_is_named(tmp_path):
    frame = table()
    frame.loc[(frame["split"] == "valid") & (frame["kind"] == "join"), "kind"] = "select"
    validate_prompts(frame, LIMITS, tmp_path / "docs")  # without bounds any mix will do
    found = error(frame, tmp_path, replace(LIMITS, smallest_kind=0.1))
    assert "valid/join: share = 0.0" in str(found)


def test_missing_columns_are_named(tmp_path):
    found = error(table().drop(columns=["kind", "fingerprint"]), tmp_path)
    assert "missing: fingerprint, kind" in str(found)
    assert (tmp_path / "docs/index.html").exists()


def test_reference_columns_may_be_left_out_where_references_do_not_run(tmp_path):
    frame = table().drop(columns=["reference_status", "reference_rows"])
    assert "reference_rows, reference_status" in str(error(frame, tmp_path))
    validate_prompts(frame, replace(LIMITS, reference_runs=False), tmp_path / "docs")


def test_further_text_columns_are_required_and_checked(tmp_path):
    limits = replace(LIMITS, text=("prompt", "reference", "question"))
    assert "missing: question" in str(error(table(), tmp_path, limits))
    frame = table().assign(question=" ")
    assert failed(error(frame, tmp_path, limits))[0][1:] == ("question", 36)


def test_an_empty_table_fails(tmp_path):
    assert "expect_table_row_count_to_be_between: found 0" in str(error(table(0), tmp_path))


def test_extra_expectations_are_run_and_report_rows(tmp_path):
    from great_expectations import expectations as ex

    extra = [
        ex.ExpectColumnValuesToBeInSet(column="tools", value_set=[1]),
        ex.ExpectColumnPairValuesAToBeGreaterThanB(column_A="row", column_B="prompt_chars"),
    ]
    found = error(table().assign(tools=[1] * 35 + [2], row=range(36)), tmp_path, extra=extra)
    assert failed(found)[0] == ("expect_column_values_to_be_in_set", "tools", 1)
    assert "made.json, row 35, id q35: tools = 2" in str(found)
    assert "made.json, row 0, id q0: row, prompt_chars = (0, 30)" in str(found)


@pytest.mark.parametrize("column", ["absent", "source"])
def test_an_exception_inside_an_expectation_is_an_error(tmp_path, column):
    from great_expectations import expectations as ex

    extra = [ex.ExpectColumnValuesToBeBetween(column=column, min_value=3)]
    found = error(table(), tmp_path, extra=extra)
    assert f"expect_column_values_to_be_between({column}): could not be evaluated: " in str(found)


def test_a_column_of_the_wrong_type_is_an_error(tmp_path):
    frame = table().assign(prompt_chars="long")
    assert "(prompt_chars): could not be evaluated" in str(error(frame, tmp_path))


def test_many_failing_rows_are_counted_but_not_all_listed(tmp_path):
    found = error(table(3000).assign(reference_status="error"), tmp_path)
    assert failed(found) == [("expect_column_values_to_be_in_set", "reference_status", 3000)]
    assert "… and 2995 more" in str(found)
    assert len(str(found)) < 1000
    assert (tmp_path / "docs/prompts.html").stat().st_size < 100_000


def test_long_values_are_cut_in_the_message(tmp_path):
    found = error(changed("split", 3, "x" * 9000), tmp_path)
    assert len(str(found)) < 500


def test_the_index_of_the_frame_does_not_matter(tmp_path):
    frame = changed("split", 7, "tset").iloc[::-1]
    assert [row.row for row in error(frame, tmp_path).summary.failures[0].rows] == [107]


def test_docs_after_a_failure_show_the_rows_and_need_no_network(tmp_path):
    from great_expectations import expectations as ex

    frame = changed("prompt", 7, " ")
    frame.loc[8, "split"] = "<script>alert(1)</script>"
    extra = [ex.ExpectColumnValuesToBeUnique(column="absent")]
    limits = replace(LIMITS, smallest_kind=0.9)
    error(frame, tmp_path, limits, extra)
    pages = {path.name: path.read_text() for path in (tmp_path / "docs").iterdir()}
    assert sorted(pages) == ["balance.html", "index.html", "prompts.html"]
    assert "<td>made.json</td><td>107</td><td>q7</td><td>prompt</td>" in pages["index.html"]
    assert "must be unique" in pages["prompts.html"]
    for text in pages.values():
        assert "<script" not in text
        assert not re.search(r"https?:|//[a-z]|url\(|@import|<link|<img", text)
        assert "Traceback" not in text
        for target in re.findall(r'href="([^"#]+)"', text):
            assert target in pages


def test_docs_of_an_earlier_run_are_replaced(tmp_path):
    validate_prompts(table(), replace(LIMITS, smallest_kind=0.1), tmp_path / "docs")
    for page in (tmp_path / "docs").iterdir():
        page.chmod(0o444)
    validate_prompts(table(), LIMITS, tmp_path / "docs")
    names = sorted(path.name for path in (tmp_path / "docs").iterdir())
    assert names == ["index.html", "prompts.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


def test_docs_are_the_same_bytes_again_and_in_another_process(tmp_path):
    from great_expectations import expectations as ex

    frame = changed("reference_status", 7, "error")
    extra = [ex.ExpectColumnValuesToBeUnique(column="absent")]
    error(frame, tmp_path / "a", extra=extra)
    time.sleep(1.1)  # a time in the page would differ
    error(frame, tmp_path / "b", extra=extra)
    frame.to_parquet(tmp_path / "frame.parquet")
    script = (
        "import pandas as pd, pathlib, sys\n"
        "from great_expectations import expectations as ex\n"
        "from mrtpo.validation import *\n"
        "frame = pd.read_parquet(sys.argv[1])\n"
        "extra = [ex.ExpectColumnValuesToBeUnique(column='absent')]\n"
        "try:\n"
        "    validate_prompts(frame, Limits(200), pathlib.Path(sys.argv[2]), extra)\n"
        "except DataError:\n"
        "    print('failed as it should')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "frame.parquet", tmp_path / "c/docs"],
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "failed as it should\n"
    for name in ("index.html", "prompts.html"):
        first = (tmp_path / "a/docs" / name).read_bytes()
        assert (tmp_path / "b/docs" / name).read_bytes() == first
        assert (tmp_path / "c/docs" / name).read_bytes() == first


def test_importing_the_module_does_not_import_great_expectations():
    script = "import sys, mrtpo.validation; print('great_expectations' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_ten_thousand_rows_take_seconds(tmp_path):
    import great_expectations  # noqa: F401  (its import is not what is timed)

    limits = replace(LIMITS, unseen_sources=True, largest_kind=0.4, smallest_kind=0.3)
    frame, start = table(10_000), time.process_time()
    validate_prompts(frame, limits, tmp_path / "docs")
    assert time.process_time() - start < 10
