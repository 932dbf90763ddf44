"""The policy: a causal language model with its tokenizer. `loading` makes them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from mrtpo.records import Message


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
        ids = self.tokenizer.apply_chat_template(
            [{"role": m.role, "content": m.content} for m in messages],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        return tuple(ids)

    def text(self, ids: Sequence[int]) -> str:
        """A response as text, without its end token."""
        kept = [i for i in ids if i not in self.end_ids]
        return self.tokenizer.decode(kept, skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Text of every token, such that their concatenation is the whole text.

        Decodes a few tokens at a time, from one at which a character begins. A character that is
        split over tokens belongs to the last of them.
        """
        texts: list[str] = []
        start = shown = 0  # what is decoded again for context, and what has been given out
        for n in range(1, len(ids) + 1):
            known = self.tokenizer.decode(list(ids[start:shown]), skip_special_tokens=False)
            grown = self.tokenizer.decode(list(ids[start:n]), skip_special_tokens=False)
            # A character split over tokens shows as U+FFFD until it is complete.
            if grown.endswith("\ufffd") and n < len(ids):
                texts.append("")
                continue
            texts.append(grown[len(known) :])
            start, shown = shown, n
        return texts

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
    """Layers keep only their inputs for the backward pass, which runs inside this block.

    The library recomputes in training mode alone; only the layers' own flag is set, so that no
    dropout wakes up.
    """
    if not on:
        yield
        return
    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    model.gradient_checkpointing_enable({"use_reentrant": False})
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
        model.gradient_checkpointing_disable()
