"""The embedded tool-calling data, its demonstrations, and the task around them."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mrtpo.config import SettingsError, settings_from
from mrtpo.records import Prompt
from mrtpo.tasks import get_task
from mrtpo.tasks.tools.demonstrations import demonstration
from mrtpo.tasks.tools.prompts import build_prompt
from mrtpo.tasks.tools.rewards import correctness, format_ok, parse_calls, reference_calls
from mrtpo.tasks.tools.schema import Call, call_fault
from mrtpo.tasks.tools.synthetic import SHARES, make_examples, pairs_of_splits

EXAMPLES = make_examples("train", 300, 0)
PROMPTS = [build_prompt(e, id="", split="", difficulty="", style="compact") for e in EXAMPLES]
SETTINGS = settings_from(
    {"task": "tools", "data": {"train_prompts": 60, "valid_prompts": 20, "test_prompts": 30}}
)


# Examples


def test_the_same_seed_gives_the_same_data_and_another_other_data() -> None:
    assert make_examples("test", 40, 3) == make_examples("test", 40, 3)
    assert make_examples("test", 40, 3) != make_examples("test", 40, 4)


def test_kinds_have_their_shares_and_requests_are_distinct() -> None:
    counts = Counter(example.kind for example in EXAMPLES)
    assert counts == {kind: 3 * share for kind, share in SHARES.items()}
    assert len({example.turns[0].content for example in EXAMPLES}) == 300


def test_requests_may_be_those_of_one_call_in_the_same_shares() -> None:
    counts = Counter(e.kind for e in make_examples("train", 92, 0, "one_call"))
    assert counts == {"one": 48, "nested": 44}
    settings = settings_from({"task": "tools", "data": {"requests": "one_call"}})
    prepared = get_task(settings, Path("nowhere")).prepare()
    assert all(len(reference_calls(row["reference"])) == 1 for row in prepared.rows)
    kinds = Counter(row["kind"] for row in prepared.rows if row["split"] == "train")
    shares = [count / 4000 for count in kinds.values()]
    low, high = prepared.limits.smallest_kind, prepared.limits.largest_kind
    assert low is not None and high is not None
    assert 0.1 < low <= min(shares) <= max(shares) <= high < 0.7


def test_every_call_fits_the_tools_that_are_shown() -> None:
    for example in EXAMPLES:
        tools = {tool.name: tool for tool in example.tools}
        assert len(tools) == len(example.tools) >= 2
        assert [call_fault(call, tools) for call in example.calls if call_fault(call, tools)] == []


def test_kinds_are_what_they_say() -> None:
    for example in EXAMPLES:
        names = [call.name for call in example.calls]
        values = [v for call in example.calls for v in call.arguments.values()]
        nested = any(isinstance(value, list | dict) for value in values)
        assert bool(example.text) == (example.kind in ("irrelevant", "missing"))
        assert len(names) == {"parallel": 2, "several": 2, "irrelevant": 0, "missing": 0}.get(
            example.kind, 1
        )
        assert example.kind != "parallel" or len(set(names)) == 1
        assert example.kind != "several" or len(set(names)) == 2
        assert example.kind != "nested" or nested
        assert example.kind != "one" or not nested


def test_a_request_says_every_value_that_is_asked_for() -> None:
    def leaves(value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [leaf for entry in value.values() for leaf in leaves(entry)]
        return [leaf for entry in value for leaf in leaves(entry)] if isinstance(value, list) else [
            value
        ]  # fmt: skip

    for example in EXAMPLES:
        request = example.turns[0].content
        for call in example.calls:
            for leaf in leaves(list(call.arguments.values())):
                if not isinstance(leaf, bool):
                    assert re.search(rf"(?<![\w.]){re.escape(str(leaf))}(?!\w)", request), request


def test_no_tool_of_a_split_is_in_another() -> None:
    pairs = pairs_of_splits(0)
    assert sum(map(len, pairs.values())) == len({p for found in pairs.values() for p in found})
    names = {
        split: {tool.name for example in make_examples(split, 60, 0) for tool in example.tools}
        for split in pairs
    }
    assert names["train"].isdisjoint(names["valid"] | names["test"])
    assert names["valid"].isdisjoint(names["test"])


# Demonstrations


def demonstrations(told: set[str], noise: dict[str, float]) -> list[tuple[Prompt, str]]:
    rng = random.Random(0)
    return [
        (p, demonstration(e.calls, e.text, e.tools, frozenset(told), noise, rng))
        for p, e in zip(PROMPTS, EXAMPLES, strict=True)
    ]


@pytest.mark.parametrize(("told", "noise"), [(set(), 0.0), ({"format", "correctness"}, 1.0)])
def test_without_noise_or_when_told_everything_is_right(told: set[str], noise: float) -> None:
    for prompt, answer in demonstrations(told, {"format": noise, "correctness": noise}):
        assert format_ok(answer, prompt.reference)
        assert correctness(answer, prompt.reference) == (3.0 if "<tool_call>" in answer else 0.0)


def test_format_noise_breaks_the_format_alone() -> None:
    for prompt, answer in demonstrations(set(), {"format": 1.0}):
        assert not format_ok(answer, prompt.reference)
        assert correctness(answer, prompt.reference) in (0.0, 3.0)


def test_correctness_noise_makes_another_call_and_keeps_the_format() -> None:
    scores = []
    for prompt, answer in demonstrations(set(), {"correctness": 1.0}):
        assert format_ok(answer, prompt.reference)
        if parse_calls(prompt.reference):
            scores.append(correctness(answer, prompt.reference))
    assert max(scores) < 3.0
    assert -1.0 < sum(scores) / len(scores) < 1.5


def test_without_noise_thoughts_still_vary() -> None:
    answers = [answer.split("</think>")[0] for _, answer in demonstrations(set(), {})]
    frames = {re.sub(r"`[^`]*`", "…", answer) for answer in answers}
    assert len(frames) > 8


# The task


def test_prepared_splits_share_no_tool_and_pass_their_own_checks() -> None:
    prepared = get_task(SETTINGS, Path("nowhere")).prepare()
    assert {split: len(rows) for split, rows in prepared.prompts.items()} == {
        "train": 60, "valid": 20, "test": 30,
    }  # fmt: skip
    faults = [name for row in prepared.rows for name in prepared.limits.allowed if row[name]]
    assert faults == []
    sources = {s: {p.source for p in rows} for s, rows in prepared.prompts.items()}
    assert sources["train"].isdisjoint(sources["test"])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"tools": ()}, "no tools"),
        ({"calls": (Call("f", {}),)}, "no tool f"),
        ({"calls": (), "text": ""}, "no reference answer"),
        ({"turns": ()}, "nobody asks"),
        ({"thought": "a </think> b"}, "malformed"),
    ],
)
def test_faults_of_a_row_are_found_and_named(change: dict[str, Any], fault: str) -> None:
    from dataclasses import replace

    from mrtpo.tasks.tools.prepare import FAULTS, validation_row

    example = replace(EXAMPLES[0], **change)
    prompt = build_prompt(example, id="", split="", difficulty="", style="compact")
    row = validation_row(prompt, example, SETTINGS.data)
    assert fault in [row[name] for name in FAULTS]


def test_verdicts_are_toolrls_rewards_and_say_what_differs() -> None:
    task = get_task(SETTINGS, Path("nowhere"))
    right, wrong = PROMPTS[0].reference, "<think> a </think>"
    verdicts = task.verify([PROMPTS[0]] * 2, [right, wrong])
    assert [[r.value for r in v.rewards] for v in verdicts] == [[1.0, 3.0], [0.0, -3.0]]
    assert [v.metrics[0].value for v in verdicts] == [1.0, 0.0]
    assert [v.rewards[1].detail for v in verdicts] == ["", "no tool calls"]
    assert task.reward_names == ("format", "correctness")


def test_a_reference_that_cannot_be_read_decides_nothing() -> None:
    from dataclasses import replace

    task = get_task(SETTINGS, Path("nowhere"))
    broken = replace(PROMPTS[0], reference="<think> a </think>\n<tool_call>\nx\n</tool_call>")
    (verdict,) = task.verify([broken], [PROMPTS[0].reference])
    assert verdict.rewards[1].value is None and verdict.rewards[1].status == "error"
    assert verdict.metrics[0].value is None


def test_variants_are_settings() -> None:
    tools = {"correctness": "coarse", "largest": 1.0, "length": True}
    task = get_task(settings_from({"task": "tools", "rewards": {"tools": tools}}), Path("nowhere"))
    assert task.reward_names == ("format", "correctness", "length")
    answer = PROMPTS[0].reference.replace("<think>", "<think>" + " word" * 256)
    (verdict,) = task.verify([PROMPTS[0]], [answer])
    assert [r.name for r in verdict.rewards] == list(task.reward_names)
    assert verdict.rewards[1].value == 1.0 and 0.5 <= verdict.rewards[2].value <= 0.53


def test_the_judged_part_of_an_answer_is_its_calls_or_its_text() -> None:
    task = get_task(SETTINGS, Path("nowhere"))
    for prompt, example in zip(PROMPTS[:30], EXAMPLES, strict=False):
        answer = task.answer(prompt.reference)
        if example.calls:
            assert [json.loads(line)["name"] for line in answer.split("\n")] == [
                call.name for call in example.calls
            ]
        else:
            assert example.text in answer


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"task": "tools", "data": {"source": "spider"}}, "spider is no source of task tools"),
        ({"data": {"source": "rlla"}}, "rlla is no source of task text2sql"),
        ({"data": {"prompt": "chat"}}, "data.prompt: chat needs task tools"),
    ],
)
def test_sources_and_styles_belong_to_their_task(values: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings_from(values)
