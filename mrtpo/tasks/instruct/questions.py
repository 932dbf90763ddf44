"""Prompts of any set, to compose constraints onto.

A row's prompt is its field `prompt`, `question` or `instruction` (with `input` below it), or the
last turn of the user in `messages` or `conversations`, with the turns before it. Of a training set
with constraints (`sources`) it is what is left without them; rows of which that cannot be told are
dropped and counted, for what they ask might be against what is composed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mrtpo.records import Message
from mrtpo.tasks.instruct.sources import Sample, Samples, known_form, messages_of
from mrtpo.tasks.instruct.sources import read_samples as read_constrained
from mrtpo.tasks.rows import Values, field_text, read_rows

TEXTS = ("prompt", "question", "instruction")
TURNS = ("messages", "conversations")


def read_questions(files: Sequence[Path]) -> Samples:
    """Prompts without constraints. Raises ValueError as `sources.read_samples` does."""
    found = Samples("questions")
    for file in files:
        if known_form(file):
            _bare_of(file, found)
            continue
        for row, values in read_rows(file):
            found.take(file, row, partial(_question, file, row, values))
    return found.needed(files)


def _bare_of(file: Path, into: Samples) -> None:
    found = read_constrained([file])
    into.dropped.update(found.dropped)
    for sample in found.samples:
        if sample.bare is None:
            into.dropped["it has constraints of its own"] += 1
            continue
        messages = (*sample.messages[:-1], Message("user", sample.bare))
        into.samples.append(Sample(sample.id, messages, (), sample.bare, "", str(file), sample.row))


def _question(file: Path, row: int, values: Values) -> Sample:
    for name in TEXTS:
        if isinstance(values.get(name), str):
            text = field_text(file, row, values, name)
            if name == "instruction" and (more := values.get("input")):
                text = f"{text}\n\n{more}"
            return Sample(str(row), (Message("user", text),), (), text)
    for name in TURNS:
        if name in values:
            messages = messages_of(file, row, values, name)
            text = messages[-1].content.strip()
            return Sample(str(row), messages, (), text)
    fields = ", ".join(values) or "none"
    raise ValueError(f"{file}: row {row} (from 0): none of the fields {', '.join(TEXTS)} (text) or "
                     f"{', '.join(TURNS)} (lists); it has {fields}")  # fmt: skip
