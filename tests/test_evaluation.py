"""Scores: whose answers they are, and what counts as passed."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from helpers import Letters, prompt, rollout, text_policy, tiny_settings

from mrtpo.evaluation import (
    by_group,
    evaluate,
    greedy_and_sampled,
    prediction_rows,
    prediction_schema,
    score,
    verified,
)
from mrtpo.generate import generate
from mrtpo.records import Reward

PROMPTS = [prompt(n) for n in (7, 2, 11, 4, 100)]


def test_answers_come_in_the_order_of_the_prompts_however_they_are_batched() -> None:
    policy = text_policy()
    whole = evaluate(policy, Letters(), PROMPTS, max_new_tokens=6, batch_size=5)
    assert [r.prompt_id for r in whole.rollouts] == [p.id for p in PROMPTS]
    for size in (1, 2):
        cut = evaluate(policy, Letters(), PROMPTS, max_new_tokens=6, batch_size=size)
        assert [r.response_ids for r in cut.rollouts] == [r.response_ids for r in whole.rollouts]
        assert cut.metrics == whole.metrics


def test_an_evaluation_is_greedy_unless_told_otherwise() -> None:
    policy = text_policy()
    made = evaluate(policy, Letters(), PROMPTS, max_new_tokens=6, batch_size=3).rollouts
    for asked, answer in zip(PROMPTS, made, strict=True):
        ids = policy.prompt_ids(asked.messages)
        (alone,) = generate(policy, [(asked.id, ids)], samples=1, temperature=0.0,
                            max_new_tokens=6, seed=9, step=9)  # fmt: skip
        assert answer.response_ids == alone.response_ids
        assert answer.prompt_ids == ids
    sampled = [
        evaluate(policy, Letters(), PROMPTS, max_new_tokens=6, batch_size=3, temperature=1.0,
                 seed=seed).rollouts
        for seed in (0, 0, 1)
    ]  # fmt: skip
    assert sampled[0] == sampled[1]
    assert sampled[0] != sampled[2]


def test_sampled_scores_stand_beside_the_greedy_ones() -> None:
    policy = text_policy()
    settings = tiny_settings({"sampling": {"temperature": 0.9}})
    made = greedy_and_sampled(policy, Letters(), PROMPTS, settings)
    greedy, sampled = (
        evaluate(policy, Letters(), PROMPTS, max_new_tokens=6, batch_size=2, **asked)
        for asked in ({}, {"temperature": 0.9, "seed": settings.seed})
    )
    expected = {f"sampled/{name}": value for name, value in sampled.metrics.items()}
    assert made.metrics == greedy.metrics | expected
    assert made.rollouts == greedy.rollouts
    assert sampled.rollouts != greedy.rollouts


def test_each_answer_is_verified_against_its_own_prompt() -> None:
    prompts = [prompt(0), prompt(1, undecided="plain"), prompt(2)]
    answers = [replace(rollout([40], prompt_id=p.id), text=t)
               for p, t in zip(prompts, ("abc", "abc", "ééé"), strict=True)]  # fmt: skip
    made = verified(Letters(), prompts, answers)
    assert [r.prompt_id for r in made] == [p.id for p in prompts]
    values = [[reward.value for reward in r.rewards] for r in made]
    assert values == [[1.0, 1.0], [1.0, None], [0.0, 0.0]]
    assert [r.metrics[0].name for r in made] == ["short"] * 3
    assert not answers[0].rewards  # the rollouts themselves are left alone


def test_what_could_not_be_decided_has_not_passed_and_is_counted() -> None:
    answers = [
        replace(rollout([1] * n, {"letter": a, "plain": b}), finished=finished,
                metrics=(Reward("short", c, "ok"),))
        for n, a, b, c, finished in (
            (1, 1.0, None, 1.0, True), (2, 0.0, 0.5, 1.0, True), (6, 1.0, None, 0.0, False),
        )
    ]  # fmt: skip
    assert score(answers) == pytest.approx(
        {"letter": 2 / 3, "plain": 0.5 / 3, "undecided/plain": 2.0, "short": 2 / 3,
         "response_length": 3.0, "truncated": 1 / 3}
    )  # fmt: skip


def test_groups_are_scored_by_kind_and_by_difficulty_where_there_is_one() -> None:
    prompts = [prompt(0), prompt(1), prompt(2, difficulty="hard"), prompt(3, difficulty="")]
    answers = [rollout([1] * (n + 1), {"letter": float(n > 1)}) for n in range(4)]
    made = by_group(prompts, answers)
    assert list(made) == ["difficulty/easy", "difficulty/hard", "kind/even", "kind/odd"]
    assert {name: group["prompts"] for name, group in made.items()} == {
        "difficulty/easy": 2, "difficulty/hard": 1, "kind/even": 2, "kind/odd": 2,
    }  # fmt: skip
    assert made["kind/odd"]["letter"] == 0.5
    assert made["difficulty/easy"]["response_length"] == 1.5


def test_predictions_keep_an_undecided_result_as_null_and_say_why() -> None:
    prompts = [prompt(0), prompt(1, undecided="plain")]
    answers = verified(
        Letters(), prompts, [replace(rollout([40], prompt_id=p.id), text="abc") for p in prompts]
    )
    rows = prediction_rows(Letters(), prompts, answers)
    table = pa.Table.from_pylist(rows, schema=prediction_schema(Letters()))
    assert set(table.column_names) == set(rows[0])
    assert table.column("plain").to_pylist() == [1.0, None]
    assert table.column("status").to_pylist() == ["ok", "timeout"]
    assert table.column("detail").to_pylist() == ["", "took too long"]
    assert table.column("question").to_pylist() == ["Question 0", "Question 1"]
    assert table.column("sql").to_pylist() == ["abc", "abc"]
