"""The clipped surrogate and the KL, against loops over Python numbers."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import mask_of
from torch import Tensor

from mrtpo.loss import MAX_LOG_RATIO, clipped_surrogate, kl_to_reference

LENGTHS = [6, 1, 4]


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    mask_BT = mask_of(LENGTHS)
    logps, moved, advantages = torch.randn(
        3, *mask_BT.shape, generator=generator, dtype=torch.float64
    )
    return -logps.abs(), -logps.abs() + 0.4 * moved, advantages, mask_BT


def slow_loss(
    logps: Tensor, old: Tensor, advantages: Tensor, low: float, high: float
) -> tuple[float, int, Tensor]:
    """Loss, decided tokens and the gradient by `logps`, by the rules of PPO's clip."""
    total, decided = 0.0, 0
    gradient = torch.zeros_like(logps)
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            ratio = math.exp(float(logps[b, t] - old[b, t]))
            advantage = float(advantages[b, t])
            stopped = ratio > 1 + high if advantage > 0 else ratio < 1 - low
            kept = min(max(ratio, 1 - low), 1 + high) if stopped else ratio
            total -= kept * advantage
            decided += stopped
            gradient[b, t] = 0.0 if stopped else -ratio * advantage
    return total, decided, gradient


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.1, 0.5), (0.0, 10.0)])
def test_loss_gradient_and_clip_count_equal_the_loops(low: float, high: float) -> None:
    logps, old, advantages, mask_BT = batch()
    logps.requires_grad_()
    loss, decided = clipped_surrogate(logps, old, advantages, mask_BT, low, high)
    loss.backward()
    slow, slow_decided, slow_gradient = slow_loss(logps.detach(), old, advantages, low, high)
    assert float(loss.detach()) == pytest.approx(slow)
    assert int(decided) == slow_decided
    torch.testing.assert_close(logps.grad, slow_gradient)


@pytest.mark.parametrize(
    ("ratio", "advantage", "stopped"),
    [(1.5, 1.0, 1), (1.5, -1.0, 0), (0.5, 1.0, 0), (0.5, -1.0, 1), (1.1, 1.0, 0), (0.9, -1.0, 0),
     (1.5, 0.0, 0)],
)  # fmt: skip
def test_the_clip_decides_only_where_it_lowers_the_gain(
    ratio: float, advantage: float, stopped: int
) -> None:
    logps = torch.tensor([[math.log(ratio)]], requires_grad=True)
    loss, decided = clipped_surrogate(
        logps, torch.zeros(1, 1), torch.tensor([[advantage]]), torch.ones(1, 1), 0.2, 0.2
    )
    loss.backward()
    assert int(decided) == stopped
    assert (float(logps.grad) == 0) == (stopped == 1 or advantage == 0)


def test_on_policy_the_ratio_is_one_and_the_gradient_minus_the_advantage() -> None:
    logps, _, advantages, mask_BT = batch()
    logps.requires_grad_()
    loss, decided = clipped_surrogate(logps, logps.detach(), advantages, mask_BT, 0.2, 0.2)
    loss.backward()
    assert int(decided) == 0
    torch.testing.assert_close(logps.grad, -advantages * mask_BT, rtol=0, atol=0)
    assert float(loss.detach()) == pytest.approx(-float((advantages * mask_BT).sum()))


def test_a_masked_overflow_leaves_loss_and_gradient_finite() -> None:
    logps = torch.tensor([[0.0, 200.0]], requires_grad=True)
    loss, decided = clipped_surrogate(
        logps, torch.zeros(1, 2), torch.ones(1, 2), torch.tensor([[1, 0]]), 0.2, 0.2
    )
    loss.backward()
    assert float(loss.detach()) == -1.0
    assert logps.grad.tolist() == [[-1.0, 0.0]]
    assert int(decided) == 0


@pytest.mark.parametrize("masked", [math.inf, -math.inf, math.nan])
def test_nothing_that_stands_in_the_padding_reaches_loss_or_gradient(masked: float) -> None:
    logps = torch.tensor([[-1.0, masked]], requires_grad=True)
    mask = torch.tensor([[1, 0]])
    loss, _ = clipped_surrogate(
        logps, torch.tensor([[-1.0, 3.0]]), torch.tensor([[2.0, masked]]), mask, 0.2, 0.2
    )
    loss = loss + kl_to_reference(logps, torch.tensor([[-2.0, 5.0]]), mask)
    loss.backward()
    assert math.isfinite(float(loss.detach()))
    assert logps.grad[0].isfinite().all()
    assert logps.grad[0, 1] == 0


def test_a_real_token_far_off_is_clamped_not_infinite() -> None:
    logps = torch.tensor([[200.0, -200.0]], requires_grad=True)
    old, ones = torch.zeros(1, 2), torch.ones(1, 2)
    loss, _ = clipped_surrogate(logps, old, torch.tensor([[-1.0, 1.0]]), ones, 0.2, 0.2)
    expected = math.exp(MAX_LOG_RATIO) - math.exp(-MAX_LOG_RATIO)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    kl = kl_to_reference(logps, old, ones)
    (loss + kl).backward()
    assert math.isfinite(float(kl.detach())) and logps.grad.isfinite().all()


def test_kl_equals_the_loops_and_its_gradient_pulls_to_the_reference() -> None:
    logps, reference, _, mask_BT = batch()
    logps.requires_grad_()
    kl = kl_to_reference(logps, reference, mask_BT)
    kl.backward()
    slow, gradient = 0.0, torch.zeros_like(reference)
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            r = float(reference[b, t] - logps[b, t].detach())
            slow += math.exp(r) - r - 1
            gradient[b, t] = 1 - math.exp(r)
    assert float(kl.detach()) == pytest.approx(slow)
    torch.testing.assert_close(logps.grad, gradient)
    assert float(kl_to_reference(logps.detach(), logps.detach(), mask_BT)) == 0


def test_kl_is_never_negative_in_float32_even_for_tiny_differences() -> None:
    tiny = torch.logspace(-9, 1, 400)
    for ratio in (tiny, -tiny):
        each = torch.stack(
            [kl_to_reference(torch.zeros(1, 1), r.reshape(1, 1), torch.ones(1, 1)) for r in ratio]
        )
        assert (each >= 0).all()
        exact = torch.expm1(ratio.double()) - ratio.double()
        torch.testing.assert_close(each.double(), exact, rtol=1e-3, atol=1e-11)


def test_sums_over_pieces_of_a_batch_add_up_to_the_whole() -> None:
    logps, old, advantages, mask_BT = batch()
    whole, decided = clipped_surrogate(logps, old, advantages, mask_BT, 0.2, 0.2)
    pieces = [
        clipped_surrogate(logps[b : b + 1], old[b : b + 1], advantages[b : b + 1],
                          mask_BT[b : b + 1], 0.2, 0.2)
        for b in range(3)
    ]  # fmt: skip
    assert float(whole) == pytest.approx(sum(float(loss) for loss, _ in pieces))
    assert int(decided) == sum(int(count) for _, count in pieces)
