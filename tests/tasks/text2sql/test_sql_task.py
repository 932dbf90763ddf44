"""The text-to-SQL task as the trainer sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrtpo.config import Settings, settings_from
from mrtpo.records import Prompt
from mrtpo.tasks.text2sql import TextToSQL
from mrtpo.tasks.text2sql.prompts import render
from mrtpo.tracking import NoLog
from mrtpo.trainer import Trainer
from mrtpo.warmstart import start

VALUES = {
    "warmstart": {"copying": 0},  # the decoder has one layer
    "data": {"databases": 12, "train_prompts": 8, "valid_prompts": 4, "test_prompts": 4},
    "model": {"vocab_size": 700, "hidden_size": 16, "layers": 1, "heads": 2},
    "sampling": {"group_size": 4, "max_new_tokens": 24},
    "train": {"method": "oracle", "steps": 2, "prompts_per_step": 2, "warmup_steps": 1,
              "evaluate_every": 2, "evaluate_prompts": 2, "checkpoint_every": 2},
}  # fmt: skip


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Settings, Path, dict[str, list[Prompt]]]:
    folder = tmp_path_factory.mktemp("text2sql")
    settings = settings_from(VALUES)
    task = TextToSQL(settings, folder)
    prompts = task.prepare().prompts
    task.close()
    return settings, folder, prompts


def test_the_oracle_trains_on_text_to_sql(
    made: tuple[Settings, Path, dict[str, list[Prompt]]], tmp_path: Path
) -> None:
    settings, folder, prompts = made
    task = TextToSQL(settings, folder)
    try:
        policy = start(settings, prompts["train"], task)
        trainer = Trainer(settings, policy, task, prompts["train"], prompts["valid"], tmp_path)
        trainer.run(NoLog())
    finally:
        task.close()
    assert trainer.step == 2 and len(trainer.history) == 2
    assert all(row["reward/format/mean"] >= 0 for row in trainer.history)


def test_spans_are_the_same_whether_the_response_was_just_verified_or_not(
    made: tuple[Settings, Path, dict[str, list[Prompt]]],
) -> None:
    settings, folder, prompts = made
    asked = prompts["train"][0]
    task = TextToSQL(settings, folder)
    try:
        right = render("So.", asked.reference)
        unknown = render("So.", "SELECT nothing_there FROM nowhere")
        before = [task.spans(asked, response) for response in (right, unknown, "")]
        task.verify([asked] * 3, [right, unknown, ""])
        after = [task.spans(asked, response) for response in (right, unknown, "")]
    finally:
        task.close()
    assert before == after
    texts = {unknown[slice(*span)] for span in after[1]["executability"]}
    assert texts == {"nothing_there", "nowhere"}
    assert set(after[0]) == set(task.reward_names)
    shown = [right[slice(*span)] for span in after[0]["execution"]]
    assert "SELECT" not in shown and len(shown) >= 2
