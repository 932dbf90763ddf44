"""Prompts and rollouts through parquet, whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import prompt

from mrtpo.records import (
    PROMPT_SCHEMA,
    ROLLOUT_SCHEMA,
    Reward,
    Rollout,
    read_prompts,
    read_rollouts,
    read_rows,
    write_parquet,
    write_prompts,
    write_rollouts,
)

ROLLOUTS = [
    Rollout(
        "p0", 3, (1, 2, 3), (4, 5, 2), (-0.5, -1.25, -3.0), "Ünïcode\n\0 <b>'\"", True,
        (Reward("format", 1.0, "ok", "fine"), Reward("execution", None, "timeout", "2 s"),
         Reward("executability", 0.0, "error", "no such column: ×")),
        (Reward("spider_exec", None, "refused"),),
    ),
    Rollout("p1", 0, (1,), (2,), (-0.1015625,), "", False),
]  # fmt: skip


def test_prompts_come_back_as_they_were_written(tmp_path: Path) -> None:
    prompts = [prompt(0), prompt(1, reference="", information=()), prompt(2, source="ünï\0\n")]
    file = tmp_path / "deep" / "er" / "train.parquet"
    write_prompts(file, prompts)
    assert read_prompts(file) == prompts


def test_rollouts_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "rollouts.parquet"
    write_rollouts(file, ROLLOUTS)
    made = read_rollouts(file)
    assert made == ROLLOUTS
    assert made[0].rewards[1].value is None  # never a silent 0
    assert isinstance(made[0].response_ids, tuple)


def test_no_rows_are_a_file_of_no_rows(tmp_path: Path) -> None:
    write_prompts(tmp_path / "none.parquet", [])
    assert read_prompts(tmp_path / "none.parquet") == []
    write_rollouts(tmp_path / "none.parquet", [])
    assert read_rollouts(tmp_path / "none.parquet") == []


def test_a_missing_column_is_named_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "old.parquet"
    write_prompts(file, [prompt(0)])
    pq.write_table(pq.read_table(file).drop_columns(["payload", "kind"]), file)
    with pytest.raises(ValueError, match=r"old.parquet: columns missing: kind, payload"):
        read_prompts(file)
    assert len(read_rows(file)) == 1
    assert read_rows(file, pa.schema([("id", pa.string())]))[0]["id"] == "p0"


def test_a_column_more_is_no_trouble(tmp_path: Path) -> None:
    file = tmp_path / "new.parquet"
    write_prompts(file, [prompt(0)])
    pq.write_table(pq.read_table(file).append_column("note", [["by a later version"]]), file)
    assert read_prompts(file) == [prompt(0)]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for read in (read_prompts, read_rollouts):
        with pytest.raises(FileNotFoundError, match=r"gone.parquet: not there; run the stage"):
            read(tmp_path / "gone.parquet")


@pytest.mark.parametrize("failing", ["rows", "disk", "rename"])
def test_a_write_that_fails_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    file = tmp_path / "rollouts.parquet"
    write_rollouts(file, ROLLOUTS)
    rows: list[Any] = ROLLOUTS[1:]

    def die(*_: Any) -> None:
        raise OSError("no space left")

    if failing == "rows":
        rows = [*rows, replace(ROLLOUTS[1], sample="many")]  # type: ignore[arg-type]
    elif failing == "disk":
        monkeypatch.setattr("mrtpo.records.pq.write_table", die)
    else:
        monkeypatch.setattr(Path, "replace", die)
    with pytest.raises((OSError, pa.ArrowException)):
        write_rollouts(file, rows)
    monkeypatch.undo()
    assert read_rollouts(file) == ROLLOUTS
    write_rollouts(file, ROLLOUTS[1:])
    assert read_rollouts(file) == ROLLOUTS[1:]


def test_rows_may_be_mappings_and_nothing_in_them_is_lost(tmp_path: Path) -> None:
    schema = pa.schema([("name", pa.string()), ("score", pa.float64())])
    file = tmp_path / "rows.parquet"
    rows = [{"name": "a", "score": 0.1}, {"name": "b", "score": None}]
    write_parquet(file, rows, schema)
    assert read_rows(file, schema) == rows
    with pytest.raises(ValueError, match=r"rows.parquet: .*no column: grade"):
        write_parquet(file, [{"name": "a", "score": 0.1, "grade": 1}], schema)
    assert read_rows(file, schema) == rows


def test_schemas_have_a_column_for_each_field() -> None:
    assert PROMPT_SCHEMA.names == [*prompt(0).__dataclass_fields__]
    assert ROLLOUT_SCHEMA.names == [*ROLLOUTS[0].__dataclass_fields__]
