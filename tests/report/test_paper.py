"""The paper's figures: which response, which number, the data beside them, and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import made_up
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_up import evaluations_frame, history_frame, past_runs
from matplotlib.figure import Figure
from typer.testing import CliRunner, Result

from mrtpo.__main__ import app
from mrtpo.config import Settings, settings_from
from mrtpo.report.credit import replay_example
from mrtpo.report.curves import comparison_of_runs, curves, read_comparison
from mrtpo.report.opening import opened
from mrtpo.report.paper import (
    PENALISED,
    TABLED,
    Made,
    attribution_figures,
    comparison_figures,
    curve_table,
    replace_figures,
    share_table,
    token_table,
    write_figures,
)
from mrtpo.report.source import Attributed
from mrtpo.report.written import read_index

MEASURED = ("logprob_with", "logprob_without", "distance")
PER_TOKEN = ("tokens", "parts", "logprob_with", "logprob_without", "distance", "weight")


def attribution_rows(prompts: int = 3, samples: int = 2) -> list[dict[str, Any]]:
    """Made-up rows of the last tokens: what is drawn in a test should be little."""
    rows = made_up.attribution_rows(prompts, samples)
    return [row | {name: row[name][-50:] for name in PER_TOKEN} for row in rows]


def made(rows: list[dict[str, Any]] | None = None, task: str = "text2sql") -> Attributed:
    return Attributed(rows or attribution_rows(), {}, settings_from({"task": task}))


def record(path: Path, task: str = "tools") -> Path:
    runs = [
        {"method": m, "seed": s,
         "test": {"spider_exec": 0.5 + 0.1 * s, "format": 0.9, "prompts": 9},
         "history": history_frame(m, s).to_dict("list"),
         "evaluations": evaluations_frame(m, s).to_dict("list")}
        for m in ("gdpo", "mrtpo") for s in range(2)
    ]  # fmt: skip
    path.write_text(json.dumps({"task": task, "runs": runs}))
    return path


def attribution_file(folder: Path) -> Path:
    file = folder / "attribution.parquet"
    pq.write_table(pa.Table.from_pylist(attribution_rows()), file)
    return file


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["figures", *map(str, arguments)])


@pytest.mark.parametrize(("task", "replay"), [("text2sql", "3"), ("tools", "7")])
def test_the_replay_has_the_number_of_its_task(task: str, replay: str) -> None:
    found = attribution_figures(made(task=task))
    assert [one.number for one in found] == ["1", "2", replay, "6"]
    assert all(one.caption for one in found)


def test_the_replay_shows_the_penalty_of_executability() -> None:
    (replay,) = [one for one in attribution_figures(made()) if one.number == "3"]
    penalties = replay.data[(replay.data["reward"] == "executability") & (replay.data["gdpo"] < 0)]
    assert len(penalties) == len(attribution_rows()[0]["tokens"])
    assert penalties.loc[penalties["weight"].idxmax(), "token"] in ("telefo", "ne")


def test_the_response_may_be_chosen_and_is_then_that_of_all() -> None:
    found = attribution_figures(made(), "synthetic-0001", 1)
    for one in found[:3]:
        assert set(one.data["prompt_id"]) == {"synthetic-0001"}
        assert set(one.data["sample"]) == {1}


def test_without_a_distance_there_is_no_figure_of_it() -> None:
    rows = [row | {"skipped": True, "distance": [], "weight": []} for row in attribution_rows()]
    assert [one.number for one in attribution_figures(made(rows))] == ["1", "2"]
    with pytest.raises(ValueError, match="nothing to draw"):
        attribution_figures(Attributed([], {}, Settings()))


def test_the_table_of_tokens_has_what_the_rows_say() -> None:
    rows = attribution_rows()[:3]
    table = token_table(rows)
    for row in rows:
        own = table[table["reward"] == row["reward"]]
        assert own["token"].tolist() == row["tokens"]
        for name in ("logprob_with", "logprob_without", "distance", "weight"):
            assert own[name].tolist() == row[name]
        assert own["mrtpo"].tolist() == [row["advantage"] * w for w in row["weight"]]
        assert set(own["gdpo"]) == {row["advantage"]}
    skipped = token_table([attribution_rows()[-1]])
    assert skipped["distance"].isna().all() and set(skipped["weight"]) == {1.0}


def test_the_table_for_mlflow_has_the_largest_weights_first_and_is_bounded() -> None:
    rows = attribution_rows(1, 1)
    many = [row | {"reward": f"r{n}"} for n in range(20) for row in rows]
    one = Made("1", "", Figure(), token_table(many))
    assert len(one.data) > TABLED
    table = one.table()
    assert len(table) == TABLED
    assert table["weight"].is_monotonic_decreasing
    assert table["weight"].min() >= one.data["weight"].nsmallest(len(one.data) - TABLED).max()


def test_shares_are_told_by_part_and_by_top_beside_the_uniform_share() -> None:
    table = share_table(attribution_rows())
    top = table[(table["of"] == "top") & (table["reward"] == "format")]
    assert top["share"].tolist()[-1] == pytest.approx(1.0)
    assert top["uniform"].tolist() == [float(name) for name in top["name"]]
    parts = table[(table["of"] == "part") & (table["reward"] == "format")]
    assert parts["share"].sum() == pytest.approx(1.0)
    assert parts["uniform"].sum() == pytest.approx(1.0)


def test_curves_of_tool_calls_are_figure_4_and_of_others_figure_5(tmp_path: Path) -> None:
    records = [record(tmp_path / f"{t}.json", t) for t in ("tools", "text2sql", "instruct")]
    found = [read_comparison(file) for file in records]
    numbers = [one.number for one in comparison_figures(found)]
    assert numbers == ["4", "5-text2sql", "5-instruct"]
    with pytest.raises(ValueError, match="several records of task tools"):
        comparison_figures([found[0], found[0]])


def test_curves_have_every_seed_in_their_data(tmp_path: Path) -> None:
    found = read_comparison(record(tmp_path / "curves.json"))
    table = curve_table(found)
    own = table[(table["of"] == "training") & (table["score"] == "reward/format/mean")]
    shown = curves(found.history, "reward/format/mean", smoothed=False)["gdpo"]
    slow = own[own["method"] == "gdpo"].groupby("step")["value"].median()
    assert slow.tolist() == pytest.approx(shown.middle)
    tests = table[table["of"] == "test"]
    assert set(tests["score"]) == {"spider_exec"}
    assert sorted(tests["value"]) == [0.5, 0.5, 0.6, 0.6]


def test_runs_of_mlflow_give_what_their_record_would() -> None:
    found = comparison_of_runs("text2sql", past_runs())
    expected = evaluations_frame("gdpo", 1)["spider_exec"].tolist()
    frame = found.evaluations
    own = frame[(frame["method"] == "gdpo") & (frame["seed"] == 1)].sort_values("step")
    assert own["spider_exec"].tolist() == expected
    assert found.tested == "spider_exec"
    assert len(found.tests) == 9
    assert [one.number for one in comparison_figures([found])] == ["5-text2sql"]
    with pytest.raises(ValueError, match="no finished run of task tools"):
        comparison_of_runs("tools", [])


def test_figures_are_written_with_their_data_and_a_list_that_grows(tmp_path: Path) -> None:
    write_figures(tmp_path, attribution_figures(made()))
    compared = comparison_figures([read_comparison(record(tmp_path / "curves.json"))])
    written = write_figures(tmp_path, compared)
    assert [one.number for one in written] == ["1", "2", "3", "4", "6"]
    assert read_index(tmp_path) == written
    for one in written:
        assert (tmp_path / one.svg).read_text().startswith("<?xml")
        assert (tmp_path / one.png).read_bytes().startswith(b"\x89PNG")
        assert len(pd.read_csv(tmp_path / one.data)) > 10
    assert [one.number for one in replace_figures(tmp_path, compared)] == ["4"]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "figure-4.csv", "figure-4.png", "figure-4.svg", "figures.json",
    ]  # fmt: skip


def test_the_command_draws_an_attribution_file_and_records_of_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = command(
        attribution_file(tmp_path), "--out", out, "--curves", record(tmp_path / "c.json")
    )
    assert done.exit_code == 0, done.output
    assert [one.number for one in read_index(out)] == ["1", "2", "3", "4", "6"]
    with open(out / "figure-2.csv", newline="") as file:
        tokens = [row["token"] for row in csv.DictReader(file) if row["reward"] == "format"]
    assert tokens == attribution_rows()[0]["tokens"]


def test_records_of_runs_alone_need_no_attribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("--curves", record(tmp_path / "c.json")).exit_code == 0
    assert [one.number for one in read_index(tmp_path / "reports/figures")] == ["4"]


def test_what_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    file, out = attribution_file(tmp_path), tmp_path / "out"
    (tmp_path / "other.json").write_text("{}")
    for arguments, told in (
        ((tmp_path / "none.parquet",), "none.parquet: no such file or folder"),
        ((tmp_path,), "not there; run the stage that writes it first"),
        ((file, "--prompt", "nobody"), "no response to prompt nobody"),
        ((file, "--sample", 7), "no response 7"),
        ((file, "--curves", tmp_path / "none.json"), "none.json: no such file"),
        ((file, "--curves", tmp_path / "other.json"), "no record of benchmarks.curves"),
    ):
        done = command(*arguments, "--out", out)
        assert done.exit_code == 2, arguments
        assert told in done.output
        assert len(done.output.strip().splitlines()) == 1
        assert not out.exists()


@pytest.mark.parametrize(("task", "number"), [("text2sql", 3), ("tools", 7), ("instruct", 8)])
def test_the_figures_in_the_docs_show_the_rows_beside_them(task: str, number: int) -> None:
    folder = Path(__file__).parents[2] / "docs" / "figures" / task
    rows = opened(folder / "attribution.parquet", None, [f"task={task}"], None).rows
    drawn = {
        number: token_table(replay_example(rows, PENALISED.get(task, ()))),
        6: share_table(rows),
    }
    for which, table in drawn.items():
        kept = pd.read_csv(
            folder / f"figure-{which}.csv", dtype={"token": str, "name": str},
            keep_default_na=False, na_values={n: [""] for n in MEASURED},
        )  # fmt: skip
        assert list(kept.columns) == list(table.columns)
        for name in table:
            if pd.api.types.is_numeric_dtype(table[name]):
                assert kept[name].tolist() == pytest.approx(
                    table[name].tolist(), rel=1e-5, nan_ok=True
                )
            else:
                assert kept[name].tolist() == table[name].tolist()
