"""The losses, the KL and their averages, against loops over Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from helpers import mask_of
from torch import Tensor

from mrtpo.loss import (
    LOSSES,
    MAX_LOG_RATIO,
    cispo_surrogate,
    clipped_surrogate,
    gspo_surrogate,
    kl_to_reference,
    row_scale,
)

LENGTHS = [6, 1, 4, 9, 2]


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    mask_BT = mask_of(LENGTHS)
    logps, moved, advantages = torch.randn(
        3, *mask_BT.shape, generator=generator, dtype=torch.float64
    )
    return -logps.abs(), -logps.abs() + 0.4 * moved, advantages, mask_BT


def slow_clip(ratio: float, advantage: float, low: float, high: float) -> tuple[float, bool, float]:
    """Loss of one token, whether the clip decides it, and the gradient by the ratio's logarithm."""
    stopped = ratio > 1 + high if advantage > 0 else ratio < 1 - low
    kept = min(max(ratio, 1 - low), 1 + high) if stopped else ratio
    return -kept * advantage, stopped, 0.0 if stopped else -ratio * advantage


def slow_token(
    name: str, logps: list[float], old: list[float], t: int, advantage: float, low: float,
    high: float,
) -> tuple[float, bool, float]:  # fmt: skip
    """Loss, decision and gradient by `logps[t]` of token t of one response."""
    ratio = math.exp(logps[t] - old[t])
    if name == "clipped":
        return slow_clip(ratio, advantage, low, high)
    if name == "gspo":
        mean = sum(p - q for p, q in zip(logps, old, strict=True)) / len(logps)
        return slow_clip(math.exp(mean), advantage, low, high)
    kept = min(max(ratio, 1 - low), 1 + high)
    return -kept * advantage * logps[t], kept != ratio, -kept * advantage


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.1, 0.5), (0.0, 10.0), (0.03, 0.04)])
def test_loss_gradient_and_decisions_equal_the_loops(name: str, low: float, high: float) -> None:
    logps, old, advantages, mask_BT = batch()
    logps.requires_grad_()
    torch.manual_seed(1)
    loss_BT, decided_BT = LOSSES[name](logps, old, advantages, mask_BT, low, high)
    scale_BT = torch.rand(loss_BT.shape, dtype=torch.float64)  # each token has its own gradient
    (loss_BT * scale_BT).sum().backward()
    assert decided_BT.dtype == torch.bool
    for b, length in enumerate(LENGTHS):
        rows = logps[b, :length].tolist(), old[b, :length].tolist()
        for t in range(length):
            loss, decided, gradient = slow_token(name, *rows, t, float(advantages[b, t]), low, high)
            assert float(loss_BT[b, t].detach()) == pytest.approx(loss, rel=1e-12)
            assert bool(decided_BT[b, t]) == decided
            assert float(logps.grad[b, t]) == pytest.approx(float(scale_BT[b, t]) * gradient, 1e-12)
        assert (loss_BT[b, length:] == 0).all() and (logps.grad[b, length:] == 0).all()
        assert not decided_BT[b, length:].any()
    assert decided_BT.any() and not decided_BT[mask_BT.bool()].all()


@pytest.mark.parametrize(
    ("ratio", "advantage", "stopped"),
    [(1.5, 1.0, True), (1.5, -1.0, False), (0.5, 1.0, False), (0.5, -1.0, True),
     (1.1, 1.0, False), (0.9, -1.0, False), (1.5, 0.0, False)],
)  # fmt: skip
@pytest.mark.parametrize("surrogate", [clipped_surrogate, gspo_surrogate])
def test_the_clip_decides_only_where_it_lowers_the_gain(
    surrogate: Callable, ratio: float, advantage: float, stopped: bool
) -> None:
    logps = torch.tensor([[math.log(ratio)]], requires_grad=True)
    loss_BT, decided_BT = surrogate(
        logps, torch.zeros(1, 1), torch.tensor([[advantage]]), torch.ones(1, 1), 0.2, 0.2
    )
    loss_BT.sum().backward()
    assert bool(decided_BT) == stopped
    assert (float(logps.grad) == 0) == (stopped or advantage == 0)


