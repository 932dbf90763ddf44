"""The comparison of methods over seeds: its record, table and workspaces; no training."""

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.curves import DONE, branch, record, stages, table
from mrtpo.config import Settings
from mrtpo.report.curves import curves, frame_of_records


def run(method: str, seed: int, score: float) -> dict:
    return {
        "method": method, "seed": seed, "seconds": 90.0,
        "trusted": {"format": score > 0.5} if method == "mrtpo" else {},
        "test": {"format": score, "sampled/format": score / 2, "truncated": 0.0, "prompts": 40},
        "kinds": {kind: {"format": score * share, "truncated": 0.0, "prompts": 20}
                  for kind, share in (("one", 1.0), ("two", 0.5))},
        "history": {"step": [1.0, 2.0], "reward/format/mean": [0.0, score]},
    }  # fmt: skip


SCORES = {"format": 0.5, "response_length": 31.4, "truncated": 0.0}
START = {"train": SCORES, "valid": SCORES, "valid_greedy": SCORES,
         "told": {"format": SCORES | {"format": 0.9}}}  # fmt: skip
RUNS = [run("gdpo", 0, 0.5), run("gdpo", 1, 0.9), run("gdpo", 2, 0.6), run("mrtpo", 0, 1.0)]


def test_the_table_has_the_median_and_the_range_over_seeds():
    text = table({"steps": 30, "runs": RUNS, "start": START})
    assert "| method | seeds | format | sampled/format |" in text
    assert "| gdpo | 3 | 0.600 (0.500 to 0.900) | 0.300 (0.250 to 0.450) |" in text
    assert "| mrtpo | 1 | 1.000 (1.000 to 1.000) |" in text
    assert "Runs with replay: 1; their last check found a gain" in text
    assert "in: format 1." in text
    assert "4 runs of 30 steps from this start, 1.5 minutes each" in text


def test_the_table_has_medians_by_kind_of_prompt_where_there_are_several():
    text = table({"steps": 30, "runs": RUNS, "start": START})
    assert "medians of gdpo / mrtpo" in text
    assert "| kind | prompts | format |" in text
    assert "| two | 20 | 0.300 / 0.500 |" in text
    single = [one | {"kinds": {"one": one["kinds"]["one"]}} for one in RUNS]
    assert "By kind" not in table({"steps": 30, "runs": single, "start": START})


def test_the_start_is_shown_by_what_it_is_told():
    text = table({"steps": 30, "runs": RUNS, "start": START})
    assert "| prompts | format | response_length |" in text
    assert "| train, sampled | 0.500 | 31.4 |" in text
    assert "| the same, told format | 0.900 | 31.4 |" in text


def test_curves_of_all_runs_are_one_frame_by_method_and_seed():
    found = curves(frame_of_records(RUNS, "history"), "reward/format/mean")
    assert found["gdpo"].runs == 3
    assert found["gdpo"].middle == [0.0, 0.6]


def test_a_finished_workspace_is_kept_and_one_of_other_settings_refused(tmp_path: Path):
    stages_of = ("no such stage",)
    settings = Settings()
    with pytest.raises(RuntimeError, match="failed; see"):
        stages(tmp_path, settings, stages_of)
    (tmp_path / DONE).write_text("{}")
    stages(tmp_path, settings, stages_of)
    with pytest.raises(ValueError, match="other settings"):
        stages(tmp_path, settings.model_copy(update={"seed": 1}), stages_of)


def test_runs_share_the_prompts_and_the_policy_of_the_start(tmp_path: Path):
    for name in ("data/prompts", "models/warmstart"):
        (tmp_path / "start" / name).mkdir(parents=True)
    branch(tmp_path / "gdpo-0", tmp_path / "start")
    branch(tmp_path / "gdpo-0", tmp_path / "start")
    (tmp_path / "start/data/prompts/train.parquet").touch()
    assert (tmp_path / "gdpo-0/data/prompts/train.parquet").is_file()


def test_a_run_is_recorded_without_what_only_its_own_report_shows(tmp_path: Path):
    for name in ("reports/train", "metrics"):
        (tmp_path / name).mkdir(parents=True)
    pd.DataFrame({"step": [1], "reward/format/mean": [0.25], "policy/loss": [1.0]}).to_csv(
        tmp_path / "reports/train/history.csv"
    )
    pd.DataFrame({"step": [0, 1], "format": [0.5, None], "gain/format/told": [1, 1]}).to_csv(
        tmp_path / "reports/train/evaluations.csv", index=False
    )
    groups = {"kind/one": {"format": 1 / 3, "prompts": 4}, "difficulty/easy": {"format": 0.5}}
    (tmp_path / "metrics/evaluate.json").write_text(json.dumps({"format": 0.5, "groups": groups}))
    (tmp_path / "metrics/train.json").write_text(
        json.dumps({"best_step": 1, "gain": {"format": {"trusted": True}}})
    )
    (tmp_path / DONE).write_text(json.dumps({"seconds": 2.0}))
    found = record(tmp_path, "gdpo", 3)
    assert found["history"] == {"step": [1.0], "reward/format/mean": [0.25]}
    assert found["evaluations"] == {"step": [0.0, 1.0], "format": [0.5, None]}
    assert found["test"] == {"format": 0.5}
    assert found["kinds"] == {"one": {"format": 0.3333, "prompts": 4}}
    assert found["trusted"] == {"format": True}
    assert (found["seconds"], found["seed"]) == (2.0, 3)
