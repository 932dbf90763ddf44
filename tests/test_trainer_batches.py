"""What a step samples: its prompts, the groups that are refilled, and the reward of length."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    Dull,
    Letters,
    text_policy,
    tiny_settings,
    trainer,
    watched,
    weights_equal,
)

from mrtpo.records import Prompt, Reward, Rollout
from mrtpo.rollouts import attribution_rows
from mrtpo.tasks import Verdict
from mrtpo.trainer import Clock, Trainer


@pytest.mark.parametrize(("size", "total"), [(2, 6), (4, 10), (3, 5), (5, 5)])
def test_no_prompt_comes_twice_in_an_epoch_and_none_is_left_out_for_ever(
    tmp_path: Path, size: int, total: int
) -> None:
    made = trainer(tmp_path, {"train": {"prompts_per_step": size}}, prompts=total)
    steps = total // size
    orders = [
        [p.id for step in range(steps) for p in made.batch(epoch * steps + step)]
        for epoch in range(12)
    ]
    for order in orders:
        assert len(set(order)) == len(order) == steps * size
    assert len({tuple(order) for order in orders}) > 1  # epochs differ in order
    assert {p for order in orders for p in order} == {p.id for p in made.train_prompts}
    assert all(len(made.batch(step)) == size for step in range(9))
    again = trainer(tmp_path, {"train": {"prompts_per_step": size}}, prompts=total)
    assert [p.id for p in again.batch(7)] == [p.id for p in made.batch(7)]
    other = trainer(tmp_path, {"train": {"prompts_per_step": size}, "seed": 4}, prompts=total)
    assert [[p.id for p in other.batch(s)] for s in range(9)] != [
        [p.id for p in made.batch(s)] for s in range(9)
    ]


def test_rollouts_of_a_step_follow_from_seed_and_step_alone(tmp_path: Path) -> None:
    def ids(rollouts: list[Rollout]) -> list[tuple[int, ...]]:
        return [r.response_ids for r in rollouts]

    made, other = trainer(tmp_path), trainer(tmp_path)
    torch.manual_seed(99)
    first = ids(made.rollouts(made.batch(1), 1))
    torch.manual_seed(1)
    assert ids(other.rollouts(other.batch(1), 1)) == first
    assert ids(other.rollouts(other.batch(1), 2)) != first
    assert tiny_settings().seed == 3


def test_the_mix_follows_the_step(tmp_path: Path) -> None:
    """The token weights fade out: at the last step the update is GDPO's, at the first it is not."""
    ramp = {"replay": {"floor": 0.0, "mix_start": 1.0, "mix_end": 0.0}}
    for step, same in ((0, False), (3, True)):
        moved = []
        for method in ("gdpo", "mrtpo"):
            made = trainer(tmp_path, {**ramp, "train": {"method": method}})
            made.optimizer = torch.optim.SGD(made.policy.model.parameters(), lr=1.0)
            made.step = step
            made.one_step()
            moved.append(made.policy)
        assert weights_equal(*moved) == same


def refilling(state: Path, task: Any = None, prompts: int = 12, **train: Any) -> Trainer:
    values = {"train": {"method": "dapo", "prompts_per_step": 3, **train}}
    made = trainer(state, values, task=task or Dull(), prompts=prompts)
    made.asked = []  # type: ignore[attr-defined] - the prompts of every round of sampling
    inner = made.rollouts

    def rollouts(chosen: Sequence[Prompt], step: int) -> list[Rollout]:
        made.asked.append([p.id for p in chosen])  # type: ignore[attr-defined]
        return inner(chosen, step)

    made.rollouts = rollouts  # type: ignore[method-assign]
    return made


def dull(prompt_id: str) -> bool:
    return int(prompt_id[1:]) % 2 == 0


def test_groups_without_information_make_room_for_other_prompts(tmp_path: Path) -> None:
    rounds = set()
    for step in range(8):
        made = refilling(tmp_path)
        made.step = step
        rollouts, sampled = made.sampled_batch(Clock())
        asked = [prompt_id for turn in made.asked for prompt_id in turn]
        assert made.asked[0] == [p.id for p in made.batch(step)]
        assert len(set(asked)) == len(asked) == sampled
        left: list[str] = []  # without information so far
        for turn, following in zip(made.asked, [*made.asked[1:], None], strict=True):
            left = [p for p in turn if dull(p)]
            if following is not None:
                assert len(following) == len(left)
        assert not left or len(made.asked) == 4  # three rounds at most
        kept = [p for p in asked if not dull(p)] + left
        assert [(r.prompt_id, r.sample) for r in rollouts] == [
            (p, g) for p in kept for g in range(4)
        ]  # fmt: skip
        assert len(kept) == 3
        rounds.add(len(made.asked))
        again = refilling(tmp_path)
        again.step = step
        assert again.sampled_batch(Clock())[0] == rollouts and again.asked == made.asked
    assert len(rounds) > 1


