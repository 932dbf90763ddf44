"""Hidden states of responses, computed with shared prefixes.

Many rows answer the same context (a group in the update, a group under each replay context), and
the contexts of one prompt begin alike. So each base context is run once (`prefill`), a context
that begins like its base runs only what differs (`extend`), and rows run only their responses;
caches are handed down, and gradients flow through them.

Layout: contexts are padded on the left, responses on the right, and the cache positions that a row
does not have are masked, wherever they lie; `position_ids` count the tokens that a row has. Models
that cannot share (`Policy.shares`) run whole rows, padded on the right.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from mrtpo.policy import Policy

Ids = Sequence[int]


@dataclass
class Prefix:
    """Contexts C that have been run: last hidden states, which cache positions each has, and the
    cache itself."""

    last_CD: Tensor
    mask_CL: Tensor
    cache: DynamicCache

    def select(self, rows: Sequence[int]) -> Prefix:
        """One row for each context named. The cache is handed over: `self` is used up."""
        if list(rows) == list(range(len(self.mask_CL))):
            return self
        index_B: Any = torch.tensor(rows, device=self.mask_CL.device)
        self.cache.reorder_cache(index_B)
        return Prefix(self.last_CD[index_B], self.mask_CL[index_B], self.cache)


def left_padded(rows: Sequence[Ids], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """`ids_BL` and `mask_BL`, rows ending at the right edge."""
    length = max(len(row) for row in rows)
    padded = [[pad_id] * (length - len(row)) + list(row) for row in rows]
    lengths_B1 = torch.tensor([[len(row)] for row in rows])
    mask_BL = (torch.arange(length) >= length - lengths_B1).long()
    return torch.tensor(padded).to(device), mask_BL.to(device)


def right_padded(rows: Sequence[Ids], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """`ids_BT` and `mask_BT`, rows beginning at the left edge."""
    length = max(len(row) for row in rows)
    padded = [list(row) + [pad_id] * (length - len(row)) for row in rows]
    lengths_B1 = torch.tensor([[len(row)] for row in rows])
    mask_BT = (torch.arange(length) < lengths_B1).long()
    return torch.tensor(padded).to(device), mask_BT.to(device)


def prefill(policy: Policy, contexts: Sequence[Ids]) -> Prefix:
    """Run each context once."""
    ids_CL, mask_CL = left_padded(contexts, policy.pad_id, policy.device)
    cache = DynamicCache(config=policy.model.config)
    hidden_CLD = forward(policy, ids_CL, mask_CL, (mask_CL.cumsum(1) - 1).clamp(min=0), cache)
    return Prefix(hidden_CLD[:, -1], mask_CL, cache)


def extend(
    policy: Policy, prefix: Prefix, bases: Sequence[Ids], contexts: Sequence[Ids],
    base_of: Sequence[int],
) -> Prefix:  # fmt: skip
    """`contexts`, of which each begins like `bases[base_of[c]]`, run from where they differ.

    `prefix` is that of `bases`. What a base has and a context has not stays in the cache, masked.
    """
    device = policy.device
    shared = [
        min(common_length(bases[b], context), len(context) - 1)
        for b, context in zip(base_of, contexts, strict=True)
    ]
    rows = prefix.select(base_of)
    shared_C1 = torch.tensor(shared, device=device)[:, None]
    kept_CL = rows.mask_CL * (rows.mask_CL.cumsum(1) <= shared_C1)
    suffixes = [context[n:] for context, n in zip(contexts, shared, strict=True)]
    ids_CS, suffix_CS = left_padded(suffixes, policy.pad_id, device)
    mask_CL = torch.cat([kept_CL, suffix_CS], 1)
    positions_CS = (shared_C1 + suffix_CS.cumsum(1) - 1).clamp(min=0)
    hidden_CSD = forward(policy, ids_CS, mask_CL, positions_CS, rows.cache)
    return Prefix(hidden_CSD[:, -1], mask_CL, rows.cache)


def common_length(first: Ids, second: Ids) -> int:
    """How many tokens two rows have in common at their beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # bisection: comparing slices is far faster than single tokens
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def response_hidden(
    policy: Policy,
    contexts: Sequence[Ids],
    responses: Sequence[Ids],
    context_of: Sequence[int],
    base_of: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Hidden states that predict each response token. Returns `hidden_BTD` and `mask_BT`.

    Row b answers `contexts[context_of[b]]`; `contexts[base_of[c]]` is the context that context c
    begins like (itself, or None for all: it stands alone). Raises ValueError on an empty response
    or a row that is longer than the model's positions: rows are never cut here.
    """
    if any(len(response) == 0 for response in responses):
        raise ValueError("a response without tokens has no log-probabilities")
    longest = max(len(contexts[c]) + len(r) for c, r in zip(context_of, responses, strict=True))
    if longest > policy.max_positions:
        raise ValueError(f"a row of {longest} tokens exceeds the model's {policy.max_positions}")
    if not policy.shares:
        return whole_rows(policy, contexts, responses, context_of)
    if base_of is None or all(base == c for c, base in enumerate(base_of)):
        prefix = prefill(policy, contexts)
    else:
        heads = sorted(set(base_of))
        bases = [contexts[c] for c in heads]
        at = [heads.index(base) for base in base_of]
        prefix = extend(policy, prefill(policy, bases), bases, contexts, at)
    rows = prefix.select(context_of)
    ids_BT, mask_BT = right_padded(responses, policy.pad_id, policy.device)
    first_B1D = rows.last_CD[:, None]
    if ids_BT.shape[1] == 1:
        return first_B1D, mask_BT
    # The last token of a response predicts nothing.
    inputs_BT, inputs_mask_BT = ids_BT[:, :-1], mask_BT[:, :-1]
    lengths_B1 = rows.mask_CL.sum(1, keepdim=True)
    positions_BT = lengths_B1 + torch.arange(inputs_BT.shape[1], device=policy.device)
    mask_BL = torch.cat([rows.mask_CL, inputs_mask_BT], 1)
    rest_BTD = forward(policy, inputs_BT, mask_BL, positions_BT, rows.cache)
    return torch.cat([first_B1D, rest_BTD], 1), mask_BT


def whole_rows(
    policy: Policy, contexts: Sequence[Ids], responses: Sequence[Ids], context_of: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """As `response_hidden`, every row run as a whole: for models that cannot share."""
    rows = [(*contexts[c], *response) for c, response in zip(context_of, responses, strict=True)]
    ids_BL, mask_BL = right_padded(rows, policy.pad_id, policy.device)
    hidden_BLD = forward(policy, ids_BL, mask_BL, None, None)
    _, mask_BT = right_padded(responses, policy.pad_id, policy.device)
    starts_B1 = torch.tensor([[len(contexts[c]) - 1] for c in context_of], device=policy.device)
    places_BT = starts_B1 + torch.arange(mask_BT.shape[1], device=policy.device) * mask_BT
    hidden_BTD = hidden_BLD.gather(1, places_BT[..., None].expand(-1, -1, hidden_BLD.shape[2]))
    return hidden_BTD, mask_BT


def forward(
    policy: Policy, ids: Tensor, mask: Tensor, positions: Tensor | None, cache: Any
) -> Tensor:
    """Last hidden states. Models that cannot share count their own positions, and sample rows of
    one length: to those with a state, a mask over what lies in the past would mean something else.
    """
    given: dict[str, Any] = {"attention_mask": mask}
    if policy.shares:
        given |= {} if positions is None else {"position_ids": positions}
    elif cache is not None:
        given = {}
    with policy.computing():
        return policy.model.base_model(
            input_ids=ids, cache=cache, use_cache=cache is not None, **given
        ).last_hidden_state


@torch.no_grad()
def sharing_fault(policy: Policy) -> str | None:
    """Why rows of this model cannot share their contexts, or None.

    Sliding windows and states that are not keys and values are told from the configuration;
    whatever else shared rows might disagree on shows in a small comparison with whole rows.
    """
    config = policy.model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        return f"layers of {', '.join(sorted(kinds))}"
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return f"a sliding window of {config.sliding_window}"
    accepted = inspect.signature(policy.model.base_model.forward).parameters
    missing = {"position_ids", "cache", "attention_mask"} - set(accepted)
    if missing:
        return f"its forward pass takes no {', '.join(sorted(missing))}"
    if policy.max_positions < 12:
        return None
    ids = [3 + (7 * n) % (policy.vocab_size - 3) for n in range(8)]
    contexts = [tuple(ids), (*ids[:5], ids[7]), (ids[2],)]
    responses = [tuple(ids[3:6]), tuple(ids[:2]), tuple(ids[4:5]), tuple(ids[1:4])]
    context_of = [0, 1, 1, 2]
    shared_BTD, mask_BT = response_hidden(policy, contexts, responses, context_of, [0, 0, 2])
    whole_BTD, _ = whole_rows(policy, contexts, responses, context_of)
    off_BTD = (shared_BTD - whole_BTD).float() * mask_BT[..., None]
    largest = float(whole_BTD.float().abs().max())
    exact = policy.compute is None and whole_BTD.dtype == torch.float32
    if float(off_BTD.abs().max()) > (1e-3 if exact else 0.1) * largest:
        return f"shared rows differ by {float(off_BTD.abs().max()) / largest:.1e} of the states"
    return None
