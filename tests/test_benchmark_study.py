"""The study's plan, choice of rates and statistics; no training."""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import benchmarks.study as module
from benchmarks.study import (
    PLAN,
    Run,
    Study,
    chosen_rates,
    final_runs,
    rates_of,
    read_plan,
    tuning_runs,
)
from benchmarks.study_table import (
    WINDOW,
    area,
    interval,
    method_table,
    paired,
    steps_to,
    steps_to_rival,
)
from mrtpo.config import load_settings, with_overrides

PARAMS = Path(__file__).parents[1] / "params.yaml"
SMALL: dict[str, Any] = {
    "rates": [0.1, 0.2], "tuning_seeds": [100],
    "tasks": {"tools": {"main": "correctness", "thresholds": [0.5], "set": ["task=tools"]}},
    "methods": {"gdpo": {"seeds": 2, "set": ["train.method=gdpo"]},
                "cort": {"seeds": 1, "set": ["train.method=cort"]}},
}  # fmt: skip


def row(method: str, seed: int, main: float, **changes: Any) -> dict[str, Any]:
    return {
        "task": "tools", "method": method, "seed": seed, "rate": 0.1, "main_area": main,
        "steps_to": {"0.5": 10}, "test": {"sampled/correctness": main / 2},
        "response_length": 30.0, "grad_norm": 1.0, "n_eff_share": None,
        "main_curve": [0.1 * min(step, 10) for step in range(20)],
    } | changes  # fmt: skip


PLANS = [PLAN, PLAN.with_name("ablations.yaml"), PLAN.with_name("conditions.yaml")]


@pytest.mark.parametrize("file", PLANS, ids=lambda f: f.stem)
def test_every_setting_of_a_plan_is_one(file: Path):
    plan = read_plan(file, (), ())
    assert set(plan["figure"]) <= plan["methods"].keys()
    for task, about in plan["tasks"].items():
        settings = with_overrides(load_settings(PARAMS), about["set"])
        assert settings.task == task or file.stem == "conditions"
        for run in (*tuning_runs(task, plan), *final_runs(task, plan, dict.fromkeys(
                plan["methods"], 1e-4))):  # fmt: skip
            made = with_overrides(settings, run.overrides)
            assert (made.task, made.seed) == (settings.task, run.seed)
            assert made.train.learning_rate == run.rate


def test_what_all_tasks_have_set_comes_before_their_own(tmp_path: Path):
    common = {"set": ["train.steps=7", "task=text2sql"]}
    (tmp_path / "plan.yaml").write_text(json.dumps(SMALL | common))
    (about,) = read_plan(tmp_path / "plan.yaml", (), ())["tasks"].values()
    assert about["set"] == ["train.steps=7", "task=text2sql", "task=tools"]
    settings = with_overrides(load_settings(PARAMS), about["set"])
    assert (settings.task, settings.train.steps) == ("tools", 7)


def test_the_plans_mrtpo_is_what_the_project_does_by_default():
    base = load_settings(PARAMS)
    changes = read_plan(PLAN, [], ["mrtpo"])["methods"]["mrtpo"]["set"]
    assert with_overrides(base, changes) == base


def test_rates_are_tuned_on_seeds_that_no_result_is_made_of():
    plan = read_plan(PLAN, (), ())
    seeds = {run.seed for run in final_runs("tools", plan, dict.fromkeys(plan["methods"], 1e-4))}
    assert not seeds & set(plan["tuning_seeds"])
    tried = {(r.method, r.rate, r.seed) for r in tuning_runs("tools", plan)}
    budget = len(rates_of("tools", plan)) * len(plan["tuning_seeds"])
    assert len(tried) == budget * len(plan["methods"])


def test_an_unknown_task_or_method_is_named_with_those_that_there_are():
    with pytest.raises(ValueError, match="methods: no sft; there are: grpo; gdpo"):
        read_plan(PLAN, (), ("gdpo", "sft"))
    with pytest.raises(ValueError, match="tasks: no chess"):
        read_plan(PLAN, ("chess",), ())


def test_the_rate_with_the_largest_mean_area_is_chosen_for_each_method():
    rows = [
        row("gdpo", 100, 0.5, rate=0.1), row("gdpo", 101, 0.6, rate=0.1),
        row("gdpo", 100, 0.9, rate=0.2), row("gdpo", 101, 0.1, rate=0.2),
        row("cort", 100, 0.1, rate=0.1), row("cort", 100, 0.2, rate=0.2),
    ]  # fmt: skip
    assert chosen_rates("tools", rows, SMALL) == {"gdpo": 0.1, "cort": 0.2}
    assert chosen_rates("tools", [], SMALL | {"rates": [0.3]}) == {"gdpo": 0.3, "cort": 0.3}


