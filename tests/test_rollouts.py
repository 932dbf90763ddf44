"""Rollout files and their attribution: one row for each rollout and reward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import Letters, prompt, text_policy, tiny_settings

from mrtpo.credit import assign
from mrtpo.records import Prompt, Rollout, read_rows
from mrtpo.rollouts import (
    ATTRIBUTION_SCHEMA,
    attribution_rows,
    sample,
    span_metrics,
    token_parts,
    write_attribution,
)
from mrtpo.tasks import Part

SETTINGS = tiny_settings({"rollout": {"prompts": 3}, "replay": {"mix_start": 0.2}})


def drawn(**changes: Any) -> tuple[list[Prompt], list[Rollout]]:
    prompts = [prompt(n, **changes) for n in range(5)]
    rollouts, _ = sample(SETTINGS, text_policy(), Letters(), prompts)
    return prompts, rollouts


def test_a_sample_is_verified_groups_of_the_first_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [prompt(n) for n in range(5)]
    rollouts, metrics = sample(SETTINGS, text_policy(), Letters(), prompts)
    expected = [(f"p{n}", g) for n in range(3) for g in range(4)]
    assert [(r.prompt_id, r.sample) for r in rollouts] == expected
    assert all(len(r.rewards) == 2 and len(r.metrics) == 1 for r in rollouts)
    assert metrics["rollouts"] == 12
    letters = [r.rewards[0].value for r in rollouts]
    assert metrics["reward/letter/mean"] == pytest.approx(sum(letters) / 12)
    assert metrics["response/length"] == sum(len(r.response_ids) for r in rollouts) / 12
    monkeypatch.setattr("mrtpo.rollouts.PROMPTS_AT_ONCE", 2)
    assert [r.response_ids for r in drawn()[1]] == [r.response_ids for r in rollouts]


def test_attribution_has_the_trainings_weights_unmixed() -> None:
    prompts, rollouts = drawn()
    policy = text_policy()
    rows, metrics = attribution_rows(SETTINGS, policy, Letters(), prompts, rollouts)
    asked = [p for p in prompts[:3] for _ in range(4)]
    credit = assign(policy, asked, rollouts, ("letter", "plain"), SETTINGS, mix=1.0)
    assert len(rows) == 24
    for n, row in enumerate(rows):
        b, k = divmod(n, 2)
        answer, length = rollouts[b], len(rollouts[b].response_ids)
        assert (row["prompt_id"], row["sample"]) == (answer.prompt_id, answer.sample)
        assert row["reward"] == ("letter", "plain")[k]
        assert row["value"] == answer.rewards[k].value
        assert row["advantage"] == pytest.approx(float(credit.credit_BK[b, k]), abs=1e-6)
        weights = credit.weights_BKT[b, k, :length].tolist()
        assert row["weight"] == pytest.approx(weights, abs=1e-4)
        assert "".join(row["tokens"]).startswith(answer.text)
        assert {len(row[name]) for name in
                ("tokens", "parts", "logprob_with", "logprob_without", "distance", "weight",
                 "responsible")
                } == {length}  # fmt: skip
        if row["skipped"]:
            assert row["reason"] == "no advantage" and row["advantage"] == 0
            assert set(row["weight"]) == {1.0}
        else:
            sign = 1 if row["advantage"] > 0 else -1
            gains = [a - b for a, b in zip(row["logprob_with"], row["logprob_without"],
                                           strict=True)]  # fmt: skip
            expected = [max(0.0, sign * gain) for gain in gains]
            assert row["distance"] == pytest.approx(expected, abs=1e-5)
        if row["reward"] == "letter":  # its span is the first four characters
            starts = [len("".join(row["tokens"][:t])) for t in range(length)]
            for start, token, own in zip(starts, row["tokens"], row["responsible"], strict=True):
                assert not token or own == (start < min(4, len(answer.text)))
    assert {row["skipped"] for row in rows} == {True, False}
    assert 0 < metrics["replay/plain/n_eff_share"] <= 1


def test_attribution_is_scored_by_the_distance_on_responsible_tokens() -> None:
    row = {"reward": "a", "skipped": False, "distance": [1.0, 3.0, 0.0, 0.0],
           "responsible": [False, True, False, True]}  # fmt: skip
    even = row | {"distance": [1.0] * 4}
    unsaid = [row | {"skipped": True}, row | {"distance": [0.0] * 4},
              row | {"responsible": [False] * 4}]  # fmt: skip
    other = row | {"reward": "b", "distance": [2.0, 0.0, 0.0, 0.0]}
    assert span_metrics([row, even, *unsaid, other]) == {
        "replay/a/span_share": 0.625, "replay/a/span_uniform": 0.5,
        "replay/b/span_share": 0.0, "replay/b/span_uniform": 0.5,
    }  # fmt: skip


def test_attribution_survives_parquet(tmp_path: Path) -> None:
    prompts, rollouts = drawn(undecided="plain")
    rows, _ = attribution_rows(SETTINGS, text_policy(), Letters(), prompts, rollouts)
    write_attribution(tmp_path / "attribution.parquet", rows)
    back = read_rows(tmp_path / "attribution.parquet", ATTRIBUTION_SCHEMA)
    assert [row.keys() for row in back] == [dict.fromkeys(ATTRIBUTION_SCHEMA.names).keys()] * 24
    for one, other in zip(back, rows, strict=True):
        assert one["tokens"] == other["tokens"]
        assert one["weight"] == pytest.approx(other["weight"])
    undecided = [row for row in back if row["reward"] == "plain"]
    assert all(row["value"] is None and row["status"] == "timeout" for row in undecided)
    assert all(row["skipped"] for row in undecided)


def test_rewards_are_matched_by_name_in_a_file_that_orders_them_otherwise() -> None:
    prompts, rollouts = drawn()
    policy = text_policy()
    rows, _ = attribution_rows(SETTINGS, policy, Letters(), prompts, rollouts)
    turned = [replace(r, rewards=r.rewards[::-1]) for r in rollouts]
    assert attribution_rows(SETTINGS, policy, Letters(), prompts, turned)[0] == rows


def test_rows_of_a_group_need_not_stand_together() -> None:
    prompts, rollouts = drawn()
    policy = text_policy()
    rows, _ = attribution_rows(SETTINGS, policy, Letters(), prompts, rollouts)
    other, _ = attribution_rows(SETTINGS, policy, Letters(), prompts, rollouts[::-1])

    def weights(made: list[dict[str, Any]]) -> dict[Any, list[float]]:
        return {(r["prompt_id"], r["sample"], r["reward"]): r["weight"] for r in made}

    one, two = weights(rows), weights(other)
    assert one.keys() == two.keys()
    for key in one:
        assert one[key] == pytest.approx(two[key], abs=1e-4)


def test_rollouts_of_another_data_set_are_refused() -> None:
    prompts, rollouts = drawn()
    with pytest.raises(ValueError, match=r"not in the data set: \['p1', 'p2'\]"):
        attribution_rows(SETTINGS, text_policy(), Letters(), prompts[:1], rollouts)


def test_a_token_belongs_to_the_part_that_holds_most_of_it() -> None:
    parts = [Part("tags", 0, 5), Part("columns", 5, 9), Part("tables", 12, 15)]
    tokens = ["<sql", ">sel", "", "ect", "xx", "y", "phone"]
    #          0-4     4-8    8  8-11   11-13 13-14 14-19
    assert token_parts(tokens, parts) == [
        "tags", "columns", "columns", "columns", "tables", "tables", "tables",
    ]  # fmt: skip
    assert token_parts(["a", "b"], []) == ["", ""]
    assert token_parts(["ab"], [Part("late", 2, 3)]) == [""]
