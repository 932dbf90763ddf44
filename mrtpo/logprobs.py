"""Log-probabilities of responses given contexts, computed with shared contexts.

Many rows answer the same context (a group in the update, a group under each replay context), so
each distinct context is run once and its cache is handed to its rows; gradients flow through it.
Only the positions that predict response tokens are projected on the vocabulary, in chunks, in
float32.

Layout: contexts are padded on the left, responses on the right; `position_ids` count real tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from mrtpo.policy import Policy

Ids = Sequence[int]
CHUNK_LOGITS = 1 << 24  # numbers in one (positions, vocabulary) block: 64 MiB in float32


def left_padded(rows: Sequence[Ids], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """`ids_BL` and `mask_BL`, rows ending at the right edge."""
    length = max(len(row) for row in rows)
    ids_BL = torch.full((len(rows), length), pad_id)
    mask_BL = torch.zeros((len(rows), length), dtype=torch.long)
    for b, row in enumerate(rows):
        ids_BL[b, length - len(row) :] = torch.tensor(row)
        mask_BL[b, length - len(row) :] = 1
    return ids_BL.to(device), mask_BL.to(device)


def right_padded(rows: Sequence[Ids], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """`ids_BT` and `mask_BT`, rows beginning at the left edge."""
    length = max(len(row) for row in rows)
    ids_BT = torch.full((len(rows), length), pad_id)
    mask_BT = torch.zeros((len(rows), length), dtype=torch.long)
    for b, row in enumerate(rows):
        ids_BT[b, : len(row)] = torch.tensor(row)
        mask_BT[b, : len(row)] = 1
    return ids_BT.to(device), mask_BT.to(device)


def stacked(rows: Sequence[Sequence[float]], device: torch.device) -> Tensor:
    """Rows of numbers as a right-padded float32 tensor; padding is 0."""
    out_BT = torch.zeros(len(rows), max(len(row) for row in rows))
    for b, row in enumerate(rows):
        out_BT[b, : len(row)] = torch.tensor(row)
    return out_BT.to(device)


def prefill(
    model: Any, contexts: Sequence[Ids], pad_id: int
) -> tuple[Tensor, Tensor, DynamicCache]:
    """Run each context once. Returns the last hidden state (C, D), `mask_CL` and the cache."""
    ids_CL, mask_CL = left_padded(contexts, pad_id, model.device)
    positions_CL = (mask_CL.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    hidden_CLD = model.base_model(
        input_ids=ids_CL, attention_mask=mask_CL, position_ids=positions_CL,
        cache=cache, use_cache=True,
    ).last_hidden_state  # fmt: skip
    return hidden_CLD[:, -1], mask_CL, cache


def response_hidden(
    policy: Policy, contexts: Sequence[Ids], responses: Sequence[Ids], context_of: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Hidden states that predict each response token. Returns `hidden_BTD` and `mask_BT`.

    Row b answers `contexts[context_of[b]]`. Raises ValueError on an empty response or a row that
    is longer than the model's positions: rows are never cut here.
    """
    if any(len(response) == 0 for response in responses):
        raise ValueError("a response without tokens has no log-probabilities")
    longest = max(len(contexts[c]) + len(r) for c, r in zip(context_of, responses, strict=True))
    if longest > policy.max_positions:
        raise ValueError(f"a row of {longest} tokens exceeds the model's {policy.max_positions}")
    model = policy.model
    last_CD, mask_CL, cache = prefill(model, contexts, policy.pad_id)
    index_B = torch.tensor(context_of, device=model.device)
    ids_BT, mask_BT = right_padded(responses, policy.pad_id, model.device)
    first_B1D = last_CD[index_B][:, None]
    if ids_BT.shape[1] == 1:
        return first_B1D, mask_BT
    cache.batch_select_indices(index_B)
    context_mask_BL = mask_CL[index_B]
    # The last token of a response predicts nothing.
    inputs_BT, inputs_mask_BT = ids_BT[:, :-1], mask_BT[:, :-1]
    lengths_B1 = context_mask_BL.sum(1, keepdim=True)
    positions_BT = lengths_B1 + torch.arange(inputs_BT.shape[1], device=model.device)
    rest_BTD = model.base_model(
        input_ids=inputs_BT,
        attention_mask=torch.cat([context_mask_BL, inputs_mask_BT], 1),
        position_ids=positions_BT,
        cache=cache,
        use_cache=True,
    ).last_hidden_state
    return torch.cat([first_B1D, rest_BTD], 1), mask_BT


def log_softmax(model: Any, hidden_ND: Tensor, temperature: float) -> Tensor:
    """Log-probabilities (N, V) in float32 at a temperature."""
    return (model.lm_head(hidden_ND).float() / temperature).log_softmax(-1)


def _chosen(model: Any, hidden_ND: Tensor, ids_N: Tensor, temperature: float) -> Tensor:
    logits_NV = model.lm_head(hidden_ND).float() / temperature
    return logits_NV.gather(1, ids_N[:, None]).squeeze(1) - logits_NV.logsumexp(1)


def chosen_logps(
    policy: Policy, hidden_BTD: Tensor, ids_BT: Tensor, mask_BT: Tensor, temperature: float
) -> Tensor:
    """Log-probability of every emitted token, 0 on padding. Shape (B, T), float32.

    Real positions only, chunk by chunk; with gradients each chunk is recomputed in the backward
    pass, so that no (positions, vocabulary) tensor outlives its chunk.
    """
    real = mask_BT.bool()
    hidden_ND, ids_N = hidden_BTD[real], ids_BT[real]
    chunk = max(1, CHUNK_LOGITS // policy.model.config.vocab_size)
    pieces = []
    for h, i in zip(hidden_ND.split(chunk), ids_N.split(chunk), strict=True):
        if torch.is_grad_enabled() and len(hidden_ND) > chunk:
            pieces.append(checkpoint(_chosen, policy.model, h, i, temperature, use_reentrant=False))
        else:
            pieces.append(_chosen(policy.model, h, i, temperature))
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
