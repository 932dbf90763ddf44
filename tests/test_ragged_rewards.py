"""Prompts that differ in their rewards, in one batch: `Reward.status` absent."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
import torch
from helpers import prompt, rollout, text_policy, tiny_settings

from mrtpo.config import MethodName
from mrtpo.credit import assign, reward_metrics, reward_table
from mrtpo.evaluation import prediction_rows, prediction_schema, score
from mrtpo.generate import generate
from mrtpo.methods import METHODS, credit
from mrtpo.records import Information, Prompt, Reward, Rollout
from mrtpo.rollouts import attribution_rows

NAMES = ("first", "last", "count")
CPU = torch.device("cpu")
# A prompt with three rewards, one with two, one with a single one; `None` is undecided.
GROUPS: dict[str, list[dict[str, float | None]]] = {
    "a": [{"first": 1, "last": 0, "count": 1}, {"first": 0, "last": 0, "count": 1},
          {"first": 1, "last": 1, "count": 0}],
    "b": [{"last": 1, "count": 0}, {"last": 0, "count": 0}, {"last": None, "count": 1}],
    "c": [{"first": 0}, {"first": 1}, {"first": 1}],
}  # fmt: skip


def of(values: dict[str, float | None]) -> tuple[Reward, ...]:
    return tuple(
        Reward(name, values[name], "timeout" if values[name] is None else "ok")
        if name in values
        else Reward(name, None, "absent")
        for name in NAMES
    )


def rows() -> list[Rollout]:
    return [
        rollout([5, 6], of(values), prompt_id=name, sample=n)
        for name, group in GROUPS.items()
        for n, values in enumerate(group)
    ]


def slow_advantages(values: list[float | None]) -> list[float]:
    present = [value for value in values if value is not None]
    if len(set(present)) < 2:
        return [0.0] * len(values)
    mean, std = statistics.fmean(present), statistics.stdev(present)
    return [0.0 if value is None else (value - mean) / (std + 1e-6) for value in values]


def table_of(**rewards: Any) -> Any:
    return reward_table(rows(), NAMES, tiny_settings({"rewards": rewards}), CPU)


def credit_of(method: MethodName, **rewards: Any) -> torch.Tensor:
    table = table_of(**rewards)
    settings = tiny_settings({"train": {"method": method}, "rewards": rewards})
    return credit(settings, table.rewards_BK.double(), table.present_BK, table.group_B,
                  table.weight_K.double())  # fmt: skip


def test_gdpo_normalises_each_reward_in_the_groups_that_have_it() -> None:
    expected: list[dict[str, float]] = []
    for group in GROUPS.values():
        columns = {name: slow_advantages([row[name] for row in group]) for name in group[0]}
        expected += [{name: column[n] for name, column in columns.items()} for n in range(3)]
    sigma = statistics.stdev(sum(row.values()) for row in expected) + 1e-6
    for row, found in zip(expected, credit_of("gdpo").tolist(), strict=True):
        assert found == pytest.approx([row.get(name, 0.0) / sigma for name in NAMES])


def test_grpo_sums_what_a_prompt_has_and_an_undecided_reward_still_spoils_a_sum() -> None:
    expected: list[float] = []
    for group in GROUPS.values():
        sums = [None if None in row.values() else sum(row.values()) for row in group]  # type: ignore[arg-type]
        expected += slow_advantages(sums)
    assert credit_of("grpo").flatten().tolist() == pytest.approx(expected)
    assert sum(value != 0 for value in expected) > 5


@pytest.mark.parametrize("method", METHODS)
def test_a_reward_that_no_prompt_has_changes_no_credit(method: MethodName) -> None:
    settings = tiny_settings({"train": {"method": method}})
    table = table_of()
    more = replace_table(table)
    one, other = (
        credit(settings, t.rewards_BK, t.present_BK, t.group_B, t.weight_K) for t in (table, more)
    )
    assert torch.equal(one, other[:, : one.shape[1]])
    assert not other[:, one.shape[1] :].any()


def replace_table(table: Any) -> Any:
    wider = [replace(r, rewards=(*r.rewards, Reward("more", None, "absent"))) for r in rows()]
    return reward_table(wider, (*NAMES, "more"), tiny_settings(), CPU)


def test_figures_of_a_reward_are_of_the_prompts_that_have_it() -> None:
    table = replace_table(table_of())
    found = reward_metrics(rows(), table)
    values = {
        name: [row[name] for group in GROUPS.values() for row in group if name in row]
        for name in NAMES
    }
    for name, own in values.items():
        present = [value for value in own if value is not None]
        assert found[f"reward/{name}/mean"] == pytest.approx(statistics.fmean(present))
        assert found[f"reward/{name}/missing"] == own.count(None)
    assert found["reward/last/dead_groups"] == 0.0  # both groups that have it have contrast
    assert math.isnan(found["reward/more/mean"]) and math.isnan(found["reward/more/dead_groups"])
    assert found["reward/more/missing"] == 0.0
    # Rows without a reward add nothing to the total of theirs.
    expected = sum(
        statistics.fmean(v for v in own if v is not None) * len(own) / 9 for own in values.values()
    )
    assert found["reward/total/mean"] == pytest.approx(expected)


def test_a_reward_that_a_prompt_lacks_holds_no_other_back() -> None:
    table = table_of(requires={"last": "first"})
    column = table.rewards_BK[:, NAMES.index("last")].tolist()
    assert column[:3] == [0.0, 0.0, 1.0]  # where `first` is 1
    assert column[3:5] == [1.0, 0.0]  # nothing is required of the second prompt
    assert column[6:] == [0.0, 0.0, 0.0]


def test_a_score_is_the_mean_over_prompts_that_have_it() -> None:
    found = score(rows())
    assert found["first"] == pytest.approx(4 / 6)
    assert found["last"] == pytest.approx(2 / 6) and found["undecided/last"] == 1.0
    assert "first" not in score(rows()[3:6])


class Ragged:
    reward_names = NAMES
    metric_names: tuple[str, ...] = ()

    def answer(self, response: str) -> str:
        return response

    def parts(self, prompt: Prompt, response: str) -> list[Any]:
        return []

    def spans(self, prompt: Prompt, response: str) -> dict[str, list[tuple[int, int]]]:
        return {"first": [(0, 1)]}


def test_predictions_tell_what_a_prompt_lacks_from_what_is_undecided() -> None:
    answers = rows()[3:7]
    prompts = [prompt(n, payload=json.dumps({"question": "?"})) for n in range(4)]
    made = prediction_rows(Ragged(), prompts, answers)  # type: ignore[arg-type]
    column = pa.Table.from_pylist(made, schema=prediction_schema(Ragged()))  # type: ignore[arg-type]
    first, last = (column.column(name).to_pylist() for name in ("first", "last"))
    assert [math.isnan(value) for value in first[:3]] == [True] * 3 and first[3] == 0.0
    assert last[:3] == [1.0, 0.0, None] and math.isnan(last[3])
    assert column.column("status").to_pylist() == ["ok", "ok", "timeout", "ok"]


def asked(number: int, kept: tuple[str, ...]) -> Prompt:
    lines = {name: f"- Rule about {name}." for name in kept}
    plain = prompt(number)
    last = plain.messages[-1]
    stated = replace(last, content="\n".join([last.content, *lines.values()]))
    return replace(
        plain, messages=(*plain.messages[:-1], stated),
        information=tuple(
            Information(name, "sentence", "prompt", line, label=f"kind of {name}")
            for name, line in lines.items()
        ),
    )  # fmt: skip


def sampled() -> tuple[Any, list[Prompt], list[Rollout]]:
    policy = text_policy()
    prompts = [asked(n, tuple(group[0])) for n, group in enumerate(GROUPS.values())]
    made = generate(
        policy, [(p.id, policy.prompt_ids(p.messages)) for p in prompts], samples=3,
        temperature=1.0, max_new_tokens=6, seed=1, step=0,
    )  # fmt: skip
    values = [row for group in GROUPS.values() for row in group]
    rollouts = [replace(r, rewards=of(row)) for r, row in zip(made, values, strict=True)]
    return policy, [p for p in prompts for _ in range(3)], rollouts


def test_only_rewards_that_a_prompt_has_are_replayed() -> None:
    policy, prompts, rollouts = sampled()
    settings = tiny_settings({"train": {"method": "mrtpo"}})
    made = assign(policy, prompts, rollouts, NAMES, settings, 1.0)
    assert made.replayed is not None
    lives = (made.credit_BK != 0).tolist()
    assert made.replayed.live_BK.tolist() == lives
    assert [any(row) for row in zip(*lives, strict=True)] == [True, True, True]
    means_BK = made.weights_BKT.sum(2) / made.mask_BT.sum(1, keepdim=True)
    assert torch.equal(
        made.weights_BKT[~made.replayed.live_BK] != 0,
        made.mask_BT[:, None].expand_as(made.weights_BKT)[~made.replayed.live_BK] != 0,
    )
    assert means_BK[~made.replayed.live_BK].tolist() == pytest.approx(
        [1.0] * int((~made.replayed.live_BK).sum())
    )


def test_attribution_has_a_row_for_each_reward_that_a_prompt_has_with_its_label() -> None:
    policy, prompts, rollouts = sampled()
    found, _ = attribution_rows(tiny_settings(), policy, Ragged(), prompts, rollouts)  # type: ignore[arg-type]
    assert [(row["prompt_id"], row["sample"], row["reward"]) for row in found] == [
        (r.prompt_id, r.sample, reward.name) for r in rollouts for reward in r.rewards
        if reward.status != "absent"
    ]  # fmt: skip
    assert {row["label"] for row in found} == {f"kind of {name}" for name in NAMES}
