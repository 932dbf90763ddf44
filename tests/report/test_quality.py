"""Scores of an attribution against slow references that follow their definitions."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from mrtpo.report.quality import (
    auroc,
    bootstrap,
    confusion,
    hit,
    scores,
    share_inside,
    uniform_share,
)


def cases(number: int, longest: int) -> list[tuple[list[float], list[bool]]]:
    """Responses with ties, with zeros, and with one to all-but-one responsible tokens."""
    rng = random.Random(0)
    made = []
    while len(made) < number:
        length = rng.randint(2, longest)
        distance = [rng.choice((0.0, 0.5, 1.0, rng.random())) for _ in range(length)]
        inside = [rng.random() < 0.4 for _ in range(length)]
        if any(inside) and not all(inside):
            made.append((distance, inside))
    return [*made, ([0.0] * 4, [True, False, False, False])]


def slow_auroc(distance: list[float], inside: list[bool]) -> float:
    good = [d for d, own in zip(distance, inside, strict=True) if own]
    bad = [d for d, own in zip(distance, inside, strict=True) if not own]
    won = sum((g > b) + 0.5 * (g == b) for g in good for b in bad)
    return won / (len(good) * len(bad))


def slow_hit(distance: list[float], inside: list[bool], most: int) -> float:
    """Over every order of the tokens: sort stably, look at the first ones."""
    orders = list(itertools.permutations(range(len(distance))))
    found = [
        any(inside[t] for t in sorted(order, key=lambda t: -distance[t])[:most]) for order in orders
    ]
    return sum(found) / len(orders)


def slow_share(distance: list[float], inside: list[bool]) -> float:
    total = math.fsum(distance)
    if total == 0:
        return sum(inside) / len(inside)
    return math.fsum(d for d, own in zip(distance, inside, strict=True) if own) / total


def test_auroc_is_the_chance_that_a_responsible_token_has_the_larger_distance():
    for distance, inside in cases(200, 30):
        assert auroc(distance, inside) == pytest.approx(slow_auroc(distance, inside), abs=1e-12)


def test_hits_are_averaged_over_all_ways_to_break_ties():
    for distance, inside in cases(40, 6):
        for most in (1, 2, 3, 9):
            assert hit(distance, inside, most) == pytest.approx(
                slow_hit(distance, inside, most), abs=1e-12
            )


def test_the_share_is_that_of_the_responsible_tokens_and_even_without_a_distance():
    for distance, inside in cases(200, 30):
        assert share_inside(distance, inside) == pytest.approx(slow_share(distance, inside))
        assert uniform_share(inside) == sum(inside) / len(inside)
    assert share_inside([0.0, 0.0, 0.0], [True, False, False]) == pytest.approx(1 / 3)


def test_a_perfect_and_an_inverted_distance():
    inside = [False, True, True, False]
    assert scores([0.1, 2.0, 3.0, 0.0], inside) == {
        "share": pytest.approx(5 / 5.1), "uniform": 0.5, "hit@1": 1.0, "hit@3": 1.0, "auroc": 1.0,
    }  # fmt: skip
    assert auroc([2.0, 0.0, 0.1, 3.0], inside) == 0.0
    assert hit([2.0, 0.0, 0.1, 3.0], inside, 1) == 0.0


def test_nothing_is_found_where_no_token_or_every_token_is_responsible():
    for inside in ([False, False], [True, True]):
        assert all(math.isnan(value) for value in scores([1.0, 2.0], inside).values())


def test_confusion_is_each_rewards_share_on_each_rewards_tokens():
    distance = [[1.0, 3.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0]]
    inside = [[True, False, False, False], [False, True, False, True], [False] * 4]
    found = confusion(distance, inside)
    slow = [[slow_share(d, i) if any(i) else math.nan for i in inside] for d in distance]
    np.testing.assert_allclose(found, slow, rtol=0, atol=1e-12)
    assert found.shape == (2, 3)


def test_what_is_no_distance_is_refused():
    for wrong in ([-1.0, 0.0], [math.nan, 0.0], [math.inf, 0.0], [1.0]):
        with pytest.raises(ValueError, match="distance"):
            auroc(wrong, [True, False])


def slow_bootstrap(
    values: list[float], clusters: list[str], seed: int, draws: int
) -> tuple[float, float]:
    """Draw by draw from the same generator."""
    names = list(dict.fromkeys(clusters))
    drawn = np.random.default_rng(seed).integers(len(names), size=(draws, len(names)))
    means = []
    for row in drawn:
        picked = [
            v for c in row for v, own in zip(values, clusters, strict=True) if own == names[c]
        ]
        means.append(math.fsum(picked) / len(picked))
    means.sort()

    def quantile(q: float) -> float:
        at = q * (draws - 1)
        low = math.floor(at)
        return means[low] + (at - low) * (means[min(low + 1, draws - 1)] - means[low])

    return quantile(0.025), quantile(0.975)


def test_clusters_are_drawn_whole_and_a_seed_gives_the_same_interval():
    rng = random.Random(1)
    clusters = [f"c{n // 3}" for n in range(30)]
    values = [rng.random() + int(c[1:]) for c in clusters]
    found = bootstrap(values, clusters, seed=3, draws=300)
    low, high = slow_bootstrap(values, clusters, 3, 300)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    assert found.mean == pytest.approx(math.fsum(values) / 30) and found.number == 30
    assert found == bootstrap(values, clusters, seed=3, draws=300)
    assert found != bootstrap(values, clusters, seed=4, draws=300)
    alone = bootstrap(values, list(map(str, range(30))), seed=3, draws=300)
    assert found.high - found.low > 1.3 * (alone.high - alone.low)


def test_values_that_are_not_known_are_left_out_of_the_mean():
    found = bootstrap([1.0, math.nan, 0.0], ["a", "b", "c"])
    assert (found.mean, found.number) == (0.5, 2)
    none = bootstrap([math.nan], ["a"])
    assert none.number == 0 and math.isnan(none.mean) and math.isnan(none.low)
    with pytest.raises(ValueError, match="clusters"):
        bootstrap([1.0], [])


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(200):
        values = rng.exponential(size=60)
        found = bootstrap(values, list(range(60)), seed=seed, draws=400)
        covered += found.low <= 1.0 <= found.high
    assert 0.86 <= covered / 200 <= 0.99
