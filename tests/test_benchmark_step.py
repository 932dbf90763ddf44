"""The pure parts of the benchmarks of a step: ratios, targets, tables, prompts, formulas."""

import numpy as np
import pytest

from benchmarks.fixture import (
    Checksums,
    as_text,
    check_prompts,
    make_prompts,
    new_tokenizer,
    reward_value,
    step_settings,
)
from benchmarks.scaling import BASE, VARIED, curve, points
from benchmarks.step import CASES, TARGETS, Steps, judged, speedup, table
from benchmarks.values import compared, formula, relative_norm
from mrtpo.policy import Policy


def steps(*walls: float, peak: float = 100.0) -> Steps:
    phases = {"generate": 0.5, "update": 0.25}
    return Steps(list(walls), [w / 2 for w in walls], [phases] * len(walls), 500.0, peak, peak)


def policy() -> Policy:
    return Policy(None, new_tokenizer(), frozenset({4096}), 0, 4096)


def test_a_ratio_is_the_median_within_rounds_and_not_of_medians():
    assert speedup([1.0, 10.0, 2.0], [3.0, 20.0, 8.0]) == 3.0


def test_rounds_must_match():
    with pytest.raises(ValueError):
        speedup([1.0], [1.0, 2.0])


def test_targets_are_judged_at_their_length_and_clock():
    measured = {"trl_gdpo": steps(3.0, 3.0), "gdpo": steps(1.0, 1.0, peak=50.0)}
    short = {v["what"]: v for v in judged(96, measured)}
    assert short["gdpo ≥ 2.5× as fast as trl_gdpo"]["met"]
    assert short["gdpo: peak memory below TRL's"]["found"] == 0.5
    long = {v["what"]: v for v in judged(512, measured)}
    assert not long["gdpo ≥ 3.5× as fast as trl_gdpo"]["met"]
    measured["gdpo"].cpus = [1.4, 1.4]
    assert not judged(96, measured, "cpus")[0]["met"]


def test_memory_is_held_against_the_leaner_trl():
    measured = {
        "trl_grpo": steps(1.0, peak=90.0),
        "trl_gdpo": steps(1.0, peak=110.0),
        "mrtpo_k3": steps(1.0, peak=100.0),
    }
    assert not next(v for v in judged(96, measured) if "memory" in v["what"])["met"]


def test_a_case_without_trl_still_has_a_table():
    measured = {"gdpo_k12": steps(1.0), "mrtpo_k12": steps(1.5)}
    assert [v["met"] for v in judged(96, measured)] == [True]
    lines = table("0.9M-96", measured)
    assert len(lines) == 3 and "trl" not in lines[0]
    assert lines[1].split()[:3] == ["gdpo_k12", "1000", "500"]


def test_every_target_belongs_to_a_case():
    assert {target.tokens for target in TARGETS} <= {tokens for _, tokens in CASES.values()}


@pytest.mark.parametrize(
    ("tokens", "rewards", "where"), [(96, 3, "append"), (96, 12, "prompt"), (512, 12, "prompt")]
)
def test_prompts_have_their_length_on_both_sides(tokens, rewards, where):
    prompts = make_prompts(2, tokens, rewards, where)
    check_prompts(policy(), prompts, tokens)
    with pytest.raises(ValueError, match=f"{tokens} ids"):
        check_prompts(policy(), prompts, tokens + 1)


def test_information_stands_in_the_prompt_once_or_not_at_all():
    for rewards, where, times in ((3, "append", 0), (12, "prompt", 1)):
        (prompt,) = make_prompts(1, 96, rewards, where)
        assert [entry.reward for entry in prompt.information] == [f"r{k}" for k in range(rewards)]
        (message,) = prompt.messages
        assert {message.content.count(entry.text) for entry in prompt.information} == {times}


def test_rewards_depend_on_text_and_reward_alone():
    task = Checksums(2)
    (one, other) = task.verify([], ["w1 w2", "w2 w1"])
    assert [r.value for r in one.rewards] == [reward_value(0, "w1 w2"), reward_value(1, "w1 w2")]
    assert one.rewards[0].value != one.rewards[1].value != other.rewards[1].value
    assert as_text(make_prompts(1, 5, 1, "append")[0]).split()[0] == "<user>"


def test_settings_are_ours_but_for_what_the_comparison_fixes():
    settings = step_settings("mrtpo", distance="js", response=32)
    assert (settings.train.kl, settings.train.epochs, settings.sampling.max_new_tokens) == (
        0,
        1,
        32,
    )
    assert settings.replay.distance == "js"


def test_every_scaling_point_is_measured_once_and_belongs_to_its_curve():
    measured = points()
    assert len(measured) == sum(map(len, VARIED.values())) - len(BASE) + 1
    for name, values in VARIED.items():
        assert [entry[name] for entry in curve(measured, name)] == list(values)


def test_formulas_of_the_advantages():
    rewards = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [5.0, 5.0]])
    grpo = formula(rewards, 2, "grpo", 0.0)
    assert grpo == pytest.approx(np.array([-1, 1, -1, 1]) / 2**0.5)
    gdpo = formula(rewards, 2, "gdpo", 0.0)
    assert gdpo == pytest.approx(np.array([0, 0, -1, 1]) * 1.5**0.5)
    assert np.abs(formula(rewards, 2, "gdpo", 1e-4) - gdpo).max() > 1e-5


def test_comparison_of_two_sides():
    one = {"advantages": np.ones(2), "loss": 1.0, "gradients": {"a": np.array([3.0, 4.0])}}
    other = one | {"gradients": {"a": np.array([3.0, 4.5])}, "loss": 1.5}
    found = compared(one, other)
    assert found["loss"] == 0.5 and found["gradient_max"] == 0.5 and found["advantages"] == 0.0
    assert found["gradient"] == pytest.approx(0.5 / 29.25**0.5)
    assert found["gradient"] == relative_norm(one["gradients"]["a"], other["gradients"]["a"])
    with pytest.raises(ValueError, match="parameters"):
        compared(one, other | {"gradients": {"b": np.ones(2)}})
