"""Distances and token weights, against loops over Python numbers."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import mask_of
from torch import Tensor

from mrtpo.attribution import (
    DIRECTIONAL,
    DISTRIBUTIONAL,
    EMITTED,
    LARGEST,
    capped,
    coarse,
    concentration,
    distribution_distance,
    emitted_distance,
    needs_distribution,
    oriented,
    token_weights,
)

LENGTHS = [9, 1, 23, 4, 12]


def slow_kl(p: list[float], q: list[float]) -> float:
    total = 0.0
    for a, b in zip(p, q, strict=True):
        if a > 0:
            total += math.inf if b == 0 else a * math.log(a / b)
    return total


def slow_distance(name: str, p: list[float], q: list[float]) -> float:
    pairs = list(zip(p, q, strict=True))
    if name == "kl":
        return slow_kl(p, q)
    if name == "reverse_kl":
        return slow_kl(q, p)
    if name == "tv":
        return sum(abs(a - b) for a, b in pairs) / 2
    if name == "hellinger":
        return math.sqrt(sum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in pairs) / 2)
    middle = [(a + b) / 2 for a, b in pairs]
    return (slow_kl(p, middle) + slow_kl(q, middle)) / 2


def distributions(zeros: bool, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Log-distributions over 7 tokens: near, far, equal, disjoint; with zeros in one or both."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 12, 7, generator=generator, dtype=torch.float64)
    logits *= torch.logspace(-2, 1, 12, dtype=torch.float64)[:, None]
    logits[1, 0] = logits[0, 0]
    if zeros:
        logits[0, 1:4, 2] = -math.inf
        logits[1, 2:6, 5] = -math.inf
        logits[:, 6:8, 0] = -math.inf  # zero in both
        logits[0, 9, :3] = logits[1, 9, 3:] = -math.inf  # nothing in common
    logp, logq = logits.log_softmax(-1).to(dtype)
    return logp, logq


@pytest.mark.parametrize("name", DISTRIBUTIONAL)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_distances_equal_the_loops(name: str, zeros: bool, dtype: torch.dtype) -> None:
    logp_TV, logq_TV = distributions(zeros, dtype)
    made = distribution_distance(name, logp_TV, logq_TV)
    pairs = zip(logp_TV.double().exp().tolist(), logq_TV.double().exp().tolist(), strict=True)
    slow = [slow_distance(name, p, q) for p, q in pairs]
    assert made.isfinite().all()  # an infinite divergence is a large number, never a NaN
    for value, expected in zip(made.tolist(), slow, strict=True):
        if math.isinf(expected):
            assert value >= 1e4
        else:
            assert value == pytest.approx(expected, rel=1e-4, abs=3e-7)
    assert made[0] == pytest.approx(0.0, abs=1e-6)
    assert made[-1] > 0.1


@pytest.mark.parametrize("name", DISTRIBUTIONAL)
def test_distances_are_never_negative_and_keep_their_bounds(name: str) -> None:
    limit = {"js": math.log(2), "tv": 1.0, "hellinger": 1.0}.get(name, math.inf)
    for zeros in (False, True):
        made = distribution_distance(name, *distributions(zeros, torch.float32))
        assert (made >= 0).all()
        assert (made <= limit + 1e-6).all()
    if limit < math.inf:  # the disjoint pair reaches it
        assert float(made[9]) == pytest.approx(limit, abs=1e-6)


@pytest.mark.parametrize("name", ["js", "tv", "hellinger"])
def test_symmetric_distances_do_not_care_for_order(name: str) -> None:
    logp_TV, logq_TV = distributions(True)
    one = distribution_distance(name, logp_TV, logq_TV)
    torch.testing.assert_close(distribution_distance(name, logq_TV, logp_TV), one)


def test_reverse_kl_is_kl_the_other_way_round_and_not_the_same() -> None:
    logp_TV, logq_TV = distributions(False)
    forward = distribution_distance("kl", logp_TV, logq_TV)
    assert torch.equal(distribution_distance("reverse_kl", logq_TV, logp_TV), forward)
    assert not torch.allclose(distribution_distance("reverse_kl", logp_TV, logq_TV), forward)


def test_an_unknown_distance_or_normalisation_is_named_with_those_known() -> None:
    with pytest.raises(ValueError, match=r"'cosine'.*js, kl"):
        distribution_distance("cosine", *distributions(False))
    with pytest.raises(ValueError, match=r"'sum'.*mean, max, l2"):
        token_weights(torch.ones(1, 2), torch.ones(1, 2), floor=0.0, normalise="sum")


def test_only_distances_of_the_emitted_token_need_no_distribution() -> None:
    known = (*DISTRIBUTIONAL, *DIRECTIONAL, *EMITTED)
    emitted = ["directional_logprob", "directional_contrast", "abs_logprob", "contrast"]
    assert [name for name in known if not needs_distribution(name)] == emitted


def test_distances_of_the_emitted_token_equal_the_loops() -> None:
    with_T = [-0.1, -2.0, -30.0, -1.0, -1e4, -0.001]
    without_T = [-3.0, -0.5, -0.2, -1.0, -0.1, -2e4]
    delta_T = torch.tensor(with_T, dtype=torch.float64) - torch.tensor(without_T).double()
    plain = [abs(a - b) for a, b in zip(with_T, without_T, strict=True)]
    odds = [
        abs(p - q) / (p + q)
        for p, q in (
            (math.exp(a - max(a, b)), math.exp(b - max(a, b)))
            for a, b in zip(with_T, without_T, strict=True)
        )
    ]
    for name, slow in (("abs_logprob", plain), ("contrast", odds)):
        assert emitted_distance(name, delta_T).tolist() == pytest.approx(slow, rel=1e-6)
        directional = {v: k for k, v in DIRECTIONAL.items()}[name]
        assert torch.equal(emitted_distance(directional, delta_T), emitted_distance(name, delta_T))
    with pytest.raises(ValueError, match=r"'js'.*abs_logprob, contrast"):
        emitted_distance("js", delta_T)


def test_a_directional_distance_keeps_what_agrees_with_the_verdict() -> None:
    undirected_BT = torch.tensor([[0.3, 0.4, 0.5]]).repeat(3, 1)
    delta_BT = torch.tensor([[0.2, -0.1, 0.0]]).repeat(3, 1)
    advantage_B = torch.tensor([2.0, -0.5, 0.0])
    for name in DIRECTIONAL:
        made = oriented(name, undirected_BT, delta_BT, advantage_B)
        expected = torch.tensor([[0.3, 0.0, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 0.0]])
        assert torch.equal(made, expected), name
    for name in (*DISTRIBUTIONAL, *EMITTED):
        assert torch.equal(oriented(name, undirected_BT, delta_BT, advantage_B), undirected_BT)


def slow_weights(distances: list[float], floor: float, normalise: str, mix: float) -> list[float]:
    raised = [d + floor for d in distances]
    if max(raised) == 0:
        return [1.0] * len(raised)
    length = len(raised)
    scale = {
        "mean": length / sum(raised),
        "max": 1 / max(raised),
        "l2": math.sqrt(length / sum(r * r for r in raised)),
    }[normalise]
    return [(1 - mix) + mix * scale * r for r in raised]


def ragged_distances(scale: float = 1.0) -> tuple[Tensor, Tensor]:
    mask_BT = mask_of(LENGTHS)
    generator = torch.Generator().manual_seed(1)
    distance_BT = torch.rand(mask_BT.shape, generator=generator, dtype=torch.float64) ** 6
    return distance_BT * scale * mask_BT, mask_BT


@pytest.mark.parametrize("normalise", ["mean", "max", "l2"])
@pytest.mark.parametrize(("floor", "mix"), [(0.0, 1.0), (0.05, 1.0), (0.05, 0.3), (2.0, 0.0)])
def test_weights_equal_the_loops(normalise: str, floor: float, mix: float) -> None:
    distance_BT, mask_BT = ragged_distances()
    made_BT = token_weights(distance_BT, mask_BT, floor=floor, normalise=normalise, mix=mix)
    for b, length in enumerate(LENGTHS):
        slow = slow_weights(distance_BT[b, :length].tolist(), floor, normalise, mix)
        assert made_BT[b, :length].tolist() == pytest.approx(slow, rel=1e-12)
        assert (made_BT[b, length:] == 0).all()


@pytest.mark.parametrize("normalise", ["mean", "max", "l2"])
@pytest.mark.parametrize(("floor", "mix"), [(0.0, 1.0), (0.05, 0.3)])
def test_weights_of_groups_equal_the_loops_over_all_their_tokens(
    normalise: str, floor: float, mix: float
) -> None:
    distance_BT, mask_BT = ragged_distances()
    group_B = torch.tensor([7, 2, 7, 2, 7])
    made_BT = token_weights(
        distance_BT, mask_BT, floor=floor, normalise=normalise, mix=mix, group_B=group_B
    )
    for group in (7, 2):
        rows = [b for b, own in enumerate(group_B.tolist()) if own == group]
        tokens = [d for b in rows for d in distance_BT[b, : LENGTHS[b]].tolist()]
        slow = slow_weights(tokens, floor, normalise, mix)
        made = [w for b in rows for w in made_BT[b, : LENGTHS[b]].tolist()]
        assert made == pytest.approx(slow, rel=1e-12)
    assert (made_BT[~mask_BT.bool()] == 0).all()


def test_within_a_group_the_same_distance_weighs_the_same_and_in_responses_alone_not() -> None:
    distance_BT = torch.tensor([[0.1, 0.9, 0.1], [0.1, 0.3, 0.1]])
    own = {"floor": 0.0, "normalise": "max"}
    alone = token_weights(distance_BT, torch.ones(2, 3), **own)
    assert float(alone[1, 0]) > 2 * float(alone[0, 0])
    shared = token_weights(distance_BT, torch.ones(2, 3), group_B=torch.tensor([0, 0]), **own)
    assert shared[0, 0] == shared[1, 0]
    assert shared[0, 2] == shared[1, 2]


@pytest.mark.parametrize(("floor", "mix"), [(0.0, 1.0), (0.05, 1.0), (0.05, 0.3), (2.0, 0.5)])
def test_balanced_weights_equal_the_loops(floor: float, mix: float) -> None:
    distance_BT, mask_BT = ragged_distances()
    distance_BT[3] = 0.0
    group_B = torch.tensor([7, 2, 7, 2, 7])
    made_BT = token_weights(
        distance_BT, mask_BT, floor=floor, normalise="max", mix=mix, group_B=group_B, balanced=True
    )
    rows = [distance_BT[b, :length].tolist() for b, length in enumerate(LENGTHS)]
    for b, own in enumerate(rows):
        largest = max(d for c, row in enumerate(rows) if group_B[c] == group_B[b] for d in row)
        rest = floor / (largest + floor)
        for t, distance in enumerate(own):
            peak = distance / (max(own) + floor) if distance else 0.0
            slow = (1 - mix) + mix * (rest + (1 - rest) * peak)
            assert float(made_BT[b, t]) == pytest.approx(slow, rel=1e-12), (b, t)
    assert (made_BT[~mask_BT.bool()] == 0).all()


def test_balanced_weights_are_alike_off_the_peaks_and_at_them() -> None:
    """A response whose largest distance is small keeps its peak, and all share the rest."""
    distance_BT = torch.tensor([[0.0, 0.9, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 0.0]])
    own = {"floor": 0.01, "normalise": "max", "group_B": torch.tensor([0, 0, 0])}
    made = token_weights(distance_BT, torch.ones(3, 3), balanced=True, **own)
    off = [*made[:, 0].tolist(), *made[:, 2].tolist(), float(made[2, 1])]
    assert off == pytest.approx([0.01 / 0.91] * 7)
    assert made[:2, 1].tolist() == pytest.approx([1.0, 1.0], abs=0.04)
    shared = token_weights(distance_BT, torch.ones(3, 3), **own)
    assert float(shared[1, 1]) < 0.35
    none = token_weights(torch.zeros(3, 3), torch.ones(3, 3), balanced=True, **own)
    assert torch.equal(none, torch.ones(3, 3))


@pytest.mark.parametrize("normalise", ["mean", "l2"])
def test_balanced_weights_need_the_largest(normalise: str) -> None:
    with pytest.raises(ValueError, match="balanced"):
        token_weights(
            torch.ones(1, 2), torch.ones(1, 2), floor=0.1, normalise=normalise, balanced=True
        )


def test_a_group_without_distance_is_even_and_the_other_is_not() -> None:
    distance_BT = torch.tensor([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    group_B = torch.tensor([0, 0, 1, 1])
    made = token_weights(distance_BT, torch.ones(4, 2), floor=0.0, normalise="max", group_B=group_B)
    assert made.tolist() == [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_each_normalisation_keeps_what_it_promises(scale: float, floor: float) -> None:
    distance_BT, mask_BT = ragged_distances(scale)
    length_B = mask_BT.sum(1)
    mean = token_weights(distance_BT, mask_BT, floor=floor, normalise="mean")
    torch.testing.assert_close(mean.sum(1), length_B)
    l2 = token_weights(distance_BT, mask_BT, floor=floor, normalise="l2")
    torch.testing.assert_close(l2.square().sum(1), length_B)
    largest = token_weights(distance_BT, mask_BT, floor=floor, normalise="max").amax(1)
    torch.testing.assert_close(largest, torch.ones_like(largest))


def test_what_stands_in_the_padding_has_no_influence() -> None:
    distance_BT, mask_BT = ragged_distances()
    clean = token_weights(distance_BT, mask_BT, floor=0.01)
    dirty_BT = distance_BT + 77.0 * (1 - mask_BT)
    for normalise in ("mean", "max", "l2"):
        clean = token_weights(distance_BT, mask_BT, floor=0.01, normalise=normalise, cap=2.0)
        dirty = token_weights(dirty_BT, mask_BT, floor=0.01, normalise=normalise, cap=2.0)
        assert torch.equal(clean, dirty)


def test_the_floor_makes_vanishing_distances_even_where_none_would_amplify_noise() -> None:
    noise_BT, mask_BT = ragged_distances(1e-7)
    even = token_weights(noise_BT, mask_BT, floor=0.05)
    torch.testing.assert_close(even, mask_BT, rtol=0, atol=1e-5)
    assert float(token_weights(noise_BT, mask_BT, floor=0.0).max()) > 4.0


def test_no_distance_at_all_gives_weights_of_exactly_one() -> None:
    mask_BT = mask_of(LENGTHS)
    for normalise in ("mean", "max", "l2"):
        made = token_weights(torch.zeros_like(mask_BT), mask_BT, floor=0.0, normalise=normalise)
        assert torch.equal(made, mask_BT)


def test_one_row_without_distance_does_not_even_out_the_others() -> None:
    distance_BT = torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    made = token_weights(distance_BT, torch.ones(2, 2), floor=0.0)
    assert made.tolist() == [[1.0, 1.0], [0.5, 1.5]]


@pytest.mark.parametrize("name", ["kl", "reverse_kl"])
@pytest.mark.parametrize("normalise", ["mean", "max", "l2"])
def test_infinite_divergences_take_the_weight_and_keep_its_sum(name: str, normalise: str) -> None:
    logp_TV, logq_TV = distributions(True, torch.float32)
    distance_1T = distribution_distance(name, logp_TV, logq_TV)[None]
    made = token_weights(distance_1T, torch.ones_like(distance_1T), floor=0.05, normalise=normalise)
    assert made.isfinite().all()
    kept = {"mean": made.sum(), "l2": made.square().sum(), "max": made.max() * 12}[normalise]
    assert float(kept) == pytest.approx(12.0, rel=1e-4)
    infinite = distance_1T >= 1e4
    assert 0 < int(infinite.sum()) < 12
    assert float(made[infinite].min()) > 100 * float(made[~infinite].max())


@pytest.mark.parametrize("cap", [1.01, 1.5, 3.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_cap_bounds_weights_and_keeps_their_sum_and_order(cap: float, dtype: torch.dtype) -> None:
    distance_BT, mask_BT = (tensor.to(dtype) for tensor in ragged_distances())
    free = token_weights(distance_BT, mask_BT, floor=0.001)
    assert float(free.max()) > 3.0
    made = token_weights(distance_BT, mask_BT, floor=0.001, cap=cap)
    assert float(made.max()) <= cap + 1e-5
    torch.testing.assert_close(made.sum(1), mask_BT.sum(1), rtol=1e-5, atol=1e-5)
    assert (made[mask_BT == 0] == 0).all()
    for b, length in enumerate(LENGTHS):
        order = free[b, :length].argsort()
        assert (made[b, order].diff() >= -1e-6).all()


def test_a_cap_above_every_weight_changes_nothing() -> None:
    distance_BT, mask_BT = ragged_distances()
    free = token_weights(distance_BT, mask_BT, floor=0.1)
    assert torch.equal(capped(free, mask_BT, float(free.max()) + 1), free)


def test_a_cap_spreads_the_excess_evenly_over_what_is_below_it() -> None:
    made = capped(torch.tensor([[4.0, 1.9, 0.1, 0.0]]), torch.ones(1, 4), 2.0)
    # 2 over: .67 each fills the second (.1 of room), which leaves .57 more for the other two.
    torch.testing.assert_close(made, torch.tensor([[2.0, 2.0, 1.05, 0.95]]))


def test_mix_runs_from_even_to_the_weights() -> None:
    distance_BT, mask_BT = ragged_distances()
    full = token_weights(distance_BT, mask_BT, floor=0.05, mix=1.0)
    assert torch.equal(token_weights(distance_BT, mask_BT, floor=0.05, mix=0.0), mask_BT)
    half = token_weights(distance_BT, mask_BT, floor=0.05, mix=0.5)
    torch.testing.assert_close(half, (mask_BT + full) / 2)


def test_concentration_equals_the_loops() -> None:
    distance_BT, mask_BT = ragged_distances()
    weights_BT = token_weights(distance_BT, mask_BT, floor=0.01)
    share_B, top_B = concentration(weights_BT, mask_BT)
    for b, length in enumerate(LENGTHS):
        row = weights_BT[b, :length].tolist()
        slow = sum(row) ** 2 / sum(w * w for w in row) / length
        assert float(share_B[b]) == pytest.approx(slow)
        best = sorted(row, reverse=True)[: max(1, length // 10)]
        assert float(top_B[b]) == pytest.approx(sum(best) / sum(row))


def test_concentration_of_even_and_of_single_weights() -> None:
    mask_BT = mask_of([20, 20])
    weights_BT = mask_BT.clone()
    weights_BT[1] = 0
    weights_BT[1, 7] = 20.0
    share_B, top_B = concentration(weights_BT, mask_BT)
    assert share_B.tolist() == pytest.approx([1.0, 1 / 20])
    assert top_B.tolist() == pytest.approx([2 / 20, 1.0])


def lumped(log_V: Tensor, kept: list[int]) -> list[float]:
    """Probabilities of `kept`, and that of all others together."""
    rest = [math.exp(float(x)) for v, x in enumerate(log_V) if v not in kept]
    return [*(math.exp(float(log_V[v])) for v in kept), math.fsum(rest)]


@pytest.mark.parametrize("name", DISTRIBUTIONAL)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_coarse_distances_are_those_of_lumped_distributions(name: str, zeros: bool, k: int) -> None:
    logp_NV, logq_NV = distributions(zeros)
    ids_N = torch.arange(len(logp_NV)) % 7
    ids_N[:3] = logp_NV[:3].argmax(1)  # the emitted token is among the k, or is not
    p_NX, q_NX = coarse(logp_NV, logq_NV, ids_N, k)
    assert p_NX.shape == q_NX.shape == (len(ids_N), k + 2)
    ones_N = torch.ones(len(ids_N), dtype=torch.float64)
    for made_NX in (p_NX, q_NX):
        torch.testing.assert_close(made_NX.exp().sum(1), ones_N, rtol=0, atol=1e-12)
    found_N = distribution_distance(name, p_NX, q_NX)
    full_N = distribution_distance(name, logp_NV, logq_NV)
    for n, token in enumerate(ids_N.tolist()):
        kept = sorted({token, *logp_NV[n].topk(k).indices.tolist()})
        slow = slow_distance(name, lumped(logp_NV[n], kept), lumped(logq_NV[n], kept))
        assert float(found_N[n]) == pytest.approx(min(slow, LARGEST), abs=1e-9)
    assert (found_N <= full_N + 1e-9).all()
    assert (found_N < full_N - 1e-4).any()


@pytest.mark.parametrize("name", ["kl", "reverse_kl", "js"])
def test_a_rest_of_almost_nothing_is_not_nothing(name: str) -> None:
    # In float32, one minus what is seen rounds to 0 here, and a KL with 0 is infinite.
    vocab = 1000
    rest = torch.tensor([[1e-6], [1e-9]], dtype=torch.float64) / (vocab - 3)
    log_2V = rest.expand(2, vocab).log().clone()
    log_2V[0, :3] = torch.tensor([0.7, 0.2, 0.1]).log()
    log_2V[1, :3] = torch.tensor([0.6, 0.3, 0.1]).log()
    log_2V = log_2V.log_softmax(1).float()
    for one, other in ((0, 1), (1, 0)):
        pair = coarse(log_2V[one, None], log_2V[other, None], torch.tensor([1]), 3)
        found = float(distribution_distance(name, *pair))
        full = float(distribution_distance(name, log_2V[one, None], log_2V[other, None]))
        assert found == pytest.approx(full, abs=1e-5)
