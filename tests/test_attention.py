"""Folded attention against plain attention over copies, in float64 loops' stead."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers import KINDS, number_policy
from torch import Tensor

from mrtpo import prefix
from mrtpo.attention import Fold, Keys, Level, SharedCache, attend, with_room, worth_folding
from mrtpo.logprobs import response_logps
from mrtpo.prefix import extend, prefill

WIDTH = 4


def level(
    entries: int, length: int, index: tuple[int, ...], kv_heads: int, seed: int, *, full: bool
) -> Level:
    """Keys and values of one layer in float64; unless `full`, rows lack some positions."""
    generator = torch.Generator().manual_seed(seed)
    shape = (entries, kv_heads, length, WIDTH)
    keys, values = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    seen = torch.rand(len(index), length, generator=generator) < (2.0 if full else 0.6)
    return Level((keys.requires_grad_(),), (values.requires_grad_(),), index, seen.long())


def plain(query: Tensor, levels: list[Level], own: tuple[Tensor, Tensor], scaling: float) -> Tensor:
    """Every row by itself over a copy of all it may see."""
    rows = []
    for b in range(len(query)):
        seen = [lv.mask_BL[b].bool() for lv in levels]
        keys = [lv.keys[0][lv.index[b]][:, s] for lv, s in zip(levels, seen, strict=True)]
        values = [lv.values[0][lv.index[b]][:, s] for lv, s in zip(levels, seen, strict=True)]
        groups = query.shape[1] // own[0].shape[1]
        k = torch.cat([*keys, own[0][b]], 1).repeat_interleave(groups, 0)
        v = torch.cat([*values, own[1][b]], 1).repeat_interleave(groups, 0)
        tokens, all_keys = query.shape[2], k.shape[1]
        out = []
        for t in range(tokens):
            visible = all_keys - tokens + t + 1
            scores = (query[b, :, t, None] * k[:, :visible]).sum(-1) * scaling
            out.append((scores.softmax(-1)[..., None] * v[:, :visible]).sum(1))
        rows.append(torch.stack(out))
    return torch.stack(rows)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (6, 2), (3, 1)])
@pytest.mark.parametrize(
    "index", [(0, 0, 0, 1, 1, 1), (1, 0, 1, 1, 0, 2), (2, 2, 2, 2, 2, 2), (0, 1, 2, 0, 1, 2)]
)
def test_folded_attention_and_its_gradients_are_those_over_copies(
    index: tuple[int, ...], heads: int, kv_heads: int, tokens: int, full: bool
) -> None:
    generator = torch.Generator().manual_seed(tokens)
    levels = [
        level(3, 7, index, kv_heads, 1, full=full),
        level(6, 3, tuple(range(6)), kv_heads, 2, full=full),
    ]
    query = torch.randn(6, heads, tokens, WIDTH, generator=generator, dtype=torch.float64)
    own = torch.randn(2, 6, kv_heads, tokens, WIDTH, generator=generator, dtype=torch.float64)
    leaves = [query.requires_grad_(), own.requires_grad_()]
    leaves += [t for lv in levels for t in (*lv.keys, *lv.values)]
    folds = [Fold(lv) for lv in levels]
    keys = Keys(
        [(f.taken(lv.keys[0]), f.taken(lv.values[0]), f)
         for lv, f in zip(levels, folds, strict=True)], own[0],
    )  # fmt: skip
    made, slow = attend(query, keys, own[1], 0.3), plain(query, levels, (own[0], own[1]), 0.3)
    torch.testing.assert_close(made, slow, rtol=0, atol=1e-12)
    weight = torch.randn(made.shape, generator=generator, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad((made * weight).sum(), leaves),
        torch.autograd.grad((slow * weight).sum(), leaves), strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_folding_and_unfolding_give_the_rows_back() -> None:
    rng = random.Random(0)
    for _ in range(30):
        count = rng.randint(1, 9)
        index = tuple(rng.randrange(4) for _ in range(count))
        fold = Fold(level(4, 2, index, 1, 0, full=True))
        rows = torch.randn(count, 3, 5, 2)
        folded = fold.fold(rows)
        most = max(index.count(n) for n in index)
        assert folded.shape == (len(set(index)), 3, most * 5, 2)
        assert torch.equal(fold.unfold(folded), rows)


def test_scores_too_large_to_hold_add_up_to_attention_all_the_same() -> None:
    """Scores of hundreds of nats: the largest of all levels is taken off before the powers."""
    one = level(1, 3, (0, 0), 1, 5, full=True)
    loud = Level((one.keys[0].detach() * 900,), one.values, one.index, one.mask_BL)
    query = torch.randn(2, 1, 2, WIDTH, dtype=torch.float64)
    own = torch.randn(2, 2, 1, 2, WIDTH, dtype=torch.float64)
    fold = Fold(loud)
    made = attend(query, Keys([(loud.keys[0], loud.values[0], fold)], own[0]), own[1], 1.0)
    assert made.isfinite().all()
    torch.testing.assert_close(made, plain(query, [loud], (own[0], own[1]), 1.0), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_and_folds_give_the_same_numbers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = number_policy(kind)
    contexts = [(3, 1, 4, 1, 5), (9, 2), (3, 1, 4, 8)]
    responses = [(1, 2, 3), (4,), (5, 6, 7, 8), (2, 2)]
    used: list[Any] = []
    fold, plain_forward = prefix.forward_shared, prefix.forward

    def counted(*a: Any) -> Any:
        used.append("fold")
        return fold(*a)

    monkeypatch.setattr(prefix, "forward_shared", counted)
    folded_BT, _ = response_logps(policy, contexts, responses, [0, 1, 0, 2], 0.8)
    # Falcon's attention cannot be exchanged: it has copies anyway.
    expected = [] if kind == "falcon" else ["fold"]
    assert used == expected
    monkeypatch.setattr(prefix, "folds", lambda *_: False)
    copied_BT, _ = response_logps(policy, contexts, responses, [0, 1, 0, 2], 0.8)
    assert used == expected and prefix.forward is plain_forward
    torch.testing.assert_close(folded_BT, copied_BT, rtol=0, atol=1e-5)


def test_copies_keep_what_each_context_lacks_masked() -> None:
    policy = number_policy()
    base, context = (3, 1, 4, 1, 5), (3, 1, 7)
    with torch.no_grad():
        made = extend(policy, prefill(policy, [base]), [base], [context], [0])
        cache, mask_BL = SharedCache(made.levels).expanded()
    assert mask_BL.tolist() == [[1, 1, 0, 0, 0, 1]]
    layers: Any = cache.layers
    assert all(layer.keys.shape[2] == 6 for layer in layers)


def test_only_float32_models_with_an_exchangeable_attention_fold() -> None:
    policy = number_policy()
    levels = prefill(policy, [(1, 2, 3)]).levels
    assert prefix.folds(policy, levels, 4)
    assert not prefix.folds(replace(policy, compute=torch.bfloat16), levels, 4)
    policy.model.__class__._supports_attention_backend, kept = (
        False, policy.model.__class__._supports_attention_backend,
    )  # fmt: skip
    try:
        assert not prefix.folds(policy, levels, 4)
    finally:
        policy.model.__class__._supports_attention_backend = kept


def test_long_responses_get_copies_and_so_do_too_many_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = level(1, 100, (0,) * 8, 2, 0, full=True)
    assert worth_folding([one], 2, 1)
    assert worth_folding([one], 2, 8 * WIDTH)
    assert not worth_folding([one], 2, 8 * WIDTH + 1)
    assert not worth_folding([one], 4, 8 * WIDTH)  # heads that share keys ask for more scores
    monkeypatch.setattr("mrtpo.attention.LARGEST", 8 * 2 * 101)
    assert worth_folding([one], 2, 1)
    monkeypatch.setattr("mrtpo.attention.LARGEST", 8 * 2 * 101 - 1)
    assert not worth_folding([one], 2, 1)


def test_the_models_own_attention_is_back_after_a_shared_pass() -> None:
    policy = number_policy()
    config = policy.model.config
    before = config._attn_implementation
    with pytest.raises(KeyError), prefix.exchanged(policy.model):
        assert config._attn_implementation != before
        raise KeyError
    assert config._attn_implementation == before


def test_own_keys_grow_in_place_and_rows_can_be_kept_in_any_order() -> None:
    shared = level(2, 3, (0, 0, 1), 2, 0, full=True)
    cache = SharedCache([shared], growing=True)
    generator = torch.Generator().manual_seed(0)
    seen = []
    for _ in range(130):
        new = torch.randn(3, 2, 1, WIDTH, generator=generator)
        seen.append(new)
        keys, values = cache.update(new, 2 * new, 0)
        assert torch.equal(keys.own, torch.cat(seen, 2))
        assert torch.equal(values, 2 * torch.cat(seen, 2))
        assert cache.get_seq_length() == 3 + len(seen)
    kept = cache.keep([2, 0])
    assert kept.levels[0].index == (1, 0)
    keys, _ = kept.update(seen[0][[2, 0]], seen[0][[2, 0]], 0)
    assert torch.equal(keys.own, torch.cat([*seen, seen[0]], 2)[[2, 0]])
    once = SharedCache([shared])
    once.update(seen[0], seen[0], 0)
    with pytest.raises(ValueError, match="once"):
        once.update(seen[0], seen[0], 0)


def test_room_is_a_quarter_of_the_length_or_a_minimum() -> None:
    assert with_room(torch.zeros(1, 1, 8, 1)).shape[2] == 72
    assert with_room(torch.zeros(1, 1, 800, 1)).shape[2] == 1000
