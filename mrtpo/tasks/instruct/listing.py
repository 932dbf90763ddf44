"""Constraints in a list at the end of a prompt, one a line, so that a line can be taken out."""

from __future__ import annotations

import re
from collections.abc import Sequence

HEADING = "Rules:"

_LISTED = re.compile(r"\n[^\n]*:[ \t]*((?:\n[ \t]*\d+\.[ \t]*\S[^\n]*)+)\s*\Z")
_NUMBER = re.compile(r"[ \t]*\d+\.[ \t]*")


def listed(prompt: str, sentences: Sequence[str], heading: str = HEADING) -> tuple[str, list[str]]:
    """The prompt with the sentences listed at its end, and the lines that state them.

    Each line stands in the text exactly once. Raises ValueError where one does not.
    """
    lines = [f"- {' '.join(sentence.split())}" for sentence in sentences]
    text = "\n".join([prompt.rstrip(), "", heading, *lines])
    for line in lines:
        if text.count(line) != 1:
            raise ValueError(f"{line[2:]!r:.80} is stated more than once")
    return text, lines


def without_list(prompt: str, sentences: Sequence[str]) -> tuple[str, list[str]] | None:
    """The prompt without the numbered list at its end, and the line of each sentence in it.

    None if the prompt does not end in a list of just these sentences (full stops aside).
    """
    found = _LISTED.search(prompt)
    if not found:
        return None
    lines = [line for line in found[1].split("\n") if line.strip()]
    by_text = {_bare(_NUMBER.sub("", line, count=1)): line for line in lines}
    wanted = [_bare(sentence) for sentence in sentences]
    bare = prompt[: found.start()].strip()
    if not bare or len(lines) != len(wanted) or sorted(by_text) != sorted(wanted):
        return None
    stated = [by_text[text] for text in wanted]
    return (bare, stated) if all(prompt.count(line) == 1 for line in stated) else None


def _bare(sentence: str) -> str:
    return sentence.strip().rstrip(".").strip()
