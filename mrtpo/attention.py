"""Attention of many rows to keys and values that they share, without a copy for each row.

Rows of a group read the same prompt. Instead of handing every row its own copy of the prompt's
keys, the queries of all rows of a context are folded into one long query (`Fold`), multiplied with
the keys once, and unfolded. A row attends to several levels, the prompt's, the context's, and its
own tokens, under one softmax:

    out = Σ_l e^{S_l − m} V_l / Σ_l Σ e^{S_l − m},     m the largest score of all levels

which is plain attention to all of them, up to rounding, and so are its gradients. The library's
models call it through their own attention interface; what they take for keys is a `Keys`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer

NAME = "mrtpo_shared"
LARGEST = 1 << 26  # scores of one layer that are held at once
ROOM = 64  # tokens set aside for sampling, at least; a quarter of the length where that is more


@dataclass(frozen=True)
class Level:
    """Keys and values of contexts that have been run, and which of them each row reads.

    `keys` and `values` have a tensor (N, heads, L, width) for each layer. Row b reads entry
    `index[b]`, of whose positions it has those in `mask_BL`.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    index: tuple[int, ...]
    mask_BL: Tensor

    def select(self, rows: Sequence[int]) -> Level:
        if list(rows) == list(range(len(self.index))):
            return self
        index_B = torch.tensor(rows, device=self.mask_BL.device)
        return Level(
            self.keys, self.values, tuple(self.index[b] for b in rows), self.mask_BL[index_B]
        )


