"""Leave-one-out contexts, and the replay against plain forward passes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers import prompt, rollout, text_policy
from torch import Tensor

from mrtpo.attribution import DIRECTIONAL, DISTRIBUTIONAL
from mrtpo.contexts import chosen_information, informed
from mrtpo.generate import generate
from mrtpo.logprobs import plain_logps
from mrtpo.policy import Policy
from mrtpo.records import Information, Message, Prompt, Reward, Rollout
from mrtpo.replay import Replayed, replay

NAMES = ("letter", "plain")


def contents(messages: tuple[Message, ...]) -> list[str]:
    return [message.content for message in messages]


def test_all_information_is_the_prompt_with_what_is_appended() -> None:
    asked = prompt(1)
    chosen = chosen_information(asked, {})
    full = informed(asked, chosen, set(chosen))
    assert [m.role for m in full] == ["system", "user"]
    assert full[0] == asked.messages[0]
    assert full[1].content == asked.messages[1].content + "\nPlain means plain 1."


def test_appended_information_is_left_out_exactly() -> None:
    asked = prompt(1)
    chosen = chosen_information(asked, {})
    assert informed(asked, chosen, {"letter"}) == asked.messages


def test_information_of_the_prompt_is_taken_out_of_it_and_nothing_else_changes() -> None:
    asked = prompt(1, messages=(
        Message("system", "\n Answer with letters.\nBe brief.\n"),
        Message("user", "\n\nkeep my blank lines\n"),
    ))  # fmt: skip
    chosen = chosen_information(asked, {})
    without = informed(asked, chosen, {"plain"})
    assert "Answer with letters." not in "".join(contents(without))
    assert without[0].content.split() == ["Be", "brief."]
    assert without[1].content == "\n\nkeep my blank lines\n\nPlain means plain 1."
    untouched = informed(asked, chosen, {"letter"})
    assert untouched == asked.messages


def test_nothing_told_is_the_prompt_without_any_information() -> None:
    asked = prompt(2)
    bare = informed(asked, chosen_information(asked, {}), set())
    assert "letters" not in "".join(contents(bare))
    assert "Plain means" not in "".join(contents(bare))


def test_information_goes_to_the_last_user_turn() -> None:
    asked = prompt(1, messages=(
        Message("system", "Answer with letters."), Message("user", "first"),
        Message("assistant", "so"), Message("user", "second"), Message("assistant", "begun"),
    ))  # fmt: skip
    made = informed(asked, chosen_information(asked, {}), set(NAMES))
    assert contents(made)[1:] == ["first", "so", "second\nPlain means plain 1.", "begun"]


@pytest.mark.parametrize(
    ("system", "count"), [("Answer with letters. Answer with letters.", 2), ("Be brief.", 0)]
)
def test_a_text_that_does_not_stand_exactly_once_cannot_be_left_out(
    system: str, count: int
) -> None:
    asked = prompt(1, messages=(Message("system", system), Message("user", "Go")))
    chosen = chosen_information(asked, {})
    with pytest.raises(ValueError, match=f"prompt p1: .*reward letter stands {count} times"):
        informed(asked, chosen, {"plain"})


def test_a_text_that_stands_once_in_each_of_two_turns_cannot_be_left_out() -> None:
    twice = Message("user", "Answer with letters.")
    asked = prompt(1, messages=(Message("system", "Answer with letters."), twice))
    with pytest.raises(ValueError, match="stands 2 times"):
        informed(asked, chosen_information(asked, {}), {"plain"})


def test_the_first_variant_is_the_default_and_another_can_be_chosen() -> None:
    asked = prompt(1)
    assert chosen_information(asked, {})["plain"].variant == "rule"
    chosen = chosen_information(asked, {"plain": "verdict"})
    assert {name: entry.variant for name, entry in chosen.items()} == {
        "letter": "rule", "plain": "verdict",
    }  # fmt: skip
    made = informed(asked, chosen, set(NAMES), {"plain": "no ASCII in {it}"})
    assert made[1].content.endswith("\nThe judge says: no ASCII in {it}")
    assert "Plain means" not in made[1].content


@pytest.mark.parametrize("details", [None, {}, {"plain": ""}, {"letter": "another's"}])
def test_a_verifier_that_said_nothing_has_no_complaint(details: dict[str, str] | None) -> None:
    asked = prompt(1)
    chosen = chosen_information(asked, {"plain": "verdict"})
    assert informed(asked, chosen, set(NAMES), details)[1].content.endswith("says: no complaint")


@pytest.mark.parametrize(
    ("variants", "said"),
    [({"plain": "rumour"}, "plain: 'rumour' .*prompt p1; it offers: rule, verdict"),
     ({"colour": "rule"}, "colour: 'rule' .*it offers: nothing for this reward")],
)  # fmt: skip
def test_an_unknown_variant_or_reward_is_named(variants: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        chosen_information(prompt(1), variants)


def test_every_context_ends_in_the_same_ids() -> None:
    policy = text_policy()
    asked = prompt(1)
    chosen = chosen_information(asked, {})
    header = tuple(policy.tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n"))
    made = [policy.prompt_ids(informed(asked, chosen, told)) for told in
            (set(NAMES), {"letter"}, {"plain"}, set())]  # fmt: skip
    assert len(set(made)) == 4
    assert all(ids[-len(header) :] == header for ids in made)
    # And c shares its beginning with the sampling prompt, up to where the information is added.
    own = policy.prompt_ids(asked.messages)
    assert made[0][: len(own) - len(header)] == own[: -len(header)]


def replayed(
    policy: Policy, prompts: list[Prompt], rollouts: list[Rollout], advantages_BK: Tensor,
    **changes: Any,
) -> Replayed:  # fmt: skip
    asked = dict(distance="js", variants={}, temperature=0.7, token_budget=200)
    return replay(policy, prompts, rollouts, NAMES, advantages_BK, **(asked | changes))


def batch(policy: Policy, groups: int = 3) -> tuple[list[Prompt], list[Rollout]]:
    prompts = [prompt(n) for n in range(groups)]
    rollouts = generate(
        policy, [(p.id, policy.prompt_ids(p.messages)) for p in prompts], samples=2,
        temperature=0.7, max_new_tokens=7, seed=0, step=0,
    )  # fmt: skip
    rollouts = [
        replace(r, rewards=(Reward("letter", 1.0, "ok"), Reward("plain", 0.0, "ok", f"bad {b}")))
        for b, r in enumerate(rollouts)
    ]
    return [p for p in prompts for _ in range(2)], rollouts


def full_logps(policy: Policy, context: tuple[int, ...], response: tuple[int, ...]) -> Tensor:
    """Log-distributions (T, V) in float64 at temperature .7, by one plain pass."""
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*context, *response]])).logits[0].double()
    return (logits[len(context) - 1 : -1] / 0.7).log_softmax(-1)


def slow_distance(name: str, logp_TV: Tensor, logq_TV: Tensor, ids: tuple[int, ...]) -> list[float]:
    made = []
    for logp, logq, token in zip(logp_TV.tolist(), logq_TV.tolist(), ids, strict=True):
        pairs = [(math.exp(a), math.exp(b)) for a, b in zip(logp, logq, strict=True)]
        if name == "abs_logprob":
            made.append(abs(logp[token] - logq[token]))
        elif name == "js":
            made.append(
                sum(a * math.log(2 * a / (a + b)) + b * math.log(2 * b / (a + b)) for a, b in pairs)
                / 2
            )
        elif name == "kl":
            made.append(sum(a * math.log(a / b) for a, b in pairs))
        elif name == "reverse_kl":
            made.append(sum(b * math.log(b / a) for a, b in pairs))
        elif name == "tv":
            made.append(sum(abs(a - b) for a, b in pairs) / 2)
        else:
            made.append(math.sqrt(sum((a**0.5 - b**0.5) ** 2 for a, b in pairs) / 2))
    return made


@pytest.mark.parametrize("distance", [*DISTRIBUTIONAL, "abs_logprob", *DIRECTIONAL])
@pytest.mark.parametrize("variants", [{}, {"plain": "verdict"}])
def test_the_replay_is_that_of_plain_rows(distance: str, variants: dict[str, str]) -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    made = replayed(
        policy, prompts, rollouts, torch.ones(6, 2), distance=distance, variants=variants
    )
    assert made.live_BK.all() and not made.reasons
    undirected = DIRECTIONAL.get(distance, distance)
    largest = 0.0
    for b, (asked, answer) in enumerate(zip(prompts, rollouts, strict=True)):
        ids, length = answer.response_ids, len(answer.response_ids)
        chosen = chosen_information(asked, variants)
        details = {r.name: r.detail for r in answer.rewards}
        full = policy.prompt_ids(informed(asked, chosen, set(NAMES), details))
        logp_TV = full_logps(policy, full, ids)
        picked = torch.tensor(ids)[:, None]
        with_T = logp_TV.gather(1, picked)[:, 0].float()
        torch.testing.assert_close(
            made.with_BKT[b, :, :length], with_T.expand(2, -1), rtol=0, atol=1e-5
        )
        for k, name in enumerate(NAMES):
            context = policy.prompt_ids(informed(asked, chosen, set(NAMES) - {name}, details))
            logq_TV = full_logps(policy, context, ids)
            without_T = logq_TV.gather(1, picked)[:, 0].float()
            torch.testing.assert_close(
                made.without_BKT[b, k, :length], without_T, rtol=0, atol=1e-5
            )
            slow = slow_distance(undirected, logp_TV, logq_TV, ids)
            assert made.distance_BKT[b, k, :length].tolist() == pytest.approx(slow, abs=2e-5)
            torch.testing.assert_close(
                made.delta_BKT[b, k, :length], with_T - without_T, rtol=0, atol=2e-5
            )
            largest = max(largest, *slow)
        assert (made.distance_BKT[b, :, length:] == 0).all()
        assert (made.delta_BKT[b, :, length:] == 0).all()
    assert largest > 0.01  # the contexts make a difference that is no rounding


@pytest.mark.parametrize("budget", [1, 60, 100_000])
def test_how_the_replay_is_cut_changes_nothing(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    advantages_BK = torch.tensor([[1.0, -1.0], [0.0, 2.0], [1.0, 0.0]] * 2)
    before = replayed(policy, prompts, rollouts, advantages_BK)
    monkeypatch.setattr("mrtpo.replay.CHUNK_LOGITS", 3 * 2 * policy.model.config.vocab_size)
    after = replayed(policy, prompts, rollouts, advantages_BK, token_budget=budget)
    for name in ("with_BKT", "without_BKT", "distance_BKT"):
        torch.testing.assert_close(getattr(after, name), getattr(before, name), rtol=0, atol=1e-5)
    assert torch.equal(after.live_BK, before.live_BK)
    assert after.reasons == before.reasons


def test_the_order_of_rows_changes_nothing() -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    before = replayed(policy, prompts, rollouts, torch.ones(6, 2))
    order = [4, 0, 3, 5, 2, 1]
    after = replayed(
        policy, [prompts[b] for b in order], [rollouts[b] for b in order], torch.ones(6, 2)
    )
    torch.testing.assert_close(after.distance_BKT, before.distance_BKT[order], rtol=0, atol=1e-5)


def test_a_reward_without_advantage_is_not_replayed() -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    advantages_BK = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.5, 1.0],
                                  [0.5, -1.0]])  # fmt: skip
    made = replayed(policy, prompts, rollouts, advantages_BK)
    assert torch.equal(made.live_BK, advantages_BK != 0)
    assert made.reasons == {
        (b, k): "no advantage" for b in range(6) for k in range(2) if advantages_BK[b, k] == 0
    }
    assert (made.distance_BKT[~made.live_BK] == 0).all()
    assert (made.delta_BKT[~made.live_BK] == 0).all()
    everything = replayed(policy, prompts, rollouts, torch.ones(6, 2))
    live = made.live_BK
    torch.testing.assert_close(
        made.distance_BKT[live], everything.distance_BKT[live], rtol=0, atol=1e-5
    )


def test_a_dead_batch_costs_no_forward_pass() -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    runs: list[int] = []
    policy.model.base_model.register_forward_hook(lambda *_: runs.append(1))
    replayed(policy, prompts, rollouts, torch.zeros(6, 2))
    assert not runs
    replayed(policy, prompts, rollouts, torch.ones(6, 2))
    assert runs


def test_a_reward_without_information_is_not_replayed() -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy, 1)
    prompts = [replace(p, information=p.information[:1]) for p in prompts]
    made = replayed(policy, prompts, rollouts, torch.ones(2, 2))
    assert made.live_BK.tolist() == [[True, False]] * 2
    assert made.reasons == {(0, 1): "no information", (1, 1): "no information"}


def test_a_context_that_is_too_long_drops_its_pairs_and_is_not_cut() -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy, 2)
    everything = replayed(policy, prompts, rollouts, torch.ones(4, 2))
    # Prompt 1 gets so much to say about `plain` that no context with it leaves room.
    longer = Information("plain", "rule", "append", "Plain. " * 40)
    prompts[2:] = [replace(p, information=(p.information[0], longer)) for p in prompts[2:]]
    policy.max_positions = 110
    assert len(rollouts[2].prompt_ids) + 7 < 110
    made = replayed(policy, prompts, rollouts, torch.ones(4, 2))
    assert made.live_BK.tolist() == [[True, True]] * 2 + [[False, False]] * 2
    assert set(made.reasons) == {(b, k) for b in (2, 3) for k in (0, 1)}
    assert set(made.reasons.values()) == {"context too long"}
    torch.testing.assert_close(
        made.distance_BKT[:2], everything.distance_BKT[:2], rtol=0, atol=1e-5
    )


def test_a_context_that_just_fits_is_replayed_whole() -> None:
    policy = text_policy()
    asked = prompt(0)
    chosen = chosen_information(asked, {})
    full = policy.prompt_ids(informed(asked, chosen, set(NAMES)))
    answer = rollout([40, 41, 42], prompt_id=asked.id)
    policy.max_positions = len(full) + 3
    made = replayed(policy, [asked], [answer], torch.ones(1, 2))
    assert made.live_BK.all()
    with torch.no_grad():
        plain = plain_logps(policy, full, answer.response_ids, 0.7)
    torch.testing.assert_close(made.with_BKT[0, 0], plain, rtol=0, atol=1e-5)
    policy.max_positions -= 1
    assert not replayed(policy, [asked], [answer], torch.ones(1, 2)).live_BK.any()


def test_ids_are_replayed_as_sampled_even_where_the_text_would_give_others() -> None:
    policy = text_policy()
    encode = policy.tokenizer.encode
    merged = encode("letters")
    pieces = tuple(i for c in "letters" for i in encode(c))
    half = encode("é")[:1]  # half a character: no text has these ids
    answer = rollout([*pieces, *half, 2], prompt_id="p0")
    assert len(merged) < len(pieces)
    text = policy.tokenizer.decode(answer.response_ids)
    assert tuple(encode(text)) != answer.response_ids
    asked = prompt(0)
    made = replayed(policy, [asked], [answer], torch.ones(1, 2))
    full = policy.prompt_ids(informed(asked, chosen_information(asked, {}), set(NAMES)))
    with torch.no_grad():
        plain = plain_logps(policy, full, answer.response_ids, 0.7)
    torch.testing.assert_close(made.with_BKT[0, 0], plain, rtol=0, atol=1e-5)


def test_the_replay_keeps_no_gradient() -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy, 1)
    made = replayed(policy, prompts, rollouts, torch.ones(2, 2))
    assert not any(t.requires_grad for t in (made.with_BKT, made.without_BKT, made.distance_BKT))
