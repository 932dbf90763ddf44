"""A cache for sampling that grows in place.

The library's cache copies all keys and values at every token. This one writes each token into room
that was set aside, and copies only when the room is used up or rows leave. Not for gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

ROOM = 64  # tokens, at least; a quarter of the length where that is more


class GrowingLayer(DynamicLayer):
    """Keys and values in buffers with room to spare; `keys` and `values` are views of them."""

    keys: Any
    values: Any

    def __init__(self, keys: Tensor, values: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self._take(keys[rows], values[rows])

    def _take(self, keys: Tensor, values: Tensor) -> None:
        rows, heads, length, width = keys.shape
        room = length + max(ROOM, length // 4)
        self._keys = keys.new_empty(rows, heads, room, width)
        self._values = values.new_empty(rows, heads, room, values.shape[3])
        self._keys[:, :, :length] = keys
        self._values[:, :, :length] = values
        self._show(length)

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


def growing(cache: DynamicCache, rows: Any) -> DynamicCache:
    """The cache of `rows`, growing in place where its layers are plain keys and values."""
    if not torch.is_grad_enabled() and all(type(layer) is DynamicLayer for layer in cache.layers):
        plain: list[Any] = cache.layers
        cache.layers = [GrowingLayer(layer.keys, layer.values, rows) for layer in plain]
    else:
        cache.reorder_cache(rows)  # which layers with a state have too
    return cache
