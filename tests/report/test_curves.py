"""Curves over steps, of one run and of several seeds."""

from __future__ import annotations

import pandas as pd
import pytest
from made_up import past_runs

from mrtpo.report.curves import curves, frame_of_runs, metric_columns, smooth, window_for


def test_seeds_of_a_method_become_median_and_quartiles() -> None:
    frame = pd.DataFrame(
        [
            {"step": step, "method": "gdpo", "seed": seed, "loss": value}
            for seed, value in enumerate((1.0, 2.0, 6.0))
            for step in (1, 2)
        ]
    )
    curve = curves(frame, "loss")["gdpo"]
    assert (curve.steps, curve.runs) == ([1.0, 2.0], 3)
    assert (curve.low, curve.middle, curve.high) == ([1.5, 1.5], [2.0, 2.0], [4.0, 4.0])


def test_a_seed_that_ended_early_leaves_the_others_their_quartiles() -> None:
    frame = pd.DataFrame(
        {"step": [1, 2, 1], "method": "grpo", "seed": [0, 0, 1], "loss": [1.0, 3.0, 2.0]}
    )
    assert curves(frame, "loss")["grpo"].middle == [1.5, 3.0]


def test_one_run_keeps_its_raw_line_beside_the_smoothed_one() -> None:
    frame = pd.DataFrame({"step": range(40), "loss": [0.0, 1.0] * 20})
    curve = curves(frame, "loss")[""]
    assert curve.raw == [0.0, 1.0] * 20
    assert max(curve.middle[2:-2]) < 0.75
    assert curves(frame.head(10), "loss")[""].raw == [], "short runs are shown as they are"


def test_smoothing_keeps_gaps_and_the_mean_of_a_constant() -> None:
    values = pd.Series([2.0, None, 2.0, 2.0])
    assert smooth(values, 3).tolist()[0] == 2.0
    assert smooth(values, 3).isna().tolist() == [False, True, False, False]
    assert window_for(19) == 1
    assert window_for(60) % 2 == 1


def test_columns_without_numbers_are_no_metrics() -> None:
    frame = pd.DataFrame({"step": [1], "seed": [0], "a": [1.0], "b": [None], "c": ["x"]})
    assert metric_columns(frame) == ["a"]
    assert curves(frame, "absent") == {}


def test_finished_runs_become_one_frame() -> None:
    frame = frame_of_runs(past_runs(seeds=2))
    assert set(frame["method"]) == {"grpo", "gdpo", "mrtpo"}
    found = curves(frame, "valid/spider_exec", smoothed=False)
    assert found["mrtpo"].runs == 2
    assert found["mrtpo"].steps == pytest.approx([0, 10, 20, 30, 40, 50, 60])
    assert frame_of_runs([]).empty
