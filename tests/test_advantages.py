"""Group advantages and the credit of each method, against loops over Python numbers."""

from __future__ import annotations

import random
import statistics

import pytest
import torch
from helpers import mask_of
from torch import Tensor

from mrtpo.advantages import (
    EPSILON,
    centred_credit,
    conditioned,
    dead_groups,
    gd2po_credit,
    gdpo_credit,
    group_advantages,
    grpo_credit,
    informative_groups,
    overlong_penalty,
    token_advantages,
)
from mrtpo.attribution import token_weights

Rewards = list[list[float | None]]


def tensors(rewards: Rewards, garbage: float = float("nan")) -> tuple[Tensor, Tensor]:
    """`rewards_BK` with garbage where a reward is missing, and `present_BK`."""
    values = [[garbage if r is None else r for r in row] for row in rewards]
    present = [[r is not None for r in row] for row in rewards]
    return torch.tensor(values, dtype=torch.float64), torch.tensor(present)


def slow_advantages(rewards: Rewards, groups: list[int]) -> list[list[float]]:
    out = [[0.0] * len(row) for row in rewards]
    for group in set(groups):
        rows = [b for b in range(len(rewards)) if groups[b] == group]
        for k in range(len(rewards[0])):
            values = [rewards[b][k] for b in rows if rewards[b][k] is not None]
            if len(values) < 2 or min(values) == max(values):
                continue
            mean, std = statistics.fmean(values), statistics.stdev(values)
            for b in rows:
                if rewards[b][k] is not None:
                    out[b][k] = (rewards[b][k] - mean) / (std + EPSILON)
    return out


def slow_gdpo(rewards: Rewards, groups: list[int], weights: list[float]) -> list[list[float]]:
    advantages = slow_advantages(rewards, groups)
    sums = [sum(w * a for w, a in zip(weights, row, strict=True)) for row in advantages]
    scale = statistics.stdev(sums) + EPSILON
    return [[w * a / scale for w, a in zip(weights, row, strict=True)] for row in advantages]


def slow_grpo(rewards: Rewards, groups: list[int], weights: list[float]) -> list[list[float]]:
    totals: Rewards = [
        [None] if any(r is None and w != 0 for r, w in zip(row, weights, strict=True))
        else [sum(w * r for r, w in zip(row, weights, strict=True) if r is not None)]
        for row in rewards
    ]  # fmt: skip
    return slow_advantages(totals, groups)


