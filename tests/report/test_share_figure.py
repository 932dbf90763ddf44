"""Fig. 6: shares of the replay distance."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.patches import Rectangle

from mrtpo.report.share_figure import share_figure


def row(**changes: Any) -> dict[str, Any]:
    made = {"reward": "format", "skipped": False, "parts": ["tags", "", ""],
            "distance": [3.0, 1.0, 0.0]}  # fmt: skip
    return made | changes


def test_bars_are_shares_and_ticks_are_uniform() -> None:
    lines, bars = share_figure([row()]).axes[:2]
    widths = [patch.get_width() for patch in bars.patches if isinstance(patch, Rectangle)]
    assert widths == pytest.approx([0.75, 0.25])
    ticks = [segment[0][0] for segment in bars.collections[0].get_segments()]
    assert ticks == pytest.approx([1 / 3, 2 / 3])
    assert lines.get_title(loc="left") == "top x % of tokens"


def test_the_line_of_top_tokens_rises_from_nothing_to_all() -> None:
    line, even = share_figure([row()]).axes[0].get_lines()
    xs, ys = line.get_xdata(), line.get_ydata()
    assert (xs[0], ys[0], xs[-1], ys[-1]) == (0, 0, 1.0, 1.0)
    assert all(y >= x for x, y in zip(xs, ys, strict=True))
    assert list(even.get_xdata()) == list(even.get_ydata()) == [0, 1]


def test_many_rewards_have_panels_in_rows_and_at_most_eleven() -> None:
    rows = [row(reward=f"r{n}") for n in range(30)]
    figure = share_figure([*rows, row(reward="r29")])
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert len(titles) == 12
    assert titles[-1] == "r29  (n=2)"
    assert figure.axes[1].get_position().y0 > figure.axes[-1].get_position().y0


def test_no_replay_is_said_not_raised() -> None:
    figure = share_figure([])
    assert [text.get_text() for text in figure.axes[0].texts] == ["no replay found a distance"]