def test_gspo_by_hand() -> None:
    # Log-ratios .3 and −.1: s = exp(.1) for both tokens, of which only the first is clipped.
    logps = torch.tensor([[-1.0, -2.0, 9.0]], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[-1.3, -1.9, -9.0]], dtype=torch.float64)
    loss_BT, decided_BT = gspo_surrogate(
        logps, old, torch.tensor([[2.0, -3.0, 5.0]]).double(), mask_of([2, 3])[:1], 0.05, 0.05
    )
    s = math.exp(0.1)
    assert loss_BT[0].tolist() == pytest.approx([-2 * 1.05, 3 * s, 0.0])
    assert decided_BT.tolist() == [[True, False, False]]
    loss_BT.sum().backward()
    assert logps.grad[0].tolist() == pytest.approx([0.0, 3 * s, 0.0])


def test_cispo_by_hand_never_takes_the_gradient_from_a_token() -> None:
    logps = torch.tensor([[-1.0, -2.0, -3.0]], dtype=torch.float64, requires_grad=True)
    old = logps.detach() - torch.tensor([[2.0, 0.5, 1.1]], dtype=torch.float64).log()
    loss_BT, decided_BT = cispo_surrogate(
        logps, old, torch.tensor([[1.0, -1.0, 2.0]]).double(), torch.ones(1, 3), 0.2, 0.3
    )
    assert loss_BT[0].tolist() == pytest.approx([1.3, -0.8 * 2.0, 1.1 * 2.0 * 3.0])
    assert decided_BT.tolist() == [[True, True, False]]
    loss_BT.sum().backward()
    assert logps.grad[0].tolist() == pytest.approx([-1.3, 0.8, -2.2])


@pytest.mark.parametrize("name", LOSSES)
def test_on_policy_nothing_is_decided_and_the_gradient_is_minus_the_advantage(name: str) -> None:
    logps, _, advantages, mask_BT = batch()
    logps.requires_grad_()
    loss_BT, decided_BT = LOSSES[name](logps, logps.detach(), advantages, mask_BT, 0.2, 0.2)
    loss_BT.sum().backward()
    assert not decided_BT.any()
    torch.testing.assert_close(logps.grad, -advantages * mask_BT, rtol=0, atol=0)
    factor = logps.detach() if name == "cispo" else 1.0
    torch.testing.assert_close(loss_BT.detach(), -advantages * mask_BT * factor)