def ragged(seed: int, count: int, missing: float) -> tuple[Rewards, list[int], list[float]]:
    """Interleaved groups of 1 to 6 rows with ids that are neither sorted nor contiguous."""
    rng = random.Random(seed)
    ids = [907, 3, -5, 41, 12]
    groups = [g for g in ids for _ in range(rng.randint(1, 6))] + [3, 3]
    rng.shuffle(groups)
    rewards: Rewards = [
        [None if rng.random() < missing else rng.choice([0.0, 1.0, rng.uniform(-3, 3)])
         for _ in range(count)]
        for _ in groups
    ]  # fmt: skip
    return rewards, groups, [rng.choice([0.5, 1.0, 2.0]) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_credit_equals_the_loops_over_ragged_interleaved_groups(count: int, missing: float) -> None:
    for seed in range(6):
        rewards, groups, weights = ragged(seed, count, missing)
        rewards_BK, present_BK = tensors(rewards)
        group_B, weight_K = torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
        for made, slow in (
            (group_advantages(rewards_BK, present_BK, group_B), slow_advantages(rewards, groups)),
            (gdpo_credit(rewards_BK, present_BK, group_B, weight_K),
             slow_gdpo(rewards, groups, weights)),
            (grpo_credit(rewards_BK, present_BK, group_B, weight_K),
             slow_grpo(rewards, groups, weights)),
        ):  # fmt: skip
            torch.testing.assert_close(made, torch.tensor(slow, dtype=torch.float64))


def test_float32_credit_stays_close_to_the_loops() -> None:
    rewards, groups, weights = ragged(1, 3, 0.2)
    rewards_BK, present_BK = tensors(rewards)
    made = gdpo_credit(rewards_BK.float(), present_BK, torch.tensor(groups), torch.tensor(weights))
    slow = torch.tensor(slow_gdpo(rewards, groups, weights), dtype=torch.float64)
    torch.testing.assert_close(made.double(), slow, rtol=1e-5, atol=1e-5)


def test_a_missing_reward_is_left_out_of_mean_and_std_and_has_no_advantage() -> None:
    rewards_BK, present_BK = tensors([[1.0], [None], [0.0], [1.0]])
    made = group_advantages(rewards_BK, present_BK, torch.zeros(4, dtype=torch.long))
    expected = torch.tensor([[0.577], [0.0], [-1.155], [0.577]], dtype=torch.float64)
    torch.testing.assert_close(made, expected, rtol=0, atol=6e-4)


def test_rewards_that_always_cancel_leave_each_its_own_advantage() -> None:
    rewards_BK, present_BK = tensors([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    group_B, weight_K = torch.zeros(4, dtype=torch.long), torch.ones(2, dtype=torch.float64)
    advantages_BK = group_advantages(rewards_BK, present_BK, group_B)
    torch.testing.assert_close(
        advantages_BK.abs(), torch.full((4, 2), 0.866, dtype=torch.float64), rtol=0, atol=1e-3
    )
    credit_BK = gdpo_credit(rewards_BK, present_BK, group_B, weight_K)
    assert (credit_BK.sum(1) == 0).all()
    assert (dead_groups(rewards_BK, present_BK, group_B) == 0).all()
    # A σ of nothing must not blow the parts up by 1/ε: under token weights they no longer cancel.
    torch.testing.assert_close(credit_BK, advantages_BK)


def test_rewards_that_cancel_up_to_rounding_are_not_blown_up() -> None:
    rewards = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]  # thirds do not cancel exactly
    rewards_BK, present_BK = tensors(rewards)
    credit_BK = gdpo_credit(
        rewards_BK.float(), present_BK, torch.zeros(3, dtype=torch.long), torch.ones(2)
    )
    assert float(credit_BK.abs().max()) < 2.0


def test_two_rewards_that_agree_count_twice_under_gdpo_and_once_under_grpo() -> None:
    rewards_BK, present_BK = tensors([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    group_B, weight_K = torch.tensor([0, 0, 1, 1]), torch.ones(2, dtype=torch.float64)
    sums_B = group_advantages(rewards_BK, present_BK, group_B).sum(1)
    expected = torch.tensor([-0.707, 0.707, -1.414, 1.414], dtype=torch.float64)
    torch.testing.assert_close(sums_B, expected, rtol=0, atol=1e-3)
    grpo_B = grpo_credit(rewards_BK, present_BK, group_B, weight_K)[:, 0]
    torch.testing.assert_close(
        grpo_B.abs(), torch.full((4,), 0.707, dtype=torch.float64), rtol=0, atol=1e-3
    )


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -2.5])
def test_a_constant_group_has_exactly_no_advantage(value: float) -> None:
    rewards_BK, present_BK = tensors([[value, 0.0], [value, 1.0], [value, None], [7.0, 3.0]])
    group_B = torch.tensor([4, 4, 4, 9])
    advantages_BK = group_advantages(rewards_BK, present_BK, group_B)
    assert (advantages_BK[:, 0] == 0).all()  # also the group of one row
    assert advantages_BK[0, 1] < 0 < advantages_BK[1, 1]
    assert advantages_BK[3, 1] == 0


def test_a_batch_of_constant_groups_has_no_credit_and_no_nan() -> None:
    rewards_BK, present_BK = tensors([[1.0], [1.0]])
    group_B, weight_K = torch.tensor([0, 0]), torch.ones(1, dtype=torch.float64)
    for compute in (gdpo_credit, grpo_credit):
        assert (compute(rewards_BK, present_BK, group_B, weight_K) == 0).all()
        assert (compute(rewards_BK[:1], present_BK[:1], group_B[:1], weight_K) == 0).all()


def test_a_missing_reward_leaves_every_other_advantage_unchanged_to_the_bit() -> None:
    rewards, groups, _ = ragged(2, 3, 0.0)
    whole_BK, present_BK = tensors(rewards)
    group_B = torch.tensor(groups)
    row = groups.index(3)
    before = group_advantages(whole_BK, present_BK, group_B)
    present_BK[row, 1] = False
    whole_BK[row, 1] = float("nan")
    after = group_advantages(whole_BK, present_BK, group_B)
    assert torch.equal(after[:, [0, 2]], before[:, [0, 2]])
    elsewhere = group_B != 3
    assert torch.equal(after[elsewhere], before[elsewhere])
    # Its own group is what it would be had the row never been drawn.
    kept = torch.arange(len(groups)) != row
    without = group_advantages(whole_BK[kept], present_BK[kept], group_B[kept])
    assert torch.equal(after[kept][:, 1], without[:, 1])
    assert after[row, 1] == 0


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 1e30])
def test_what_stands_where_a_reward_is_missing_has_no_influence(garbage: float) -> None:
    rewards, groups, weights = ragged(5, 3, 0.4)
    group_B, weight_K = torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
    for compute in (gdpo_credit, grpo_credit):
        clean = compute(*tensors(rewards, 0.0), group_B, weight_K)
        assert torch.equal(compute(*tensors(rewards, garbage), group_B, weight_K), clean)


