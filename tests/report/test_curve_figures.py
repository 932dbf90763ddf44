"""Training curves as figures."""

from __future__ import annotations

import pandas as pd
from made_up import evaluations_frame, history_frame, past_runs

from mrtpo.report.curve_figures import METHOD_COLOURS, method_curves, training_curves
from mrtpo.report.curves import Comparison, comparison_of_runs


def test_training_curves_show_every_reward_and_evaluation() -> None:
    figure = training_curves(history_frame(), evaluations_frame())
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert titles[:3] == [f"{r}, training" for r in ("format", "executability", "execution")]
    assert "spider_exec, evaluation" in titles
    assert titles[-1] == "seconds a step"
    assert not any("undecided" in title for title in titles)
    assert figure.axes[0].get_ylim() == (0, 1.02)


def test_methods_are_told_apart_by_colour_and_legend() -> None:
    figure = method_curves(comparison_of_runs("text2sql", past_runs()))
    lines = figure.axes[0].get_lines()
    assert len({line.get_color() for line in lines}) == 3
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["grpo, 3 seeds", "gdpo, 3 seeds", "mrtpo, 3 seeds"]
    assert len(figure.axes[0].collections) == 3, "a band of quartiles for each method"


def test_figures_of_a_run_without_history_are_empty_not_errors() -> None:
    assert training_curves(pd.DataFrame({"step": []}), pd.DataFrame({"step": []})).axes


def test_methods_are_compared_by_rewards_greedy_scores_and_the_test() -> None:
    found = comparison_of_runs("text2sql", past_runs())
    figure = method_curves(found)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    rewards = ("format", "executability", "execution")
    assert titles[:3] == [f"{name}, training" for name in rewards]
    scores = ("spider_exec", "bird_ex", "executability", "format")
    assert titles[3:-1] == [f"{name}, evaluation" for name in scores]
    assert titles[-1] == "spider_exec, test prompts"


def test_of_many_rewards_the_total_stands_for_all() -> None:
    names = [f"line_{n}" for n in range(1, 7)]
    both = {"method": ["gdpo"] * 2, "seed": [0] * 2}
    rewards = {f"reward/{name}/mean": [0.1, 0.2] for name in (*names, "total")}
    history = pd.DataFrame({"step": [1, 2], **rewards, **both})
    scores = {name: [0.1, 0.2] for name in (*names, "followed")}
    evaluations = pd.DataFrame({"step": [0, 2], **scores, **both})
    tests = pd.DataFrame({"method": ["gdpo"], "seed": [0], "followed": [0.2]})
    figure = method_curves(Comparison("instruct", history, evaluations, tests))
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert titles == ["total, training", "followed, evaluation", "followed, test prompts"]


def test_the_test_panel_has_a_dot_a_seed_and_a_line_at_the_median() -> None:
    runs = past_runs()
    panel = [a for a in method_curves(comparison_of_runs("text2sql", runs)).axes if a.axison][-1]
    values = sorted(r.final["final/spider_exec"] for r in runs if r.method == "gdpo")
    at = list(METHOD_COLOURS).index("gdpo")
    dots, line = panel.collections[2 * at], panel.collections[2 * at + 1]
    assert sorted(y for _, y in dots.get_offsets()) == values
    assert line.get_segments()[0][0][1] == values[1]
