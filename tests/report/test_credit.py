"""Statistics of where credit falls."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pytest

from mrtpo.report.credit import (
    TOPS,
    even_credit,
    examples,
    full_colour,
    kept_tokens,
    most_credit,
    part_shares,
    replay_example,
    token_credit,
    top_curves,
    top_shares,
    weights,
)


def row(**changes: Any) -> dict[str, Any]:
    """Four tokens, all distance but a tenth on the second."""
    made = {
        "prompt_id": "a", "sample": 0, "reward": "format", "value": 1.0, "advantage": 0.5,
        "skipped": False, "reason": "", "tokens": ["<t>", "x", " y", "\n"],
        "parts": ["tags", "columns", "columns", ""], "logprob_with": [0.0] * 4,
        "logprob_without": [0.0] * 4, "distance": [0.1, 0.9, 0.0, 0.0],
        "weight": [0.4, 3.6, 0.0, 0.0],
    }  # fmt: skip
    return made | changes


def test_mrtpo_places_the_sum_that_gdpo_spreads_evenly() -> None:
    assert even_credit(row()) == [0.5] * 4
    assert token_credit(row()) == [0.2, 1.8, 0.0, 0.0]
    assert sum(token_credit(row())) == pytest.approx(sum(even_credit(row())))


def test_a_skipped_replay_has_even_weights_whatever_its_columns_hold() -> None:
    skipped = row(skipped=True, weight=[], distance=[])
    assert weights(skipped) == [1.0] * 4
    assert weights(row(skipped=True)) == [1.0] * 4


def test_full_colour_is_the_largest_credit_up_to_six_even_shares() -> None:
    assert full_colour([row()]) == 1.8
    assert full_colour([row(weight=[0.0, 40.0, 0.0, 0.0])]) == 3.0
    assert full_colour([row(advantage=0.0)]) == 1.0


def test_shares_by_part_are_means_over_replays_beside_the_uniform_share() -> None:
    second = row(sample=1, distance=[0.0, 0.0, 0.0, 2.0])
    shares = part_shares([row(), second]).set_index("part")
    assert list(shares.index) == ["tags", "columns", "other"]
    assert shares["share"].to_dict() == pytest.approx({"tags": 0.05, "columns": 0.45, "other": 0.5})
    assert shares["uniform"].to_dict() == {"tags": 0.25, "columns": 0.5, "other": 0.25}
    assert set(shares["replays"]) == {2}


def test_replays_that_found_nothing_count_in_no_share() -> None:
    rows = [row(), row(sample=1, distance=[0.0] * 4), row(sample=2, skipped=True)]
    assert set(part_shares(rows)["replays"]) == {1}
    assert top_shares(rows)["replays"].tolist() == [1]
    assert part_shares([rows[1]]).empty
    assert top_shares([]).empty


def test_top_share_is_that_of_the_largest_tenth_rounded_up() -> None:
    (only,) = top_shares([row()]).to_dict("records")
    assert (only["share"], only["uniform"]) == (0.9, 0.25)
    long = row(distance=[1.0] * 20, tokens=["a"] * 20, parts=[""] * 20, weight=[1.0] * 20)
    (only,) = top_shares([long]).to_dict("records")
    assert (only["share"], only["uniform"]) == (0.1, 0.1)


def test_a_data_frame_gives_what_rows_give(attribution: list[dict[str, Any]]) -> None:
    frame = pd.DataFrame(attribution)
    pd.testing.assert_frame_equal(part_shares(frame), part_shares(attribution))


def test_examples_prefer_rewards_that_disagree_and_distinct_prompts() -> None:
    agree = [row(reward=r, prompt_id="agree") for r in "xy"]
    torn = [row(reward="x", prompt_id="torn"), row(reward="y", prompt_id="torn", advantage=-0.5)]
    again = [{**r, "sample": 1} for r in torn]
    dull = [row(reward="x", prompt_id="dull", skipped=True)]
    rows = dull + agree + again + torn
    chosen = [(e[0]["prompt_id"], e[0]["sample"]) for e in examples(rows, 4)]
    assert chosen == [("torn", 0), ("agree", 0), ("dull", 0), ("torn", 1)]
    assert examples(rows, 1)[0] == torn


def held_slowly(distance: list[float], top: float) -> float:
    """Share of the distance in the top x of tokens, a thousandth of a token at a time."""
    fine = [d / 1000 for d in sorted(distance, reverse=True) for _ in range(1000)]
    return sum(fine[: round(top * len(fine))]) / sum(fine)


def test_top_curves_are_the_mean_share_held_and_straight_for_an_even_spread() -> None:
    rng = random.Random(0)
    distances = [[rng.random() ** 3 for _ in range(length)] for length in (7, 20, 1)]
    rows = [row(distance=d, sample=n) for n, d in enumerate(distances)]
    found = top_curves([*rows, row(skipped=True)]).set_index("top")
    assert set(found["replays"]) == {3}
    for top in TOPS:
        slow = sum(held_slowly(d, top) for d in distances) / 3
        assert found["share"][top] == pytest.approx(slow, abs=1e-3)
    even = top_curves([row(distance=[0.2] * 13)])
    assert even["share"].tolist() == pytest.approx(list(TOPS))


def test_tokens_kept_of_a_long_response_are_the_highest_with_their_neighbours() -> None:
    scores = [0.0] * 300
    scores[100], scores[250] = 2.0, 1.0
    expected = {*range(9), *range(92, 109), *range(242, 259)}
    assert kept_tokens(scores, len(expected)) == sorted(expected)
    assert kept_tokens(scores, 27) == [t for t in sorted(expected) if t < 200]
    assert kept_tokens(scores, 300) == list(range(300))
    assert kept_tokens([], 5) == []


def test_the_rewards_shown_are_those_of_the_largest_distance_in_their_order() -> None:
    rows = [row(reward=name, distance=[d]) for name, d in zip("abc", (2.0, 1.0, 3.0), strict=True)]
    quiet = row(reward="d", distance=[9.0], advantage=0.0)
    assert [r["reward"] for r in most_credit([*rows, quiet], 2)] == ["a", "c"]
    assert most_credit([quiet], 2) == [quiet]


def test_the_replay_shown_is_the_narrowest_penalty_of_a_preferred_reward() -> None:
    wide, narrow = [0.5] * 8, [4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    tiny = [0.01, *[0.0] * 7]

    def response(prompt: str, distance: list[float], reward: str = "x") -> list[dict[str, Any]]:
        bad = row(prompt_id=prompt, reward=reward, advantage=-1.0, distance=distance)
        return [bad, row(prompt_id=prompt, reward="other", advantage=1.0)]

    rows = response("wide", wide) + response("narrow", narrow) + response("tiny", tiny)
    rows += response("elsewhere", [9.0, *[0.0] * 7], "y")
    rows += [r | {"advantage": -1.0} for r in response("all bad", narrow)]
    assert [r["prompt_id"] for r in replay_example(rows, ("none", "x"))] == ["narrow"] * 2
    assert replay_example(rows, ("y",))[0]["prompt_id"] == "elsewhere"


def test_responses_with_most_rewards_come_first_and_credit_alone_will_do() -> None:
    few = [row(prompt_id="few", advantage=-1.0, distance=[9.0, 0.0])]
    many = [row(prompt_id="many", reward=r) for r in "xy"]
    assert replay_example(few + many)[0]["prompt_id"] == "many"
    with pytest.raises(ValueError, match="nothing to draw"):
        replay_example([row(skipped=True)])
