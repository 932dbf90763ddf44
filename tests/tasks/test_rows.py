"""Rows of JSON lists, JSON lines and parquet, told by content."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mrtpo.tasks import rows
from mrtpo.tasks.rows import field_text, read_rows

ITEMS = [{"a": "x\u2028y"}, {"a": [1, {"b": "]"}]}, {"a": None}, {}]
LIST = json.dumps(ITEMS, ensure_ascii=False, indent=1)
LINES = "\n\n".join(json.dumps(item, ensure_ascii=False) for item in ITEMS) + "\n"


@pytest.mark.parametrize("text", [LIST, LINES, "\ufeff" + LIST, "\ufeff" + LINES, "\n " + LIST])
@pytest.mark.parametrize("chunk", [1, 7, 2**20])
def test_lists_and_lines_give_the_same_rows_however_they_are_read(
    tmp_path, monkeypatch, text, chunk
):
    monkeypatch.setattr(rows, "_CHUNK", chunk)
    (tmp_path / "data.txt").write_text(text, encoding="utf-8")
    assert list(read_rows(tmp_path / "data.txt")) == list(enumerate(ITEMS))


def test_parquet_is_told_by_content(tmp_path):
    items = [{"a": "x", "b": {"c": i}} for i in range(600)]
    pq.write_table(pa.Table.from_pylist(items), tmp_path / "data.json")
    assert list(read_rows(tmp_path / "data.json")) == list(enumerate(items))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{},\n{]", "line 2: not JSON"),
        ("[{}\n{}]", "line 2: not JSON: expected , or ]"),
        ("[{},\n{}", "line 2: not JSON"),
        ("[{}]\n\n{}", "line 3: not JSON: text after the list"),
        ('{"a": 1}\n\n{"a"', "line 3: not JSON"),
        ("[]", "no rows"),
        (" \n", "no rows"),
        ("", "no rows"),
        ("[{}, 12]", "row 1 .from 0.: expected an object"),
        ("1", "row 0 .from 0.: expected an object"),
        ("PAR1 and no more", "not a parquet file"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 2**20])
def test_a_file_that_is_no_list_of_rows_is_an_error(tmp_path, monkeypatch, text, message, chunk):
    monkeypatch.setattr(rows, "_CHUNK", chunk)
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json: " + message):
        list(read_rows(tmp_path / "bad.json"))


@pytest.mark.parametrize("text", ['[{"a": "café"}]', '{"a": "café"}'])
def test_text_in_another_encoding_is_an_error_with_the_file(tmp_path, text):
    (tmp_path / "bad.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"bad\.json: .*not UTF-8"):
        list(read_rows(tmp_path / "bad.json"))


def test_a_field_that_is_not_text_is_named_with_its_row(tmp_path):
    with pytest.raises(ValueError, match=r"f: row 3 .from 0.: field a: expected text, found int"):
        field_text(tmp_path / "f", 3, {"a": 1}, "a")
    with pytest.raises(ValueError, match=r"field b: missing .the row has a"):
        field_text(tmp_path / "f", 3, {"a": 1}, "b")
    assert field_text(tmp_path / "f", 3, {"a": None}, "a", optional=True) == ""
