"""Contexts that are run once and shared, against rows that are run whole."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import KINDS, WHOLE, assert_close_policies, number_policy, text_policy, trainer
from torch import Tensor

from mrtpo import prefix
from mrtpo.config import Model
from mrtpo.generate import generate, pick, uniforms
from mrtpo.loading import load_policy
from mrtpo.logprobs import chosen_logps, plain_logps, response_logps
from mrtpo.policy import Policy
from mrtpo.prefix import (
    common_length,
    extend,
    prefill,
    response_hidden,
    right_padded,
    sharing_fault,
    whole_rows,
)

# Two bases, and contexts that begin like one of them: equal, longer, its beginning, differing at
# the end, in the middle, at once, by one token, of one token. Bases stand anywhere among them.
LONG, SHORT = (5, 9, 2, 6, 5, 3, 5, 8), (4, 4, 1)
CONTEXTS = [
    (5, 9, 2, 1), (*LONG, 7, 7, 1), LONG, SHORT, (5, 9, 2, 6), (4, 4, 1, 12, 12, 12, 3, 9, 10, 2),
    (1, 9, 2, 6, 5), (5, 9, 2, 6, 5, 3, 5, 9), (4,), LONG, (4, 5), (5, 9, 8, 6, 5, 3, 5, 8),
]  # fmt: skip
BASE_OF = [2, 2, 2, 3, 2, 3, 2, 2, 3, 2, 3, 2]
# Rows out of order, several for one context, none for another; one of a single token.
RESPONSES = [
    [1, 2, 3], [6], [12, 11, 0], [5] * 6, [7, 8], [3, 1, 4, 1], [2, 2], [9, 0], [10], [1, 1, 1],
    [4, 6, 8, 10], [0, 12], [11, 3], [8, 8, 8],
]  # fmt: skip
CONTEXT_OF = [7, 0, 3, 1, 2, 11, 4, 5, 6, 8, 10, 9, 0, 5]


def logps(
    policy: Policy, contexts: Any, responses: Any, context_of: Any, base_of: Any = None
) -> Tensor:
    hidden_BTD, mask_BT = response_hidden(policy, contexts, responses, context_of, base_of)
    ids_BT, _ = right_padded(responses, policy.pad_id, policy.device)
    return chosen_logps(policy, hidden_BTD, ids_BT, mask_BT, 0.8)


def plain_rows(policy: Policy, contexts: Any, responses: Any, context_of: Any) -> Tensor:
    rows = [
        plain_logps(policy, contexts[c], r, 0.8) for r, c in zip(responses, context_of, strict=True)
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def gradients(policy: Policy, logps_BT: Tensor) -> list[Tensor]:
    weights_BT = 0.3 + (torch.arange(logps_BT.numel()).view_as(logps_BT) * 7 % 5)
    loss = (logps_BT * weights_BT).sum()
    return list(torch.autograd.grad(loss, list(policy.model.parameters()), allow_unused=True))


def assert_same_gradients(made: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    largest = max(float(g.abs().max()) for g in expected if g is not None)
    assert largest > 0.1
    for one, other in zip(made, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert float((one - other).abs().max()) < 1e-5 * max(1.0, largest)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", KINDS)
def test_shared_rows_have_the_hidden_states_of_whole_rows(kind: str) -> None:
    policy = number_policy(kind)
    with torch.no_grad():
        shared_BTD, mask_BT = response_hidden(policy, CONTEXTS, RESPONSES, CONTEXT_OF)
        whole_BTD, whole_mask_BT = whole_rows(policy, CONTEXTS, RESPONSES, CONTEXT_OF)
    assert torch.equal(mask_BT, whole_mask_BT)
    real_BT = mask_BT.bool()
    torch.testing.assert_close(shared_BTD[real_BT], whole_BTD[real_BT], rtol=0, atol=1e-5)


@pytest.fixture(params=["folded", "copied"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows attend to shared keys where their model can, or every row has a copy."""
    if request.param == "copied":
        monkeypatch.setattr(prefix, "folds", lambda *_: False)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [*KINDS, *WHOLE])
