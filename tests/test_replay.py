"""The replay against plain forward passes, and what it need not run."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from helpers import KINDS, WHOLE, number_policy, prompt, rollout, text_policy
from torch import Tensor

import mrtpo.replay
from mrtpo.attribution import DIRECTIONAL, DISTRIBUTIONAL, EMITTED
from mrtpo.contexts import Pair, Plan, chosen_information, informed, plan_replay
from mrtpo.generate import generate
from mrtpo.logprobs import plain_logps, response_logps
from mrtpo.policy import Policy
from mrtpo.records import Information, Prompt, Reward, Rollout
from mrtpo.replay import Distance, Replayed, measure, null_replay, replay

NAMES = ("letter", "plain")


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
        elif name == "contrast":
            p, q = pairs[token]
            made.append(abs(p - q) / (p + q))
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


@pytest.mark.parametrize("distance", [*DISTRIBUTIONAL, *EMITTED, *DIRECTIONAL])
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


def told_rows(policy: Policy, plan: Plan, rollouts: list[Rollout]) -> list[tuple[Any, ...]]:
    """Each pair with the log-distributions of its response under both contexts, one by one."""
    return [
        (
            pair, rollouts[pair.b].response_ids,
            full_logps(policy, pair.told, rollouts[pair.b].response_ids),
            full_logps(policy, pair.untold, rollouts[pair.b].response_ids),
        )
        for pair in plan.pairs
    ]  # fmt: skip


def measured(
    policy: Policy, rollouts: list[Rollout], plan: Plan, rewards: int,
    distance: Distance = Distance("abs_logprob"), **changes: Any,  # noqa: B008
) -> Replayed:  # fmt: skip
    asked = dict(temperature=0.7, token_budget=400) | changes
    return measure(policy, rollouts, plan, rewards, distance, **asked)


def assert_plain(made: Replayed, rows: list[tuple[Any, ...]], distance: str) -> None:
    largest = 0.0
    for pair, ids, logp_TV, logq_TV in rows:
        at = (pair.b, pair.k, slice(len(ids)))
        picked = torch.tensor(ids)[:, None]
        for found, log_TV in ((made.with_BKT, logp_TV), (made.without_BKT, logq_TV)):
            expected = log_TV.gather(1, picked)[:, 0].float()
            torch.testing.assert_close(found[at], expected, rtol=0, atol=1e-5)
        slow = slow_distance(distance, logp_TV, logq_TV, ids)
        assert made.distance_BKT[at].tolist() == pytest.approx(slow, abs=2e-5)
        largest = max(largest, *slow)
    assert largest > 0.01  # no rounding


def pairs_of(rollouts: list[Rollout], vocab: int, rewards: int) -> Plan:
    """Made-up contexts that begin like the prompts: longer, shorter, of other tokens."""
    rng = random.Random(0)
    pairs = []
    for b, r in enumerate(rollouts):
        told = (*r.prompt_ids, *(rng.randrange(vocab) for _ in range(3)))
        for k in range(rewards):
            kept = r.prompt_ids[: rng.randrange(len(r.prompt_ids) + 1)]
            pairs.append(Pair(b, k, told, (*kept, *(rng.randrange(vocab) for _ in range(1 + k)))))
    return Plan(pairs, {})


@pytest.mark.parametrize("distance", ["abs_logprob", "js"])
@pytest.mark.parametrize("kind", [*KINDS, *WHOLE])
def test_every_kind_of_model_replays_as_plain_rows(kind: str, distance: str) -> None:
    policy = number_policy(kind)
    rollouts = generate(
        policy, [("a", [3, 1, 4, 1, 5, 9, 2]), ("b", [2])], samples=2, temperature=0.7,
        max_new_tokens=6, seed=0, step=0,
    )  # fmt: skip
    plan = pairs_of(rollouts, 13, 3)
    for budget in (1, 10_000):
        made = measured(policy, rollouts, plan, 3, Distance(distance), token_budget=budget)
        assert_plain(made, told_rows(policy, plan, rollouts), distance)


@dataclass
class Runs:
    """What the replay asked to be scored."""

    contexts: int = 0
    rows: int = 0
    runs: int = 0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    seen, inner = Runs(), mrtpo.replay.response_hidden

    def spied(policy: Any, contexts: Any, responses: Any, context_of: Any, base_of: Any) -> Any:
        seen.contexts += len(contexts)
        seen.rows += len(responses)
        seen.runs += 1
        return inner(policy, contexts, responses, context_of, base_of)

    monkeypatch.setattr(mrtpo.replay, "response_hidden", spied)
    return seen


def test_what_was_kept_while_sampling_is_not_scored_again(runs: Runs) -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    # `letter` stands in the prompt and `plain` does not: without `plain` is the sampling prompt.
    plan = plan_replay(policy, prompts, rollouts, NAMES, lambda b, k: "", variants={})
    assert all((p.untold == rollouts[p.b].prompt_ids) == (p.k == 1) for p in plan.pairs)
    rows = told_rows(policy, plan, rollouts)

    made = measured(policy, rollouts, plan, 2, token_budget=10_000)
    assert (runs.runs, runs.rows, runs.contexts) == (1, 2 * 6, 2 * 3)
    assert_plain(made, rows, "abs_logprob")

    runs.rows = runs.contexts = 0
    again = measured(policy, rollouts, plan, 2, token_budget=10_000, stored=False)
    assert (runs.rows, runs.contexts) == (3 * 6, 3 * 3)
    assert_plain(again, rows, "abs_logprob")

    runs.rows = 0
    of_all = measured(policy, rollouts, plan, 2, Distance("js"), token_budget=10_000)
    assert runs.rows == 3 * 6
    assert_plain(of_all, rows, "js")

    # It is what was kept that is read, in this case alone.
    forged = [replace(r, logprobs=(-7.5,) * len(r.response_ids)) for r in rollouts]
    for distance, stored in (("abs_logprob", True), ("abs_logprob", False), ("js", True)):
        made = measured(policy, forged, plan, 2, Distance(distance), stored=stored)
        real_BT = made.mask_BT.bool()
        kept_BT = made.without_BKT[:, 1] == -7.5
        assert kept_BT[real_BT].all() == (distance == "abs_logprob" and stored)
        assert not (made.without_BKT[:, 0] == -7.5).any() and not (made.with_BKT == -7.5).any()


def test_where_the_prompt_tells_everything_only_what_leaves_some_out_is_scored(runs: Runs) -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    prompts = [replace(p, information=p.information[:1]) for p in prompts]
    plan = plan_replay(policy, prompts, rollouts, ("letter",), lambda b, k: "", variants={})
    assert all(p.told == rollouts[p.b].prompt_ids for p in plan.pairs)
    made = measured(policy, rollouts, plan, 1, token_budget=10_000)
    assert (runs.rows, runs.contexts) == (6, 2 * 3)  # the whole prompt is what others begin like
    assert_plain(made, told_rows(policy, plan, rollouts), "abs_logprob")


@pytest.mark.parametrize("distance", ["abs_logprob", "js"])
def test_adding_one_in_is_that_of_plain_rows(distance: str, runs: Runs) -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    plan = plan_replay(
        policy, prompts, rollouts, NAMES, lambda b, k: "", variants={}, form="add_one_in"
    )
    made = measured(policy, rollouts, plan, 2, Distance(distance), token_budget=10_000)
    # Nothing, `plain` alone, and `letter` alone, which is the sampling prompt.
    assert runs.rows == (2 if distance == "abs_logprob" else 3) * 6
    assert_plain(made, told_rows(policy, plan, rollouts), distance)


def test_sixteen_rewards_are_replayed_as_plain_rows(runs: Runs) -> None:
    policy = text_policy(positions=1024)
    names = tuple(f"rule {k}" for k in range(16))
    information = tuple(
        Information(name, "rule", "append", f"Be plain in point {k * k}.")
        for k, name in enumerate(names)
    )
    prompts, rollouts = batch(policy, 2)
    prompts = [replace(p, information=information) for p in prompts]
    plan = plan_replay(policy, prompts, rollouts, names, lambda b, k: "", variants={})
    made = measured(policy, rollouts, plan, 16, token_budget=100_000)
    assert made.live_BK.shape == (4, 16) and made.live_BK.all()
    assert (runs.runs, runs.rows, runs.contexts) == (1, 17 * 4, 17 * 2)
    assert_plain(made, told_rows(policy, plan, rollouts), "abs_logprob")


@pytest.mark.parametrize("distance", DISTRIBUTIONAL)
@pytest.mark.parametrize("k", [1, 3, 40])
def test_a_coarse_replay_is_that_of_lumped_plain_rows(distance: str, k: int) -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy)
    plan = plan_replay(policy, prompts, rollouts, NAMES, lambda b, k: "", variants={})
    made = measured(policy, rollouts, plan, 2, Distance(distance, k))
    full = measured(policy, rollouts, plan, 2, Distance(distance))
    smaller = 0
    for pair, ids, logp_TV, logq_TV in told_rows(policy, plan, rollouts):
        at = (pair.b, pair.k, slice(len(ids)))
        slow = []
        for logp_V, logq_V, token in zip(logp_TV, logq_TV, ids, strict=True):
            likeliest = sorted(range(len(logp_V)), key=lambda v, p=logp_V: -float(p[v]))[:k]
            seen = sorted({token, *likeliest})
            rest = [v for v in range(len(logp_V)) if v not in seen]
            lumped = [
                torch.cat([log_V[seen], log_V[rest].exp().sum().log()[None]])
                for log_V in (logp_V, logq_V)
            ]
            slow += slow_distance(distance, lumped[0][None], lumped[1][None], (0,))
        assert made.distance_BKT[at].tolist() == pytest.approx(slow, abs=2e-5)
        assert (made.distance_BKT[at] <= full.distance_BKT[at] + 1e-5).all()
        smaller += int((made.distance_BKT[at] < full.distance_BKT[at] - 1e-5).sum())
    assert smaller > 0
    # What is emitted stays exact.
    torch.testing.assert_close(made.delta_BKT, full.delta_BKT, rtol=0, atol=1e-6)


def test_a_coarse_replay_of_all_tokens_is_the_full_one() -> None:
    policy = text_policy()
    prompts, rollouts = batch(policy, 1)
    plan = plan_replay(policy, prompts, rollouts, NAMES, lambda b, k: "", variants={})
    full = measured(policy, rollouts, plan, 2, Distance("js")).distance_BKT
    for k in (policy.vocab_size - 2, policy.vocab_size, 10 * policy.vocab_size):
        made = measured(policy, rollouts, plan, 2, Distance("js", k)).distance_BKT
        assert torch.equal(made, full)
    # One token less and it is lumped: two tokens into one.
    made = measured(policy, rollouts, plan, 2, Distance("js", policy.vocab_size - 3)).distance_BKT
    torch.testing.assert_close(made, full, rtol=0, atol=1e-5)
    # The emitted token alone is no distribution to be lumped.
    plain, coarse = (
        measured(policy, rollouts, plan, 2, Distance("abs_logprob", k)).distance_BKT
        for k in (None, 2)
    )
    assert torch.equal(plain, coarse)


@pytest.mark.parametrize("distance", ["abs_logprob", "directional_logprob", "js"])
def test_a_null_replay_of_an_exact_policy_is_nothing(distance: str) -> None:
    policy = text_policy()
    _, rollouts = batch(policy)
    # One row has one shape, however it is run.
    alone = rollouts[:1]
    with torch.no_grad():
        kept_1T, _ = response_logps(
            policy, [alone[0].prompt_ids], [alone[0].response_ids], [0], 0.7
        )
    alone = [replace(alone[0], logprobs=tuple(kept_1T[0].tolist()))]
    found = null_replay(policy, alone, Distance(distance), temperature=0.7)
    assert found.shape == (len(alone[0].response_ids),)
    assert float(found.max()) < (1e-6 if distance == "js" else 1e-30)
    # Several rows differ by rounding, if at all.
    found = null_replay(policy, rollouts, Distance(distance), temperature=0.7)
    assert found.shape == (sum(len(r.response_ids) for r in rollouts),)
    assert float(found.max()) < 1e-4
    coarse = null_replay(policy, rollouts, Distance(distance, 3), temperature=0.7)
    assert float(coarse.max()) < 1e-4


@pytest.mark.parametrize("distance", ["abs_logprob", "js"])
def test_a_null_replay_finds_what_the_shape_of_a_batch_does(
    distance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = text_policy()
    _, rollouts = batch(policy)
    inner = mrtpo.replay.response_hidden

    def noisy(policy: Any, contexts: Any, responses: Any, *args: Any) -> Any:
        hidden_BTD, mask_BT = inner(policy, contexts, responses, *args)
        if responses == [rollouts[3].response_ids]:
            hidden_BTD = hidden_BTD.clone()
            hidden_BTD[0, 1] *= 1.05  # the second token of the fourth row
        return hidden_BTD, mask_BT

    monkeypatch.setattr(mrtpo.replay, "response_hidden", noisy)
    found = null_replay(policy, rollouts, Distance(distance), temperature=0.7)
    at = sum(len(r.response_ids) for r in rollouts[:3]) + 1
    assert int(found.argmax()) == at
    assert float(found[at]) > 1e-4
    assert float(found[at]) > 10 * float(torch.cat([found[:at], found[at + 1 :]]).max())


def test_a_null_replay_notices_that_another_policy_kept_the_log_probabilities() -> None:
    policy, other = text_policy(0), text_policy(1)
    _, rollouts = batch(other)

    def most(scorer: Policy, temperature: float) -> float:
        return float(
            null_replay(scorer, rollouts, Distance("abs_logprob"), temperature=temperature).max()
        )

    assert most(other, 0.7) < 1e-4
    assert most(policy, 0.7) > 0.1
    assert most(other, 1.0) > 0.1  # kept at another temperature
