"""The study's figure of a task."""

from typing import Any

import pytest
from matplotlib.figure import Figure

from benchmarks.study_figure import overview
from mrtpo.report.figures import save_svg

ABOUT = {"main": "execution", "thresholds": [0.25, 0.75]}


def rows(method: str, *areas: float) -> list[dict[str, Any]]:
    return [
        {"method": method, "seed": seed, "main_area": area, "main_curve": [area] * 8}
        for seed, area in enumerate(areas)
    ]


def lines(figure: Figure) -> dict[str, list[float]]:
    own = [line for line in figure.axes[0].lines if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): list(line.get_ydata()) for line in own}  # type: ignore[arg-type]


def test_the_curves_are_medians_of_the_methods_asked_for():
    found = rows("gdpo", 0.5, 0.25, 0.0) + rows("cort", 0.5) + rows("mrtpo", 1.0, 0.5, 0.75)
    drawn = lines(overview(found, ABOUT, ["mrtpo", "gdpo", "oracle_max"]))
    assert drawn.keys() == {"mrtpo, 3 seeds", "gdpo, 3 seeds"}
    # There is no mean of five steps before the fifth.
    assert drawn["mrtpo, 3 seeds"][4:] == [0.75] * 4
    assert drawn["gdpo, 3 seeds"][4:] == [0.25] * 4


def test_areas_are_drawn_as_differences_to_gdpo_with_an_interval_from_three_seeds_on():
    found = rows("gdpo", 0.5, 0.25, 0.0) + rows("cort", 0.75, 0.25) + rows("mrtpo", 1.0, 0.5, 0.75)
    axes = overview(found, ABOUT, ["gdpo"]).axes[1]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cort", "mrtpo"]
    dots = [dots.get_offsets().tolist() for dots in axes.collections if hasattr(dots, "get_sizes")]
    points = [place for place in dots if place]
    assert [[0.25, 0.0], [0.0, 0.0]] in points
    assert [[0.5, 1.0], [0.25, 1.0], [0.75, 1.0]] in points
    means = [place[0] for place in points if len(place) == 1]
    assert means == [pytest.approx([0.5, 1.0])]


def test_the_figure_is_small(tmp_path):
    found = [
        row
        for at in range(15)
        for row in rows(f"method{at}", *(at / 15 + s / 50 for s in range(5)))
    ]
    found += rows("gdpo", 0.1, 0.2, 0.3)
    for row in found:
        row["main_curve"] = [row["main_area"] * step / 100 for step in range(100)]
    save_svg(
        overview(found, ABOUT, ["gdpo", "method1", "method2", "method3"]), tmp_path / "task.svg"
    )
    assert (tmp_path / "task.svg").stat().st_size < 100_000
