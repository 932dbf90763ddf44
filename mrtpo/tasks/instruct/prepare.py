"""Prompts of instruction following: generated here, or read from a training set.

No set of constraints of the embedded task is in two splits. Splits of training sets: `public`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mrtpo.config import Settings
from mrtpo.records import Message, Prompt
from mrtpo.tasks.base import Prepared, wanted
from mrtpo.tasks.instruct import synthetic
from mrtpo.tasks.instruct.prompts import MOST, OPENING, SLOTS, build_prompt, constraints_of
from mrtpo.tasks.instruct.public import Unplaced, asked_of, fingerprint, read_pools, stated_fault
from mrtpo.tasks.tokens import shown_text, size_and_bound
from mrtpo.validation import Limits
from mrtpo.verifiers.constraints import check, require_data_of, sentence

SPLITS = ("train", "valid", "test")
FAULTS = ("stated_fault", "constraints_fault", "reference_fault")


@dataclass(frozen=True)
class Made:
    """A prompt and where it came from."""

    prompt: Prompt
    fingerprint: str
    file: str
    row: int


def prepare(settings: Settings) -> Prepared:
    """All prompts, the rows that validation looks at, and counts."""
    data = settings.data
    counts: Counter[str] = Counter()
    generated = data.source == "synthetic"
    made = _generated(settings) if generated else _read(settings, counts)
    measure, most = size_and_bound(settings)
    prompts: dict[str, list[Prompt]] = {}
    rows: list[dict[str, Any]] = []
    for split, found in made.items():
        kept: list[Prompt] = []
        for each in found:
            if len(kept) == wanted(data, split):
                break
            size = measure(each.prompt)
            if not generated and size > most:
                counts[f"dropped/{split}/prompt too long"] += 1
                continue
            kept.append(each.prompt)
            rows.append({**validation_row(each), "prompt_size": size})
            counts[f"constraints/{split}"] += len(each.prompt.information)
        prompts[split] = [_numbered(prompt, split, n) for n, prompt in enumerate(kept)]
        counts[f"prompts/{split}"] = len(kept)
    for row, prompt in zip(rows, (p for found in prompts.values() for p in found), strict=True):
        row["id"] = prompt.id
    if not generated:
        require_data_of({c.constraint.id for found in prompts.values() for p in found
                         for c in constraints_of(p)})  # fmt: skip
    limits = Limits(
        data.max_prompt_chars if data.max_prompt_tokens is None else None,
        reference_runs=False, text=("question", "prompt"),
        max_prompt_tokens=data.max_prompt_tokens, allowed=dict.fromkeys(FAULTS, ("",)),
    )  # fmt: skip
    return Prepared(prompts, rows, limits, dict(counts))


def _numbered(prompt: Prompt, split: str, number: int) -> Prompt:
    return replace(prompt, id=f"{split}-{number:05d}")


def _generated(settings: Settings) -> dict[str, Iterator[Made]]:
    """Prompts of the embedded task; as many constraints are asked for as `data` says."""
    seen: set[str] = set()

    def made(split: str) -> Iterator[Made]:
        rng = random.Random(f"instruct {settings.seed} {split}")
        row = 0
        while True:
            few, many = settings.data.fewest_constraints, settings.data.most_constraints
            rules, text = synthetic.drawn(rng.randint(few, many), rng, settings.data.lines)
            names, constraints = list(rules), list(rules.values())
            lines = [sentence(c.id, c.arguments) for c in constraints]
            key = "\n".join(sorted(lines))
            if key in seen:
                continue
            seen.add(key)
            content = "\n".join([OPENING, *lines])
            prompt = build_prompt(
                [Message("user", content)], names, constraints, lines, id="", split=split,
                source="synthetic", question=content, reference=text,
            )  # fmt: skip
            yield Made(prompt, key, f"synthetic/{split}", row)
            row += 1

    return {split: made(split) for split in SPLITS}


def _read(settings: Settings, counts: Counter[str]) -> dict[str, Iterator[Made]]:
    """Prompts of a training set, by split."""
    pools = read_pools(settings.data, settings.seed)
    counts.update(pools.counts)

    def made(split: str) -> Iterator[Made]:
        for sample in pools.samples[split]:
            try:
                asked = asked_of(sample, settings.data, settings.seed)
            except Unplaced as error:
                counts[f"dropped/{split}/{error}"] += 1
                continue
            prompt = build_prompt(
                asked.messages, SLOTS[: len(asked.constraints)], asked.constraints, asked.lines,
                id="", split=split, source=settings.data.source, question=asked.question,
                reference=asked.kept or "",
            )  # fmt: skip
            yield Made(prompt, fingerprint(sample), str(sample.file), sample.row)

    return {split: made(split) for split in SPLITS}


def validation_row(made: Made) -> dict[str, Any]:
    """A prompt as validation sees it, with its faults in words."""
    prompt = made.prompt
    shown = shown_text(prompt)
    lines = [entry.text for entry in prompt.information]
    return {
        "id": prompt.id,
        "split": prompt.split,
        "kind": prompt.kind,
        "difficulty": prompt.difficulty,
        "source": prompt.source,
        "question": shown,
        "prompt": shown,
        "prompt_chars": len(shown),
        "reference": prompt.reference,
        "file": made.file,
        "row": made.row,
        "fingerprint": made.fingerprint,
        "stated_fault": stated_fault(prompt.messages, lines),
        "constraints_fault": constraints_fault(prompt),
        "reference_fault": reference_fault(prompt),
    }


def constraints_fault(prompt: Prompt) -> str:
    """Between one and twelve constraints that can be checked, each a reward of its own."""
    try:
        named = constraints_of(prompt)
    except ValueError as error:
        return str(error)
    if not 1 <= len(named) <= MOST:
        return f"{len(named)} constraints"
    return "" if len({each.reward for each in named}) == len(named) else "a reward stands twice"


def reference_fault(prompt: Prompt) -> str:
    """The constraints that the reference, where there is one, does not keep."""
    if not prompt.reference:
        return ""
    failed = [
        each.constraint.id
        for each in constraints_of(prompt)
        if not check(each.constraint.id, each.constraint.arguments, prompt.reference).passed
    ]
    return f"breaks {', '.join(failed)}" if failed else ""
