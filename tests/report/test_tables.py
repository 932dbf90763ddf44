"""Tables of the report."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest
from made_up import gain_record, history_frame, past_runs

from mrtpo.gain import Gain
from mrtpo.report import tables
from mrtpo.report.text import difference, mark, number, ordered, signed


def test_wilson_interval_matches_the_published_values() -> None:
    found = tables.share([1.0] * 8 + [0.0] * 2)
    assert found is not None
    assert (found.value, found.count) == (0.8, 10)
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    full = tables.share([1.0] * 5)
    assert full is not None and full.high == 1.0 and full.low is not None and full.low < 0.6


def test_undecided_answers_have_not_passed_and_are_counted() -> None:
    found = tables.share([1.0, None, None, 0.0])
    assert found is not None
    assert (found.value, found.count, found.undecided) == (0.25, 4, 2)
    assert tables.share([None, None]) is None


def test_answers_that_were_not_asked_for_a_score_do_not_count() -> None:
    found = tables.share([1.0, None, float("nan"), 0.0])
    assert found is not None
    assert (found.count, found.undecided) == (3, 1)
    assert found.value == pytest.approx(1 / 3)
    assert tables.share([float("nan")]) is None


def test_scores_beyond_zero_and_one_have_no_interval() -> None:
    found = tables.share([-3.0, 1.5])
    assert found is not None
    assert (found.value, found.low) == (-0.75, None)


def test_gains_come_in_the_order_of_scores_and_only_from_a_training_that_checked() -> None:
    found = tables.gains({"train": {"gain": gain_record()}, "evaluate": {"gain": {"x": {}}}})
    assert [row["reward"] for row in found] == ["executability", "format", "execution"]
    assert found[0] == gain_record()["executability"]
    assert list(found[0]) == [field.name for field in dataclasses.fields(Gain)]
    assert tables.gains({"train": {"best": 0.5}}) == tables.gains({}) == []


def test_score_columns_are_the_numbers_that_are_not_text_of_the_answer() -> None:
    rows = [{"prompt_id": "a", "kind": "x", "format": 1.0, "empty": None, "note": "y"}]
    assert tables.score_columns(rows) == ["format"]


def test_groups_have_their_own_counts_and_shares(predictions: list[dict[str, Any]]) -> None:
    groups = {name: (count, scores) for name, count, scores in tables.by_group(predictions, "kind")}
    assert list(groups) == ["aggregate", "join", "nested", "selection"]
    order = [name for name, _, _ in tables.by_group(predictions, "difficulty")]
    assert order == ["easy", "medium", "hard"]
    assert sum(count for count, _ in groups.values()) == len(predictions)
    joins = [row["spider_exec"] for row in predictions if row["kind"] == "join"]
    share = groups["join"][1]["spider_exec"]
    assert share is not None and share.value == pytest.approx(sum(joins) / len(joins))


def test_statuses_start_with_ok_and_are_all_counted(predictions: list[dict[str, Any]]) -> None:
    found = tables.statuses(predictions)
    assert found[0][0] == "ok"
    assert {name for name, _ in found} == {"ok", "error", "timeout", "refused"}
    assert sum(count for _, count in found) == len(predictions)


def test_failures_take_kinds_in_turn(predictions: list[dict[str, Any]]) -> None:
    found = tables.failures(predictions, "spider_exec")
    assert all(row["spider_exec"] == 0 for row in found)
    kinds = {(row["kind"], row["status"]) for row in found}
    assert {(row["kind"], row["status"]) for row in found[: len(kinds)]} == kinds


def test_what_went_wrong_while_training_is_summed_by_reward() -> None:
    found = dict(tables.training_totals(history_frame()))
    assert list(found) == ["format", "executability", "execution"]
    assert found["execution"]["timeout"] == 3
    assert 0 < found["format"]["dead_groups"] < 1
    assert tables.training_totals(pd.DataFrame()) == []


def test_methods_are_compared_by_medians_and_the_best_is_marked() -> None:
    rows = tables.methods(past_runs(), ["spider_exec", "format"])
    assert [(row.method, row.runs, row.seeds) for row in rows] == [
        ("grpo", 3, "0, 1, 2"), ("gdpo", 3, "0, 1, 2"), ("mrtpo", 3, "0, 1, 2"),
    ]  # fmt: skip
    best = {row.method for row in rows for spread in row.figures.values() if spread and spread.best}
    assert best == {"mrtpo"}
    finals = sorted(run.final["final/spider_exec"] for run in past_runs() if run.method == "gdpo")
    spread = rows[1].figures["spider_exec, test"]
    assert spread is not None
    assert spread.middle == finals[1]
    assert spread.low == pytest.approx((finals[0] + finals[1]) / 2)
    assert rows[2].seconds is not None and rows[1].seconds is not None
    assert rows[2].seconds.middle > rows[1].seconds.middle


def test_only_runs_on_the_same_data_and_model_are_compared() -> None:
    runs = past_runs(seeds=1)
    other = dataclasses.replace(runs[0], tags=runs[0].tags | {"data_hash": "x"})
    assert tables.comparable([*runs, other], {"fingerprint": "mrtpo-0"}) == runs
    assert tables.comparable([*runs, other], {}) == [other], "unknown: compared with the newest"
    assert tables.comparable([], {}) == []


def test_differences_of_two_queries_ignore_case_and_space() -> None:
    first, second = difference("SELECT a FROM t\nWHERE x > 1", "select a  from t where x >= 1")
    assert [text for text, other in first if other] == []
    assert [text for text, other in second if other] == ["="]
    assert "".join(text for text, _ in first) == "SELECT a FROM t\nWHERE x > 1"
    assert difference("", "a") == ([], [("a", True)])


def test_numbers_are_written_as_people_write_them() -> None:
    thin = "\u202f"
    assert number(0.7204, share=True) == f"72.0{thin}%"
    assert number(1.0, share=True) == f"100{thin}%"
    assert number(-0.00123456) == "−0.00123"
    assert number(12345.6) == f"12{thin}346"
    assert (signed(0.5), signed(-0.5), signed(0.0)) == ("+0.5", "−0.5", "0")
    assert (mark(1.0), mark(0.0), mark(-1.5), mark(None)) == ("✓", "✗", "−1.5", "–")
    assert ordered(["odd", "format", "bird_ex", "best"], "best") == [
        "best", "bird_ex", "format", "odd",
    ]  # fmt: skip
