"""Sampling: what a row draws, keeps and where it stops."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers import KINDS, number_policy

from mrtpo.generate import generate, pick, uniforms
from mrtpo.logprobs import plain_logps, response_logps
from mrtpo.policy import Policy
from mrtpo.records import Rollout

PROMPTS = [("a", [3, 1, 4]), ("b", [1]), ("c", [5, 9, 2, 6, 5, 3])]


def made(policy: Policy, prompts: Any = PROMPTS, **changes: Any) -> list[Rollout]:
    asked = dict(samples=4, temperature=1.0, max_new_tokens=8, seed=1, step=2)
    return generate(policy, prompts, **(asked | changes))


def by_key(rollouts: list[Rollout]) -> dict[tuple[str, int], Rollout]:
    return {(r.prompt_id, r.sample): r for r in rollouts}


def assert_same(one: Rollout, other: Rollout) -> None:
    assert one.response_ids == other.response_ids
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert (one.prompt_ids, one.finished) == (other.prompt_ids, other.finished)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_what_a_row_samples_does_not_depend_on_its_batch(kind: str) -> None:
    policy = number_policy(kind)
    together = by_key(made(policy))
    assert len(together) == 12
    for order in (PROMPTS[::-1], PROMPTS[1:], PROMPTS[:1]):
        for key, rollout in by_key(made(policy, order)).items():
            assert_same(rollout, together[key])
    for key, rollout in by_key(made(policy, samples=2)).items():
        assert_same(rollout, together[key])


def test_rows_come_prompt_by_prompt_and_sample_by_sample() -> None:
    rollouts = made(number_policy())
    expected = [(name, g) for name, _ in PROMPTS for g in range(4)]
    assert [(r.prompt_id, r.sample) for r in rollouts] == expected
    assert all(r.prompt_ids == tuple(dict(PROMPTS)[r.prompt_id]) for r in rollouts)


def test_a_longer_limit_only_lengthens() -> None:
    policy = number_policy(ends=(0,))
    short, long = made(policy, max_new_tokens=3), made(policy, max_new_tokens=12)
    for one, other in zip(short, long, strict=True):
        assert other.response_ids[: len(one.response_ids)] == one.response_ids
    assert any(len(other.response_ids) > 3 for other in long)


def test_draws_differ_by_seed_step_prompt_and_sample_and_repeat_exactly() -> None:
    keys = list(itertools.product((0, 1), (0, 1), ("p", "q"), (0, 1)))
    rows = {key: uniforms(*key, count=5).tolist() for key in keys}
    assert len({tuple(row) for row in rows.values()}) == len(keys)
    assert all(uniforms(*key, count=5).tolist() == row for key, row in rows.items())
    assert all(0 <= u < 1 for row in rows.values() for u in row)
    # No two keys are joined to the same text: step 1 of prompt "2" is not step 12 of another.
    assert uniforms(0, 1, "2", 3, 2).tolist() != uniforms(0, 12, "", 3, 2).tolist()


def test_rows_of_a_group_differ_and_so_do_steps() -> None:
    policy = number_policy()
    rollouts = made(policy)
    for name, _ in PROMPTS:
        assert len({r.response_ids for r in rollouts if r.prompt_id == name}) > 1
    assert [r.response_ids for r in made(policy, step=3)] != [r.response_ids for r in rollouts]
    assert [r.response_ids for r in made(policy, seed=2)] != [r.response_ids for r in rollouts]
    assert [r.response_ids for r in made(policy)] == [r.response_ids for r in rollouts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [1.0, 0.5, 1.7])
def test_stored_log_probabilities_are_those_of_teacher_forcing(
    kind: str, temperature: float
) -> None:
    policy = number_policy(kind)
    rollouts = made(policy, temperature=temperature)
    contexts = [ids for _, ids in PROMPTS]
    with torch.no_grad():
        logps_BT, _ = response_logps(
            policy, contexts, [r.response_ids for r in rollouts],
            [b // 4 for b in range(12)], temperature,
        )  # fmt: skip
        for b, rollout in enumerate(rollouts):
            stored = torch.tensor(rollout.logprobs)
            plain = plain_logps(policy, rollout.prompt_ids, rollout.response_ids, temperature)
            torch.testing.assert_close(stored, plain, rtol=0, atol=1e-5)
            # So the first on-policy ratio is 1.
            ratio_T = (logps_BT[b, : len(stored)] - stored).exp()
            torch.testing.assert_close(ratio_T, torch.ones_like(ratio_T), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_greedy_is_the_plain_loop_over_the_likeliest_token(kind: str) -> None:
    policy = number_policy(kind, ends=(0, 7))
    for rollout in made(policy, samples=1, temperature=0.0):
        ids = list(rollout.prompt_ids)
        for _ in range(8):
            with torch.no_grad():
                ids.append(int(policy.model(torch.tensor([ids])).logits[0, -1].argmax()))
            if ids[-1] in (0, 7):
                break
        assert rollout.response_ids == tuple(ids[len(rollout.prompt_ids) :])
        with torch.no_grad():
            plain = plain_logps(policy, rollout.prompt_ids, rollout.response_ids, 1.0)
        assert rollout.logprobs == pytest.approx(plain.tolist(), abs=1e-5)


def test_every_end_id_stops_a_row_is_kept_and_nothing_follows() -> None:
    policy = number_policy(ends=(0, 5, 11), std=0.2)
    rollouts = made(policy, samples=40)
    ended = set()
    for rollout in rollouts:
        assert len(rollout.response_ids) == len(rollout.logprobs) >= 1
        assert not set(rollout.response_ids[:-1]) & {0, 5, 11}
        assert rollout.finished == (rollout.response_ids[-1] in (0, 5, 11))
        assert rollout.finished or len(rollout.response_ids) == 8
        if rollout.finished:
            ended.add(rollout.response_ids[-1])
    assert ended == {0, 5, 11}
    assert any(not r.finished for r in rollouts)


def test_the_last_token_may_still_end_a_row() -> None:
    policy = number_policy(ends=(0, 5, 11), std=0.2)
    atonce = made(policy, samples=40, max_new_tokens=1)
    assert {len(r.response_ids) for r in atonce} == {1}
    assert {r.finished for r in atonce} == {True, False}


def test_rows_that_have_ended_leave_the_batch_and_an_ended_batch_stops() -> None:
    policy = number_policy(ends=tuple(range(1, 13, 2)), std=0.2)
    sizes: list[int] = []
    policy.model.base_model.register_forward_pre_hook(
        lambda _, args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    rollouts = made(policy, samples=8, max_new_tokens=30)
    lengths = [len(r.response_ids) for r in rollouts]
    assert max(lengths) < 30
    going = [sum(length > t for length in lengths) for t in range(1, max(lengths))]
    assert sizes == [len(PROMPTS), *going]
    assert going[-1] < going[0]


def test_text_is_the_response_without_its_end() -> None:
    policy = number_policy(ends=(0, 5))
    for rollout in made(policy):
        kept = [i for i in rollout.response_ids if i not in (0, 5)]
        assert rollout.text == " ".join(map(str, kept))


def test_a_prompt_that_leaves_no_room_is_named() -> None:
    policy = number_policy(positions=12)
    made(policy, [("fits", [1] * 4)])
    with pytest.raises(ValueError, match="prompt long: 5 tokens and max_new_tokens 8"):
        made(policy, [("fits", [1] * 4), ("long", [1] * 5)])


def chi_square(counts: dict[Any, int], expected: dict[Any, float]) -> float:
    assert set(counts) <= set(expected)
    return sum((counts.get(key, 0) - want) ** 2 / want for key, want in expected.items())


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_first_tokens_are_drawn_as_often_as_their_probability_says(temperature: float) -> None:
    policy = number_policy(std=0.25)
    rows = 3000
    counts: dict[int, int] = {}
    for rollout in made(
        policy, [("a", [3, 1, 4])], samples=rows, max_new_tokens=1, temperature=temperature
    ):
        counts[rollout.response_ids[0]] = counts.get(rollout.response_ids[0], 0) + 1
    with torch.no_grad():
        logits_V = policy.model(torch.tensor([[3, 1, 4]])).logits[0, -1].double()
    expected = (logits_V / temperature).softmax(-1) * rows
    assert float(expected.min()) > 5
    # 12 degrees of freedom: 32.9 is passed once in a thousand, and the seeds are fixed.
    assert chi_square(counts, dict(enumerate(expected.tolist()))) < 32.9


def test_whole_responses_are_drawn_as_often_as_their_probability_says() -> None:
    policy = number_policy(vocab=4, ends=(0,), std=0.15)
    rows = 3000
    counts: dict[tuple[int, ...], int] = {}
    for rollout in made(policy, [("a", [3, 1])], samples=rows, max_new_tokens=2):
        counts[rollout.response_ids] = counts.get(rollout.response_ids, 0) + 1
    outcomes = [(0,), *itertools.product((1, 2, 3), range(4))]
    with torch.no_grad():
        expected = {
            ids: rows * float(plain_logps(policy, [3, 1], ids, 1.0).double().sum().exp())
            for ids in outcomes
        }
    assert sum(expected.values()) == pytest.approx(rows, rel=1e-5)
    assert min(expected.values()) > 5
    assert chi_square(counts, expected) < 32.9  # 12 degrees of freedom again


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    logps_AV = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]).log().repeat(5, 1)
    draw_A = torch.tensor([0.0, 0.499999, 0.5, 0.75, 1 - 1e-12], dtype=torch.float64)
    token_A, logp_A = pick(logps_AV, draw_A, 1.0)
    assert token_A.tolist() == [1, 1, 3, 3, 3]
    assert logp_A.tolist() == pytest.approx([-0.6931472] * 5)