def test_permuting_rewards_permutes_credit() -> None:
    rewards, groups, weights = ragged(3, 4, 0.2)
    rewards_BK, present_BK = tensors(rewards)
    group_B, weight_K = torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
    credit_BK = gdpo_credit(rewards_BK, present_BK, group_B, weight_K)
    order = [2, 0, 3, 1]
    permuted = gdpo_credit(rewards_BK[:, order], present_BK[:, order], group_B, weight_K[order])
    torch.testing.assert_close(permuted, credit_BK[:, order], rtol=1e-12, atol=1e-12)


def test_permuting_rows_or_renaming_groups_changes_nothing() -> None:
    rewards, groups, weights = ragged(4, 2, 0.2)
    rewards_BK, present_BK = tensors(rewards)
    group_B, weight_K = torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
    credit_BK = gdpo_credit(rewards_BK, present_BK, group_B, weight_K)
    order = list(range(len(groups)))
    random.Random(0).shuffle(order)
    renamed_B = 1000 - 7 * group_B
    shuffled = gdpo_credit(rewards_BK[order], present_BK[order], renamed_B[order], weight_K)
    torch.testing.assert_close(shuffled, credit_BK[order], rtol=1e-12, atol=1e-12)


def test_weights_scale_rewards_and_a_zero_weight_takes_one_out() -> None:
    rewards, groups, _ = ragged(6, 2, 0.0)
    rewards_BK, present_BK = tensors(rewards)
    group_B = torch.tensor(groups)
    one = torch.ones(1, dtype=torch.float64)
    for compute in (gdpo_credit, grpo_credit):
        alone = compute(rewards_BK[:, :1], present_BK[:, :1], group_B, one)
        both = compute(rewards_BK, present_BK, group_B, torch.tensor([1.0, 0.0]).double())
        torch.testing.assert_close(both.sum(1), alone.sum(1))
    made = gdpo_credit(rewards_BK, present_BK, group_B, torch.tensor([3.0, 1.0]).double())
    advantages_BK = group_advantages(rewards_BK, present_BK, group_B)
    kept = advantages_BK.abs().min(1).values > 1e-6
    ratio_B = made[kept, 0] / made[kept, 1]
    torch.testing.assert_close(ratio_B, 3 * advantages_BK[kept, 0] / advantages_BK[kept, 1])