def test_what_is_drawn_to_refill_follows_seed_and_step(tmp_path: Path) -> None:
    drawn = []
    for step, seed in ((0, 3), (4, 3), (0, 4)):
        made = trainer(tmp_path, {"train": {"method": "dapo"}, "seed": seed}, prompts=30,
                       task=Constant())  # fmt: skip
        made.step = step
        made.batch = lambda _: made.train_prompts[:2]  # type: ignore[method-assign] # noqa: B023
        rollouts, sampled = made.sampled_batch(Clock())
        assert sampled == 8
        drawn.append([r.prompt_id for r in rollouts])
    assert drawn[0] != drawn[1] and drawn[0] != drawn[2]


class Constant(Letters):
    def _verdict(self, prompt: Prompt, response: str) -> Verdict:
        made = super()._verdict(prompt, response)
        return Verdict(tuple(Reward(r.name, 0.5, "ok") for r in made.rewards), made.metrics)


class Cancelling(Letters):
    """`letter` and `plain` sum to 1 in every response; `letter` differs within a group."""

    def _verdict(self, prompt: Prompt, response: str) -> Verdict:
        made = super()._verdict(prompt, response)
        value = (sum(map(ord, response)) % 7) / 7
        return Verdict(
            (Reward("letter", value, "ok"), Reward("plain", 1 - value, "ok")), made.metrics
        )


def test_where_nothing_informs_the_groups_of_the_last_round_stay(tmp_path: Path) -> None:
    made = refilling(tmp_path, task=Constant())
    metrics, _ = made.one_step()
    assert [len(turn) for turn in made.asked] == [3, 3, 3, 3]
    assert metrics["groups/sampled"] == 12
    assert metrics["advantage/zero_share"] == 1 and metrics["policy/grad_norm"] == 0
    assert weights_equal(made.policy, text_policy())


@pytest.mark.parametrize(("prompts", "asked"), [(3, [3]), (4, [3, 1]), (5, [3, 2]), (8, [3, 3, 2])])
def test_the_number_of_groups_stays_where_prompts_run_out(
    tmp_path: Path, prompts: int, asked: list[int]
) -> None:
    made = refilling(tmp_path, task=Constant(), prompts=prompts)
    rollouts, sampled = made.sampled_batch(Clock())
    assert [len(turn) for turn in made.asked] == asked and sampled == sum(asked)
    assert len({r.prompt_id for r in rollouts}) == 3 and len(rollouts) == 12


def test_rewards_that_cancel_in_the_sum_still_inform(tmp_path: Path) -> None:
    made = refilling(tmp_path, task=Cancelling())
    metrics, _ = made.one_step()
    assert metrics["groups/sampled"] == 3 and len(made.asked) == 1


def test_a_reward_of_weight_zero_does_not_inform(tmp_path: Path) -> None:
    values = {"train": {"method": "dapo"}, "rewards": {"weights": {"letter": 0.0, "plain": 0.0}}}
    metrics, _ = trainer(tmp_path, values, task=Cancelling(), prompts=12).one_step()
    assert metrics["groups/sampled"] == 2 + 3 * 2


def test_any_method_can_refill_and_those_that_do_not_count_nothing(tmp_path: Path) -> None:
    metrics, _ = refilling(tmp_path, method="mrtpo", refill=1).one_step()
    assert 3 <= metrics["groups/sampled"] <= 6
    metrics, _ = refilling(tmp_path, refill=0).one_step()
    assert "groups/sampled" not in metrics


def test_the_penalty_on_length_is_a_reward_like_others(tmp_path: Path) -> None:
    values = {"rewards": {"overlong": 4, "weights": {"overlong": 3.0}},
              "train": {"method": "gdpo", "best_metric": "plain"}}  # fmt: skip
    made = trainer(tmp_path, values)
    seen = watched(made)
    inner = made.rollouts
    lengths = [1, 2, 3, 4, 5, 6, 6, 2]

    def cut(prompts: Any, step: int) -> list[Rollout]:
        return [
            dataclasses.replace(r, response_ids=r.response_ids[:n], logprobs=r.logprobs[:n])
            for r, n in zip(inner(prompts, step), lengths, strict=True)
        ]

    made.rollouts = cut  # type: ignore[method-assign]
    metrics, _ = made.one_step()
    rollouts, credit = seen[0]
    assert credit.table.names == ("letter", "plain", "overlong")
    expected = [0.0, 0.0, -0.25, -0.5, -0.75, -1.0, -1.0, 0.0]
    assert credit.table.rewards_BK[:, 2].tolist() == expected
    assert credit.table.weight_K.tolist() == [1.0, 1.0, 3.0]
    assert metrics["reward/overlong/mean"] == pytest.approx(sum(expected) / 8)
    total = sum(metrics[f"reward/{n}/mean"] * w for n, w in
                (("letter", 1), ("plain", 1), ("overlong", 3)))  # fmt: skip
    assert metrics["reward/total/mean"] == pytest.approx(total)
    asked = [p for p in made.batch(0) for _ in range(4)]
    rows, figures = attribution_rows(
        tiny_settings({"rewards": values["rewards"]}), text_policy(), made.task, asked, rollouts
    )
    own = [row for row in rows if row["reward"] == "overlong"]
    assert [row["value"] for row in own] == expected
    assert {row["reason"] for row in own} == {"no information"}
    assert figures["replay/overlong/skipped"] == 1
    with pytest.raises(ValueError, match=r"rewards\.weights: overlong is no reward of this task"):
        trainer(tmp_path, {"rewards": {"weights": {"overlong": 1.0}}})
