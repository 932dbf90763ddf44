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
    budgeted,
    chosen_logps,
    plain_logps,
    response_logps,
    stacked,
)
from mrtpo.policy import Policy
from mrtpo.prefix import left_padded, response_hidden, right_padded

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


def test_padding_stands_on_the_side_it_should() -> None:
    device = torch.device("cpu")
    ids, mask = left_padded([[1, 2, 3], [4]], 9, device)
    assert (ids.tolist(), mask.tolist()) == ([[1, 2, 3], [9, 9, 4]], [[1, 1, 1], [0, 0, 1]])
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
