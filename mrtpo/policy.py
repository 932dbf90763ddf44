"""The policy: a causal language model with its tokenizer, loaded from anywhere or built small.

`load_policy` takes a hub id, a transformers folder or a GGUF file. A GGUF is converted once to a
transformers folder below the state folder, because reading it takes most of a minute. `new_policy`
builds the small Llama-type decoder and its byte-level BPE tokenizer, with a ChatML template, so
that the same code serves both.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from mrtpo.config import Model
from mrtpo.records import Message

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Logits that are not `lm_head(hidden)`: capped or scaled (Gemma 2, Cohere, Granite).
UNSUPPORTED = ("final_logit_softcapping", "logit_scale", "logits_scaling")
log = logging.getLogger(__name__)


@dataclass
class Policy:
    """Model and tokenizer. `end_ids` are all ids that end a response."""

    model: Any
    tokenizer: Any
    end_ids: frozenset[int]
    pad_id: int
    max_positions: int

    @property
    def device(self) -> torch.device:
        return self.model.device

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
        """Text of every token, such that their concatenation is the whole text."""
        texts, so_far = [], ""
        for n in range(1, len(ids) + 1):
            whole = self.tokenizer.decode(list(ids[:n]), skip_special_tokens=False)
            # A character split over tokens shows as U+FFFD until it is complete.
            if whole.endswith("�") and n < len(ids):
                texts.append("")
                continue
            texts.append(whole[len(so_far) :])
            so_far = whole
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


def _wrap(model: Any, tokenizer: Any, settings: Model) -> Policy:
    if tokenizer.chat_template is None:
        raise ValueError(
            f"model.path: {settings.path} has no chat template; choose an instruction-tuned model"
        )
    scaled = [name for name in UNSUPPORTED if getattr(model.config, name, None) not in (None, 1.0)]
    if scaled:
        raise ValueError(
            f"model.path: {settings.path}: its logits are changed after the projection "
            f"({', '.join(scaled)}), which log-probabilities here do not follow"
        )
    ends = model.generation_config.eos_token_id
    end_ids = set(ends if isinstance(ends, list) else [ends] if ends is not None else [])
    if tokenizer.eos_token_id is not None:
        end_ids.add(tokenizer.eos_token_id)
    if not end_ids:
        raise ValueError(f"model.path: {settings.path} names no end-of-sequence token")
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(end_ids)
    limit = getattr(model.config, "max_position_embeddings", None) or 1 << 30
    return Policy(model.eval(), tokenizer, frozenset(end_ids), pad, limit)


def device_of(settings: Model) -> torch.device:
    if settings.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(settings.device)


def load_policy(path: str | Path, settings: Model, cache: Path) -> Policy:
    """Load a policy. Raises ValueError that says what was tried and what to do."""
    name = str(path)
    dtype = getattr(torch, settings.dtype)
    if name.endswith(".gguf"):
        name = str(_converted(Path(name), cache))
    elif not Path(name).is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise ValueError(f"model.path: {name} is not a folder")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(
            f"model.path: cannot load {name}: {first} "
            "(give a hub id that is reachable or cached, a local folder, or a .gguf file)"
        ) from error
    return _wrap(model.to(device_of(settings)), tokenizer, settings)


def _converted(gguf: Path, cache: Path) -> Path:
    """The GGUF as a float32 transformers folder, made once for each file content."""
    if not gguf.is_file():
        raise ValueError(f"model.path: {gguf} is not a file")
    with open(gguf, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    folder = cache / "gguf" / f"{gguf.stem}-{digest}"
    if folder.is_dir():
        return folder
    log.warning("converting %s to %s (once, about a minute)", gguf.name, folder)
    where = {"gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **where)
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), dtype=torch.float32, **where
    )
    # transformers marks the weights as quantised although they are float32 now.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    temporary.replace(folder)
    return folder


def new_tokenizer(texts: Iterable[str], vocab_size: int, words: Sequence[str]) -> Any:
    """Byte-level BPE trained on `texts`; `words` are kept as single tokens (tags and fences)."""
    tokenizer = Tokenizer(models.BPE())
    # Identifiers such as net_worth stay whole, so that naming a column is one decision.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\w+| ?[^\w\s]+|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(words),
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def new_policy(tokenizer: Any, settings: Model, max_positions: int, seed: int) -> Policy:
    """The small decoder with fresh weights."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=settings.hidden_size * 3,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        max_position_embeddings=max_positions,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return _wrap(model.to(device_of(settings)), tokenizer, settings)