def test_a_task_may_have_rates_of_its_own():
    own = {"tasks": {"tools": SMALL["tasks"]["tools"] | {"rates": [0.7, 0.8, 0.9]}}}
    assert {run.rate for run in tuning_runs("tools", SMALL | own)} == {0.7, 0.8, 0.9}
    assert {run.rate for run in tuning_runs("tools", SMALL)} == {0.1, 0.2}
    one = {"tasks": {"tools": SMALL["tasks"]["tools"] | {"rates": [0.7]}}}
    assert tuning_runs("tools", SMALL | one) == []
    assert chosen_rates("tools", [], SMALL | one) == {"gdpo": 0.7, "cort": 0.7}


def test_runs_go_by_seed_so_that_an_unfinished_study_has_pairs():
    runs = final_runs("tools", SMALL, {"gdpo": 0.1, "cort": 0.2})
    assert [(run.method, run.seed) for run in runs] == [("gdpo", 0), ("cort", 0), ("gdpo", 1)]


def slow_steps_to(values: list[float], threshold: float) -> int | None:
    for step in range(WINDOW, len(values) + 1):
        if statistics.fmean(values[step - WINDOW : step]) >= threshold:
            return step
    return None


@pytest.mark.parametrize("threshold", [-1.0, 0.3, 0.5, 0.62, 2.0])
def test_a_threshold_is_reached_by_the_mean_of_five_steps(threshold: float):
    values = np.random.default_rng(0).uniform(0, 1, 40).tolist()
    assert steps_to(pd.Series(values), threshold) == slow_steps_to(values, threshold)


def test_one_lucky_step_reaches_nothing():
    assert steps_to(pd.Series([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]), 0.5) is None


def test_an_area_is_the_mean_of_the_steps_that_have_a_value():
    assert area(pd.Series([1.0, None, 0.0, 0.5])) == 0.5


def test_differences_are_of_the_same_seed():
    rows = [row("gdpo", 0, 0.5), row("gdpo", 1, 0.7), row("mrtpo", 1, 1.0), row("mrtpo", 2, 9.0)]
    assert paired(rows, "mrtpo", lambda r: r["main_area"]) == [pytest.approx(0.3)]


def test_steps_to_the_rivals_best_are_of_the_same_seed_and_count_the_first_time():
    slow, quick = [0.1] * 10 + [0.5] * 5 + [0.2] * 5, [0.1] * 2 + [0.6] * 18
    rows = [row("gdpo", 0, 0.5, main_curve=slow), row("gdpo", 1, 0.5, main_curve=quick)]
    rows += [row("mrtpo", 0, 0.5, main_curve=quick), row("mrtpo", 1, 0.5, main_curve=slow)]
    assert slow_steps_to(slow, 0.5) == 15
    assert slow_steps_to(quick, 0.5) == 6
    assert slow_steps_to(quick, 0.6) == 7
    assert steps_to_rival(rows, "mrtpo") == [(6, 15), (None, 7)]


def test_the_interval_holds_the_mean_and_narrows_with_agreement():
    assert interval([0.1, 0.2]) is None
    wide, narrow = interval([0.0, 0.2, 0.4]), interval([0.2, 0.2, 0.2])
    assert wide is not None and narrow == pytest.approx((0.2, 0.2))
    assert -0.01 < wide[0] < 0.2 < wide[1] < 0.41


def test_the_table_compares_with_gdpo_and_says_who_never_gets_there():
    rows = [row("gdpo", seed, 0.5) for seed in range(3)]
    rows += [
        row(
            "mrtpo",
            seed,
            0.6,
            steps_to={"0.5": None if seed else 8},
            main_curve=[0.1 * min(step + 1, 10) for step in range(20)],
        )
        for seed in range(3)
    ]
    text = "\n".join(method_table({"about": SMALL["tasks"]["tools"], "runs": rows}))
    assert (
        "| mrtpo | 3 | 0.1 | never | 14, × 0.93 | 0.600 (0.600–0.600) | +0.100 [+0.100, +0.100] |"
        in text
    )
    assert "| gdpo | 3 | 0.1 | 10 | 15 | 0.500 (0.500–0.500) |  |" in text


