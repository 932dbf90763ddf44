"""The supervised start: what a demonstration is told, the loss, and the resume."""

from __future__ import annotations

import copy
import itertools
import math
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import Letters, number_policy, prompt, text_policy, tiny_settings, weights_equal

from mrtpo import checkpoint, warmstart
from mrtpo.config import Model, Settings
from mrtpo.induction import THETA, look_back, repeating
from mrtpo.loading import new_policy
from mrtpo.warmstart import (
    DEALT,
    Optimizers,
    Row,
    backward,
    collate,
    copying_of,
    dealt,
    example,
    noise_of,
    rate,
    response_loss,
    start,
    supervised,
    taught_to_copy,
    tokenizer_texts,
)

PROMPTS = [prompt(n) for n in range(6)]


def settings(**changes: Any) -> Settings:
    return tiny_settings(
        {
            "model": {"hidden_size": 16, "layers": 1, "heads": 2, "vocab_size": 300,
                      "device": "cpu"},
            "warmstart": {"steps": 6, "batch_size": 3, "noise": {"letter": 1.0}, **changes},
        }
    )  # fmt: skip


@pytest.mark.parametrize(("noise", "used"), [(None, 0.5), ({}, 0.0), ({"letter": 1.0}, 1.0)])
def test_without_named_noise_the_tasks_own_counts(
    noise: dict[str, float] | None, used: float
) -> None:
    assert noise_of(Letters(), settings(noise=noise)).get("letter", 0.0) == used


@pytest.mark.parametrize(("copying", "used"), [(None, 0), (3, 3)])
def test_steps_of_copying_are_the_tasks_own_or_those_asked_for(
    copying: int | None, used: int
) -> None:
    assert copying_of(Letters(), settings(copying=copying)) == used


def test_a_decoder_that_begins_with_heads_for_it_learns_to_copy() -> None:
    asked = settings(copying=40).model_copy(update={"model": Model(vocab_size=300, device="cpu")})
    losses = {}
    for copies in (True, False):
        tokenizer = text_policy().tokenizer
        policy = new_policy(tokenizer, asked.model, 128, seed=0, theta=THETA)
        if copies:
            look_back(policy.model, 0)
        taught_to_copy(policy, 40, asked)
        ids_BL, start = repeating(len(tokenizer), 16, torch.Generator().manual_seed(9))
        labels_BL = ids_BL.clone()
        labels_BL[:, :start] = -100
        with torch.no_grad():
            losses[copies] = float(
                response_loss(policy.model, ids_BL, torch.ones_like(ids_BL), labels_BL)
            )
    assert losses[True] < losses[False] - 1.0


