"""Log-probabilities of responses given contexts.

Hidden states come with shared prefixes (`prefix`). Only the positions that predict response tokens
are projected on the vocabulary, in chunks, and the softmax is float32 whatever the weights are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mrtpo.policy import Policy
from mrtpo.prefix import Ids, can_fold, response_hidden, right_padded

CACHED_LOGITS = 1 << 20  # the same where only the processor's cache matters
CHUNK_LOGITS = 1 << 24  # numbers in one (positions, vocabulary) block: 64 MiB in float32


def stacked(rows: Sequence[Sequence[float]], device: torch.device) -> Tensor:
    """Rows of numbers as a right-padded float32 tensor; padding is 0."""
    length = max(len(row) for row in rows)
    return torch.tensor([[*row, *[0.0] * (length - len(row))] for row in rows]).to(device)


def logits(policy: Policy, hidden_ND: Tensor) -> Tensor:
    """Projection on the vocabulary, in the policy's computing type. Shape (N, V)."""
    with policy.computing():
        return policy.head(hidden_ND)


def log_softmax(policy: Policy, hidden_ND: Tensor, temperature: float) -> Tensor:
    """Log-probabilities (N, V) in float32 at a temperature."""
    return (logits(policy, hidden_ND).float() / temperature).log_softmax(-1)


class ChosenLogp(torch.autograd.Function):
    """`log softmax(logits / temperature)[chosen]`, in float32.

    Works in the memory of the logits, which nobody else may use afterwards: they become
    exp(x − max x) here, and their own gradient in the backward pass. Plain autograd holds several
    tensors of that size.
    """

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, ids_N: Tensor, temperature: float) -> Tensor:
        work_NV = logits_NV.detach().float()
        if temperature != 1.0:
            work_NV.div_(temperature)
        most_N1 = work_NV.amax(1, keepdim=True)
        chosen_N1 = work_NV.gather(1, ids_N[:, None]) - most_N1
        total_N1 = work_NV.sub_(most_N1).exp_().sum(1, keepdim=True)
        # Saved as tensors, or a checkpoint would not know that it holds them.
        ctx.save_for_backward(ids_N, total_N1, work_NV)
        ctx.temperature, ctx.dtype = temperature, logits_NV.dtype
        return (chosen_N1 - total_N1.log()).squeeze(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        # Written over, which autograd notices: a second backward pass is an error.
        ids_N, total_N1, made_NV = ctx.saved_tensors
        gradient_N1 = gradients[0][:, None] / ctx.temperature
        made_NV.mul_(-gradient_N1 / total_N1)  # d logp / d logits = onehot − softmax
        made_NV.scatter_add_(1, ids_N[:, None], gradient_N1)
        return made_NV.to(ctx.dtype), None, None


def _chosen(policy: Policy, hidden_ND: Tensor, ids_N: Tensor, temperature: float) -> Tensor:
    return ChosenLogp.apply(logits(policy, hidden_ND), ids_N, temperature)  # type: ignore[no-untyped-call]


def chosen_logps(
    policy: Policy, hidden_BTD: Tensor, ids_BT: Tensor, mask_BT: Tensor, temperature: float
) -> Tensor:
    """Log-probability of every emitted token, 0 on padding. Shape (B, T), float32.

    Real positions only, chunk by chunk; with gradients each chunk is recomputed in the backward
    pass, so that no (positions, vocabulary) tensor outlives its chunk.
    """
    real = mask_BT.bool()
    hidden_ND, ids_N = hidden_BTD[real], ids_BT[real]
    chunk = max(1, CHUNK_LOGITS // policy.vocab_size)
    if not torch.is_grad_enabled() and policy.device.type == "cpu":
        # What fits a processor's cache is read there by all passes over it.
        chunk = min(chunk, max(64, CACHED_LOGITS // policy.vocab_size))
    pieces = []
    for h, i in zip(hidden_ND.split(chunk), ids_N.split(chunk), strict=True):
        if torch.is_grad_enabled() and len(hidden_ND) > chunk:
            pieces.append(checkpoint(_chosen, policy, h, i, temperature, use_reentrant=False))
        else:
            pieces.append(_chosen(policy, h, i, temperature))
    out_BT = torch.zeros(ids_BT.shape, dtype=torch.float32, device=ids_BT.device)
    return out_BT.masked_scatter(real, torch.cat(pieces))


def response_logps(
    policy: Policy,
    contexts: Sequence[Ids],
    responses: Sequence[Ids],
    context_of: Sequence[int],
    temperature: float,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities `logps_BT` of responses, and `mask_BT`."""
    hidden_BTD, mask_BT = response_hidden(policy, contexts, responses, context_of)
    ids_BT, _ = right_padded(responses, policy.pad_id, policy.device)
    return chosen_logps(policy, hidden_BTD, ids_BT, mask_BT, temperature), mask_BT


def plain_logps(policy: Policy, context: Ids, response: Ids, temperature: float) -> Tensor:
    """One row by one plain forward pass: the reference that the shared path is tested against."""
    ids = torch.tensor([[*context, *response]], device=policy.device)
    logits_LV = policy.model(input_ids=ids).logits[0].float() / temperature
    logps_TV = logits_LV[len(context) - 1 : -1].log_softmax(-1)
    return logps_TV.gather(1, ids[0, len(context) :, None]).squeeze(1)


def row_size(policy: Policy, context: int, response: int, rows: int = 1) -> int:
    """Tokens that `rows` answers to one context of that length cost in a forward pass.

    A shared context is run once. Where a row gets a copy of its keys, or keeps something of its
    attention to them for a gradient, that is a quarter of a token each.
    """
    if policy.shares:
        light = can_fold(policy) and not torch.is_grad_enabled()
        return context + rows * (response + (0 if light else context // 4))
    return rows * (context + response)


def budgeted(sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in runs whose sizes sum to at most `budget`; one that is larger runs alone."""
    run: list[int] = []
    total = 0
    for index, size in enumerate(sizes):
        if run and total + size > budget:
            yield run
            run, total = [], 0
        run.append(index)
        total += size
    if run:
        yield run
