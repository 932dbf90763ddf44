"""Figures along the tokens of a response."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from mrtpo.report.credit import even_credit, token_credit
from mrtpo.report.figures import BLUE, RED
from mrtpo.report.token_figures import MOST_TOKENS, advantage_figure, replay_figure


def heights(axes: Axes) -> list[float]:
    """Of the bars: the second corner of four is a bar's top."""
    (shape,) = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    return [float(y) for _, y in shape.get_path().vertices[1::4]]


def response(attribution: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in attribution if row["prompt_id"].endswith("0") and not row["sample"]]


def long_row(tokens: int = 2000) -> dict[str, Any]:
    row = {"prompt_id": "p", "sample": 0, "reward": "style", "value": 0.0, "advantage": -1.0,
           "skipped": False, "reason": "", "tokens": [f" word{n}" for n in range(tokens)],
           "parts": [""] * tokens, "weight": [0.5] * tokens, "distance": [0.0] * tokens,
           "logprob_with": [-0.1] * tokens, "logprob_without": [-0.1] * tokens}  # fmt: skip
    row["weight"][1500], row["distance"][1500] = 30.0, 2.0
    row["logprob_with"][1500] = -float("inf")
    return row


def labels_of(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[-1].get_xticklabels()]


def test_bars_are_mrtpos_advantages_the_line_gdpos_and_the_last_panel_their_sums(
    attribution: list[dict[str, Any]],
) -> None:
    rows = response(attribution)
    figure = advantage_figure(rows, "title")
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "format", "executability", "execution", "together",
    ]  # fmt: skip
    for axes, row in zip(figure.axes, rows, strict=False):
        assert heights(axes) == pytest.approx(token_credit(row))
        assert set(axes.get_lines()[0].get_ydata()) == {even_credit(row)[0]}
    placed = [sum(values) for values in zip(*map(token_credit, rows), strict=True)]
    assert heights(figure.axes[-1]) == pytest.approx(placed)


def test_a_replay_has_log_probabilities_distance_and_weight(
    attribution: list[dict[str, Any]],
) -> None:
    rows = response(attribution)
    figure = replay_figure(rows, "title")
    assert len(figure.axes) == 9
    for at, row in enumerate(rows):
        probabilities, distance, weight = figure.axes[3 * at : 3 * at + 3]
        untold, told = (line.get_ydata() for line in probabilities.get_lines()[:2])
        assert list(told) == pytest.approx([max(-12.0, v) for v in row["logprob_with"]])
        assert list(untold) == pytest.approx([max(-12.0, v) for v in row["logprob_without"]])
        assert heights(distance) == pytest.approx(row["distance"])
        assert heights(weight) == pytest.approx(row["weight"])
        (bars,) = distance.patches
        assert bars.get_facecolor() == to_rgba(BLUE if row["advantage"] > 0 else RED)


def test_at_most_three_replays_are_shown_and_skipped_ones_are_not(
    attribution: list[dict[str, Any]],
) -> None:
    rows = response(attribution)
    five = [*rows, rows[0] | {"reward": "x", "distance": [9.0] * len(rows[0]["tokens"])},
            rows[0] | {"reward": "gone", "skipped": True}]  # fmt: skip
    titles = [axes.get_title(loc="left") for axes in replay_figure(five, "title").axes[::3]]
    assert len(titles) == 3
    assert any(title.startswith("x, advantage +") for title in titles)
    with pytest.raises(ValueError, match="synthetic-0000, response 0: no replay to draw"):
        replay_figure([rows[0] | {"skipped": True}], "title")


def test_of_a_long_response_the_largest_tokens_stand_with_what_is_left_out_between() -> None:
    for figure in (advantage_figure([long_row()], "t"), replay_figure([long_row()], "t")):
        labels = labels_of(figure)
        assert len(labels) <= MOST_TOKENS + 3
        assert "word1500" in labels and "word0" in labels
        left_out = [int(label.split()[1]) for label in labels if label.startswith("… ")]
        assert sum(left_out) + len(labels) - len(left_out) == 2000
        assert figure.get_size_inches()[0] < 16


def drawn(axes: Axes) -> list[Any]:
    """The tick labels in view: matplotlib has more of them ready."""
    low, high = axes.get_ylim()
    found = zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    return [label for y, label in found if low <= y <= high]


def test_labels_and_titles_do_not_overlap(attribution: list[dict[str, Any]]) -> None:
    rows = response(attribution)
    for figure in (advantage_figure(rows, "title", ["asked: x"]), replay_figure(rows, "title")):
        FigureCanvasAgg(figure).draw()
        texts = [text for axes in figure.axes for text in (*axes.get_xticklabels(), *drawn(axes),
                 axes.yaxis.label, axes._left_title)]  # fmt: skip
        texts += [
            *figure.texts,
            *(text for legend in figure.legends for text in legend.get_texts()),
        ]
        boxes = [t.get_window_extent() for t in texts if t.get_text() and t.get_visible()]
        width, height = figure.canvas.get_width_height()
        for at, one in enumerate(boxes):
            assert one.x0 >= 0 and one.y0 >= 0 and one.x1 <= width and one.y1 <= height
            for other in boxes[:at]:
                across = min(one.x1, other.x1) - max(one.x0, other.x0)
                up = min(one.y1, other.y1) - max(one.y0, other.y0)
                assert across < 1.5 or up < 1.5, (at, one, other)