def test_contexts_run_from_where_they_leave_their_base_are_plain_rows(kind: str) -> None:
    """Shared by the kinds that can; whole rows of those that cannot."""
    policy = number_policy(kind)
    made_BT = logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, BASE_OF)
    plain_BT = plain_rows(policy, CONTEXTS, RESPONSES, CONTEXT_OF)
    torch.testing.assert_close(made_BT, plain_BT, rtol=0, atol=1e-5)
    assert_same_gradients(gradients(policy, made_BT), gradients(policy, plain_BT))


def test_each_base_is_run_once_and_a_context_only_where_it_differs() -> None:
    policy = number_policy()
    shapes: list[tuple[int, ...]] = []
    policy.model.base_model.register_forward_pre_hook(
        lambda _, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    near = [(*LONG, 1), (*LONG, 2, 3), LONG]
    with torch.no_grad():
        logps(policy, near, [[1, 2, 3], [4], [5, 6]], [0, 1, 1], [2, 2, 2])
    # What is equal to its base runs its last token again, for the state that predicts.
    assert shapes == [(1, len(LONG)), (3, 2), (3, 2)]


def test_an_extended_context_has_its_own_tokens_and_no_more_of_its_base() -> None:
    policy = number_policy()
    contexts = [LONG[:3], (*SHORT, 7), (5, 1, 1, 1), LONG]
    with torch.no_grad():
        made = extend(policy, prefill(policy, [LONG, SHORT]), [LONG, SHORT], contexts, [0, 1, 0, 0])
        alone = prefill(policy, contexts)
    assert made.mask_CL.sum(1).tolist() == [len(context) for context in contexts]
    torch.testing.assert_close(made.last_CD, alone.last_CD, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_numbers_do_not_depend_on_order_bases_or_batch(kind: str) -> None:
    policy = number_policy(kind)
    with torch.no_grad():
        before_BT = logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, BASE_OF)
        for seed in range(3):
            rng = random.Random(seed)
            places, rows = list(range(len(CONTEXTS))), list(range(len(RESPONSES)))
            rng.shuffle(places)
            rng.shuffle(rows)
            made_BT = logps(
                policy, [CONTEXTS[c] for c in places], [RESPONSES[b] for b in rows],
                [places.index(CONTEXT_OF[b]) for b in rows],
                [places.index(BASE_OF[c]) for c in places],
            )  # fmt: skip
            torch.testing.assert_close(made_BT, before_BT[rows], rtol=0, atol=1e-5)
        # Whatever the bases are: a poor one costs time, not correctness.
        for base_of in ([0] * 12, [3] * 12, list(range(12)), [8, 1, 8] * 4):
            made_BT = logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, base_of)
            torch.testing.assert_close(made_BT, before_BT, rtol=0, atol=1e-5)
        for b, (response, c) in enumerate(zip(RESPONSES, CONTEXT_OF, strict=True)):
            base = CONTEXTS[BASE_OF[c]]
            alone_1T = logps(policy, [base, CONTEXTS[c]], [response], [1], [0, 0])
            torch.testing.assert_close(
                alone_1T[0], before_BT[b, : len(response)], rtol=0, atol=1e-5
            )


def test_contexts_are_chosen_in_any_number_and_order() -> None:
    policy = number_policy()
    with torch.no_grad():
        whole = prefill(policy, CONTEXTS[:3])
        assert whole.select([0, 1, 2]) is whole
        last_CD, mask_CL = whole.last_CD.clone(), whole.mask_CL.clone()
        rows = [2, 0, 0, 2, 1]
        chosen = whole.select(rows)
    assert torch.equal(chosen.last_CD, last_CD[rows])
    assert torch.equal(chosen.mask_CL, mask_CL[rows])


