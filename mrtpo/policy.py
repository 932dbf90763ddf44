"""The policy: a causal language model with its tokenizer. `loading` makes them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import Cache
from transformers.modeling_layers import GradientCheckpointingLayer

from mrtpo.records import Message, template_ids

CHARACTER = 4  # tokens that one character is split over, at most: its bytes


@dataclass
class Policy:
    """Model and tokenizer. `end_ids` are all ids that end a response.

    `shares`: whether rows may share a context's cache (`prefix`). `compute`: the type in which
    float32 weights compute; None: their own.
    """

    model: Any
    tokenizer: Any
    end_ids: frozenset[int]
    pad_id: int
    max_positions: int
    shares: bool = True
    compute: torch.dtype | None = None

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def head(self) -> Any:
        """The projection of hidden states on the vocabulary."""
        return self.model.get_output_embeddings()

    @property
    def vocab_size(self) -> int:
        return self.head.weight.shape[0]

    def computing(self) -> AbstractContextManager[Any]:
        """Where forward passes run: with `compute` set, under autocast."""
        if self.compute is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.compute)

    def prompt_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of a conversation up to and including the assistant header."""
        return tuple(template_ids(self.tokenizer, messages))

    def text(self, ids: Sequence[int]) -> str:
        """A response as text, without its end token."""
        kept = [i for i in ids if i not in self.end_ids]
        return self._decode(kept)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Text of every token, such that their concatenation is the whole text.

        A character that is split over tokens belongs to the last of them.
        """
        whole = self._decode(ids)
        texts = self._pieces(ids)
        if "".join(texts) == whole:
            return texts
        # A later token may change how earlier ones read (byte fallback): each has what it adds to
        # the beginning that is final.
        ends, end = [], 0
        for n in range(1, len(ids) + 1):
            pairs = zip(self._decode(ids[:n]), whole, strict=False)
            end = max(end, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))
            ends.append(end)
        ends[-1] = len(whole)
        return [whole[start:end] for start, end in pairwise([0, *ends])]

    def _pieces(self, ids: Sequence[int]) -> list[str]:
        """As `pieces`, a few tokens at a time, from one at which a character begins."""
        texts: list[str] = []
        start = shown = 0  # what is decoded again for context, and what has been given out
        known = ""
        for n in range(1, len(ids) + 1):
            grown = self._decode(ids[start:n])
            texts.append("")
            end = n
            # A character split over tokens shows as U+FFFD until it is complete.
            if grown.endswith("\ufffd") and n < len(ids):
                if n - shown < 2 * CHARACTER:
                    continue
                # No character is that long: what reads the same with so much behind it is final.
                end = n - CHARACTER
                if not grown.startswith(self._decode(ids[start:end])):
                    continue
                grown = self._decode(ids[start:end])
            texts[end - 1] = grown[len(known) :]
            start, shown = shown, end
            known = self._decode(ids[start:shown])
        return texts

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def save(self, folder: Path) -> None:
        """Write a transformers folder to a temporary name and rename it."""
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.parent.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(temporary)
        self.tokenizer.save_pretrained(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.replace(folder)


@contextmanager
def recomputing(model: Any, on: bool) -> Iterator[None]:
    """Layers called inside this block keep only their inputs for the backward pass.

    The library recomputes in training mode alone, where layers also drop out; so each layer's
    forward pass is wrapped here. One that writes to a cache cannot be run twice.
    """
    layers = [m for m in model.modules() if on and isinstance(m, GradientCheckpointingLayer)]
    own = [vars(layer).get("forward") for layer in layers]
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)
    try:
        yield
    finally:
        for layer, forward in zip(layers, own, strict=True):
            del layer.forward
            if forward is not None:
                layer.forward = forward


def _recomputed(forward: Any, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    if any(isinstance(given, Cache) for given in (*args, *kwargs.values())):
        raise ValueError("gradient checkpointing needs whole rows: set Policy.shares to False")
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)
