"""A response in the terminal."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from made_up import RESPONSE, attribution_rows
from rich.console import Console

from mrtpo.config import Settings
from mrtpo.report.source import Attributed, Question, pick
from mrtpo.report.terminal import explain

FOUND = Attributed(attribution_rows(), {"synthetic-0000": Question("Who?", "SELECT 1")}, Settings())
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def shown(prompt: str = "synthetic-0000", **options: Any) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=200)
    explain(console, FOUND, pick(FOUND, prompt, 0), **options)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_response_stands_there_once_for_each_reward_with_credit() -> None:
    plain = COLOUR.sub("", shown(top=0))
    lines = [line.strip().removesuffix("↵") for line in plain.splitlines()]
    for line in RESPONSE.splitlines():
        assert lines.count(line) == 3, line
    assert "Who?" in plain and "SELECT 1" in plain


def test_penalties_are_red_and_credit_is_blue_and_the_largest_are_deepest() -> None:
    text = shown(reward="executability")
    tints = {tuple(map(int, t)) for t in re.findall(r"48;2;(\d+);(\d+);(\d+)m", text)}
    assert all(red > blue for red, _, blue in tints)
    at = re.search(r"48;2;(\d+);(\d+);(\d+)mtelefo", text)
    assert at is not None
    assert int(at[2]) == min(green for _, green, _ in tints)


def test_the_tokens_with_most_distance_are_listed_with_their_numbers() -> None:
    plain = COLOUR.sub("", shown(reward="executability", top=2))
    row = attribution_rows()[1]
    order = sorted(range(len(row["tokens"])), key=lambda t: -row["distance"][t])[:2]
    for t in order:
        line = next(line for line in plain.splitlines() if repr(row["tokens"][t]) in line)
        assert f"{row['distance'][t]:.3g}" in line and f"{row['weight'][t]:.3g}" in line


def test_a_replay_that_was_skipped_is_said_to_be_spread_evenly() -> None:
    text = COLOUR.sub("", shown("synthetic-0002", reward="execution", show="distance"))
    assert "not replayed: context too long; spread evenly" in text


def test_an_unknown_reward_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="this response has: format, executability, execution"):
        shown(reward="style")