def test_a_metric_that_is_missing_does_not_take_a_row_out_of_grpo() -> None:
    rewards_BK, present_BK = tensors([[0.0, None], [1.0, 0.0]])
    group_B, weight_K = torch.tensor([0, 0]), torch.tensor([1.0, 0.0]).double()
    credit_B1 = grpo_credit(rewards_BK, present_BK, group_B, weight_K)
    assert credit_B1[0, 0] < 0 < credit_B1[1, 0]


def test_with_one_reward_gdpo_is_grpo_up_to_its_scale_step() -> None:
    rewards, groups, _ = ragged(7, 1, 0.2)
    rewards_BK, present_BK = tensors(rewards)
    group_B, weight_K = torch.tensor(groups), torch.ones(1, dtype=torch.float64)
    grpo_BK = grpo_credit(rewards_BK, present_BK, group_B, weight_K)
    gdpo_BK = gdpo_credit(rewards_BK, present_BK, group_B, weight_K)
    sigma = statistics.stdev(grpo_BK[:, 0].tolist())
    torch.testing.assert_close(gdpo_BK * (sigma + EPSILON), grpo_BK, rtol=1e-12, atol=1e-12)


def test_dead_groups_are_counted_for_each_reward() -> None:
    rewards_BK, present_BK = tensors(
        [[1.0, 0.0, None], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, None]]
    )
    made = dead_groups(rewards_BK, present_BK, torch.tensor([8, 8, 2, 2]))
    assert made.tolist() == [1.0, 0.0, 1.0]
    alone = dead_groups(rewards_BK, present_BK, torch.tensor([8, 8, 8, 2]))
    assert alone.tolist() == [0.5, 0.5, 0.5]


def test_a_conditioned_reward_counts_only_where_the_other_is_reached() -> None:
    rewards_BK, present_BK = tensors(
        [[1.0, 5.0], [0.0, 5.0], [0.99, 5.0], [None, 5.0], [1.0, None]], garbage=1.0
    )
    made = conditioned(rewards_BK, present_BK, ("gate", "gain"), {"gain": "gate"})
    assert made[:4, 1].tolist() == [5.0, 0.0, 0.0, 0.0]
    assert torch.equal(made[:, 0], rewards_BK[:, 0])
    assert rewards_BK[1, 1] == 5.0  # the rewards themselves are left alone
    assert torch.equal(conditioned(rewards_BK, present_BK, ("gate", "gain"), {}), rewards_BK)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_weights_of_one_give_every_token_its_rows_gdpo_advantage_to_the_bit(count: int) -> None:
    torch.manual_seed(count)
    credit_BK = torch.randn(6, count)
    mask_BT = mask_of([7, 1, 12, 3, 5, 2]).float()
    weights_BKT = mask_BT[:, None].expand(-1, count, -1)
    made_BT = token_advantages(credit_BK, weights_BKT, mask_BT)
    for b, row in enumerate(credit_BK):
        length = int(mask_BT[b].sum())
        assert (made_BT[b, :length] == made_BT[b, 0]).all()
        assert float(made_BT[b, 0]) == pytest.approx(float(row.double().sum()), abs=1e-6)
        assert (made_BT[b, length:] == 0).all()


def test_each_row_keeps_its_gdpo_mean_whatever_the_distances() -> None:
    torch.manual_seed(0)
    rewards, groups, weights = ragged(9, 3, 0.2)
    lengths = [1 + b % 9 for b in range(len(groups))]
    mask_BT = mask_of(lengths)
    credit_BK = gdpo_credit(
        *tensors(rewards), torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
    )
    for scale in (0.0, 1e-6, 1.0, 1e3):
        distance_BKT = torch.rand(len(groups), 3, max(lengths), dtype=torch.float64) ** 4 * scale
        weights_BKT = torch.stack(
            [token_weights(distance_BKT[:, k], mask_BT, floor=0.01) for k in range(3)], 1
        )
        made_BT = token_advantages(credit_BK, weights_BKT, mask_BT)
        torch.testing.assert_close(made_BT.sum(1) / mask_BT.sum(1), credit_BK.sum(1))