def test_a_batch_is_padded_on_the_right_and_labels_responses_and_what_is_told() -> None:
    ids, mask, labels = collate([Row([1, 2], [3, 4], 2), Row([5, 7], [6], 1)], 9)
    assert ids.tolist() == [[1, 2, 3, 4], [5, 7, 6, 9]]
    assert mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert labels.tolist() == [[-100, -100, 3, 4], [-100, 7, 6, -100]]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_loss_is_the_mean_over_response_tokens_of_plain_rows(kind: str) -> None:
    policy = number_policy(kind)
    rows = [Row([1, 2, 3], [4, 5, 0], 3), Row([6], [7], 1), Row([8, 9, 1, 2, 3], [5, 0], 5)]
    loss = response_loss(policy.model, *collate(rows, policy.pad_id))
    total, count = 0.0, 0
    with torch.no_grad():
        for context, response, _ in rows:
            logits = policy.model(torch.tensor([context + response])).logits[0].double()
            logps = logits.log_softmax(-1)
            for t, token in enumerate(response):
                total -= float(logps[len(context) - 1 + t, token])
                count += 1
    assert float(loss.detach()) == pytest.approx(total / count, rel=1e-5)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_gradient_of_two_halves_is_that_of_the_whole(size: int) -> None:
    policy = text_policy()
    rng = random.Random(size)
    rows = [example(policy, Letters(), p, settings(told=0.5), rng) for p in PROMPTS[:size]]
    whole = response_loss(policy.model, *collate(rows, policy.pad_id))
    weights = list(policy.model.parameters())
    expected = torch.autograd.grad(whole, weights)
    with ThreadPoolExecutor(2) as threads:
        assert backward(policy, rows, threads) == pytest.approx(float(whole.detach()), rel=1e-5)
        found = [place.grad.clone() for place in weights if place.grad is not None]
        backward(policy, rows, threads)
    assert len(found) == len(weights)
    for place, one, other in zip(weights, found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
        assert place.grad is not None and torch.equal(place.grad, one)


def test_the_rate_rises_over_a_twentieth_and_falls_to_a_tenth() -> None:
    asked = settings(steps=100, learning_rate=2.0)
    rates = [rate(step, asked) for step in range(100)]
    assert rates[:5] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    assert max(rates) == 2.0
    assert all(b <= a for a, b in itertools.pairwise(rates[5:]))
    assert rates[-1] == pytest.approx(0.2, rel=0.02)
    assert rate(0, settings(steps=1)) > 0


@pytest.mark.parametrize(("told", "answer"), [(1.0, "abc"), (0.0, "123")])
def test_a_demonstration_is_faultless_in_what_is_told_and_errs_in_what_is_not(
    told: float, answer: str
) -> None:
    policy = text_policy()
    asked = settings(told=told)
    prompt_ids, response_ids, start = example(
        policy, Letters(), PROMPTS[1], asked, random.Random(0)
    )
    shown = policy.tokenizer.decode(prompt_ids)
    assert ("Answer with letters." in shown) == ("Plain means plain 1." in shown) == bool(told)
    assert response_ids[-1] in policy.end_ids
    before = policy.tokenizer.decode(prompt_ids[:start])
    assert (start == len(prompt_ids)) == (not told)
    assert "Answer with letters." not in before and "Plain means plain" not in before
    assert policy.text(response_ids) == answer


def test_hands_follow_from_seed_and_number_and_lie_by_length() -> None:
    policy = text_policy()
    asked = settings()
    hand = dealt(policy, Letters(), PROMPTS, asked, 2)
    assert hand == dealt(policy, Letters(), PROMPTS, asked, 2)
    assert hand != dealt(policy, Letters(), PROMPTS, asked, 3)
    assert [len(batch) for batch in hand] == [3] * DEALT
    ranges = sorted((min(n), max(n)) for n in ([row.length for row in b] for b in hand))
    assert all(high <= low for (_, high), (low, _) in itertools.pairwise(ranges))


def test_the_tokenizer_sees_all_information_and_faultless_answers() -> None:
    texts = tokenizer_texts(PROMPTS[:2], Letters(), 0)
    assert len(texts) == 2 * 3  # two turns and an answer
    for said in ("Answer with letters.", "Plain means plain 1.", "abc"):
        assert any(said in text for text in texts), said
    assert "123" not in texts


def test_the_optimizers_share_out_all_weights_and_resume_exactly() -> None:
    def model() -> Any:
        return text_policy().model

    one, other = model(), model()
    optimizer = Optimizers(one)
    held = [p for m in optimizer.members for g in m.param_groups for p in g["params"]]
    assert {id(p) for p in held} == {id(p) for p in one.parameters()}
    assert len(held) == len({id(p) for p in held})

    def work(trained: Any, by: Optimizers, seed: int) -> None:
        ids = torch.randint(0, 200, (2, 9), generator=torch.Generator().manual_seed(seed))
        response_loss(trained, ids, torch.ones_like(ids), ids).backward()
        by.step(0.01)

    work(one, optimizer, 0)
    assert all(p.grad is None for p in one.parameters())
    other.load_state_dict(one.state_dict())
    resumed = Optimizers(other)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for seed in (1, 2):
        work(one, optimizer, seed)
        work(other, resumed, seed)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_start_that_was_killed_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warmstart, "CHECKPOINT_EVERY", 3)  # within the first hand
    monkeypatch.setattr(warmstart, "DEALT", 4)
    whole, metrics = supervised(settings(), PROMPTS, PROMPTS[:2], Letters(), tmp_path / "whole")

    class Dying(Letters):
        left = 14  # demonstrations: within the second hand

        def demonstration(self, *args: Any) -> str:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().demonstration(*args)

    texts = len(PROMPTS)  # the tokenizer's answers come first
    Dying.left += texts
    with pytest.raises(KeyboardInterrupt):
        supervised(settings(), PROMPTS, PROMPTS[:2], Dying(), tmp_path / "killed")
    assert [p.name for p in checkpoint.completed(tmp_path / "killed")] == ["step-000003"]
    resumed, again = supervised(settings(), PROMPTS, PROMPTS[:2], Letters(), tmp_path / "killed")
    assert weights_equal(resumed, whole)
    assert again == metrics
    assert not weights_equal(whole, start(settings(), PROMPTS, Letters()))


def test_the_start_learns_what_it_is_shown_and_measures_what_it_can(tmp_path: Path) -> None:
    asked = settings(steps=60, batch_size=4, learning_rate=0.02, noise={}, told=1.0)
    policy, metrics = supervised(asked, PROMPTS, PROMPTS[:2], Letters(), tmp_path)
    assert metrics["loss"] < 2.0 < math.log(300)
    assert not policy.model.training
    assert set(metrics) == {"loss", "train", "valid", "valid_greedy", "told"}
    assert set(metrics["told"]) == {"all", "letter", "plain"}
    assert metrics["told"]["all"]["letter"] > 0.9


def test_where_all_stands_in_the_prompts_the_start_is_measured_without_it(tmp_path: Path) -> None:
    rule = prompt().information[0]
    stated = [replace(p, information=(rule,)) for p in PROMPTS]
    _, metrics = supervised(settings(), stated, stated[:2], Letters(), tmp_path)
    assert set(metrics["told"]) == {"nothing"}


def test_a_loss_that_is_no_number_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(model: Any, *_: Any) -> torch.Tensor:
        return sum(weight.sum() for weight in model.parameters()) * math.nan

    monkeypatch.setattr(warmstart, "response_loss", broken)
    with pytest.raises(ValueError, match=r"warmstart: the loss is nan at step 1; lower"):
        supervised(settings(), PROMPTS, PROMPTS[:2], Letters(), tmp_path)
    assert checkpoint.completed(tmp_path) == []
