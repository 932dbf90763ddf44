"""Reward sets of published recipes, by hand-made outcomes, and a short training with each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from mrtpo.config import RECIPE_WEIGHTS, RecipeName, Rewards, SettingsError, settings_from
from mrtpo.contexts import chosen_information, informed, sharing
from mrtpo.records import Status
from mrtpo.tasks.text2sql import TextToSQL
from mrtpo.tasks.text2sql.prompts import render
from mrtpo.tasks.text2sql.rewards import (
    RECIPES,
    arctic_rewards,
    default_rewards,
    sql_r1_format,
    sql_r1_length,
    sql_r1_rewards,
    think2sql_rewards,
)
from mrtpo.tracking import NoLog
from mrtpo.trainer import Trainer
from mrtpo.verifiers.sql import SQLOutcome
from mrtpo.warmstart import start

SCORED = ("spider_exec", "bird_ex", "cell_precision", "cell_recall", "tuple_cardinality")
GOOD = render("Count them.", "SELECT count(*) FROM t")
BAD = "SELECT count(*) FROM t"


def outcome(status: Status, executable: bool | None, *scores: Any) -> SQLOutcome:
    """`scores`: one for all metrics, or one for each of `SCORED`."""
    values = scores * len(SCORED) if len(scores) == 1 else scores
    return SQLOutcome(
        status, "" if status == "ok" else "why", executable,
        dict(zip(SCORED, values, strict=True)), None, None,
    )  # fmt: skip


RIGHT = outcome("ok", True, True, True, 1.0, 1.0, 1.0)
PARTLY = outcome("ok", True, False, False, 0.5, 0.25, 0.75)
REJECTED = outcome("error", False, False, False, 0.0, 0.0, 0.0)
REFUSED = outcome("refused", False, False, False, 0.0, 0.0, 0.0)
TIMEOUT = outcome("timeout", None, None)
NO_DATABASE = outcome("error", None, None)
NO_REFERENCE = outcome("ok", True, None)
NO_REFERENCE_NOR_QUERY = outcome("error", False, None)


def values(rewards: Any) -> tuple[float | None, ...]:
    return tuple(reward.value for reward in rewards)


@pytest.mark.parametrize(
    ("found", "default", "arctic", "sql_r1"),
    [
        (RIGHT, (1, 1), 1, (2, 3)),
        (PARTLY, (1, 0), 0.1, (2, -3)),
        (REJECTED, (0, 0), 0, (-2, 0)),
        (REFUSED, (0, 0), 0, (-2, 0)),
        (TIMEOUT, (None, None), None, (None, None)),
        (NO_DATABASE, (None, None), None, (None, None)),
        (NO_REFERENCE, (1, None), None, (2, None)),
        (NO_REFERENCE_NOR_QUERY, (0, None), 0, (-2, 0)),
    ],
)
def test_what_an_outcome_is_worth(
    found: SQLOutcome,
    default: tuple[float | None, ...],
    arctic: float | None,
    sql_r1: tuple[float | None, ...],
) -> None:
    assert values(default_rewards(GOOD, found)) == (1, *default)
    assert values(default_rewards(BAD, found)) == (0, *default)
    assert values(arctic_rewards(GOOD, found)) == values(arctic_rewards(BAD, found)) == (arctic,)
    format, executability, execution, length = sql_r1_rewards(GOOD, found)
    assert (format.value, executability.value, execution.value) == (1, *sql_r1)
    right = execution.value == 3
    expected = sql_r1_length(GOOD) if right else None if execution.value is None else 0
    assert length.value == expected
    # Without the format nothing else counts, and nothing is missing.
    assert values(sql_r1_rewards(BAD, found)) == (-1, 0, 0, 0)
    assert {reward.status for reward in sql_r1_rewards(BAD, found)} == {"ok"}
    for reward in (executability, execution, length):
        assert (reward.status, reward.detail) == (found.status, found.detail)


def test_what_could_not_be_decided_is_missing_in_every_recipe() -> None:
    for name, recipe in RECIPES.items():
        for found in (TIMEOUT, NO_DATABASE):
            for reward in recipe.rewards(GOOD, found):
                judged = reward.name not in ("format", "tag_count")
                assert (reward.value is None) == judged, name
                assert reward.status == (found.status if judged else "ok")


def test_recipes_give_the_rewards_that_they_name() -> None:
    assert set(RECIPES) == set(get_args(RecipeName))
    for recipe in RECIPES.values():
        for response in (GOOD, BAD, ""):
            given = [reward.name for reward in recipe.rewards(response, PARTLY)]
            assert tuple(given) == recipe.names
        three = {"format", "executability", "execution"}
        assert three <= {*recipe.names, *recipe.metrics}
        assert not {*recipe.names} & {*recipe.metrics}


@pytest.mark.parametrize(
    ("response", "ok"),
    [
        (GOOD, True),
        ("Well. " + GOOD + " Done.", True),
        (GOOD.replace("\n", " "), True),
        (GOOD.replace("</think>\n<answer>", "</think> so <answer>"), True),
        (GOOD.replace("```\n</answer>", "```\nas asked\n</answer>"), True),
        (GOOD.replace("<think>", ""), False),
        (GOOD + "<think>", False),
        (GOOD.replace("```sql", "```"), False),
        (GOOD.replace("\n```\n", "\n"), False),
        (render("So.", ""), False),
        ("</think><think><answer>```sql SELECT 1```</answer>", False),
        ("<answer>```sql SELECT 1```</answer><think></think>", False),
        ("", False),
    ],
)
def test_sql_r1_wants_each_tag_once_in_order_and_a_query_in_a_block(
    response: str, ok: bool
) -> None:
    assert sql_r1_format(response) is ok


def test_sql_r1_rewards_length_by_hand() -> None:
    # 10 characters of thought; an answer of 6 + 1 + 8 + 1 + 3 characters, 8 of them a query.
    response = "<think>\n0123456789\n</think>\n<answer>\n```sql\nSELECT 1\n```\n</answer>"
    assert sql_r1_length(response) == pytest.approx(0.5 * (10 + 19) / 2048 + 8 / 19)
    # Blanks of a query count as one each, and text beyond the limit for nothing.
    spaced = response.replace("SELECT 1", "SELECT \n\t 1")
    assert sql_r1_length(spaced) == pytest.approx(0.5 * (10 + 22) / 2048 + 8 / 22)
    long = response.replace("0123456789", "x" * 5000)
    assert sql_r1_length(long) == pytest.approx(0.5 + 8 / 19)


def test_think2sql_rewards_tags_and_parts_of_the_result() -> None:
    assert values(think2sql_rewards(GOOD, PARTLY)) == (1, 1, 0.5, 0.25, 0.75, 0)
    assert values(think2sql_rewards(GOOD, RIGHT)) == (1, 1, 1, 1, 1, 1)
    assert values(think2sql_rewards(f"\n{GOOD}\n", REJECTED)) == (1, 1, 0, 0, 0, 0)
    assert values(think2sql_rewards(GOOD + " more", PARTLY))[:2] == (0, 1)
    assert values(think2sql_rewards(GOOD.replace("\n</answer>", ""), PARTLY))[:2] == (0, 0.75)
    # A tag that stands twice, and two that do not stand on lines of their own.
    twice = GOOD.replace("Count", "<think>\nCount").replace(
        "</think>\n<answer>", "</think><answer>"
    )
    assert values(think2sql_rewards(twice, PARTLY))[:2] == (0, 0.25)
    assert values(think2sql_rewards(BAD, PARTLY))[:2] == (0, 0)


def test_weights_of_a_recipe_stand_where_the_settings_name_none() -> None:
    for recipe, weights in RECIPE_WEIGHTS.items():
        assert set(weights) == set(RECIPES[recipe].names)
        assert sum(weights.values()) == pytest.approx(1)
    rewards = Rewards(recipe="think2sql", weights={"execution": 0.5})
    assert rewards.weight("tag_count") == 0.05
    assert rewards.weight("execution") == 0.5
    assert Rewards(recipe="think2sql").weight("execution") == 0
    assert Rewards(recipe="sql_r1").weight("length") == Rewards().weight("format") == 1


def test_a_recipe_of_another_task_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match=r"rewards\.recipe arctic is one of task text2sql"):
        settings_from({"task": "tools", "rewards": {"recipe": "arctic"}})
    with pytest.raises(SettingsError, match=r"rewards\.recipe"):
        settings_from({"rewards": {"recipe": "grpo"}})


VALUES = {
    "warmstart": {"copying": 0},  # the decoder has one layer
    "data": {"databases": 12, "train_prompts": 8, "valid_prompts": 4, "test_prompts": 4},
    "model": {"vocab_size": 700, "hidden_size": 16, "layers": 1, "heads": 2},
    "sampling": {"group_size": 4, "max_new_tokens": 24},
    "train": {"method": "mrtpo", "steps": 2, "prompts_per_step": 2, "warmup_steps": 1,
              "evaluate_every": 2, "evaluate_prompts": 2, "checkpoint_every": 2},
    "replay": {"gain_prompts": 2, "gain_samples": 2},
}  # fmt: skip


@pytest.mark.parametrize("style", ["compact", "full"])
@pytest.mark.parametrize("recipe", get_args(RecipeName))
def test_every_reward_has_information_that_can_be_left_out(
    recipe: str, style: str, tmp_path: Path
) -> None:
    data = {**VALUES["data"], "prompt": style}
    settings = settings_from({**VALUES, "data": data, "rewards": {"recipe": recipe}})
    task = TextToSQL(settings, tmp_path)
    prompts = task.prepare().prompts["train"]
    task.close()
    for prompt in prompts:
        chosen = chosen_information(prompt, {})
        assert tuple(chosen) == task.reward_names
        full = informed(prompt, chosen, set(chosen))[0].content
        for name, entry in chosen.items():
            left = informed(prompt, chosen, set(chosen) - sharing(chosen, name))[0].content
            assert (full.count(entry.text), left.count(entry.text)) == (1, 0), name


@pytest.mark.parametrize("method", ["mrtpo", "oracle"])
@pytest.mark.parametrize("recipe", get_args(RecipeName))
def test_every_recipe_trains(recipe: str, method: str, tmp_path: Path) -> None:
    train = {**VALUES["train"], "method": method}
    settings = settings_from({**VALUES, "train": train, "rewards": {"recipe": recipe}})
    task = TextToSQL(settings, tmp_path)
    try:
        prompts = task.prepare().prompts
        policy = start(settings, prompts["train"], task)
        trainer = Trainer(settings, policy, task, prompts["train"], prompts["valid"], tmp_path)
        trainer.run(NoLog())
    finally:
        task.close()
    assert trainer.step == 2
    for row in trainer.history:
        assert {f"reward/{name}/mean" for name in task.reward_names} <= set(row)
    scores = {*task.reward_names, *task.metric_names}
    assert {"format", "executability", "execution", "spider_exec", "bird_ex"} <= scores
    assert scores <= {name for row in trainer.evaluations for name in row}