def test_padding_gets_no_advantage_even_under_a_stray_weight() -> None:
    made_BT = token_advantages(
        torch.ones(2, 1), torch.full((2, 1, 3), 9.0), mask_of([1, 3]).float()
    )
    assert made_BT.tolist() == [[9.0, 0.0, 0.0], [9.0, 9.0, 9.0]]


def slow_centred(rewards: Rewards, groups: list[int], weights: list[float]) -> list[list[float]]:
    out = [[0.0] for _ in rewards]
    for group in set(groups):
        totals = {}
        for b, row in enumerate(rewards):
            used = [(w, r) for w, r in zip(weights, row, strict=True) if w != 0]
            if groups[b] == group and all(r is not None for _, r in used):
                totals[b] = sum(w * r for w, r in used)
        for b, total in totals.items():
            out[b][0] = total - statistics.fmean(totals.values())
    return out


def slow_gd2po(
    rewards: Rewards, groups: list[int], weights: list[float], form: str, threshold: float
) -> list[list[float]]:
    parts = [
        [w * a for w, a in zip(weights, row, strict=True)]
        for row in slow_advantages(rewards, groups)
    ]
    kept, judged = [], []
    for b, row in enumerate(parts):
        if all(r is None or w == 0 for r, w in zip(rewards[b], weights, strict=True)):
            continue
        judged.append(b)
        conflict = max(row) > 1e-8 and min(row) < -1e-8
        agreement = abs(sum(row)) / sum(abs(x) for x in row) if conflict else 1.0
        if not conflict or (form == "soft" and agreement >= threshold):
            kept.append(b)
    scaled = {}
    for b in kept:
        size = sum(groups[j] == groups[b] for j in judged)
        scaled[b] = sum(parts[b]) * sum(groups[j] == groups[b] for j in kept) / size
    out = [[0.0] for _ in rewards]
    if not kept:
        return out
    mean = statistics.fmean(scaled.values())
    sigma = statistics.stdev(scaled.values()) if len(kept) > 1 else 0.0
    for b in kept:
        out[b][0] = (scaled[b] - mean) / (sigma + EPSILON if sigma > 1e-4 else 1.0)
    return out


def with_dead_groups(rewards: Rewards, groups: list[int]) -> Rewards:
    """Group 41 is constant in every reward, group 907 in the first."""
    return [
        [r if r is None or not (g == 41 or (g == 907 and k == 0)) else 0.5
         for k, r in enumerate(row)]
        for row, g in zip(rewards, groups, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 5, 16])
@pytest.mark.parametrize("missing", [0.0, 0.1, 0.5])
def test_credit_without_std_equals_the_loops(count: int, missing: float) -> None:
    moved = 0
    for seed in range(6):
        rewards, groups, weights = ragged(seed, count, missing)
        rewards = with_dead_groups(rewards, groups)
        weights[-1] = 0.0 if count > 1 and seed % 2 else weights[-1]
        made = centred_credit(
            *tensors(rewards), torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
        )
        slow = torch.tensor(slow_centred(rewards, groups, weights), dtype=torch.float64)
        torch.testing.assert_close(made, slow)
        assert (made[torch.tensor(groups) == 41] == 0).all()
        moved += int((made != 0).sum())
    assert moved > 0 or (count, missing) == (16, 0.5)  # there no row has all of its rewards


def test_credit_without_std_keeps_the_size_of_differences() -> None:
    rewards_BK, present_BK = tensors([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [4.0, 1.0], [9.0, None]])
    group_B, weight_K = torch.tensor([2, 2, 1, 1, 1]), torch.tensor([0.5, 3.0]).double()
    made = centred_credit(rewards_BK, present_BK, group_B, weight_K)
    assert made[:, 0].tolist() == [-0.25, 0.25, -1.0, 1.0, 0.0]


@pytest.mark.parametrize("value", [0.1, 1 / 3, -2.7])
def test_a_constant_group_has_exactly_no_credit_without_std_either(value: float) -> None:
    rewards_BK, present_BK = tensors([[value, value]] * 7)
    made = centred_credit(rewards_BK.float(), present_BK, torch.zeros(7), torch.tensor([0.3, 0.7]))
    assert (made == 0).all()