def slow_common_length(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return count


def test_the_common_beginning_is_that_of_a_loop() -> None:
    rng = random.Random(0)
    found = set()
    for _ in range(500):
        first = tuple(rng.randrange(2) for _ in range(rng.randrange(12)))
        second = (
            *first[: rng.randrange(13)],
            *(rng.randrange(2) for _ in range(rng.randrange(5))),
        )
        assert common_length(first, second) == slow_common_length(first, second)
        assert common_length(second, first) == slow_common_length(first, second)
        found.add(common_length(first, second))
    assert found == set(range(12))
    assert common_length((), (1,)) == common_length((), ()) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_models_that_can_share_are_found_to(kind: str) -> None:
    policy = number_policy(kind)
    assert sharing_fault(policy) is None
    assert sharing_fault(replace(policy, compute=torch.bfloat16)) is None


@pytest.mark.parametrize(
    ("kind", "said"),
    [("gemma3", "layers of sliding_attention"), ("mistral", "a sliding window of 4"),
     ("bloom", "takes no position_ids"), ("lfm2", "layers of conv"),
     ("mamba", "layers of linear_attention")],
)  # fmt: skip
def test_models_that_cannot_share_are_told_why(kind: str, said: str) -> None:
    assert said in str(sharing_fault(number_policy(kind)))
    # Nor could their rows share: the check is not overcautious.
    if kind in ("gemma3", "mistral"):
        policy = replace(number_policy(kind), shares=True)
        with torch.no_grad(), pytest.raises(RuntimeError, match="size of tensor"):
            logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, BASE_OF)


def test_a_window_that_is_switched_off_is_none() -> None:
    assert sharing_fault(number_policy("mistral", sliding_window=None)) is None
    wide = number_policy("qwen2", sliding_window=4, use_sliding_window=False)
    assert sharing_fault(wide) is None


def unshifted(policy: Any, ids: Tensor, mask: Tensor, positions: Any, cache: Any) -> Any:
    """Positions of the cache, whether a row has them or not."""
    if positions is not None:
        start = mask.shape[1] - ids.shape[1]
        positions = torch.arange(start, mask.shape[1]).expand_as(ids)
    return forward(policy, ids, mask, positions, cache)


def unmasked(policy: Any, ids: Tensor, mask: Tensor, positions: Any, cache: Any) -> Any:
    """Attention to what a row does not have."""
    return forward(policy, ids, torch.ones_like(mask), positions, cache)


def off_by_one(policy: Any, ids: Tensor, mask: Tensor, positions: Any, cache: Any) -> Any:
    """The response begins one position late."""
    late = positions is not None and ids.shape[1] < mask.shape[1]
    return forward(policy, ids, mask, positions + 1 if late else positions, cache)


forward = prefix.forward


