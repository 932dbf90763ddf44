"""Prompts of the tool-calling task: generated here, or read from a public set.

Splits: generated tools are divided by what they are (`synthetic.pairs_of_splits`); a set that has
splits of its own keeps them, with valid carved from train; any other is divided by the seed, whole
requests to one split.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from mrtpo.config import Data, Settings, data_folder
from mrtpo.records import Prompt
from mrtpo.tasks.base import Prepared, wanted
from mrtpo.tasks.tokens import shown_text, size_and_bound
from mrtpo.tasks.tools import synthetic
from mrtpo.tasks.tools.prompts import build_prompt, question_of, render
from mrtpo.tasks.tools.rewards import correctness, format_ok
from mrtpo.tasks.tools.schema import Example, call_fault
from mrtpo.tasks.tools.sources import MISTYPED, read_source, reason
from mrtpo.validation import Limits

SPLITS = ("train", "valid", "test")
FAULTS = ("tools_fault", "calls_fault", "turns_fault", "reference_fault")


def prepare(settings: Settings) -> Prepared:
    """All prompts, the rows that validation looks at, and counts."""
    data = settings.data
    counts: Counter[str] = Counter()
    generated = data.source == "synthetic"
    if generated:
        pools = {
            split: synthetic.make_examples(split, wanted(data, split), settings.seed, data.requests)
            for split in SPLITS
        }
    else:
        pools = _read(settings, counts)
    measure, most = size_and_bound(settings)
    prompts: dict[str, list[Prompt]] = {}
    rows: list[dict[str, Any]] = []
    for split, examples in pools.items():
        made: list[Prompt] = []
        for example in examples:
            if len(made) == wanted(data, split):
                break
            prompt = build_prompt(
                example, id=f"{split}-{len(made):05d}", split=split,
                difficulty=synthetic.DIFFICULTY.get(example.kind, ""), style=data.prompt,
            )  # fmt: skip
            size = measure(prompt)
            if not generated and size > most:
                counts[f"dropped/{split}/prompt too long"] += 1
                continue
            made.append(prompt)
            rows.append({**validation_row(prompt, example, data), "prompt_size": size})
            counts[f"calls/{split}"] += len(example.calls)
        prompts[split] = made
        counts[f"prompts/{split}"] = len(made)
        counts[f"sources/{split}"] = len({prompt.source for prompt in made})
    shares = synthetic.shares_of(data.requests).values() if generated else ()
    limits = Limits(
        data.max_prompt_chars if data.max_prompt_tokens is None else None,
        unseen_sources=generated, reference_runs=False, text=("question", "prompt", "reference"),
        max_prompt_tokens=data.max_prompt_tokens, allowed=dict.fromkeys(FAULTS, ("",)),
        smallest_kind=0.4 * min(shares) if shares else None,
        largest_kind=1.25 * max(shares) if shares else None,
    )  # fmt: skip
    return Prepared(prompts, rows, limits, dict(counts))


def _read(settings: Settings, counts: Counter[str]) -> dict[str, list[Example]]:
    """Examples of a public set by our splits, each in a seeded order."""
    data = settings.data
    keep = data.mistyped == "keep"
    source = read_source(data.source, data_folder(data), mistyped=keep)  # type: ignore[arg-type]
    for split, reasons in source.dropped.items():
        for why, number in reasons.items():
            counts[f"dropped/{split or 'all'}/{why}"] = number
    train, test = (source.examples.get(name, []) for name in ("train", "test"))
    if not train or not test:
        train, test = divided(
            [*train, *test, *source.examples.get("", [])], data.test_prompts, settings.seed, "test"
        )
    train, valid = divided(train, data.valid_prompts, settings.seed, "valid")
    asked = {fingerprint(example) for example in (*valid, *test)}
    kept = [example for example in train if fingerprint(example) not in asked]
    if lost := len(train) - len(kept):
        counts["dropped/train/also in valid or test"] = lost
    tested = {fingerprint(example) for example in test}
    pools = {
        "train": kept,
        "valid": [example for example in valid if fingerprint(example) not in tested],
        "test": test,
    }
    for split, examples in pools.items():
        random.Random(f"sample {settings.seed} {split}").shuffle(examples)
    return pools


def divided(
    examples: Sequence[Example], count: int, seed: int, name: str
) -> tuple[list[Example], list[Example]]:
    """The examples in two: all but `count`, and `count`, at most a tenth of them, but one at least.
    The answers of one conversation stay together."""
    rows = sorted({example.source for example in examples})
    random.Random(f"{name} {seed}").shuffle(rows)
    sizes = Counter(example.source for example in examples)
    chosen: set[str] = set()
    taken = 0
    for row in rows:
        if taken >= min(count, max(1, len(examples) // 10)):
            break
        chosen.add(row)
        taken += sizes[row]
    return (
        [example for example in examples if example.source not in chosen],
        [example for example in examples if example.source in chosen],
    )


def fingerprint(example: Example) -> str:
    """Dialogue and answer without case and punctuation."""
    answer = render(example.calls, example.text, "")
    meaning = f"{[turn.content for turn in example.turns]} {answer}".lower()
    return re.sub(r"\W+", " ", meaning).strip()


def validation_row(prompt: Prompt, example: Example, data: Data) -> dict[str, Any]:
    """A prompt as validation sees it, with its faults in words."""
    question = question_of(example.turns)
    shown = shown_text(prompt)
    return {
        "id": prompt.id,
        "split": prompt.split,
        "kind": prompt.kind,
        "difficulty": prompt.difficulty or None,
        "source": prompt.source,
        "question": question,
        "prompt": shown,
        "prompt_chars": len(shown),
        "reference": prompt.reference,
        "file": example.file,
        "row": example.row,
        "fingerprint": fingerprint(example),
        "tools_fault": tools_fault(example),
        "calls_fault": calls_fault(example, typed=data.mistyped == "drop"),
        "turns_fault": turns_fault(example),
        "reference_fault": reference_fault(prompt.reference),
    }


def tools_fault(example: Example) -> str:
    """At least one tool, each name once."""
    if not example.tools:
        return "no tools"
    names = Counter(tool.name for tool in example.tools)
    twice = [name for name, count in names.items() if count > 1]
    return f"shown twice: {', '.join(twice)}" if twice else ""


def calls_fault(example: Example, typed: bool = True) -> str:
    """The first reference call that does not fit its tool; not `typed`: but for types."""
    tools = {tool.name: tool for tool in example.tools}
    for call in example.calls:
        fault = call_fault(call, tools)
        if fault and (typed or reason(fault, call, tools) != MISTYPED):
            return fault
    return ""


def turns_fault(example: Example) -> str:
    """The dialogue ends with the user or with a tool's result, and an answer follows."""
    if not example.turns or not any(turn.role == "user" for turn in example.turns):
        return "nobody asks"
    if example.turns[-1].role not in ("user", "tool"):
        return f"the dialogue ends with {example.turns[-1].role}"
    return "" if example.calls or example.text else "no reference answer"


def reference_fault(reference: str) -> str:
    """The reference as a response has the full rewards."""
    if not format_ok(reference, reference):
        return "malformed"
    return "" if correctness(reference, reference) in (0.0, 3.0) else "not equal to itself"
