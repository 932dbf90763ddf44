"""Hidden states of responses, computed with shared prefixes.

Many rows answer the same context (a group in the update, a group under each replay context), and
the contexts of one prompt begin alike. So each base context is run once (`prefill`), a context
that begins like its base runs only what differs (`extend`), and rows run only their responses;
keys and values are shared (`attention`), and gradients flow through them.

Rows are padded on the right; positions of a base that a context does not have are masked, wherever
they lie; `position_ids` count the tokens that a row has. Models that cannot share
(`Policy.shares`) run whole rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from mrtpo.attention import NAME, Level, SharedCache, worth_folding
from mrtpo.policy import Policy

Ids = Sequence[int]


@dataclass(frozen=True)
class Prefix:
    """Contexts C that have been run: the last hidden state of each, and what it attended to."""

    last_CD: Tensor
    levels: tuple[Level, ...]

    @property
    def mask_CL(self) -> Tensor:
        """Which positions of all levels each context has."""
        return torch.cat([level.mask_BL for level in self.levels], 1)

    def select(self, rows: Sequence[int]) -> Prefix:
        """One row for each context named."""
        if list(rows) == list(range(len(self.last_CD))):
            return self
        index_B = torch.tensor(rows, device=self.last_CD.device)
        return Prefix(self.last_CD[index_B], tuple(level.select(rows) for level in self.levels))


def right_padded(rows: Sequence[Ids], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """`ids_BT` and `mask_BT`, rows beginning at the left edge."""
    length = max(len(row) for row in rows)
    padded = [list(row) + [pad_id] * (length - len(row)) for row in rows]
    lengths_B1 = torch.tensor([[len(row)] for row in rows])
    mask_BT = (torch.arange(length) < lengths_B1).long()
    return torch.tensor(padded).to(device), mask_BT.to(device)


def prefill(policy: Policy, contexts: Sequence[Ids]) -> Prefix:
    """Run each context once."""
    ids_CL, mask_CL = right_padded(contexts, policy.pad_id, policy.device)
    cache = DynamicCache(config=policy.model.config)
    hidden_CLD = forward(policy, ids_CL, mask_CL, None, cache)
    layers: list[Any] = cache.layers
    level = Level(
        tuple(layer.keys for layer in layers), tuple(layer.values for layer in layers),
        tuple(range(len(contexts))), mask_CL,
    )  # fmt: skip
    return Prefix(_last(hidden_CLD, mask_CL), (level,))


def _last(hidden_CLD: Tensor, mask_CL: Tensor) -> Tensor:
    """The hidden state of each row's last token."""
    return hidden_CLD[torch.arange(len(mask_CL), device=mask_CL.device), mask_CL.sum(1) - 1]


def extend(
    policy: Policy, prefix: Prefix, bases: Sequence[Ids], contexts: Sequence[Ids],
    base_of: Sequence[int],
) -> Prefix:  # fmt: skip
    """`contexts`, of which each begins like `bases[base_of[c]]`, run from where they differ.

    `prefix` is that of `bases`. What a base has and a context has not is masked.
    """
    shared = [
        min(common_length(bases[b], context), len(context) - 1)
        for b, context in zip(base_of, contexts, strict=True)
    ]
    (level,) = prefix.select(base_of).levels
    shared_C1 = torch.tensor(shared, device=policy.device)[:, None]
    kept_CL = level.mask_BL * (level.mask_BL.cumsum(1) <= shared_C1)
    level = Level(level.keys, level.values, level.index, kept_CL)
    suffixes = [context[n:] for context, n in zip(contexts, shared, strict=True)]
    ids_CS, mask_CS = right_padded(suffixes, policy.pad_id, policy.device)
    hidden_CSD, keys, values = continued(policy, (level,), ids_CS, mask_CS)
    own = Level(keys, values, tuple(range(len(contexts))), mask_CS)
    return Prefix(_last(hidden_CSD, mask_CS), (level, own))


def continued(
    policy: Policy, levels: Sequence[Level], ids_BT: Tensor, mask_BT: Tensor
) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Run tokens that follow what rows share. Returns hidden states, own keys and own values."""
    cache = SharedCache(levels)
    lengths_B1 = sum(level.mask_BL.sum(1, keepdim=True) for level in levels)
    positions_BT = lengths_B1 + torch.arange(ids_BT.shape[1], device=ids_BT.device)
    if folds(policy, levels, ids_BT.shape[1]):
        hidden_BTD = forward_shared(policy, ids_BT, positions_BT, cache)
        return hidden_BTD, tuple(cache.keys), tuple(cache.values)
    copied, mask_BL = cache.expanded()
    mask_BL = torch.cat([mask_BL, mask_BT], 1)
    hidden_BTD = forward(policy, ids_BT, mask_BL, positions_BT, copied)
    layers: list[Any] = copied.layers
    new = slice(-ids_BT.shape[1], None)
    return (
        hidden_BTD,
        tuple(layer.keys[:, :, new] for layer in layers),
        tuple(layer.values[:, :, new] for layer in layers),
    )


def folds(policy: Policy, levels: Sequence[Level], tokens: int) -> bool:
    """Whether rows attend to shared keys as they are: in float32, for models whose attention can
    be exchanged, where it is worth it. Else every row gets a copy of its keys.
    """
    config = policy.model.config.get_text_config()
    return can_fold(policy) and worth_folding(levels, config.num_attention_heads, tokens)


def can_fold(policy: Policy) -> bool:
    """Whether this policy's rows may attend to shared keys as they are."""
    model = policy.model
    return (
        policy.shares
        and hasattr(model.config.get_text_config(), "num_attention_heads")
        and policy.compute is None
        and model.dtype == torch.float32
        and getattr(model, "_supports_attention_backend", False)
    )


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
    rest_BTD, _, _ = continued(policy, rows.levels, ids_BT[:, :-1], mask_BT[:, :-1])
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


def forward_shared(policy: Policy, ids: Tensor, positions: Tensor, cache: SharedCache) -> Tensor:
    """Last hidden states of rows that attend to shared keys."""
    with exchanged(policy.model):
        return policy.model.base_model(
            input_ids=ids, position_ids=positions, cache=cache, use_cache=True,
            # The library makes no mask where it is given one; the levels have theirs.
            attention_mask=torch.ones(1, 1, 1, 1, dtype=torch.bool, device=ids.device),
        ).last_hidden_state  # fmt: skip


@contextmanager
def exchanged(model: Any) -> Iterator[None]:
    """The model's layers attend by `attention.attend` in this block."""
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


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