@pytest.mark.parametrize("count", [1, 2, 5, 16])
@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(
    ("form", "threshold"), [("hard", 0.8), ("soft", 0.8), ("soft", 0.2), ("soft", 0.0)]
)
def test_gd2po_equals_the_loops(count: int, missing: float, form: str, threshold: float) -> None:
    for seed in range(6):
        rewards, groups, weights = ragged(seed, count, missing)
        rewards = with_dead_groups(rewards, groups)
        weights[0] *= -1 if seed % 3 == 1 else 1
        weights[-1] = 0.0 if count > 1 and seed % 3 == 2 else weights[-1]
        made = gd2po_credit(
            *tensors(rewards), torch.tensor(groups), torch.tensor(weights, dtype=torch.float64),
            form=form, threshold=threshold,
        )  # fmt: skip
        slow = slow_gd2po(rewards, groups, weights, form, threshold)
        torch.testing.assert_close(made, torch.tensor(slow, dtype=torch.float64))


def gd2po(
    rewards: Rewards, groups: list[int], form: str = "hard", threshold: float = 0.8
) -> list[float]:
    weight_K = torch.ones(len(rewards[0]), dtype=torch.float64)
    made = gd2po_credit(
        *tensors(rewards), torch.tensor(groups), weight_K, form=form, threshold=threshold
    )
    assert made.shape == (len(rewards), 1)
    return made[:, 0].tolist()


def test_gd2po_by_hand() -> None:
    # Group 0: rows 2 and 3 conflict. Sums of rows 0 and 1: ±√3, times 2/4. Group 1: ±√½.
    rewards: Rewards = [[1, 1], [0, 0], [1, 0], [0, 1], [5, 2], [3, 2]]
    root, half = 3**0.5 / 2, 0.5**0.5
    sigma = statistics.stdev([root, -root, half, -half])
    expected = [root, -root, 0.0, 0.0, half, -half]
    assert gd2po(rewards, [0, 0, 0, 0, 1, 1]) == pytest.approx([e / sigma for e in expected], 1e-5)


def test_gd2po_soft_keeps_a_conflict_that_one_side_clearly_wins() -> None:
    # Row 0: advantages of 1.5 and −.5 (agreement ½); row 1 of −.5 and 1.5; rows 2 and 3 agree.
    rewards: Rewards = [[1, 0], [0, 1], [0, 0], [0, 0]]
    parts = slow_advantages(rewards, [0] * 4)
    assert parts[0] == pytest.approx([1.5, -0.5], abs=1e-5)
    assert [credit != 0 for credit in gd2po(rewards, [0] * 4, "soft", 0.49)] == [True] * 4
    dropped = gd2po(rewards, [0] * 4, "soft", 0.51)
    assert dropped[:2] == [0.0, 0.0]
    assert dropped == gd2po(rewards, [0] * 4, "hard")


def test_gd2po_without_conflict_is_gdpo() -> None:
    rewards, groups, _ = ragged(3, 1, 0.0)
    weight_K = torch.ones(1, dtype=torch.float64)
    gdpo = gdpo_credit(*tensors(rewards), torch.tensor(groups), weight_K)[:, 0]
    assert gd2po(rewards, groups) == pytest.approx(gdpo.tolist(), abs=1e-12)


def test_gd2po_with_nobody_kept_or_one_kept_has_no_credit_and_no_nan() -> None:
    assert gd2po([[1, 0], [0, 1]], [0, 0]) == [0.0, 0.0]
    assert gd2po([[3, 3], [3, 0], [0, 3]], [0, 0, 0]) == [0.0, 0.0, 0.0]
    assert gd2po([[1, 0], [0, 1], [1, 1]], [0, 0, 4]) == [0.0, 0.0, 0.0]
    assert gd2po([[1.0]], [0]) == [0.0]