@pytest.mark.parametrize("name", LOSSES)
def test_a_masked_overflow_leaves_loss_and_gradient_finite(name: str) -> None:
    logps = torch.tensor([[-1.0, 200.0]], requires_grad=True)
    loss_BT, decided_BT = LOSSES[name](
        logps, torch.full((1, 2), -1.0), torch.ones(1, 2), torch.tensor([[1, 0]]), 0.2, 0.2
    )
    loss_BT.sum().backward()
    assert loss_BT.tolist() == [[1.0 if name == "cispo" else -1.0, 0.0]]
    assert logps.grad.tolist() == [[-1.0, 0.0]]
    assert not decided_BT.any()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("masked", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("place", range(3))
def test_nothing_that_stands_in_the_padding_reaches_loss_or_gradient(
    name: str, masked: float, place: int
) -> None:
    clean = [torch.tensor([[-1.0, -2.0, 0.0]]), torch.tensor([[-1.2, -1.8, 0.0]]),
             torch.tensor([[2.0, -1.0, 0.0]])]  # fmt: skip
    made = []
    for garbage in (0.0, masked):
        given = [tensor.clone() for tensor in clean]
        given[place][0, 2] = garbage
        given[0].requires_grad_()
        mask_BT = torch.tensor([[1, 1, 0]])
        loss_BT, decided_BT = LOSSES[name](*given, mask_BT, 0.1, 0.1)
        kl_BT = kl_to_reference(given[0], given[1], mask_BT)
        ((loss_BT + kl_BT) * torch.tensor([[0.5, 0.25, 3.0]])).sum().backward()
        made.append((loss_BT.detach(), decided_BT, kl_BT.detach(), given[0].grad))
    for without, with_garbage in zip(*made, strict=True):
        assert torch.equal(without, with_garbage)
    assert made[1][3].isfinite().all() and made[1][3][0, 2] == 0


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
@pytest.mark.parametrize("far", [200.0, -200.0])
def test_a_real_token_far_off_is_clamped_not_infinite(
    name: str, advantage: float, far: float
) -> None:
    logps = torch.tensor([[far]], requires_grad=True)
    old, ones = torch.zeros(1, 1), torch.ones(1, 1)
    loss_BT, decided_BT = LOSSES[name](logps, old, ones * advantage, ones, 0.2, 0.2)
    kl_BT = kl_to_reference(logps, old, ones)
    (loss_BT + kl_BT).sum().backward()
    ratio = math.exp(math.copysign(MAX_LOG_RATIO, far))
    expected, decided, _ = slow_clip(ratio, advantage, 0.2, 0.2)
    if name == "cispo":
        expected, decided = -min(max(ratio, 0.8), 1.2) * advantage * far, True
    assert float(loss_BT.detach()) == pytest.approx(expected, rel=1e-5)
    assert bool(decided_BT) == decided
    assert float(kl_BT.detach()) == pytest.approx(math.exp(-math.log(ratio)) + math.log(ratio) - 1)
    assert logps.grad.isfinite().all()


def test_kl_equals_the_loops_and_its_gradient_pulls_to_the_reference() -> None:
    logps, reference, _, mask_BT = batch()
    logps.requires_grad_()
    kl_BT = kl_to_reference(logps, reference, mask_BT)
    kl_BT.sum().backward()
    slow, gradient = torch.zeros_like(reference), torch.zeros_like(reference)
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            r = float(reference[b, t] - logps[b, t].detach())
            slow[b, t] = math.exp(r) - r - 1
            gradient[b, t] = 1 - math.exp(r)
    torch.testing.assert_close(kl_BT.detach(), slow)
    torch.testing.assert_close(logps.grad, gradient)
    assert (kl_to_reference(logps.detach(), logps.detach(), mask_BT) == 0).all()


def test_kl_is_never_negative_in_float32_even_for_tiny_differences() -> None:
    tiny = torch.logspace(-9, 1, 400)
    for ratio in (tiny, -tiny):
        each = kl_to_reference(torch.zeros(400, 1), ratio[:, None], torch.ones(400, 1))[:, 0]
        assert (each >= 0).all()
        exact = torch.expm1(ratio.double()) - ratio.double()
        torch.testing.assert_close(each.double(), exact, rtol=1e-3, atol=1e-11)


@pytest.mark.parametrize("name", LOSSES)
def test_a_row_has_the_same_loss_alone_as_in_its_batch(name: str) -> None:
    logps, old, advantages, mask_BT = batch()
    whole_BT, decided_BT = LOSSES[name](logps, old, advantages, mask_BT, 0.2, 0.2)
    for b, length in enumerate(LENGTHS):
        cut = (slice(b, b + 1), slice(length))
        loss_1T, decided_1T = LOSSES[name](
            logps[cut], old[cut], advantages[cut], mask_BT[cut], 0.2, 0.2
        )
        torch.testing.assert_close(loss_1T, whole_BT[cut], rtol=1e-12, atol=1e-12)
        assert torch.equal(decided_1T, decided_BT[cut])


def slow_average(loss_BT: Tensor, average: str, longest: int) -> float:
    rows = [loss_BT[b, :length].tolist() for b, length in enumerate(LENGTHS)]
    if average == "tokens":
        return sum(sum(row) for row in rows) / sum(LENGTHS)
    if average == "responses":
        return sum(sum(row) / len(row) for row in rows) / len(rows)
    return sum(sum(row) / longest for row in rows) / len(rows)


@pytest.mark.parametrize("average", ["tokens", "responses", "constant"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float64])
def test_averages_equal_the_loops(average: str, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    loss_BT = torch.randn(len(LENGTHS), max(LENGTHS), dtype=torch.float64) * mask_of(LENGTHS)
    scale_B = row_scale(torch.tensor(LENGTHS).to(dtype), average, 12)
    assert scale_B.dtype == torch.float64
    made = float((scale_B * loss_BT.sum(1)).sum())
    assert made == pytest.approx(slow_average(loss_BT, average, 12), rel=1e-12)


def test_averages_by_hand() -> None:
    length_B = torch.tensor([2, 6])
    assert row_scale(length_B, "tokens", 10).tolist() == [1 / 8, 1 / 8]
    assert row_scale(length_B, "responses", 10).tolist() == [1 / 4, 1 / 12]
    assert row_scale(length_B, "constant", 10).tolist() == [1 / 20, 1 / 20]


@pytest.mark.parametrize("average", ["tokens", "responses", "constant"])
def test_an_empty_response_or_batch_of_them_has_a_finite_scale(average: str) -> None:
    for lengths in ([0, 3], [0, 0]):
        assert row_scale(torch.tensor(lengths), average, 0).isfinite().all()
    assert row_scale(torch.tensor([0, 4]), "responses", 9)[1] == 1 / 8


def test_an_unknown_average_is_named_with_those_accepted() -> None:
    with pytest.raises(ValueError, match=r"'rows'.*tokens, responses, constant"):
        row_scale(torch.tensor([1]), "rows", 1)