@pytest.mark.parametrize("compute", [None, torch.bfloat16])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("wrong", [unshifted, unmasked, off_by_one])
def test_a_model_whose_shared_rows_disagree_is_found(
    wrong: Any, kind: str, compute: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = replace(number_policy(kind, std=0.5), compute=compute)
    monkeypatch.setattr(prefix, "folds", lambda *_: False)  # every row has a copy
    assert sharing_fault(policy) is None
    monkeypatch.setattr(prefix, "forward", wrong)
    assert "shared rows differ by" in str(sharing_fault(policy))


forward_shared = prefix.forward_shared


def seeing_all(policy: Any, ids: Tensor, positions: Tensor, cache: Any) -> Any:
    """Attention to what a context does not have of its base."""
    for fold in cache.folds:
        fold.hidden = None
    return forward_shared(policy, ids, positions, cache)


def late(policy: Any, ids: Tensor, positions: Tensor, cache: Any) -> Any:
    return forward_shared(policy, ids, positions + 1, cache)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("wrong", [seeing_all, late])
def test_a_model_whose_folded_rows_disagree_is_found(
    wrong: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = number_policy(kind, std=0.5)
    assert sharing_fault(policy) is None
    monkeypatch.setattr(prefix, "forward_shared", wrong)
    assert "shared rows differ by" in str(sharing_fault(policy))


def test_loading_warns_that_contexts_are_not_shared_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = text_policy().tokenizer
    for kind in ("gemma3", "llama"):
        made = number_policy(kind, vocab=len(tokenizer), ends=(tokenizer.eos_token_id,))
        Policy(made.model, tokenizer, made.end_ids, 0, 64).save(tmp_path / kind)
    settings = Model(path=str(tmp_path / "gemma3"), device="cpu")
    with caplog.at_level(logging.WARNING):
        loaded = load_policy(tmp_path / "gemma3", settings, tmp_path)
    assert not loaded.shares
    (record,) = [r for r in caplog.records if "not shared" in r.message]
    assert record.levelno == logging.WARNING
    assert "gemma3: contexts are run once for every row" in record.message
    assert "(layers of sliding_attention)" in record.message
    caplog.clear()
    assert load_policy(tmp_path / "llama", settings, tmp_path).shares
    assert "not shared" not in caplog.text


def test_rows_that_are_not_shared_are_given_neither_cache_nor_positions() -> None:
    policy = number_policy("gemma3")
    given: list[dict[str, Any]] = []
    policy.model.base_model.register_forward_pre_hook(
        lambda _, args, kwargs: given.append(kwargs), with_kwargs=True
    )
    with torch.no_grad():
        response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 1.0)
    (only,) = given
    assert only["cache"] is None and "position_ids" not in only
    longest = max(len(CONTEXTS[c]) + len(r) for c, r in zip(CONTEXT_OF, RESPONSES, strict=True))
    assert only["input_ids"].shape == (len(RESPONSES), longest)


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_models_that_cannot_share_sample_as_decoding_without_a_cache_does(
    kind: str, temperature: float
) -> None:
    policy = number_policy(kind, ends=(0, 7), std=0.3)
    prompts = [("a", [3, 1, 4, 1, 5, 9]), ("b", [2])]
    rollouts = generate(
        policy, prompts, samples=3, temperature=temperature, max_new_tokens=9, seed=1, step=2
    )
    assert len({len(r.response_ids) for r in rollouts}) > 1 or temperature == 0
    for rollout in rollouts:
        draws = uniforms(1, 2, rollout.prompt_id, rollout.sample, 9)
        ids = list(rollout.prompt_ids)
        for draw in draws:
            with torch.no_grad():
                logits_1V = policy.model(torch.tensor([ids])).logits[:, -1]
            logps_1V = (logits_1V / (temperature or 1.0)).log_softmax(-1)
            token_1, _ = pick(logps_1V, torch.tensor([draw], dtype=torch.float64), temperature)
            ids.append(int(token_1))
            if ids[-1] in (0, 7):
                break
        assert rollout.response_ids == tuple(ids[len(rollout.prompt_ids) :])
        with torch.no_grad():
            plain_T = plain_logps(
                policy, rollout.prompt_ids, rollout.response_ids, temperature or 1.0
            )
        torch.testing.assert_close(torch.tensor(rollout.logprobs), plain_T, rtol=0, atol=1e-5)


def texts(kind: str) -> Policy:
    """A policy of any kind with a real tokenizer."""
    tokenizer = text_policy().tokenizer
    end = tokenizer.eos_token_id
    made = number_policy(kind, vocab=len(tokenizer), ends=(end,), positions=256, std=0.3)
    return Policy(made.model, tokenizer, made.end_ids, tokenizer.pad_token_id, 256)


def updated(state: Path, policy: Policy, budget: int) -> tuple[Policy, dict[str, float]]:
    train = {"method": "mrtpo", "learning_rate": 1.0, "warmup_steps": 0, "max_grad_norm": 1e9,
             "micro_batch_tokens": budget}  # fmt: skip
    replay = {"distance": "js", "gain_every": 0}
    made = trainer(state, {"train": train, "replay": replay}, policy=policy)
    made.optimizer = torch.optim.SGD(policy.model.parameters(), lr=1.0)
    metrics, _ = made.one_step()
    return made.policy, metrics


@pytest.mark.parametrize("kind", ["gemma3", "mistral", "lfm2", "llama"])
def test_whole_rows_train_as_rows_one_by_one_and_as_shared_ones(kind: str, tmp_path: Path) -> None:
    assert (sharing_fault(texts(kind)) is None) == (kind == "llama")
    start = texts(kind).model.state_dict()
    together, metrics = updated(tmp_path, replace(texts(kind), shares=False), 100_000)
    assert metrics["policy/grad_norm"] > 0.01
    assert (
        max(float((start[n] - v).abs().max()) for n, v in together.model.state_dict().items())
        > 0.001
    )
    # Rows by themselves are not padded; where it can be, contexts are shared.
    others = [updated(tmp_path, replace(texts(kind), shares=False), 1)]
    if kind == "llama":
        others.append(updated(tmp_path, texts(kind), 100_000))
    for other, other_metrics in others:
        assert_close_policies(other, together, 1e-5 * max(1.0, metrics["policy/grad_norm"]))
        for name in ("policy/loss", "policy/grad_norm", "policy/entropy", "reward/total/mean"):
            assert other_metrics[name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-5), name