def test_gd2po_keeps_a_rollout_without_advantage_but_not_one_that_nobody_judged() -> None:
    rewards: Rewards = [[3, 3], [3, 0], [0, 3], [7, 7], [7, 7], [None, None]]
    made = gd2po(rewards, [0, 0, 0, 1, 1, 1])
    assert made[1] == made[2] == made[5] == 0.0
    assert made[0] > 0 > made[3] == made[4]
    assert sum(made) == pytest.approx(0.0, abs=1e-12)


def test_an_unknown_form_of_gd2po_is_named_with_those_accepted() -> None:
    with pytest.raises(ValueError, match=r"'firm'.*hard, soft"):
        gd2po([[1.0], [0.0]], [0, 0], "firm")


def test_what_stands_where_a_reward_is_missing_reaches_none_of_the_other_methods() -> None:
    rewards, groups, weights = ragged(5, 3, 0.4)
    group_B, weight_K = torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
    for garbage in (float("nan"), float("inf"), 1e30):
        for compute in (
            centred_credit,
            informative_groups,
            lambda *given: gd2po_credit(*given, form="hard", threshold=0.8),
        ):
            clean = compute(*tensors(rewards, 0.0), group_B, weight_K)
            assert torch.equal(compute(*tensors(rewards, garbage), group_B, weight_K), clean)


@pytest.mark.parametrize(("limit", "buffer"), [(20, 8), (20, 20), (7, 1), (9, 0)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64])
def test_the_overlong_penalty_equals_the_loops(limit: int, buffer: int, dtype: torch.dtype) -> None:
    made = overlong_penalty(torch.arange(0, 30).to(dtype), limit, buffer)
    slow = []
    for length in range(30):
        if length <= limit - buffer:
            slow.append(0.0)
        elif length <= limit:
            slow.append((limit - buffer - length) / buffer)
        else:
            slow.append(-1.0)
    assert made.is_floating_point()
    assert made.tolist() == pytest.approx(slow, rel=1e-6)


def test_the_overlong_penalty_by_hand() -> None:
    made = overlong_penalty(torch.tensor([1, 12, 13, 16, 19, 20, 21, 400]), 20, 8)
    assert made.tolist() == [0.0, 0.0, -0.125, -0.5, -0.875, -1.0, -1.0, -1.0]


@pytest.mark.parametrize("count", [1, 2, 5, 16])
@pytest.mark.parametrize("missing", [0.0, 0.5, 0.9])
def test_informative_groups_equal_the_loops(count: int, missing: float) -> None:
    for seed in range(6):
        rewards, groups, weights = ragged(seed, count, missing)
        rewards = with_dead_groups(rewards, groups)
        weights[-1] = 0.0 if seed % 2 else weights[-1]
        slow = []
        for group in sorted(set(groups)):
            columns = [
                {row[k] for b, row in enumerate(rewards) if groups[b] == group} - {None}
                for k in range(count)
            ]
            slow.append(any(w != 0 and len(c) > 1 for w, c in zip(weights, columns, strict=True)))
        made = informative_groups(
            *tensors(rewards), torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
        )
        assert made.dtype == torch.bool
        assert made.tolist() == slow


def test_groups_inform_by_each_reward_and_never_by_their_sum() -> None:
    rewards_BK, present_BK = tensors(
        [[1.0, 0.0, 4.0], [0.0, 1.0, 4.0],  # cancel in the sum
         [0.3, 0.2, 0.0], [0.3, 0.2, 9.0],  # differ in what has no weight
         [0.0, 1.0, 1.0], [None, 1.0, 1.0],  # nothing to compare with
         [5.0, 5.0, 5.0],
         [1.0, 1.0, 1.0], [1.0, 1.001, 1.0]]
    )  # fmt: skip
    group_B = torch.tensor([30, 30, 4, 4, 21, 21, 8, 7, 7])
    made = informative_groups(rewards_BK, present_BK, group_B, torch.tensor([1.0, -1.0, 0.0]))
    told = dict(zip(group_B.unique().tolist(), made.tolist(), strict=True))
    assert told == {30: True, 4: False, 21: False, 8: False, 7: True}
