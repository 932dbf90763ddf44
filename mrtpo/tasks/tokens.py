"""How long a prompt is: in characters, or in tokens of the policy and its chat template.

The tokenizer alone is loaded, so that data can be prepared without the model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrtpo.config import Model, Settings
from mrtpo.records import Prompt, template_ids


def size_and_bound(settings: Settings) -> tuple[Callable[[Prompt], int], int]:
    """A prompt's size and its bound: tokens of the policy if they are bounded, else characters."""
    data = settings.data
    if data.max_prompt_tokens is None:
        return lambda prompt: len(shown_text(prompt)), data.max_prompt_chars
    return token_counter(settings.model), data.max_prompt_tokens


def shown_text(prompt: Prompt) -> str:
    return "\n".join(message.content for message in prompt.messages)


def token_counter(model: Model) -> Callable[[Prompt], int]:
    """Counts a prompt's tokens up to and including the assistant header.

    Raises ValueError if `model.path` names no tokenizer with a chat template.
    """
    tokenizer = _tokenizer(str(model.path))

    def count(prompt: Prompt) -> int:
        return len(template_ids(tokenizer, prompt.messages))

    return count


def _tokenizer(path: str) -> Any:
    from transformers import AutoTokenizer

    try:
        if path.endswith(".gguf"):
            file = Path(path).expanduser()
            tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        else:
            tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"model.path: cannot load the tokenizer of {path}: {first}") from error
    if tokenizer.chat_template is None:
        raise ValueError(f"model.path: {path} has no chat template to count prompts with")
    return tokenizer
