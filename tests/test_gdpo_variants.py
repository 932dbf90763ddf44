"""GDPO as this project, the paper and six other implementations compute it, on one vector.

Every function here is written from the description in `docs/methods.md`, on Python numbers. The
vector and the advantages are read from that page, so that it cannot say anything else.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import pytest
import torch

from mrtpo.advantages import gdpo_credit

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
MISSING = math.nan


@dataclass(frozen=True)
class Batch:
    """Rewards by name, one value a rollout; groups follow one another, all of size `group`."""

    rewards: dict[str, list[float]]
    weights: dict[str, float]
    tokens: list[int]
    group: int = 4

    def groups(self, name: str) -> list[list[float]]:
        values = self.rewards[name]
        return [values[at : at + self.group] for at in range(0, len(values), self.group)]


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def std(values: list[float], ddof: int = 1) -> float:
    centre = mean(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - ddof))


def weighted_sum(batch: Batch, normalise: Callable[[list[float]], list[float]]) -> list[float]:
    """Σ_k λ_k A_k of every rollout, A_k made by `normalise` from one group's values of reward k."""
    total = [0.0] * len(batch.tokens)
    for name, weight in batch.weights.items():
        advantages = [a for group in batch.groups(name) for a in normalise(group)]
        total = [t + weight * a for t, a in zip(total, advantages, strict=True)]
    return total


def ours(batch: Batch) -> list[float]:
    rewards_BK = torch.tensor([*batch.rewards.values()], dtype=torch.float64).T
    weight_K = torch.tensor([*batch.weights.values()], dtype=torch.float64)
    group_B = torch.arange(len(batch.tokens)) // batch.group
    credit_BK = gdpo_credit(rewards_BK, ~rewards_BK.isnan(), group_B, weight_K)
    return credit_BK.sum(1).tolist()


def paper(batch: Batch) -> list[float]:
    """Equations 4, 7 and 6 with ε → 0 and ddof 1; a constant group, where they are 0/0, gives 0."""

    def normalise(values: list[float]) -> list[float]:
        spread = std(values)
        return [(v - mean(values)) / spread if spread else 0.0 for v in values]

    total = weighted_sum(batch, normalise)
    return [(t - mean(total)) / std(total) for t in total]


def over_present(values: list[float], epsilon: float) -> list[float]:
    present = [v for v in values if not math.isnan(v)]
    if len(present) < 2:
        return [0.0] * len(values)
    centre, spread = mean(present), std(present) + epsilon
    return [0.0 if math.isnan(v) else (v - centre) / spread for v in values]


def trl(batch: Batch) -> list[float]:
    total = weighted_sum(batch, lambda values: over_present(values, 1e-4))
    empty = [all(map(math.isnan, row)) for row in zip(*batch.rewards.values(), strict=True)]
    scored = [t for t, e in zip(total, empty, strict=True) if not e]
    centre, spread = mean(scored), std(scored) + 1e-4
    return [0.0 if e else (t - centre) / spread for t, e in zip(total, empty, strict=True)]


def ms_swift(batch: Batch) -> list[float]:
    total = weighted_sum(batch, lambda values: over_present(values, 1e-8))
    return [(t - mean(total)) / (std(total) + 1e-8) for t in total]


def verl(batch: Batch) -> list[float]:
    """The last step whitens over tokens: a rollout counts as often as it has tokens."""

    def normalise(values: list[float]) -> list[float]:
        return [(v - mean(values)) / (std(values) + 1e-6) for v in values]

    total = weighted_sum(batch, normalise)
    tokens = [t for t, n in zip(total, batch.tokens, strict=True) for _ in range(n)]
    return [(t - mean(tokens)) / math.sqrt(std(tokens) ** 2 + 1e-8) for t in total]


def nemo_rl(batch: Batch, leave_one_out: bool = False) -> list[float]:
    """Mean and std over the group or, leave-one-out, over the others; std 0 leaves A undivided."""

    def normalise(values: list[float]) -> list[float]:
        advantages = []
        for at, value in enumerate(values):
            others = [v for j, v in enumerate(values) if not (leave_one_out and j == at)]
            # One missing value makes the whole group's mean NaN, also where it is left out.
            centre = mean(others) if not any(map(math.isnan, values)) else math.nan
            spread = std(others) if not math.isnan(centre) else 0.0
            advantages.append((value - centre) / (spread + 1e-6 if spread > 0 else 1.0))
        return advantages

    total = weighted_sum(batch, normalise)
    spread = std(total)
    return [(t - mean(total)) / (spread if spread > 0 else 1.0) for t in total]


