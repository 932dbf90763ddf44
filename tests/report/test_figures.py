"""Figures: readable, right in colour and sign, and the same bytes each time."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up import evaluations_frame, history_frame, past_runs
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mrtpo.report.credit import examples
from mrtpo.report.curves import frame_of_runs, metric_columns
from mrtpo.report.figures import (
    attribution_figures,
    colour,
    layout,
    rollout_heat_map,
    save,
    share_by_part,
    token_heat_map,
    training_curves,
)


def boxes(figure: Figure, panel: int = 0) -> dict[str, tuple[float, float, float]]:
    """Colour of each token's first box in a panel."""
    found: dict[str, tuple[float, float, float]] = {}
    for patch in figure.axes[panel].patches:
        if isinstance(patch, Rectangle) and str(patch.get_gid()).startswith("token-"):
            found.setdefault(str(patch.get_gid()), to_rgb(patch.get_facecolor()[:3]))
    return found


def test_credit_is_blue_penalty_red_and_nothing_white() -> None:
    figure = token_heat_map(["a", " b", " c"], [("reward", [1.0, -1.0, 0.0])], "title")
    found = boxes(figure)
    red, green, blue = found["token-0"]
    assert blue > green > red
    red, green, blue = found["token-1"]
    assert red > green and red > blue
    assert found["token-2"] == (1.0, 1.0, 1.0)


def test_equal_size_is_equally_strong_and_more_is_stronger() -> None:
    def strength(value: float) -> float:
        return 1 - min(colour(value, 2.0, "credit"))

    assert strength(1.0) == pytest.approx(strength(-1.0), abs=0.15)
    assert strength(0.1) < strength(0.5) < strength(2.0)
    assert strength(-0.1) < strength(-0.5) < strength(-2.0)
    assert colour(9.0, 2.0, "credit") == colour(2.0, 2.0, "credit"), "past the peak it saturates"


def test_weights_go_from_white_to_orange() -> None:
    figure = token_heat_map(["a", "b"], [("w", [0.0, 3.0])], "title", kind="weight")
    found = boxes(figure)
    assert found["token-0"] == (1.0, 1.0, 1.0)
    red, green, blue = found["token-1"]
    assert red > green > blue


def test_panels_share_one_scale_so_that_gdpo_and_mrtpo_compare() -> None:
    rows = [("even", [0.5, 0.5]), ("placed", [0.0, 1.0])]
    figure = token_heat_map(["a", "b"], rows, "title", columns=2)
    even, placed = boxes(figure, 0), boxes(figure, 1)
    assert even["token-0"] == even["token-1"]
    assert even["token-1"] != placed["token-1"]
    assert figure.axes[0].get_position().x1 <= figure.axes[1].get_position().x0


def test_layout_wraps_without_losing_or_overlapping_text() -> None:
    tokens = ["SELECT", " name", ",\n", "\n", " " + "x" * 25, "\t", "", "\x07", "ok"]
    found = layout(tokens, 12)
    shown = "".join(text for _, _, _, text in found)
    assert shown == "SELECT name,↵↵ " + "x" * 25 + "     " + "·ok"
    taken = set()
    for _, line, column, text in found:
        assert column + len(text) <= 12
        cells = {(line, column + at) for at in range(len(text))}
        assert not cells & taken
        taken |= cells
    assert {token for token, *_ in found} == set(range(len(tokens)))


def test_text_of_a_response_is_drawn_as_it_is(tmp_path: Path) -> None:
    tokens = ["$x^2$", " and $y", "_{1}", "$\\frac$"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = token_heat_map(tokens, [("a $b$ c", [1.0] * 4)], "$title$ _{", width=40)
        save(figure, tmp_path / "odd")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert [text for text in tokens if text in texts] == tokens


def test_an_empty_response_and_all_zero_credit_still_give_a_figure() -> None:
    assert token_heat_map([], [("reward", [])], "nothing").axes
    zero = token_heat_map(["a"], [("reward", [0.0])], "zero")
    assert boxes(zero)["token-0"] == (1.0, 1.0, 1.0)


def test_a_rollout_shows_every_reward_twice_and_names_skipped_replays(
    attribution: list[dict[str, Any]],
) -> None:
    rollout = [row for row in attribution if row["prompt_id"].endswith("2") and not row["sample"]]
    figure = rollout_heat_map(rollout, "rollout")
    labels = [axes.texts[0].get_text() for axes in figure.axes[:-1]]
    assert len(labels) == 6
    assert labels[0] == "format = 1 · GDPO, even"
    assert labels[5] == "execution = missing · MRTPO, replay skipped: context too long"
    dead = [row | {"advantage": 0.0} for row in rollout[1:]]
    figure = rollout_heat_map([rollout[0], *dead], "rollout")
    assert len(figure.axes) == 3, "what has no credit to place is named, not drawn"
    assert (
        figure.texts[0].get_text().endswith("(no contrast in the group: executability, execution)")
    )


def test_share_figure_draws_the_shares_and_the_uniform_ticks() -> None:
    row = {"reward": "format", "skipped": False, "parts": ["tags", "", ""],
           "distance": [3.0, 1.0, 0.0]}  # fmt: skip
    figure = share_by_part([row])
    bars = [patch.get_width() for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert bars == pytest.approx([0.75, 0.25])
    ticks = [segment[0][0] for segment in figure.axes[0].collections[0].get_segments()]
    assert ticks == pytest.approx([1 / 3, 2 / 3])
    assert share_by_part([]).axes, "no replay is no error"


def test_training_curves_show_every_reward_and_evaluation() -> None:
    figure = training_curves(history_frame(), evaluations_frame())
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert titles[:3] == [f"{r}, training" for r in ("format", "executability", "execution")]
    assert "spider_exec, evaluation" in titles
    assert titles[-1] == "seconds a step"
    assert not any("undecided" in title for title in titles)
    assert figure.axes[0].get_ylim() == (0, 1.02)


def test_training_curves_tell_methods_apart_by_colour_and_legend() -> None:
    frame = frame_of_runs(past_runs())
    rewards = frame[["step", "method", "seed", *metric_columns(frame, "reward/")]]
    tests = frame[["step", "method", "seed", *metric_columns(frame, "valid/")]]
    figure = training_curves(rewards, tests)
    lines = figure.axes[0].get_lines()
    assert len({line.get_color() for line in lines}) == 3
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["grpo, 3 seeds", "gdpo, 3 seeds", "mrtpo, 3 seeds"]
    assert len(figure.axes[0].collections) == 3, "a band of quartiles for each method"


def test_figures_of_a_run_without_history_are_empty_not_errors() -> None:
    assert training_curves(pd.DataFrame({"step": []}), pd.DataFrame({"step": []})).axes


def test_the_same_figure_has_the_same_bytes(
    attribution: list[dict[str, Any]], tmp_path: Path
) -> None:
    chosen = [examples(attribution, 1)[0][:1]]
    first = attribution_figures(attribution, tmp_path / "a", chosen)
    second = attribution_figures(attribution, tmp_path / "b", chosen)
    assert [path.name for path in first] == ["shares.png", "rollout-1.png"]
    for one, other in zip(first, second, strict=True):
        for suffix in (".png", ".svg"):
            content = one.with_suffix(suffix).read_bytes()
            assert content == other.with_suffix(suffix).read_bytes()
            assert b"<dc:date>" not in content
