"""The shared-context path against one plain forward pass for each row."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from helpers import KINDS, number_policy
from torch import Tensor

from mrtpo import logprobs
from mrtpo.logprobs import (
    ChosenLogp,
    budgeted,
    chosen_logps,
    plain_logps,
    response_logps,
    stacked,
)
from mrtpo.policy import Policy
from mrtpo.prefix import response_hidden, right_padded

# Contexts of different lengths; several rows for each, out of order; responses of length 1 too.
CONTEXTS = [[3, 1, 4], [1], [5, 9, 2, 6, 5, 3, 5, 8], [9, 7]]
RESPONSES = [[1, 2, 3, 4], [7], [12, 11], [5, 5, 5, 5, 5, 5, 0], [8, 0], [2], [6, 1, 8]]
CONTEXT_OF = [2, 0, 1, 2, 0, 3, 2]


def gradients(policy: Policy, loss: Tensor) -> list[Tensor]:
    names, parameters = zip(*policy.model.named_parameters(), strict=True)
    assert any("emb" in n or "wte" in n for n in names)
    return list(torch.autograd.grad(loss, parameters))


def weighted_losses(
    policy: Policy, contexts: Sequence[Any], responses: Sequence[Any], context_of: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """The same weighted sum of log-probabilities by the shared path and row by row."""
    weights = stacked(
        [[0.3 + ((b + 2 * t) % 5) for t in range(len(r))] for b, r in enumerate(responses)],
        policy.device,
    )
    logps_BT, _ = response_logps(policy, contexts, responses, context_of, 0.8)
    shared = (logps_BT * weights).sum()
    plain = torch.stack(
        [
            (plain_logps(policy, contexts[c], r, 0.8) * weights[b, : len(r)]).sum()
            for b, (r, c) in enumerate(zip(responses, context_of, strict=True))
        ]
    ).sum()
    return shared, plain


def assert_close_gradients(made: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    largest = max(float(g.abs().max()) for g in expected)
    for one, other in zip(made, expected, strict=True):
        assert float((one - other).abs().max()) < 1e-5 * max(1.0, largest)


@pytest.mark.parametrize("kind", KINDS)
def test_shared_contexts_give_the_log_probabilities_of_plain_rows(kind: str) -> None:
    policy = number_policy(kind)
    for temperature in (1.0, 0.6):
        logps_BT, mask_BT = response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, temperature)
        assert mask_BT.sum(1).tolist() == [len(r) for r in RESPONSES]
        assert (logps_BT[mask_BT == 0] == 0).all()
        for b, (response, c) in enumerate(zip(RESPONSES, CONTEXT_OF, strict=True)):
            plain = plain_logps(policy, CONTEXTS[c], response, temperature)
            torch.testing.assert_close(logps_BT[b, : len(response)], plain, rtol=0, atol=1e-5)
    # The contexts matter: a row scored under another one is something else.
    with torch.no_grad():
        one, other = (plain_logps(policy, CONTEXTS[c], RESPONSES[0], 1.0) for c in (1, 2))
    assert float((one - other).abs().max()) > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_flow_through_shared_contexts_as_through_plain_rows(kind: str) -> None:
    policy = number_policy(kind)
    shared, plain = weighted_losses(policy, CONTEXTS, RESPONSES, CONTEXT_OF)
    assert float(shared.detach()) == pytest.approx(float(plain.detach()), abs=1e-4)
    assert_close_gradients(gradients(policy, shared), gradients(policy, plain))


@pytest.mark.parametrize("kind", KINDS)
def test_responses_of_one_token_need_only_the_context(kind: str) -> None:
    policy = number_policy(kind)
    responses, context_of = [[4], [0], [9]], [1, 0, 1]
    shared, plain = weighted_losses(policy, CONTEXTS[:2], responses, context_of)
    assert float(shared.detach()) == pytest.approx(float(plain.detach()), abs=1e-5)
    assert_close_gradients(gradients(policy, shared), gradients(policy, plain))


def test_the_order_of_rows_and_contexts_does_not_matter() -> None:
    policy = number_policy("qwen2")
    with torch.no_grad():
        before, _ = response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 1.0)
        rows = [4, 0, 6, 2, 5, 3, 1]
        contexts = [3, 1, 0, 2]
        after, _ = response_logps(
            policy,
            [CONTEXTS[c] for c in contexts],
            [RESPONSES[b] for b in rows],
            [contexts.index(CONTEXT_OF[b]) for b in rows],
            1.0,
        )
    torch.testing.assert_close(after, before[rows], rtol=0, atol=1e-5)


def test_chunks_over_the_vocabulary_change_neither_values_nor_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = number_policy()
    weights = torch.rand(7, 7, generator=torch.Generator().manual_seed(0))

    def scored() -> tuple[Tensor, list[Tensor]]:
        logps_BT, _ = response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 1.0)
        return logps_BT.detach(), gradients(policy, (logps_BT * weights).sum())

    whole, whole_gradients = scored()
    blocks: list[int] = []
    chosen = logprobs._chosen

    def counted(model: Any, hidden_ND: Tensor, ids_N: Tensor, temperature: float) -> Tensor:
        blocks.append(len(ids_N))
        return chosen(model, hidden_ND, ids_N, temperature)

    monkeypatch.setattr(logprobs, "_chosen", counted)
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", 3 * 13)
    pieces, piece_gradients = scored()
    tokens = sum(len(r) for r in RESPONSES)
    assert max(blocks) == 3
    assert sum(blocks) == 2 * tokens  # each block once more in the backward pass
    torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-6)
    assert_close_gradients(piece_gradients, whole_gradients)


def test_only_real_places_reach_the_vocabulary() -> None:
    policy = number_policy()
    seen: list[int] = []
    policy.model.lm_head.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 1.0)
    assert sum(seen) == sum(len(r) for r in RESPONSES)


def test_log_probabilities_of_what_pads_are_zero_and_carry_no_gradient() -> None:
    policy = number_policy()
    hidden_BTD, mask_BT = response_hidden(policy, CONTEXTS[:1], [[1], [2, 3, 4]], [0, 0])
    hidden_BTD = hidden_BTD.detach().requires_grad_()
    ids_BT, _ = right_padded([[1], [2, 3, 4]], policy.pad_id, policy.device)
    logps_BT = chosen_logps(policy, hidden_BTD, ids_BT, mask_BT, 1.0)
    logps_BT.sum().backward()
    assert (logps_BT[0, 1:] == 0).all()
    assert (hidden_BTD.grad[0, 1:] == 0).all()
    assert (hidden_BTD.grad[0, 0] != 0).any()


def test_a_row_that_does_not_fit_is_refused_and_never_cut() -> None:
    policy = number_policy(positions=10)
    with torch.no_grad():
        logps_BT, _ = response_logps(policy, [[1] * 7], [[2, 3, 4]], [0], 1.0)
        plain = plain_logps(policy, [1] * 7, [2, 3, 4], 1.0)
        torch.testing.assert_close(logps_BT[0], plain, rtol=0, atol=1e-5)
        with pytest.raises(ValueError, match="11 tokens exceeds the model's 10"):
            response_logps(policy, [[1], [1] * 7], [[2, 3, 4, 5], [2]], [1, 0], 1.0)
        # A long context and a long response that do not meet in one row are fine.
        response_logps(policy, [[1], [1] * 9], [[2, 3, 4, 5], [2]], [0, 1], 1.0)


def test_an_empty_response_is_refused() -> None:
    with pytest.raises(ValueError, match="without tokens"):
        response_logps(number_policy(), [[1]], [[2], []], [0, 0], 1.0)


def test_rows_are_padded_on_the_right() -> None:
    device = torch.device("cpu")
    ids, mask = right_padded([[1, 2, 3], [4]], 9, device)
    assert (ids.tolist(), mask.tolist()) == ([[1, 2, 3], [4, 9, 9]], [[1, 1, 1], [1, 0, 0]])
    assert stacked([[0.5, 1.5], [2.5]], device).tolist() == [[0.5, 1.5], [2.5, 0.0]]


@pytest.mark.parametrize("budget", [1, 7, 20, 10_000])
def test_budgeted_runs_cover_every_index_once_within_the_budget(budget: int) -> None:
    sizes = [random.Random(budget).randint(1, 12) for _ in range(50)]
    runs = list(budgeted(sizes, budget))
    assert [i for run in runs for i in run] == list(range(50))
    for run in runs:
        assert len(run) == 1 or sum(sizes[i] for i in run) <= budget
    for run, following in itertools.pairwise(runs):  # and no run ends too soon
        assert sum(sizes[i] for i in run) + sizes[following[0]] > budget


def test_budgeted_nothing_is_no_run() -> None:
    assert list(budgeted([], 5)) == []


def slow_chosen(logits_NV: Tensor, ids_N: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Values, and gradients of a weighted sum, by autograd in float64."""
    exact_NV = logits_NV.detach().double().requires_grad_()
    logps_N = (exact_NV / temperature).log_softmax(1).gather(1, ids_N[:, None])[:, 0]
    (logps_N * weights_of(ids_N)).sum().backward()
    return logps_N.detach(), exact_NV.grad  # type: ignore[return-value]


