"""Training sets through `prepare`: slots as rewards, counts, validation, bounded checks."""

import json
import os
import random
from pathlib import Path

import pandas as pd
import pytest

from mrtpo.config import settings_from
from mrtpo.tasks import get_task
from mrtpo.tasks.instruct.prompts import SLOTS, constraints_of
from mrtpo.validation import validate_prompts

DATA = os.environ.get("MRTPO_DATA", "")


def made(source, path, **data):
    data = {"train_prompts": 12, "valid_prompts": 3, "test_prompts": 3} | data
    settings = settings_from(
        {"task": "instruct", "data": {"source": source, "path": str(path), **data}}
    )
    task = get_task(settings, Path())
    return task, task.prepare()


def checked(prepared, folder):
    return validate_prompts(
        pd.DataFrame(prepared.rows), prepared.limits, folder, counts=prepared.statistics
    )


def write_rlvr(folder):
    rule = {"instruction_id": ["punctuation:no_comma"], "kwargs": [None]}
    unplaced = {"messages": [{"role": "user", "content": "Sing?"}], "ground_truth": json.dumps(
        [rule]), "constraint": "Use no comma."}  # fmt: skip
    rows = [
        {
            "messages": [{"role": "user", "content": f"Question {n}? Use no comma."}],
            "ground_truth": json.dumps([rule]), "constraint": "Use no comma.",
        }
        for n in range(60)
    ]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in [*rows, unplaced])
    (folder / "train.jsonl").write_text(text)


def test_a_training_set_becomes_prompts_whose_rewards_are_slots(tmp_path):
    write_rlvr(tmp_path)
    task, prepared = made("if_rlvr", tmp_path)
    assert task.reward_names == SLOTS
    assert {split: len(found) for split, found in prepared.prompts.items()} == {
        "train": 12, "valid": 3, "test": 3,
    }  # fmt: skip
    prompt = prepared.prompts["train"][0]
    assert [entry.reward for entry in prompt.information] == ["constraint_1"]
    assert prompt.messages[-1].content.count(prompt.information[0].text) == 1
    checked(prepared, tmp_path / "docs")


def test_responses_to_public_prompts_are_checked_within_bounds(tmp_path):
    write_rlvr(tmp_path)
    task, prepared = made("if_rlvr", tmp_path)
    prompt = prepared.prompts["train"][0]
    try:
        kept, broken = task.verify([prompt, prompt], ["No.", "Yes, no."])
    finally:
        task.close()
    assert [kept.rewards[0].value, broken.rewards[0].value] == [1.0, 0.0]
    assert {reward.status for reward in kept.rewards[1:]} == {"absent"}
    assert [broken.metrics[0].value, broken.metrics[1].value] == [0.0, 0.0]
    assert task.spans(prompt, "Yes, no.") == {"constraint_1": [(3, 4)]}


def test_public_prompts_without_answers_cannot_teach_the_small_decoder(tmp_path):
    write_rlvr(tmp_path)
    task, prepared = made("if_rlvr", tmp_path)
    with pytest.raises(ValueError, match=r"has no answers to learn from; set model\.path"):
        task.demonstration(prepared.prompts["train"][0], frozenset(), {}, random.Random(0))


def test_too_long_prompts_are_dropped_and_counted(tmp_path):
    write_rlvr(tmp_path)
    _, prepared = made("if_rlvr", tmp_path, max_prompt_chars=25)
    assert prepared.statistics["dropped/train/prompt too long"] > 0
    assert all(len(p.messages[-1].content) <= 25 for p in prepared.prompts["train"])


def test_composed_prompts_have_a_reference_that_keeps_their_constraints(tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"Tell of {n}."}) + "\n" for n in range(40)))
    _, prepared = made("composed", file, fewest_constraints=2, most_constraints=5)
    for prompt in prepared.prompts["train"]:
        assert 2 <= len(constraints_of(prompt)) <= 5 and prompt.reference
    checked(prepared, tmp_path / "docs")


@pytest.mark.skipif(not DATA, reason="MRTPO_DATA names no folder of public sets")
@pytest.mark.parametrize("source", ["muldimif", "composed"])
def test_the_real_muldimif_passes_validation(source, tmp_path):
    _, prepared = made(source, Path(DATA) / "muldimif", most_constraints=6)
    assert len(prepared.prompts["train"]) == 12
    checked(prepared, tmp_path)
    dropped = sum(n for key, n in prepared.statistics.items() if key.startswith("dropped/"))
    assert dropped > 0
