"""The measurement of attributions against plain forward passes, and its tables."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import prompt, text_policy

from benchmarks.attribution_quality import confused, summarised
from benchmarks.attribution_scores import (
    DISTANCES,
    FORMS,
    Case,
    measured,
    neutral_block,
    with_block,
)
from benchmarks.attribution_tables import figure_of, tables
from mrtpo.contexts import chosen_information, informed
from mrtpo.policy import Policy
from mrtpo.records import Message, Rollout

TEMPERATURE = 0.7


def case(policy: Policy, signs: tuple[int, int] = (1, -1)) -> Case:
    asked = prompt(0)
    ids = (*policy.tokenizer.encode("Plain Answer be letters."), policy.tokenizer.eos_token_id)
    text = policy.text(ids)
    rollout = Rollout(
        asked.id, 0, policy.prompt_ids(asked.messages), ids, (0.0,) * len(ids), text, True
    )
    spans = {"letter": [(0, 5)], "plain": [(6, 9), (len(text), len(text) + 1)]}
    return Case("tools", asked.id, asked, rollout, dict(zip(spans, signs, strict=True)), spans)


def plain_logps(policy: Policy, messages: Any, response: tuple[int, ...]) -> torch.Tensor:
    """Log-distributions (T, V) in float64 by one pass over one row."""
    context = policy.prompt_ids(messages)
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*context, *response]])).logits[0].double()
    return (logits[len(context) - 1 : -1] / TEMPERATURE).log_softmax(-1)


def slow_auroc(distance: list[float], inside: list[bool]) -> float:
    good = [d for d, own in zip(distance, inside, strict=True) if own]
    bad = [d for d, own in zip(distance, inside, strict=True) if not own]
    return sum((g > b) + 0.5 * (g == b) for g in good for b in bad) / (len(good) * len(bad))


def test_each_form_compares_its_two_contexts():
    policy = text_policy()
    made = case(policy)
    ids, asked = made.rollout.response_ids, made.prompt
    rows, lies = measured(policy, made, {}, TEMPERATURE)
    chosen = chosen_information(asked, {})
    both = informed(asked, chosen, {"letter", "plain"})
    block = neutral_block(policy, chosen["plain"].text)
    pairs = {
        "leave_one_out": (both, informed(asked, chosen, {"letter"})),
        "add_one_in": (informed(asked, chosen, {"plain"}), informed(asked, chosen, set())),
        "placebo": (with_block(both, block), both),
    }
    pieces = policy.pieces(ids)
    starts = [len("".join(pieces[:t])) for t in range(len(pieces))]
    inside = [
        any(s < start + len(piece) and e > start for s, e in made.spans["plain"])
        for start, piece in zip(starts, pieces, strict=True)
    ]
    for form, (told, untold) in pairs.items():
        p_TV, q_TV = (plain_logps(policy, messages, ids) for messages in (told, untold))
        delta = [float(p_TV[t, i] - q_TV[t, i]) for t, i in enumerate(ids)]
        tv = [float((p.exp() - q.exp()).abs().sum() / 2) for p, q in zip(p_TV, q_TV, strict=True)]
        slow = {
            "abs_logprob": [abs(d) for d in delta],
            "directional_logprob": [max(0.0, -d) for d in delta],
            "tv": tv,
        }
        for name, distance in slow.items():
            (row,) = [
                r for r in rows
                if (r["reward"], r["form"], r["distance"], r["pool"])
                == ("plain", form, name, "none")
            ]  # fmt: skip
            assert row["sum"] == pytest.approx(sum(distance), rel=1e-4)
            assert row["auroc"] == pytest.approx(slow_auroc(distance, inside))
            assert row["verdict"] == "fail"
            if form == "leave_one_out":
                (own,) = [
                    r for r in lies
                    if (r["reward"], r["on"], r["distance"]) == ("plain", "plain", name)
                ]  # fmt: skip
                assert own["share"] == pytest.approx(row["share"], rel=1e-5)
                assert own["uniform"] == pytest.approx(sum(inside) / len(inside))


def test_a_null_replay_finds_rounding_alone():
    policy = text_policy()
    rows, _ = measured(policy, case(policy), {}, TEMPERATURE)
    null = [r for r in rows if r["form"] == "null" and r["distance"] == "abs_logprob"]
    other = [r for r in rows if r["form"] == "placebo" and r["distance"] == "abs_logprob"]
    assert len(null) == 2 and all(r["largest"] < 1e-5 for r in null)
    assert all(r["largest"] > 1e-2 for r in other)


def test_the_verdict_turns_directional_distances_and_no_others():
    policy = text_policy()
    passed, failed = (
        {
            (r["reward"], r["distance"]): r["sum"]
            for r in measured(policy, case(policy, signs), {}, TEMPERATURE)[0]
            if (r["form"], r["pool"]) == ("leave_one_out", "none")
        }
        for signs in ((1, 1), (-1, -1))
    )
    for reward in ("letter", "plain"):
        for name in DISTANCES:
            key = reward, name
            assert (passed[key] == failed[key]) == (not name.startswith("directional"))
        together = passed[reward, "directional_logprob"] + failed[reward, "directional_logprob"]
        assert together == pytest.approx(passed[reward, "abs_logprob"], rel=1e-5)


def test_a_response_that_leaves_no_room_or_has_no_label_is_not_measured():
    policy = text_policy()
    assert measured(policy, replace(case(policy), spans={}), {}, 1.0) == ([], [])
    policy.max_positions = 40
    assert measured(policy, case(policy), {}, 1.0) == ([], [])


def test_the_neutral_block_has_as_many_tokens_as_the_text_and_ends_the_last_user_turn():
    policy = text_policy()
    text = "Be plain. " * 12
    size = len(policy.tokenizer.encode(text))
    block = neutral_block(policy, text)
    longest_word = max(len(policy.tokenizer.encode(word)) for word in block.split())
    assert size <= len(policy.tokenizer.encode(block)) < size + longest_word + 1
    turns = [Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    assert with_block(turns, "X")[-1] == Message("user", "c\nX") and turns[-1].content == "c"


def made_up() -> list[dict[str, Any]]:
    """Rows of two responses in which leave-one-out finds all, and the placebo half."""
    return [
        {"task": "tools", "cluster": cluster, "reward": "format", "verdict": verdict, "form": form,
         "distance": distance, "pool": "none", "sum": 2.0, "largest": 1.0, "share": 0.5,
         "uniform": 0.25, "hit@1": 1.0, "hit@3": 1.0,
         "auroc": 1.0 if form == "leave_one_out" else 0.5}
        for cluster, verdict in (("a", "pass"), ("b", "fail"))
        for form in FORMS for distance in DISTANCES
    ]  # fmt: skip


def test_rewards_and_verdicts_are_also_summarised_together():
    found = summarised(made_up())
    (row,) = [
        r for r in found
        if (r["reward"], r["verdict"], r["form"], r["distance"])
        == ("all", "all", "leave_one_out", "js")
    ]  # fmt: skip
    assert row["n"] == 2 and row["auroc"] == [1.0, 1.0, 1.0] and row["uniform"] == 0.25
    verdicts = {r["verdict"]: r["n"] for r in found if r["reward"] == "format"}
    assert verdicts == {"pass": 1, "fail": 1, "all": 2}


def test_tables_show_the_settings_that_are_in_force_and_the_placebo(tmp_path: Path):
    lies = [
        {"task": "tools", "cluster": "a", "reward": "format", "on": on, "distance": "js",
         "share": share, "uniform": 0.25}
        for on, share in (("format", 0.75), ("correctness", math.nan))
    ]  # fmt: skip
    summary = summarised(made_up())
    text = tables(
        {
            "about": "Two.",
            "summary": summary,
            "confusion": confused(lies),
            "default": {"form": "leave_one_out", "distance": "js", "pool": "none"},
        }
    )
    assert "| tools | format | fail | 1 | 0.25 | 0.50 (0.50 to 0.50) | 1.00" in text
    assert "| 1.00 (1.00 to 1.00) | 0.50, 0.50 |" in text
    assert "| tv | 0.50 / 1.00 / 1.00 | 0.50 / 1.00 / 1.00 |" in text
    assert "| tv | 1.00 / 0.50 / 0.50 | 1.00 / 0.50 / 0.50 |" in text
    assert "| tools | format | format | 1 | 0.75 (0.75 to 0.75) [0.25] |" in text
    assert "| tools | format | correctness |" not in text
    figure_of(summary, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