class Fold:
    """How rows B become entries N with R rows each: `fold` and `unfold` are each other's inverse,
    but for rows that are repeated where an entry has fewer than R.
    """

    def __init__(self, level: Level) -> None:
        device = level.mask_BL.device
        entries = sorted(set(level.index))
        rows_of: dict[int, list[int]] = {n: [] for n in entries}
        for b, n in enumerate(level.index):
            rows_of[n].append(b)
        self.rows = max(len(rows) for rows in rows_of.values())
        table = [b for rows in rows_of.values()
                 for b in (*rows, *[rows[0]] * (self.rows - len(rows)))]  # fmt: skip
        at = {b: place for place, b in reversed(list(enumerate(table)))}
        everyone = list(range(len(level.index)))
        whole = entries == list(range(level.keys[0].shape[0]))
        self.entries = None if whole else torch.tensor(entries, device=device)
        self.table = None if table == everyone else torch.tensor(table, device=device)
        self.place = (
            None if table == everyone
            else torch.tensor([at[b] for b in everyone], device=device)
        )  # fmt: skip
        # Columns before `first` are seen by all rows.
        mask_BL = level.mask_BL.bool()
        missing = (~mask_BL.all(0)).nonzero()
        self.hidden = None
        self.first = int(missing[0]) if len(missing) else mask_BL.shape[1]
        if len(missing):
            rows_ML = mask_BL if self.table is None else mask_BL[self.table]
            self.hidden = ~rows_ML[:, self.first :].reshape(len(entries), 1, self.rows, 1, -1)

    def taken(self, states: Tensor) -> Tensor:
        """The entries that rows read."""
        return states if self.entries is None else states[self.entries]

    def fold(self, x: Tensor) -> Tensor:
        """(B, heads, Q, width) → (N, heads, R·Q, width)."""
        rows = x if self.table is None else x[self.table]
        _, heads, queries, width = x.shape
        return (
            rows.view(-1, self.rows, heads, queries, width)
            .transpose(1, 2)
            .reshape(-1, heads, self.rows * queries, width)
        )

    def unfold(self, x: Tensor) -> Tensor:
        """(N, heads, R·Q, width) → (B, heads, Q, width)."""
        entries, heads, folded, width = x.shape
        rows = (
            x.view(entries, heads, self.rows, folded // self.rows, width)
            .transpose(1, 2)
            .reshape(entries * self.rows, heads, folded // self.rows, width)
        )
        return rows if self.place is None else rows[self.place]


@dataclass(frozen=True)
class Keys:
    """What a layer attends to: levels with their folds, and the rows' own keys."""

    levels: list[tuple[Tensor, Tensor, Fold]]
    own: Tensor


class SharedCache:
    """Stands where the library's models expect a cache; `own` keys and values are the rows'.

    Growing, own keys are kept from call to call in buffers with room to spare (for sampling).
    """

    is_compileable = False

    def __init__(self, levels: Sequence[Level], growing: bool = False) -> None:
        self.levels, self.growing = list(levels), growing
        self.folds = [Fold(level) for level in levels]
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self._buffers: list[tuple[Tensor, Tensor]] = []

    def get_seq_length(self, layer_idx: int = 0) -> int:
        own = self.keys[layer_idx].shape[2] if len(self.keys) > layer_idx else 0
        return sum(level.mask_BL.shape[1] for level in self.levels) + own

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Keys, Tensor]:
        if len(self.keys) <= layer_idx:
            self.keys.append(keys)
            self.values.append(values)
        elif self.growing:
            self._grow(keys, values, layer_idx)
        else:
            raise ValueError("this cache takes the rows' own tokens once")
        levels = [
            (fold.taken(level.keys[layer_idx]), fold.taken(level.values[layer_idx]), fold)
            for level, fold in zip(self.levels, self.folds, strict=True)
        ]
        return Keys(levels, self.keys[layer_idx]), self.values[layer_idx]

    def _grow(self, keys: Tensor, values: Tensor, layer: int) -> None:
        start = self.keys[layer].shape[2]
        end = start + keys.shape[2]
        if len(self._buffers) <= layer:
            self._buffers.append((self.keys[layer], self.values[layer]))
        if self._buffers[layer][0].shape[2] < end:
            self._buffers[layer] = (
                with_room(self.keys[layer]), with_room(self.values[layer])
            )  # fmt: skip
        for buffer, new, shown in zip(
            self._buffers[layer], (keys, values), (self.keys, self.values), strict=True
        ):
            buffer[:, :, start:end] = new
            shown[layer] = buffer[:, :, :end]

    def keep(self, rows: Sequence[int]) -> SharedCache:
        """The cache of some rows, in that order."""
        kept = SharedCache([level.select(rows) for level in self.levels], self.growing)
        index_B = torch.tensor(rows, device=self.levels[0].mask_BL.device)
        kept.keys = [keys[index_B] for keys in self.keys]
        kept.values = [values[index_B] for values in self.values]
        return kept

    def expanded(self) -> tuple[DynamicCache, Tensor]:
        """The library's cache with a copy for every row, and `mask_BL` of what each row has."""
        cache = DynamicCache()
        for layer in range(len(self.levels[0].keys)):
            rows = [torch.tensor(level.index, device=level.mask_BL.device) for level in self.levels]
            pairs = list(zip(self.levels, rows, strict=True))
            made = DynamicLayer()
            keys = torch.cat([level.keys[layer][index_B] for level, index_B in pairs], 2)
            made.update(keys, torch.cat([lv.values[layer][index_B] for lv, index_B in pairs], 2))
            cache.layers.append(made)
        return cache, torch.cat([level.mask_BL for level in self.levels], 1)


def with_room(states: Tensor) -> Tensor:
    """A buffer that begins with `states`, with room for more tokens."""
    rows, heads, length, width = states.shape
    buffer = states.new_empty(rows, heads, length + max(ROOM, length // 4), width)
    buffer[:, :, :length] = states
    return buffer


def attend(query: Tensor, keys: Keys, values: Tensor, scaling: float) -> Tensor:
    """Attention of `query` (B, heads, T, width) to all levels and, causally, to own tokens.

    Heads of keys may be fewer than those of queries. Shape (B, T, heads, width).
    """
    rows, heads, tokens, width = query.shape
    kv_heads, own_tokens = keys.own.shape[1], keys.own.shape[2]
    groups = heads // kv_heads
    query = (query * scaling).reshape(rows, kv_heads, groups * tokens, width)
    scores = query @ keys.own.transpose(2, 3)
    if tokens > 1:
        later = torch.ones(tokens, own_tokens, dtype=torch.bool, device=query.device)
        later = later.triu(1 + own_tokens - tokens)
        scores.view(rows, kv_heads, groups, tokens, own_tokens).masked_fill_(later, -torch.inf)
    largest = scores.detach().amax(3, keepdim=True)
    folded = []
    for level_keys, level_values, fold in keys.levels:
        level_scores = fold.fold(query) @ level_keys.transpose(2, 3)
        if fold.hidden is not None:
            entries, _, folded_queries, length = level_scores.shape
            level_scores.view(entries, kv_heads, fold.rows, folded_queries // fold.rows, length)[
                ..., fold.first :
            ].masked_fill_(fold.hidden, -torch.inf)
        largest = torch.maximum(largest, fold.unfold(level_scores.detach().amax(3, keepdim=True)))
        folded.append((level_scores, level_values, fold))
    powers = scores.sub_(largest).exp_()
    total, out = powers.sum(3, keepdim=True), powers @ values
    for level_scores, level_values, fold in folded:
        powers = level_scores.sub_(fold.fold(largest)).exp_()
        total = total + fold.unfold(powers.sum(3, keepdim=True))
        out = out + fold.unfold(powers @ level_values)
    out = (out / total).view(rows, heads, tokens, values.shape[3])
    return out.transpose(1, 2).contiguous()


def _interface(
    module: Any, query: Tensor, key: Any, value: Tensor, attention_mask: Any,
    scaling: float | None = None, **kwargs: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    if scaling is None:
        scaling = query.shape[3] ** -0.5
    return attend(query, key, value, scaling), None


AttentionInterface.register(NAME, _interface)


def worth_folding(levels: Sequence[Level], heads: int, tokens: int) -> bool:
    """Whether scores of shared keys are smaller than copies of them, and few enough to hold.

    A copy costs a row two `width`s of numbers a position and key head, scores one for each query.
    """
    keys = levels[0].keys[0]
    rows, length = len(levels[0].index), sum(level.mask_BL.shape[1] for level in levels)
    scores = rows * heads * tokens * (length + tokens)
    return tokens * heads <= 8 * keys.shape[3] * keys.shape[1] and scores <= LARGEST