def zero_filled(batch: Batch) -> Batch:
    filled = {
        name: [0.0 if math.isnan(v) else v for v in values]
        for name, values in batch.rewards.items()
    }
    return replace(batch, rewards=filled)


def nvlabs_trl(batch: Batch) -> list[float]:
    def normalise(values: list[float]) -> list[float]:
        return [(v - mean(values)) / (std(values) + 1e-4) for v in values]

    total = weighted_sum(zero_filled(batch), normalise)
    return [(t - mean(total)) / (std(total) + 1e-4) for t in total]


def tunix(batch: Batch) -> list[float]:
    """Population stds, and no weights."""

    def normalise(values: list[float]) -> list[float]:
        return [(v - mean(values)) / (std(values, ddof=0) + 1e-4) for v in values]

    even = replace(zero_filled(batch), weights=dict.fromkeys(batch.weights, 1.0))
    total = weighted_sum(even, normalise)
    return [(t - mean(total)) / (std(total, ddof=0) + 1e-4) for t in total]


def nemo_rl_leave_one_out(batch: Batch) -> list[float]:
    return nemo_rl(batch, leave_one_out=True)


VARIANTS: dict[str, Callable[[Batch], list[float]]] = {
    "this project": ours,
    "paper": paper,
    "TRL": trl,
    "ms-swift": ms_swift,
    "verl": verl,
    "NeMo-RL": nemo_rl,
    "NeMo-RL, leave-one-out": nemo_rl_leave_one_out,
    "NVlabs, TRL": nvlabs_trl,
    "Tunix": tunix,
}
ALIKE = ["this project", "paper", "TRL", "ms-swift", "NeMo-RL", "NVlabs, TRL"]


def table(first_cell: str) -> list[list[str]]:
    """The rows of the page's table whose header starts with `first_cell`."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first_cell} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def number(text: str) -> float:
    return math.nan if text in ("NaN", "—") else float(re.sub("−", "-", text))


def page_vector() -> Batch:
    rows = {name: cells for name, *cells in table("vector")}
    tokens = [int(cell) for cell in rows.pop("response tokens")[1:]]
    return Batch(
        rewards={name: [number(cell) for cell in cells[1:]] for name, cells in rows.items()},
        weights={name: number(cells[0]) for name, cells in rows.items()},
        tokens=tokens,
    )


def easy_batch(weights: tuple[float, ...], tokens: int = 16, seed: int = 0) -> Batch:
    """No missing value, no constant group, all responses equally long."""
    draw = random.Random(seed)
    names = [f"r{k}" for k in range(len(weights))]
    rewards = {}
    for name in names:
        groups = [[0.0, 1.0, draw.random(), draw.random()] for _ in range(3)]
        for group in groups:
            draw.shuffle(group)
        rewards[name] = [value for group in groups for value in group]
    return Batch(rewards, dict(zip(names, weights, strict=True)), [tokens] * 12)


def factor(one: list[float], other: list[float]) -> float | None:
    """c with one = c · other up to the implementations' ε, or None."""
    c = sum(a * b for a, b in zip(one, other, strict=True)) / sum(b * b for b in other)
    return c if one == pytest.approx([c * b for b in other], abs=2e-3) else None


def test_vector_has_what_the_page_says() -> None:
    batch = page_vector()
    missing = [name for name, values in batch.rewards.items() if any(map(math.isnan, values))]
    assert len(batch.rewards) == 3 and len(batch.tokens) == 8
    assert sum(map(math.isnan, batch.rewards[missing[0]])) == 1 and len(missing) == 1
    assert any(min(g) == max(g) for name in batch.rewards for g in batch.groups(name))
    assert len(set(batch.weights.values())) == 3 and len(set(batch.tokens)) == 8


@pytest.mark.parametrize("caption", ["reward missing", "reward counted as 0"])
def test_page_has_the_numbers(caption: str) -> None:
    batch = page_vector()
    if caption == "reward counted as 0":
        batch = zero_filled(batch)
    rows = {name: [number(cell) for cell in cells] for name, *cells in table(caption)}
    expected = set(VARIANTS) - ({"paper"} if caption == "reward missing" else set())
    assert set(rows) == expected
    for name, documented in rows.items():
        computed = VARIANTS[name](batch)
        assert computed == pytest.approx(documented, abs=5.1e-5, nan_ok=True), name


