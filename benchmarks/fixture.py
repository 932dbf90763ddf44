"""What all contenders of a comparison share: model, tokenizer, prompts, task and settings.

The tokenizer has one token for each word and drops white space, so a prompt's length is its number
of words and two for the chat's turns. Its end token has the first id that the model's vocabulary
lacks: nothing can sample it, and every response has the length that was asked for. A reward is a
checksum of the response's text: cheap, a function of the text alone, and different in every row.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from mrtpo.config import Settings, settings_from
from mrtpo.policy import Policy
from mrtpo.records import Information, Message, Prompt, Reward
from mrtpo.tasks import Part, Verdict

VOCABULARY = 4096
PAD, USER, ASSISTANT, END = "<pad>", "<user>", "<assistant>", "<end>"
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }} {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TURNS = 2  # tokens of the template around one user turn
INFORMATION_WORDS = 24
SIZES = {"0.9M": (128, 2), "4.2M": (256, 4)}  # width, layers
POSITIONS = 4096
LEARNING_RATE, BETAS, MAX_GRAD_NORM = 1e-5, (0.9, 0.95), 1.0


def new_tokenizer() -> Any:
    """Word ↔ id, one to one; the end token has id `VOCABULARY`."""
    words = [PAD, USER, ASSISTANT]
    words += [f"w{n}" for n in range(VOCABULARY - len(words))]
    words.append(END)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, padding_side="left",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    fast.chat_template = TEMPLATE
    return fast


def save_model(size: str, folder: Path, seed: int = 0) -> int:
    """Write a random Qwen2-type model; returns its number of parameters."""
    width, layers = SIZES[size]
    tokenizer = new_tokenizer()
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=width, intermediate_size=3 * width,
        num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=POSITIONS, tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=None, bos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(seed)
    model: Any = Qwen2ForCausalLM(config)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def loaded_policy(folder: Path | str) -> Policy:
    """The saved model as a policy whose end token is never sampled."""
    tokenizer = new_tokenizer()
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ends = frozenset({tokenizer.eos_token_id})
    return Policy(model.eval(), tokenizer, ends, tokenizer.pad_token_id, POSITIONS)


def reward_names(count: int) -> tuple[str, ...]:
    return tuple(f"r{k}" for k in range(count))


def reward_value(k: int, text: str) -> float:
    """Reward k of a response, in [0, 1)."""
    return zlib.crc32(f"{k} {text}".encode()) / 2**32


def words(count: int, rng: random.Random) -> str:
    return " ".join(f"w{rng.randrange(VOCABULARY - 3)}" for _ in range(count))


def make_prompts(
    number: int, tokens: int, rewards: int, where: str, seed: int = 0, line_words: int | None = None
) -> list[Prompt]:
    """Prompts of exactly `tokens` tokens, with a text of information for each reward.

    `append`: each text has `INFORMATION_WORDS` words and is told in replay only. `prompt`: the
    texts are the last lines of the prompt, `line_words` words each (6, or 12 where a prompt is
    long).
    """
    rng = random.Random(f"prompts {seed} {tokens} {rewards} {where}")
    each = INFORMATION_WORDS if where == "append" else line_words or (6 if tokens < 256 else 12)
    prompts = []
    for n in range(number):
        told = [words(each, rng) for _ in range(rewards)]
        lines = told if where == "prompt" else []
        question = words(tokens - TURNS - each * len(lines), rng)
        prompts.append(
            Prompt(
                id=f"p{n}", split="train", kind="made up", difficulty="", source="",
                messages=(Message("user", "\n".join([question, *lines])),),
                information=tuple(
                    Information(name, "told", where, text)  # type: ignore[arg-type]
                    for name, text in zip(reward_names(rewards), told, strict=True)
                ),
                reference="", payload="{}",
            )
        )  # fmt: skip
    return prompts


def as_text(prompt: Prompt) -> str:
    """The prompt as the chat template writes it, for a trainer that takes plain text."""
    return " ".join([*(f"<{m.role}> {m.content}" for m in prompt.messages), ASSISTANT])


def check_prompts(policy: Policy, prompts: Sequence[Prompt], tokens: int) -> None:
    """Raise ValueError unless text and messages give the same ids, of the stated length."""
    for prompt in prompts:
        from_messages = policy.prompt_ids(prompt.messages)
        from_text = tuple(policy.tokenizer(text=as_text(prompt))["input_ids"])
        if from_messages != from_text or len(from_text) != tokens:
            raise ValueError(
                f"prompt {prompt.id}: {len(from_messages)} ids from messages, {len(from_text)} "
                f"from text; both must be the same {tokens}"
            )


class Checksums:
    """A task whose rewards are checksums of the response."""

    name = "checksums"
    metric_names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def __init__(self, rewards: int) -> None:
        self.reward_names = reward_names(rewards)

    def verify(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[Verdict]:
        return [
            Verdict(
                tuple(
                    Reward(name, reward_value(k, response), "ok")
                    for k, name in enumerate(self.reward_names)
                ),
                (),
            )
            for response in responses
        ]

    def parts(self, prompt: Prompt, response: str) -> list[Part]:
        return []

    def answer(self, response: str) -> str:
        return response

    def close(self) -> None:
        pass


def step_settings(
    method: str, *, distance: str = "directional_logprob", group: int = 8, prompts: int = 2,
    response: int = 64, seed: int = 0, max_rewards: int | None = None, **train: Any,
) -> Settings:  # fmt: skip
    """Settings of one comparison; what is not named here is the default."""
    return settings_from(
        {
            "seed": seed,
            "sampling": {"group_size": group, "max_new_tokens": response},
            "replay": {"distance": distance, "max_rewards": max_rewards},
            "train": {
                "method": method, "steps": 1000, "prompts_per_step": prompts,
                "learning_rate": LEARNING_RATE, "warmup_steps": 0, "weight_decay": 0.0,
                "max_grad_norm": MAX_GRAD_NORM, "best_metric": "r0", **train,
            },
        }
    )  # fmt: skip
