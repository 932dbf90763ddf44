"""How many tokens a prompt has, by the policy's own tokenizer and chat template.

The tokenizer alone is loaded, so that data can be prepared without the model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrtpo.config import Model
from mrtpo.records import Prompt, template_ids


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