def weights_of(ids_N: Tensor) -> Tensor:
    return torch.linspace(-2, 3, len(ids_N), dtype=torch.float64)


@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [0.1, 3.0, 1000.0])
def test_chosen_log_probabilities_and_their_gradient_are_those_of_float64(
    dtype: torch.dtype, temperature: float, scale: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    logits_NV = (scale * torch.randn(9, 40, generator=generator)).to(dtype)
    ids_N = torch.randint(40, (9,), generator=generator)
    ids_N[:3] = logits_NV[:3].argmax(1)
    values_N, gradient_NV = slow_chosen(logits_NV, ids_N, temperature)
    leaf_NV = logits_NV.clone().requires_grad_()
    # The function works in the memory of what it is given: a copy of the leaf.
    made_N = ChosenLogp.apply(leaf_NV.clone(), ids_N, temperature)
    assert made_N.dtype == torch.float32
    (made_N * weights_of(ids_N).float()).sum().backward()
    assert leaf_NV.grad is not None and leaf_NV.grad.dtype == dtype
    torch.testing.assert_close(made_N.double(), values_N, rtol=1e-6, atol=1e-5)
    # A gradient is rounded once, to the type of the logits.
    torch.testing.assert_close(
        leaf_NV.grad.double(), gradient_NV, rtol=torch.finfo(dtype).eps, atol=2e-6
    )


def test_what_pads_in_a_vocabulary_may_be_impossible() -> None:
    logits_NV = torch.tensor([[1.0, -torch.inf, 0.0], [-torch.inf, 2.0, -torch.inf]])
    leaf_NV = logits_NV.clone().requires_grad_()
    made_N = ChosenLogp.apply(leaf_NV.clone(), torch.tensor([2, 1]), 1.0)
    made_N.sum().backward()
    assert made_N.tolist() == pytest.approx([-1.3132617, 0.0])
    assert leaf_NV.grad is not None
    assert leaf_NV.grad.flatten().tolist() == pytest.approx([-0.7310586, 0, 0.7310586, 0, 0, 0])


@pytest.mark.parametrize("chunk", [1 << 24, 3 * 13])
def test_a_second_backward_pass_is_refused_or_right(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = number_policy()
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", chunk)
    weight = policy.model.lm_head.weight
    loss = response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 1.0)[0].sum()
    (once,) = torch.autograd.grad(loss, weight, retain_graph=True)
    try:
        (twice,) = torch.autograd.grad(loss, weight)
    except RuntimeError:
        return
    assert chunk < 1 << 24  # a chunk that is recomputed may be so again
    torch.testing.assert_close(twice, once, rtol=0, atol=1e-6)


def with_bias(policy: Policy) -> None:
    head = torch.nn.Linear(16, 13, bias=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        torch.nn.init.normal_(head.weight, std=0.5)
        torch.nn.init.normal_(head.bias, std=2.0)
    policy.model.set_output_embeddings(head)


@pytest.mark.parametrize("chunk", [1 << 24, 3 * 13])
@pytest.mark.parametrize("head", ["tied", "bias"])
def test_heads_with_a_bias_or_tied_to_the_embeddings_are_followed(
    head: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = number_policy(tie_word_embeddings=head == "tied")
    if head == "bias":
        with_bias(policy)
    shared_in, shared_out = policy.model.get_input_embeddings().weight, policy.head.weight
    assert (shared_in is shared_out) == (head == "tied")
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", chunk)
    shared, plain = weighted_losses(policy, CONTEXTS, RESPONSES, CONTEXT_OF)
    assert float(shared.detach()) == pytest.approx(float(plain.detach()), abs=1e-4)
    made, expected = gradients(policy, shared), gradients(policy, plain)
    assert_close_gradients(made, expected)
    names = [name for name, _ in policy.model.named_parameters()]
    if head == "bias":
        assert float(expected[names.index("lm_head.bias")].abs().max()) > 0.1


HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_computes_over_weights_that_stay_float32(dtype: torch.dtype) -> None:
    policy = number_policy(std=0.3)
    with torch.no_grad():
        exact_BT, _ = response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 0.8)
    policy.compute = dtype
    seen: list[torch.dtype] = []
    policy.model.lm_head.register_forward_hook(lambda _, __, made: seen.append(made.dtype))
    logps_BT, _ = response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 0.8)
    assert set(seen) == {dtype}
    assert logps_BT.dtype == torch.float32
    assert logprobs.log_softmax(policy, torch.randn(2, 16), 1.0).dtype == torch.float32
    off = float((logps_BT - exact_BT).detach().abs().max())
    assert 0 < off < (0.1 if dtype == torch.bfloat16 else 0.02)
    # The softmax is float32, whatever the logits are: its probabilities sum to 1.
    total_N = logprobs.log_softmax(policy, torch.randn(50, 16), 1.0).exp().sum(1)
    torch.testing.assert_close(total_N, torch.ones(50), rtol=0, atol=1e-6)

    made = gradients(policy, logps_BT.sum())
    assert all(parameter.dtype == torch.float32 for parameter in policy.model.parameters())
    assert all(gradient.dtype == torch.float32 for gradient in made)
    policy.compute = None
    expected = gradients(
        policy, response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 0.8)[0].sum()
    )
    largest = max(float(gradient.abs().max()) for gradient in expected)
    for one, other in zip(made, expected, strict=True):
        assert float((one - other).abs().max()) < 0.05 * largest


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_chunks_are_recomputed_in_half_precision(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = number_policy(std=0.3)
    policy.compute = dtype
    before_BT, _ = response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 0.8)
    expected = gradients(policy, before_BT.sum())
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", 3 * 13)
    seen: list[torch.dtype] = []
    policy.model.lm_head.register_forward_hook(lambda _, __, made: seen.append(made.dtype))
    logps_BT, _ = response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 0.8)
    made = gradients(policy, logps_BT.sum())  # outside of the block that sets the type
    assert set(seen) == {dtype} and len(seen) > 10
    torch.testing.assert_close(logps_BT, before_BT, rtol=0, atol=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in expected)
    for one, other in zip(made, expected, strict=True):
        assert float((one - other).abs().max()) < 0.02 * largest


@pytest.mark.parametrize("dtype", HALVES)
def test_identical_calls_in_half_precision_give_identical_numbers(dtype: torch.dtype) -> None:
    policy = number_policy()
    policy.compute = dtype
    with torch.no_grad():
        one, other = (
            response_logps(policy, CONTEXTS, RESPONSES, CONTEXT_OF, 0.8)[0] for _ in range(2)
        )
    assert torch.equal(one, other)


def test_sharing_is_counted_for_what_it_costs() -> None:
    shared, whole = number_policy(), number_policy("gemma3")
    assert logprobs.row_size(shared, 100, 10, 4) == 100 + 4 * (10 + 25)
    assert logprobs.row_size(whole, 100, 10, 4) == 4 * 110
    assert logprobs.row_size(shared, 100, 10, 0) == 100
