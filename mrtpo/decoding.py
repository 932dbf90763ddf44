"""Token by token: the caches of rows that are being sampled.

Rows share the keys of their prompts (`attention`) and append their own in place. Where they cannot,
a row has a copy, which also grows in place: the library's cache copies everything at every token.
Not for gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from mrtpo.attention import SharedCache, with_room
from mrtpo.policy import Policy
from mrtpo.prefix import Ids, folds, forward, forward_shared, prefill, right_padded


class GrowingLayer(DynamicLayer):
    """Keys and values in buffers with room to spare; `keys` and `values` are views of them."""

    keys: Any
    values: Any

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self._take(keys, values)

    def _take(self, keys: Tensor, values: Tensor) -> None:
        self._keys, self._values = with_room(keys), with_room(values)
        self._show(keys.shape[2])

    def _show(self, length: int) -> None:
        self.keys, self.values = self._keys[:, :, :length], self._values[:, :, :length]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        start, end = self.keys.shape[2], self.keys.shape[2] + key_states.shape[2]
        if end > self._keys.shape[2]:
            self._take(self.keys, self.values)
        self._keys[:, :, start:end] = key_states
        self._values[:, :, start:end] = value_states
        self._show(end)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._take(self.keys[beam_idx], self.values[beam_idx])


class Decoder:
    """Rows that are sampled, each after its prompt; `hidden_AD` predicts their next tokens.

    Row a answers `prompts[rows[a]]`. Models that cannot share take prompts of one length.
    """

    def __init__(self, policy: Policy, prompts: Sequence[Ids], rows: Sequence[int]) -> None:
        self.policy = policy
        self.cache: Any
        self.mask_AL: Tensor | None = None  # of the cache, where every row has its own
        if not policy.shares:  # every row runs its own prompt
            ids_AL, self.mask_AL = right_padded(
                [prompts[c] for c in rows], policy.pad_id, policy.device
            )
            self.cache = DynamicCache(config=policy.model.config)
            self.hidden_AD = forward(policy, ids_AL, self.mask_AL, None, self.cache)[:, -1]
            self.length_A = self.mask_AL.sum(1)
            return
        prefix = prefill(policy, prompts).select(rows)
        self.hidden_AD = prefix.last_CD
        self.length_A = prefix.mask_CL.sum(1)
        self.cache = SharedCache(prefix.levels, growing=True)
        if not folds(policy, prefix.levels, 1):
            self.cache, self.mask_AL = self.cache.expanded()
            layers: list[Any] = self.cache.layers
            self.cache.layers = [GrowingLayer(layer.keys, layer.values) for layer in layers]

    def step(self, token_A: Tensor) -> None:
        """Append a token to every row."""
        ids_A1, positions_A1 = token_A[:, None], self.length_A[:, None]
        if isinstance(self.cache, SharedCache):
            hidden_A1D = forward_shared(self.policy, ids_A1, positions_A1, self.cache)
        else:
            assert self.mask_AL is not None
            self.mask_AL = torch.cat([self.mask_AL, torch.ones_like(ids_A1)], 1)
            hidden_A1D = forward(self.policy, ids_A1, self.mask_AL, positions_A1, self.cache)
        self.hidden_AD = hidden_A1D[:, -1]
        self.length_A = self.length_A + 1

    def keep(self, kept_A: Tensor) -> None:
        """Go on with some of the rows."""
        self.length_A = self.length_A[kept_A]
        if isinstance(self.cache, SharedCache):
            self.cache = self.cache.keep(kept_A.tolist())
        else:
            assert self.mask_AL is not None
            self.mask_AL = self.mask_AL[kept_A]
            self.cache.reorder_cache(kept_A)  # which layers with a state have too