def test_runs_of_fewer_steps_than_a_mean_is_of_are_shown_without_one():
    rows = [row(m, 0, 0.5, main_curve=[0.1, 0.2]) for m in ("gdpo", "cort")]
    assert steps_to_rival(rows, "cort") == []
    found = {"about": SMALL["tasks"]["tools"], "runs": rows}
    *_, gdpo, cort = method_table(found)
    assert gdpo.startswith("| gdpo | 1 | 0.1 | 10 | – | 0.500")
    assert cort.startswith("| cort | 1 | 0.1 | 10 | – | 0.500")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Runs that were made, instead of trained."""
    runs: list[Run] = []

    def stages(folder: Path, *_: Any) -> None:
        (folder / "metrics").mkdir(parents=True, exist_ok=True)
        (folder / "metrics/warmstart.json").write_text(json.dumps({"loss": 1.0}))

    def own(self: Study, run: Run) -> dict[str, Any]:
        runs.append(run)
        return row(run.method, run.seed, run.rate, rate=run.rate, settings=run.overrides)

    monkeypatch.setattr(module, "stages", stages)
    monkeypatch.setattr(Study, "_row", own)
    return runs


def test_what_the_record_has_from_the_same_start_is_not_made_again(made: list[Run], tmp_path: Path):
    options = argparse.Namespace(work=tmp_path, smoke=False, params=PARAMS, processes=2, plan=PLAN)
    written: list[int] = []
    first = Study("tools", SMALL, options, {})
    first.go(lambda: written.append(len(first.found["runs"])))
    assert len(made) == 4 + 3 and written[-1] == 3
    assert first.found["rates"] == {"gdpo": 0.2, "cort": 0.2}
    again = Study("tools", SMALL, options, first.found)
    again.go(lambda: None)
    assert len(made) == 7 and again.found == first.found
    other = Study("tools", SMALL, options, first.found | {"start": {"loss": 2.0}})
    other.go(lambda: None)
    assert len(made) == 14


def test_tasks_may_start_from_one_policy_with_prompts_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    calls: list[tuple[str, tuple[str, ...], int]] = []

    def stages(folder: Path, settings: Any, names: tuple[str, ...]) -> None:
        calls.append((str(folder.relative_to(tmp_path)), names, settings.data.most_constraints))
        if "warmstart" in names:
            (folder / "models/warmstart").mkdir(parents=True, exist_ok=True)
            (folder / "metrics").mkdir(exist_ok=True)
            (folder / "metrics/warmstart.json").write_text(json.dumps({"loss": 3.0}))

    monkeypatch.setattr(module, "stages", stages)
    plan = SMALL | {
        "set": ["task=instruct"], "starts": {"all": ["data.most_constraints=12"]},
        "tasks": {f"rewards_{n}": {"main": "followed", "thresholds": [0.5], "start": "all",
                                   "set": ["task=instruct", f"data.most_constraints={n}"]}
                  for n in (4, 8)},
    }  # fmt: skip
    options = argparse.Namespace(work=tmp_path, smoke=False, params=PARAMS, processes=2, plan=PLAN)
    for task in plan["tasks"]:
        assert Study(task, plan, options, {}).found["start"] == {"loss": 3.0}
        policy = (tmp_path / task / "start/models/warmstart").resolve()
        assert policy == tmp_path / "starts/all/models/warmstart"
    assert calls == [
        ("starts/all", ("prepare", "warmstart"), 12), ("rewards_4/start", ("prepare",), 4),
        ("starts/all", ("prepare", "warmstart"), 12), ("rewards_8/start", ("prepare",), 8),
    ]  # fmt: skip


def test_methods_that_are_not_asked_for_keep_their_runs(made: list[Run], tmp_path: Path):
    options = argparse.Namespace(work=tmp_path, smoke=False, params=PARAMS, processes=2, plan=PLAN)
    whole = Study("tools", SMALL, options, {})
    whole.go(lambda: None)
    part = SMALL | {"methods": {"cort": SMALL["methods"]["cort"]}}
    later = Study("tools", part, options, whole.found)
    later.go(lambda: None)
    assert len(made) == 7 and later.found["rates"] == whole.found["rates"]
    for where in ("tuning", "runs"):
        assert sorted(r["method"] for r in later.found[where]) == sorted(
            r["method"] for r in whole.found[where]
        )


def test_a_study_that_is_stopped_while_it_tunes_loses_no_run_that_it_had(
    made: list[Run], tmp_path: Path
):
    options = argparse.Namespace(work=tmp_path, smoke=False, params=PARAMS, processes=2, plan=PLAN)
    whole = Study("tools", SMALL, options, {})
    whole.go(lambda: None)
    more = SMALL | {"tuning_seeds": [*SMALL["tuning_seeds"], 102]}
    later = Study("tools", more, options, whole.found)
    fewest = len(whole.found["runs"])

    def look() -> None:
        nonlocal fewest
        fewest = min(fewest, len(later.found["runs"]))

    later.go(look)
    assert fewest == 3 and len(made) > 7
