"""Signal, noise and direction of gradients: estimates beside loops, gradients beside autograd."""

import pytest
import torch
from helpers import Letters, prompt, text_policy, tiny_settings

from benchmarks.gradients import (
    PLAN,
    batches,
    between,
    compared,
    cosine,
    gradients,
    interval,
    products,
    read_variants,
    signal,
    table,
)
from mrtpo.config import load_settings, with_overrides
from mrtpo.credit import assign
from mrtpo.logprobs import plain_logps

GENERATOR = torch.Generator().manual_seed(0)
MEAN_P = torch.tensor([3.0, 4.0, 0.0, 0.0])


def noisy(count, noise, mean_P=MEAN_P):
    return mean_P + noise * torch.randn(count, len(mean_P), generator=GENERATOR)


def test_products_of_different_batches_are_those_of_a_loop():
    left_NP, right_NP = noisy(5, 1.0), noisy(5, 1.0)
    drawn = [0, 0, 2, 4]
    pairs = [
        float(left_NP[i].double() @ right_NP[j].double()) for i in drawn for j in drawn if i != j
    ]
    found = between(products(left_NP, right_NP), torch.tensor(drawn))
    assert found == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


def test_signal_is_the_squared_mean_over_the_noise():
    g_NP = noisy(4000, 5.0)
    found = signal(products(g_NP, g_NP), torch.arange(len(g_NP)))
    assert found == pytest.approx(25 / (4 * 25), rel=0.1)


def test_noise_alone_is_no_signal():
    g_NP = noisy(2000, 1.0, torch.zeros(4))
    assert abs(signal(products(g_NP, g_NP), torch.arange(len(g_NP)))) < 0.01


def test_noise_does_not_turn_the_direction():
    left_NP, right_NP = noisy(2000, 5.0), noisy(2000, 5.0, torch.tensor([4.0, 3.0, 0.0, 0.0]))
    found = cosine(
        products(left_NP, left_NP), products(right_NP, right_NP), products(left_NP, right_NP),
        torch.arange(2000),
    )  # fmt: skip
    assert found == pytest.approx(24 / 25, abs=0.03)


def test_an_interval_holds_the_value_of_all_and_is_the_same_again():
    values_N = torch.randn(50, generator=GENERATOR)
    middle, low, high = interval(lambda draw: float(values_N[draw].mean()), 50)
    assert low < middle < high and middle == pytest.approx(float(values_N.mean()), abs=1e-4)
    assert interval(lambda draw: float(values_N[draw].mean()), 50) == [middle, low, high]


def test_gradients_are_those_of_the_weighted_log_probabilities():
    settings = with_overrides(
        tiny_settings(), ["train.method=gdpo", "rewards.weights={plain: 2.0}"]
    )
    variants = {"gdpo": settings, "mrtpo": with_overrides(settings, ["train.method=mrtpo"])}
    policy, task, prompts = text_policy(), Letters(), [prompt(0), prompt(1)]
    ((asked, rollouts),) = batches(policy, task, prompts, settings, 1)
    found = gradients(policy, task, asked, rollouts, variants)
    for name, own in variants.items():
        credit = assign(policy, asked, rollouts, task.reward_names, own, own.replay.mix_start)
        total = torch.zeros(())
        for b, (of, rollout) in enumerate(zip(asked, rollouts, strict=True)):
            ids = policy.prompt_ids(of.messages)
            logps_T = plain_logps(policy, ids, rollout.response_ids, settings.sampling.temperature)
            total = total + (credit.advantages_BT[b, : len(logps_T)] * logps_T).sum()
        total = total / sum(len(rollout.response_ids) for rollout in rollouts)
        plain = torch.autograd.grad(total, list(policy.model.parameters()))
        expected_P = torch.cat([part.flatten() for part in plain])
        assert expected_P.abs().max() > 0
        torch.testing.assert_close(found[name], expected_P, atol=1e-6, rtol=1e-4)


def test_variants_are_compared_with_gdpo_and_known_spans():
    even_NP, sharp_NP = noisy(300, 8.0), noisy(300, 2.0)
    rows = compared({"gdpo": even_NP, "oracle_max": sharp_NP}, "gdpo", "oracle_max")
    assert rows[0]["times"][0] == 1.0 and rows[1]["times"][0] > 4
    assert rows[1]["cosine oracle_max"][0] == pytest.approx(1.0)
    head, _, *lines = table(rows, "gdpo", "oracle_max").splitlines()
    assert (
        head == "| variant | norm | signal | × gdpo | cosine with gdpo | cosine with oracle_max |"
    )
    assert len(lines) == 2 and lines[1].startswith("| oracle_max | ")


def test_the_plan_names_settings_that_there_are():
    plan = read_variants(PLAN, [])
    assert {"gdpo", "oracle_max"} <= set(plan)
    for changes in plan.values():
        with_overrides(load_settings(PLAN.parents[1] / "params.yaml"), changes)


def test_variants_that_are_asked_for_are_compared_with_gdpo_and_an_unknown_one_is_named():
    assert list(read_variants(PLAN, ["kl"])) == ["gdpo", "kl"]
    with pytest.raises(ValueError, match=r"gradients.yaml: variants: no kll; there are: gdpo; "):
        read_variants(PLAN, ["kll"])


def test_the_plans_mrtpo_is_the_default_with_weights_in_full():
    base = load_settings(PLAN.parents[1] / "params.yaml")
    made = with_overrides(base, read_variants(PLAN, [])["mrtpo"]).replay
    assert made == base.replay.model_copy(update={"mix_start": 1.0})
