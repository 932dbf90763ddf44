"""Policies from anywhere: a hub id, a transformers folder, a GGUF file, or built small.

A GGUF is converted once to a transformers folder below the state folder, because reading it takes
most of a minute. `new_policy` builds the small Llama-type decoder and its byte-level BPE tokenizer,
with a ChatML template, so that the same code serves both.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable, Sequence
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

from mrtpo import paths
from mrtpo.config import Model, Settings
from mrtpo.parallel import this_process
from mrtpo.policy import Policy
from mrtpo.prefix import sharing_fault

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Logits that are not `head(hidden)`: capped or scaled (Gemma 2, Cohere, Granite).
UNSUPPORTED = ("final_logit_softcapping", "logit_scale", "logits_scaling")
log = logging.getLogger(__name__)


def _wrap(
    model: Any, tokenizer: Any, settings: Model, compute: torch.dtype | None = None
) -> Policy:
    if tokenizer.chat_template is None:
        raise ValueError(
            f"model.path: {settings.path} has no chat template; choose an instruction-tuned model"
        )
    text = model.config.get_text_config()
    scaled = [name for name in UNSUPPORTED if getattr(text, name, None) not in (None, 1.0)]
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
    limit = getattr(text, "max_position_embeddings", None) or 1 << 30
    policy = Policy(model.eval(), tokenizer, frozenset(end_ids), pad, limit, compute=compute)
    if fault := sharing_fault(policy):
        policy.shares = False
        log.warning(
            "%s: contexts are run once for every row, not shared (%s): same numbers, slower",
            settings.path or "the policy", fault,
        )  # fmt: skip
    return policy


def device_of(settings: Model) -> torch.device:
    """`auto`: this process's accelerator, where there is one."""
    return this_process().device if settings.device == "auto" else torch.device(settings.device)


def load_policy(path: str | Path, settings: Model, cache: Path, *, trained: bool = False) -> Policy:
    """Load a policy. Raises ValueError that says what was tried and what to do.

    One that is to be trained has float32 weights, and computes in `model.dtype`.
    """
    name = str(path)
    asked = getattr(torch, settings.dtype)
    dtype = torch.float32 if trained else asked
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
    compute = asked if dtype != asked else None
    return _wrap(model.to(device_of(settings)), tokenizer, settings, compute)


def starting_policy(settings: Settings, *, trained: bool = False) -> Policy:
    """The policy that RL starts from: `model.path`, or what `warmstart` made."""
    return load_policy(
        settings.model.path or paths.WARMSTART, settings.model, paths.state_root(), trained=trained
    )


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


def new_policy(
    tokenizer: Any, settings: Model, max_positions: int, seed: int, theta: float = 1e4
) -> Policy:
    """The small decoder with fresh weights; `theta` is the base of its rotary angles."""
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
        rope_parameters={"rope_type": "default", "rope_theta": theta},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return _wrap(model.to(device_of(settings)), tokenizer, settings)
