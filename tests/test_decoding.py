"""Sampling with caches that are shared or grow in place, against the library's own cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from helpers import KINDS, WHOLE, number_policy
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from mrtpo import decoding
from mrtpo.decoding import GrowingLayer
from mrtpo.generate import generate, pick, uniforms
from mrtpo.policy import Policy
from mrtpo.records import Rollout

PROMPTS: list[tuple[str, list[int]]] = [
    ("a", [3, 1, 4]), ("b", [1]), ("c", [5, 9, 2, 6, 5, 3, 5, 8, 9, 7]), ("d", [3, 1, 4, 1]),
]  # fmt: skip


def made(
    policy: Policy, samples: int, limit: int, prompts: Any = PROMPTS, temperature: float = 1.0
) -> list[Rollout]:
    return generate(
        policy, prompts, samples=samples, temperature=temperature, max_new_tokens=limit, seed=4,
        step=1,
    )  # fmt: skip


def one_by_one(
    policy: Policy, prompt_id: str, prompt: Sequence[int], sample: int, limit: int
) -> tuple[list[int], list[float]]:
    """One row by itself with the library's cache, which copies all keys at every token."""
    draws = uniforms(4, 1, prompt_id, sample, limit)
    cache = DynamicCache(config=policy.model.config)
    ids: list[int] = []
    logps: list[float] = []
    given = list(prompt)
    for draw in draws:
        with torch.no_grad():
            out = policy.model(torch.tensor([given]), cache=cache, use_cache=True)
        logps_1V = out.logits[:, -1].log_softmax(-1)
        token_1, logp_1 = pick(logps_1V, torch.tensor([draw], dtype=torch.float64), 1.0)
        ids.append(int(token_1))
        logps.append(float(logp_1))
        given = ids[-1:]
        if ids[-1] in policy.end_ids:
            break
    return ids, logps


def assert_as_one_by_one(policy: Policy, rollouts: list[Rollout], limit: int) -> None:
    for rollout in rollouts:
        ids, logps = one_by_one(
            policy, rollout.prompt_id, rollout.prompt_ids, rollout.sample, limit
        )
        assert rollout.response_ids == tuple(ids)
        assert rollout.logprobs == pytest.approx(logps, abs=1e-5)


@pytest.fixture(params=["folded", "copied"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows attend to the keys of their prompts where their model can, or each has a copy."""
    if request.param == "copied":
        monkeypatch.setattr(decoding, "folds", lambda *_: False)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [*KINDS, *WHOLE])
def test_rows_that_end_at_different_times_are_those_of_the_library(kind: str) -> None:
    policy = number_policy(kind, ends=(0, 7), std=0.2)
    rollouts = made(policy, 6, 12)
    lengths = {len(r.response_ids) for r in rollouts}
    assert len(lengths) > 5 and 12 in lengths
    assert_as_one_by_one(policy, rollouts, 12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", ["llama", "gpt2", "falcon", "gemma3"])
def test_long_responses_outgrow_their_room(kind: str) -> None:
    policy = number_policy(kind, vocab=150, ends=(0,), std=0.1, positions=256)
    rollouts = made(policy, 3, 170, PROMPTS[:3])
    lengths = sorted(len(r.response_ids) for r in rollouts)
    assert lengths[-1] > 130 and lengths[0] < 100
    assert_as_one_by_one(policy, rollouts, 170)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_grouped_heads_share_their_keys(heads: int) -> None:
    policy = number_policy("qwen2", num_key_value_heads=heads, ends=(0,), std=0.3)
    assert_as_one_by_one(policy, made(policy, 4, 20), 20)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_one_row_after_one_token_and_many_after_many(kind: str) -> None:
    policy = number_policy(kind, ends=(0,), std=0.3, positions=128)
    assert_as_one_by_one(policy, made(policy, 1, 9, PROMPTS[1:2]), 9)
    long = [("long", [1 + n * n % 12 for n in range(70)])]
    assert_as_one_by_one(policy, made(policy, 8, 20, long), 20)
    assert_as_one_by_one(policy, made(policy, 8, 20, [*long, *PROMPTS]), 20)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("own", [True, False])
def test_half_precision_samples_from_what_it_scores(dtype: torch.dtype, own: bool) -> None:
    policy = number_policy(ends=(0,), std=0.3)
    if own:
        policy.model.to(dtype)
    else:
        policy.compute = dtype
    rollouts = made(policy, 4, 20)
    again = made(policy, 4, 20)
    assert [(r.response_ids, r.logprobs) for r in rollouts] == [
        (r.response_ids, r.logprobs) for r in again
    ]
    exact = number_policy(ends=(0,), std=0.3)
    for rollout in rollouts:
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.response_ids]])
        with torch.no_grad():
            logits_TV = exact.model(ids).logits[0, len(rollout.prompt_ids) - 1 : -1]
        picked = torch.tensor(rollout.response_ids)[:, None]
        logps_T = logits_TV.log_softmax(-1).gather(1, picked)[:, 0]
        off_T = (torch.tensor(rollout.logprobs) - logps_T).abs()
        assert float(off_T.max()) < (0.1 if dtype == torch.bfloat16 else 0.02)


def test_sampling_leaves_the_model_as_it_was() -> None:
    policy = number_policy()
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    attention = policy.model.config._attn_implementation
    made(policy, 4, 8)
    assert policy.model.config._attn_implementation == attention
    assert all(torch.equal(value, before[n]) for n, value in policy.model.state_dict().items())
    assert not any(p.grad is not None for p in policy.model.parameters())


def test_a_layer_that_grows_in_place_holds_what_the_library_s_holds() -> None:
    generator = torch.Generator().manual_seed(0)

    def states(rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values, whose widths may differ."""
        return (
            torch.randn(rows, 2, length, 4, generator=generator),
            torch.randn(rows, 2, length, 6, generator=generator),
        )

    first = states(5, 3)
    plain, made = DynamicLayer(), GrowingLayer(*first)
    plain.update(*first)
    buffers = set()
    for turn in range(200):
        rows = plain.keys.shape[0]
        if turn in (20, 90, 150):
            index: Any = torch.tensor([[3, 0, 1, 4], [2, 2, 0], [1]][turn // 70])
            plain.reorder_cache(index)
            made.reorder_cache(index)
            rows = len(index)
        new = states(rows, 1 if turn % 50 else 7)
        for one, other in zip(made.update(*new), plain.update(*new), strict=True):
            assert torch.equal(one, other)
        assert torch.equal(made.keys, plain.keys) and torch.equal(made.values, plain.values)
        assert made.get_seq_length() == plain.get_seq_length()
        assert made.get_mask_sizes(1) == plain.get_mask_sizes(1)
        buffers.add(made.keys.data_ptr())
    assert 4 <= len(buffers) < 12  # most tokens are written in place