def test_only_gdpo_of_verl_depends_on_length() -> None:
    batch = zero_filled(page_vector())
    longer = replace(batch, tokens=[*batch.tokens[:-1], 10 * batch.tokens[-1]])
    changed = {name for name, gdpo in VARIANTS.items() if gdpo(batch) != gdpo(longer)}
    assert changed == {"verl"}
    advantages = verl(batch)
    assert abs(mean(advantages)) > 0.01
    by_token = sum(a * n for a, n in zip(advantages, batch.tokens, strict=True))
    assert by_token == pytest.approx(0.0, abs=1e-9)


def test_one_missing_reward_spoils_the_batch_of_two() -> None:
    spoiled = {n for n, gdpo in VARIANTS.items() if any(map(math.isnan, gdpo(page_vector())))}
    assert spoiled == {"paper", "verl", "NeMo-RL", "NeMo-RL, leave-one-out"}


@pytest.mark.parametrize("seed", range(5))
def test_on_an_easy_batch_six_coincide(seed: int) -> None:
    batch = easy_batch((1.0, 0.5, 2.0), seed=seed)
    results = {name: gdpo(batch) for name, gdpo in VARIANTS.items()}
    for one, other in combinations(ALIKE, 2):
        assert results[one] == pytest.approx(results[other], abs=2e-3), (one, other)
    assert results["this project"] == pytest.approx(results["paper"], abs=2e-5)
    for name in set(VARIANTS) - set(ALIKE):
        assert results[name] != pytest.approx(results["paper"], abs=2e-3), name


@pytest.mark.parametrize("tokens", [1, 16, 400])
def test_verl_is_larger_by_a_factor_where_lengths_are_equal(tokens: int) -> None:
    """The unbiased variance counts tokens: √((N·T − 1) / (T·(N − 1))), 1 at T = 1."""
    batch = easy_batch((1.0, 0.5, 2.0), tokens)
    rollouts = len(batch.tokens)
    expected = math.sqrt((rollouts * tokens - 1) / (tokens * (rollouts - 1)))
    assert factor(verl(batch), paper(batch)) == pytest.approx(expected, abs=1e-4)


def test_tunix_is_larger_by_a_factor_where_weights_are_one() -> None:
    even, uneven = easy_batch((1.0, 1.0, 1.0)), easy_batch((1.0, 0.5, 2.0))
    assert factor(tunix(even), paper(even)) == pytest.approx(math.sqrt(12 / 11), abs=1e-3)
    assert factor(tunix(uneven), paper(uneven)) is None


def test_leave_one_out_is_no_multiple_of_the_others() -> None:
    for weights in ((1.0, 0.5, 2.0), (1.0, 1.0, 1.0)):
        batch = easy_batch(weights)
        assert factor(nemo_rl_leave_one_out(batch), paper(batch)) is None


def test_a_rollout_without_any_reward_counts_in_sigma_except_in_trl() -> None:
    batch = easy_batch((1.0, 0.5, 2.0))
    batch = replace(batch, rewards={n: [MISSING, *v[1:]] for n, v in batch.rewards.items()})
    assert ours(batch)[0] == trl(batch)[0] == 0.0
    assert ours(batch) == pytest.approx(ms_swift(batch), abs=2e-5)
    ratio = factor(ours(batch), trl(batch))
    assert ratio == pytest.approx(math.sqrt(11 / 10), abs=1e-3)


def test_two_rollouts_of_the_papers_figure() -> None:
    """Figure 2, before the last step: ±.7071 for (0, 1), ±1.4142 for (0, 2) as two rewards."""
    one = Batch({"a": [0.0, 1.0], "b": [0.0, 0.0]}, {"a": 1.0, "b": 1.0}, [1, 1], group=2)
    two = Batch({"a": [0.0, 1.0], "b": [0.0, 1.0]}, {"a": 1.0, "b": 1.0}, [1, 1], group=2)
    for batch, value in ((one, 0.7071), (two, 1.4142)):
        total = weighted_sum(
            batch, lambda values: over_present(values, 0.0) if std(values) else [0, 0]
        )
        assert total == pytest.approx([-value, value], abs=5e-5)
