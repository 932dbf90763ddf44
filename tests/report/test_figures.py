"""Figures: readable, right in colour and sign, and the same bytes each time."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mrtpo.report.credit import examples
from mrtpo.report.figures import (
    colour,
    compact,
    layout,
    note_lines,
    rollout_heat_map,
    save,
    stretches,
    token_heat_map,
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


def test_of_a_long_response_the_stretches_with_most_credit_are_drawn() -> None:
    row = {"reward": "style", "advantage": 1.0, "value": 1.0, "skipped": False, "reason": "",
           "tokens": [f" w{n}" for n in range(2000)], "distance": [0.0] * 2000,
           "weight": [0.1] * 2000}  # fmt: skip
    row["weight"][1234] = 50.0
    tokens, places = stretches([row], 60)
    assert len(places) <= 60 + 3
    assert 0 in places and 1234 in places and 1226 in places and 1242 in places
    for text, place in zip(tokens, places, strict=True):
        assert place is None or text == f" w{place}"
    told = [
        int(text.split()[1]) for text, place in zip(tokens, places, strict=True) if place is None
    ]
    assert sum(told) + sum(place is not None for place in places) == 2000
    figure = rollout_heat_map([row], "long")
    assert figure.get_size_inches()[1] < 14


def test_of_many_rewards_those_of_the_largest_distance_are_drawn() -> None:
    rows = [{"reward": f"r{n}", "advantage": 1.0, "value": 1.0, "skipped": False, "reason": "",
             "tokens": ["a"], "distance": [float(n)], "weight": [1.0]}
            for n in range(12)]  # fmt: skip
    figure = rollout_heat_map(rows, "many")
    labels = [axes.texts[0].get_text() for axes in figure.axes[:-1]]
    assert [label.split(" = ")[0] for label in labels[::2]] == ["r8", "r9", "r10", "r11"]
    assert figure.texts[0].get_text().endswith("(8 more rewards)")


def test_notes_stand_in_two_lines_at_most_and_are_cut_visibly() -> None:
    lines = note_lines(["short", "word " * 200], 5.0)
    assert lines[0] == "short"
    assert len(lines) == 3
    assert lines[2].endswith("…")
    figure = token_heat_map(["a"], [("r", [1.0])], "title", notes=["short"])
    assert [text.get_text() for text in figure.texts] == ["title", "short"]


def test_a_drawing_is_smaller_and_refers_to_nothing_that_it_lacks(tmp_path: Path) -> None:
    figure = token_heat_map(["a", " bb", "\n"], [("format", [0.5, -0.25, 0.0])], "title")
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    small = compact(drawn.getvalue())
    assert len(small) < 0.85 * len(drawn.getvalue())
    root = ElementTree.fromstring(small)
    found = [(e.get("id"), e.get("{http://www.w3.org/1999/xlink}href")) for e in root.iter()]
    assert {href[1:] for _, href in found if href and href[0] == "#"} <= {name for name, _ in found}
    uses = [len(list(ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}use")))
            for text in (drawn.getvalue(), small)]  # fmt: skip
    assert uses[0] == uses[1] > 0


def test_neighbours_of_one_style_say_it_once() -> None:
    one = '<use xlink:href="#m" x="1.234567" y="2" style="fill: red"/>\n'
    other = '<use xlink:href="#m" x="3" y="2" style="fill: blue"/>\n'
    assert compact(one * 2 + other) == (
        '<g style="fill: red">\n' + '<use xlink:href="#m" x="1.23" y="2"/>\n' * 2 + "</g>\n" + other
    )


def test_the_same_figure_has_the_same_bytes(
    attribution: list[dict[str, Any]], tmp_path: Path
) -> None:
    rollout = examples(attribution, 1)[0][:1]
    first, second = (save(rollout_heat_map(rollout, "a"), tmp_path / n / "same") for n in "xy")
    assert [path.name for path in first] == ["same.png", "same.svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert b"<dc:date>" not in one.read_bytes()
