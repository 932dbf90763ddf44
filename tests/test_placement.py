"""Token weights of every method against slow references, and what must hold of each of them."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from helpers import Letters, prompt, rollout, text_policy, tiny_settings
from torch import Tensor

from mrtpo.advantages import token_advantages
from mrtpo.config import MethodName, Replay
from mrtpo.contexts import chosen_information, informed
from mrtpo.credit import Credit, assign, replay_metrics
from mrtpo.generate import generate
from mrtpo.methods import METHODS
from mrtpo.placement import Placement, Replayer, drawn_rewards, place, units, weights_of
from mrtpo.policy import Policy
from mrtpo.records import Information, Prompt, Reward, Rollout
from mrtpo.replay import Replayed

ALL = get_args(MethodName)
TWO = ("letter", "plain")
MIX = 0.75


@functools.cache
def batch(count: int) -> tuple[Policy, list[Prompt], list[Rollout], tuple[str, ...]]:
    """Two groups of three responses with `count` rewards, each with information of its own.

    Of two rewards the second is constant in the second group.
    """
    policy = text_policy(positions=700)
    names = TWO if count == 2 else tuple(f"r{k}" for k in range(count))
    told = tuple(Information(name, "rule", "append", f"Mind {name}.") for name in names)
    prompts = [prompt(n, **({} if count == 2 else {"information": told})) for n in range(2)]
    rollouts = generate(
        policy, [(p.id, policy.prompt_ids(p.messages)) for p in prompts], samples=3,
        temperature=0.7, max_new_tokens=9, seed=4, step=0,
    )  # fmt: skip
    rng = random.Random(count)
    values = [[round(rng.random(), 1) for _ in names] for _ in rollouts]
    for row in values[3:]:
        row[1:2] = [0.5] if count == 2 else row[1:2]
    rollouts = [
        replace(r, response_ids=r.response_ids[:length], logprobs=r.logprobs[:length],
                rewards=tuple(Reward(n, v, "ok", f"{n} {v}") for n, v in
                              zip(names, row, strict=True)))
        for r, row, length in zip(rollouts, values, [9, 7, 5] * 2, strict=True)
    ]  # fmt: skip
    return policy, [p for p in prompts for _ in range(3)], rollouts, names


def spans(
    asked: Prompt, response: str, praised: Collection[str] = ()
) -> dict[str, list[tuple[int, int]]]:
    """What the fake task knows, and of rewards that it does not have, a character each."""
    return Letters().spans(asked, response) | {f"r{k}": [(k, k + 1)] for k in range(16)}


def assigned(method: str, count: int = 2, mix: float = MIX, **values: Any) -> Credit:
    policy, prompts, rollouts, names = batch(count)
    settings = tiny_settings({"sampling": {"temperature": 0.7}, "train": {"method": method},
                              **values})  # fmt: skip
    return assign(policy, prompts, rollouts, names, settings, mix, spans=spans)


@pytest.mark.parametrize("count", [1, 2, 16])
@pytest.mark.parametrize("method", ALL)
def test_tokens_mean_what_the_methods_credit_says(method: str, count: int) -> None:
    credit = assigned(method, count, replay={"floor": 0.01, "cap": 4.0})
    mean_B = credit.advantages_BT.sum(1) / credit.mask_BT.sum(1)
    torch.testing.assert_close(mean_B, credit.credit_BK.sum(1), rtol=1e-4, atol=1e-5)
    # Sixteen rewards drawn at random conflict in every response, and GD2PO drops all.
    assert (float(credit.credit_BK.abs().max()) > 0.1) == ((method, count) != ("gd2po", 16))
    assert credit.weights_BKT.shape[1] == (count if METHODS[method].credit == "gdpo" else 1)
    assert (credit.weights_BKT >= 0).all() and credit.weights_BKT.isfinite().all()
    assert (credit.weights_BKT.amax(1)[credit.mask_BT == 0] == 0).all()
    spread = credit.weights_BKT[credit.mask_BT[:, None].bool().expand_as(credit.weights_BKT)]
    assert (float((spread - 1).abs().max()) > 1e-3) == (
        METHODS[method].spread != "even" and (method, count) != ("mrtpo_permuted", 1)
    )


@pytest.mark.parametrize("count", [1, 2, 16])
@pytest.mark.parametrize("method", [name for name in ALL if METHODS[name].credit == "gdpo"])
def test_with_every_weight_one_it_is_gdpo(method: str, count: int) -> None:
    even = assigned("gdpo", count)
    made = assigned(method, count, mix=0.0)
    if METHODS[method].spread in ("shuffled", "permuted"):  # which divide by a sum
        torch.testing.assert_close(made.advantages_BT, even.advantages_BT, rtol=0, atol=1e-6)
    else:
        assert torch.equal(made.advantages_BT, even.advantages_BT)


@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "gd2po", "gspo", "cort"])
def test_without_a_mix_a_summed_reward_is_spread_evenly(method: str) -> None:
    made = assigned(method, mix=0.0)
    even_BT = token_advantages(made.credit_BK, made.mask_BT[:, None].float(), made.mask_BT)
    assert torch.equal(made.advantages_BT, even_BT)


@pytest.mark.parametrize("count", [2, 16])
@pytest.mark.parametrize("method", [name for name in ALL if METHODS[name].credit == "gdpo"])
def test_permuting_rewards_permutes_their_terms(method: str, count: int) -> None:
    policy, prompts, rollouts, names = batch(count)
    order = [*range(1, count), 0]  # a rotation: what is next, cyclically, stays next
    settings = tiny_settings({"train": {"method": method}, "replay": {"floor": 0.01}})
    one = assign(policy, prompts, rollouts, names, settings, MIX, spans=spans)
    other = assign(
        policy, prompts, rollouts, [names[k] for k in order], settings, MIX, spans=spans
    )  # fmt: skip
    torch.testing.assert_close(other.credit_BK, one.credit_BK[:, order], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(other.weights_BKT, one.weights_BKT[:, order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other.advantages_BT, one.advantages_BT, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["mrtpo_shuffled", "mrtpo_permuted"])
@pytest.mark.parametrize("normalise", ["mean", "max", "l2"])
def test_a_control_keeps_each_pairs_mass_and_not_its_place(method: str, normalise: str) -> None:
    values = {"replay": {"normalise": normalise, "floor": 0.01}}
    own, wrong = assigned("mrtpo", **values), assigned(method, **values)
    torch.testing.assert_close(own.weights_BKT.sum(2), wrong.weights_BKT.sum(2))
    assert torch.equal(own.replayed.live_BK, wrong.replayed.live_BK)
    assert own.replayed.live_BK.tolist() == [[True, True]] * 3 + [[True, False]] * 3
    live_BK = own.replayed.live_BK
    assert torch.equal(own.weights_BKT[~live_BK], wrong.weights_BKT[~live_BK])
    moved_BK = (own.weights_BKT - wrong.weights_BKT).abs().amax(2) > 1e-3
    assert moved_BK[:3].all()
    if method == "mrtpo_permuted":  # with no other reward alive there is nowhere to go but even
        row_BT = wrong.weights_BKT[3:, 0]
        mean_B1 = row_BT.sum(1, keepdim=True) / wrong.mask_BT[3:].sum(1, keepdim=True)
        torch.testing.assert_close(row_BT, mean_B1 * wrong.mask_BT[3:])


def plain_log_softmax(policy: Policy, context: Sequence[int], response: Sequence[int]) -> Tensor:
    """Log-distributions (T, V) at temperature .7, in float64, by one plain pass."""
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*context, *response]])).logits[0].double()
    return (logits[len(context) - 1 : -1] / 0.7).log_softmax(-1)


def slow_mean_weights(distances: list[float], floor: float) -> list[float]:
    total = sum(d + floor for d in distances)
    own = [len(distances) * (d + floor) / total for d in distances]
    return [1 - MIX + MIX * w for w in own]


def test_entropy_weights_are_those_of_plain_rows_and_the_same_for_every_reward() -> None:
    policy, _, rollouts, _ = batch(2)
    made = assigned("entropy", replay={"floor": 0.1})
    assert made.replayed is None and replay_metrics(made) == {}
    assert torch.equal(made.weights_BKT[:, 0], made.weights_BKT[:, 1])
    for b, answer in enumerate(rollouts):
        logp_TV = plain_log_softmax(policy, answer.prompt_ids, answer.response_ids)
        found = [-sum(math.exp(p) * p for p in row) for row in logp_TV.tolist()]
        expected = slow_mean_weights(found, 0.1)
        assert made.weights_BKT[b, 0, : len(found)].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("budget", [1, 60, 100_000])
def test_how_entropies_are_cut_changes_nothing(budget: int) -> None:
    whole = assigned("entropy")
    cut = assigned("entropy", train={"method": "entropy", "micro_batch_tokens": budget})
    torch.testing.assert_close(cut.weights_BKT, whole.weights_BKT, rtol=0, atol=1e-5)


def test_cort_compares_all_information_with_none_in_one_replay() -> None:
    policy, prompts, rollouts, _ = batch(2)
    own = {"cort_strength": 1.5, "cort_sharpness": 2.0, "cort_offset": 0.05}
    made = assigned("cort", replay=own)
    assert made.replayed.live_BK.shape == (6, 1)
    assert {name.split("/")[1] for name in replay_metrics(made)} == {"all"}
    for b, (asked, answer) in enumerate(zip(prompts, rollouts, strict=True)):
        ids = answer.response_ids
        if made.credit_BK[b, 0] == 0:
            assert made.weights_BKT[b, 0, : len(ids)].tolist() == [1.0] * len(ids)
            continue
        chosen = chosen_information(asked, {})
        full, bare = (policy.prompt_ids(informed(asked, chosen, told)) for told in (set(TWO), ()))
        assert bare != answer.prompt_ids != full  # what the prompt says itself is taken out, too
        picked = torch.tensor(ids)[:, None]
        told_T, untold_T = (
            plain_log_softmax(policy, context, ids).gather(1, picked)[:, 0].tolist()
            for context in (full, bare)
        )
        raised = [
            1 + 1.5 * (1 / (1 + math.exp(-2.0 * (p - q - 0.05))) - 0.5)
            for p, q in zip(told_T, untold_T, strict=True)
        ]
        mean = sum(raised) / len(raised)
        expected = [1 - MIX + MIX * w / mean for w in raised]
        assert made.weights_BKT[b, 0, : len(ids)].tolist() == pytest.approx(expected, abs=1e-5)
        assert max(expected) - min(expected) > 1e-3
    assert (made.credit_BK != 0).sum() > 3


def placed(
    policy: Policy, answers: list[Rollout], credit_BK: Tensor, method: str, mix: float = 1.0,
    replayer: Replayer | None = None, prompts: list[Prompt] | None = None, known: Any = None,
    step: int = 0, **replays: Any,
) -> Placement:  # fmt: skip
    """Placement of rows that answer one prompt, with credit as given."""
    settings = tiny_settings({"train": {"method": method}, "replay": replays})
    return place(
        replayer or Replayer(policy), prompts or [prompt()] * len(answers), answers, TWO,
        credit_BK, credit_BK, torch.zeros(len(answers), dtype=torch.long), settings, step=step,
        mix=mix, spans=known,
    )  # fmt: skip


def test_an_even_placement_is_one_on_every_real_token() -> None:
    answers = [rollout([5, 6, 7]), rollout([5])]
    made = placed(text_policy(), answers, torch.ones(2, 2), "gdpo")
    assert made.weights_BKT.tolist() == [[[1, 1, 1]] * 2, [[1, 0, 0]] * 2]
    assert made.mask_BT.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert made.replayed is None


def test_oracle_weights_are_on_tokens_with_a_character_in_a_span() -> None:
    policy = text_policy()
    ids = policy.tokenizer.encode("a letters b")
    pieces = policy.pieces(ids)
    at = next(t for t, piece in enumerate(pieces) if len(piece) > 2)  # a merged token
    start = len("".join(pieces[:at]))
    answers = [rollout([*ids, *policy.end_ids])] * 2
    known = [{"letter": [(start + 1, start + 2)], "plain": [(0, 1), (start, start)]},
             {"plain": [(0, 99)]}]  # fmt: skip
    made = placed(policy, answers, torch.ones(2, 2), "oracle", known=known, floor=0.0)
    length = len(ids) + 1
    lone = [float(length * (t == at)) for t in range(length)]
    first = [float(length * (t == 0)) for t in range(length)]
    torch.testing.assert_close(made.weights_BKT[0], torch.tensor([lone, first]))
    # Without a span nothing is known, and where all is to blame nothing is told apart.
    assert made.weights_BKT[1].tolist() == [[1.0] * length] * 2
    floored = placed(policy, answers, torch.ones(2, 2), "oracle", known=known, floor=0.25)
    total = 1.25 + 0.25 * (length - 1)
    expected = [length * (1.25 if t == at else 0.25) / total for t in range(length)]
    assert floored.weights_BKT[0, 0].tolist() == pytest.approx(expected)
    assert floored.weights_BKT[1].tolist() == [pytest.approx([1.0] * length)] * 2


def test_an_oracle_needs_to_be_told_the_spans() -> None:
    policy, prompts, rollouts, names = batch(2)
    settings = tiny_settings({"train": {"method": "oracle"}})
    with pytest.raises(ValueError, match="oracle: needs the task's spans"):
        assign(policy, prompts, rollouts, names, settings, 1.0)


TEXT = "ab >= 'c d'"
WORDS = [0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 5, 6]  # ab | >=| '|c| d|'|end
LEXEMES = [0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3]  # ab | >=| 'c d'|end


def test_units_of_tokens_are_words_or_lexemes_and_the_end_is_one_of_its_own() -> None:
    policy = text_policy()
    ids = policy.tokenizer.encode(TEXT)
    assert policy.pieces(ids) == list(TEXT)
    answers = [rollout([*ids, *policy.end_ids]), rollout(ids[:3])]
    for pool, expected in (("word", WORDS), ("lexeme", LEXEMES)):
        made = units(policy, answers, pool)
        assert made[0].tolist() == expected
        assert made[1].tolist() == [0, 0, 1] + [0] * 9
    assert units(policy, answers, "none") is None


@pytest.mark.parametrize(("pool", "of_token"), [("word", WORDS), ("lexeme", LEXEMES)])
def test_pooled_weights_by_hand(pool: str, of_token: list[int]) -> None:
    found = [0.4, 0.0, 0.0, 0.6, 0.3, 0.0, 0.1, 0.0, 0.5, 0.0, 0.0, 0.7]
    with_BKT = torch.tensor([[found]])
    mask_BT = torch.ones(1, 12)
    replayed = Replayed(with_BKT, torch.zeros_like(with_BKT), with_BKT, torch.tensor([[True]]),
                        mask_BT, {})  # fmt: skip
    settings = tiny_settings({"replay": {"floor": 0.05, "pool": pool}}).replay
    made = weights_of(
        replayed, torch.ones(1, 1), torch.zeros(1), settings, MIX, torch.tensor([of_token])
    )
    means = [
        sum(d for d, other in zip(found, of_token, strict=True) if other == unit)
        / of_token.count(unit)
        for unit in of_token
    ]
    assert means[:5] == pytest.approx([0.2, 0.2, 0.3, 0.3, 0.3])
    expected = slow_mean_weights(means, 0.05)
    assert made[0, 0].tolist() == pytest.approx(expected)
    assert sum(expected) == pytest.approx(12)


def test_with_the_scale_of_a_group_only_its_replayed_rows_make_the_scale() -> None:
    """Distances of a row that was not replayed say nothing."""
    found_BKT = torch.tensor([[[0.2, 0.1]], [[0.4, 0.1]], [[9.0, 9.0]], [[0.5, 0.1]]])
    live_BK = torch.tensor([[True], [True], [False], [True]])
    replayed = Replayed(
        found_BKT, torch.zeros_like(found_BKT), found_BKT, live_BK, torch.ones(4, 2), {}
    )
    own = {"scale": "group", "normalise": "max", "floor": 0.0, "distance": "abs_logprob"}
    settings = tiny_settings({"replay": own}).replay
    made = weights_of(replayed, torch.ones(4, 1), torch.tensor([0, 0, 0, 1]), settings, 1.0)
    expected = torch.tensor([[0.5, 0.25], [1.0, 0.25], [1.0, 1.0], [1.0, 0.2]])
    torch.testing.assert_close(made[:, 0], expected)
    balanced = tiny_settings({"replay": own | {"scale": "balanced"}}).replay
    made = weights_of(replayed, torch.ones(4, 1), torch.tensor([0, 0, 0, 1]), balanced, 1.0)
    expected = torch.tensor([[1.0, 0.5], [1.0, 0.25], [1.0, 1.0], [1.0, 0.2]])
    torch.testing.assert_close(made[:, 0], expected)


def test_tokens_of_a_unit_share_a_weight_in_a_whole_placement() -> None:
    policy = text_policy()
    ids = (*policy.tokenizer.encode(TEXT), *policy.end_ids)
    answers = [rollout(ids, prompt_ids=policy.prompt_ids(prompt().messages))]
    credit_BK = torch.tensor([[1.0, -1.0]])
    alone = placed(policy, answers, credit_BK, "mrtpo").weights_BKT
    for pool, of_token in (("word", WORDS), ("lexeme", LEXEMES)):
        made = placed(policy, answers, credit_BK, "mrtpo", pool=pool).weights_BKT
        for row in made[0]:
            for unit in set(of_token):
                mine = [float(w) for w, u in zip(row, of_token, strict=True) if u == unit]
                assert mine == pytest.approx([mine[0]] * len(mine))
        torch.testing.assert_close(made.sum(2), alone.sum(2))
        assert float((made - alone).abs().max()) > 1e-2


def test_a_cap_bounds_what_is_mixed_in() -> None:
    free = assigned("mrtpo", mix=1.0, replay={"floor": 0.0})
    held = assigned("mrtpo", mix=1.0, replay={"floor": 0.0, "cap": 1.5})
    assert free.weights_BKT.max() > 2.0 and held.weights_BKT.max() <= 1.5 + 1e-5
    torch.testing.assert_close(held.weights_BKT.sum(2), free.weights_BKT.sum(2))
    half = assigned("mrtpo", mix=0.5, replay={"floor": 0.0, "cap": 1.5})
    even_BKT = held.mask_BT[:, None]
    torch.testing.assert_close(half.weights_BKT, 0.5 * even_BKT + 0.5 * held.weights_BKT)


def test_at_most_so_many_rewards_are_drawn_by_seed_step_and_response() -> None:
    settings = tiny_settings({"replay": {"max_rewards": 3}})
    answers = [rollout([1], prompt_id=f"p{n // 4}", sample=n % 4) for n in range(40)]
    live = [0, 2, 3, 5, 8, 13]

    def drawn(step: int = 0, **changes: Any) -> list[tuple[int, ...]]:
        asked = settings.model_copy(update=changes)
        return [tuple(drawn_rewards(answer, live, asked, step)) for answer in answers]

    made = drawn()
    assert all(len(set(row)) == 3 and set(row) <= set(live) for row in made)
    assert made == drawn()
    assert drawn(step=1) != made != drawn(seed=9)
    assert len({frozenset(row) for row in made}) > 8  # responses of a group differ
    counts = [sum(k in row for row in made) for k in live]
    assert min(counts) > 8  # and each has its turn: 20 is expected
    for few in ([], [7], [1, 2, 9]):
        assert list(drawn_rewards(answers[0], few, settings, 0)) == few
    assert list(drawn_rewards(answers[0], live, tiny_settings(), 0)) == live


def test_rewards_that_are_not_drawn_are_even_and_counted() -> None:
    every = assigned("mrtpo", 16)
    made = assigned("mrtpo", 16, replay={"max_rewards": 3, "gain_every": 0})
    _, _, rollouts, names = batch(16)
    settings = tiny_settings({"replay": {"max_rewards": 3}})
    live_BK = made.replayed.live_BK
    for b, answer in enumerate(rollouts):
        wanted = drawn_rewards(answer, every.credit_BK[b].nonzero().flatten().tolist(), settings, 0)
        assert live_BK[b].nonzero().flatten().tolist() == sorted(wanted)
    assert live_BK.sum(1).tolist() == [3] * 6
    reasons = set(made.replayed.reasons.values())
    assert reasons <= {"not drawn", "no advantage"} and "not drawn" in reasons
    real_BKT = made.mask_BT[:, None].expand_as(made.weights_BKT)
    assert torch.equal(made.weights_BKT[~live_BK], real_BKT[~live_BK].float())
    torch.testing.assert_close(made.weights_BKT[live_BK], every.weights_BKT[live_BK])
    metrics = replay_metrics(made)
    for k, name in enumerate(names):
        skipped = sum(made.replayed.reasons.get((b, k)) == "not drawn" for b in range(6)) / 6
        assert metrics[f"replay/{name}/skipped"] == pytest.approx(skipped)


def test_a_reward_that_is_not_trusted_is_even_and_counted_and_the_others_stay() -> None:
    policy, prompts, rollouts, names = batch(2)
    settings = tiny_settings()
    doubting = Replayer(policy, untrusted=frozenset({"plain"}))
    made = assign(doubting, prompts, rollouts, names, settings, MIX)
    trusting = assign(policy, prompts, rollouts, names, settings, MIX)
    assert torch.equal(made.credit_BK, trusting.credit_BK)
    torch.testing.assert_close(made.weights_BKT[:, 0], trusting.weights_BKT[:, 0])
    assert torch.equal(made.weights_BKT[:, 1], made.mask_BT.float())
    assert not made.replayed.live_BK[:, 1].any()
    assert [made.replayed.reasons[b, 1] for b in range(6)] == [
        *["not trusted"] * 3, *["no advantage"] * 3,
    ]  # fmt: skip
    assert replay_metrics(made)["replay/plain/skipped"] == 0.5
    assert replay_metrics(made)["replay/letter/skipped"] == 0.0


def test_a_reward_that_is_not_trusted_takes_no_draw() -> None:
    policy, prompts, rollouts, names = batch(16)
    settings = tiny_settings({"replay": {"max_rewards": 2}})
    doubting = Replayer(policy, untrusted=frozenset(names[2:]))
    made = assign(doubting, prompts, rollouts, names, settings, MIX)
    wanted = (made.credit_BK[:, :2] != 0).sum(1)
    assert made.replayed.live_BK.sum(1).tolist() == wanted.tolist() and wanted.max() == 2


@pytest.mark.parametrize("method", ["mrtpo", "mrtpo_shuffled", "mrtpo_permuted"])
def test_where_no_reward_is_trusted_nothing_is_replayed(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    policy, prompts, rollouts, names = batch(2)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a forward pass")

    monkeypatch.setattr("mrtpo.replay.response_hidden", never)
    settings = tiny_settings({"train": {"method": method}})
    doubting = Replayer(policy, untrusted=frozenset(names))
    made = assign(doubting, prompts, rollouts, names, settings, MIX)
    assert torch.equal(made.advantages_BT, assigned("gdpo").advantages_BT)
    with pytest.raises(AssertionError, match="a forward pass"):
        assign(policy, prompts, rollouts, names, settings, MIX)


def test_prompts_may_lack_the_information_of_a_reward() -> None:
    policy = text_policy()
    whole = prompt(0)
    bare = replace(prompt(0), information=tuple(i for i in whole.information
                                                if i.reward == "letter"))  # fmt: skip
    silent = replace(whole, information=())
    own = policy.prompt_ids(whole.messages)
    answers = [rollout([40, 50, 60 + b], prompt_ids=own, sample=b) for b in range(3)]
    credit_BK = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    made = placed(policy, answers, credit_BK, "mrtpo", prompts=[whole, bare, silent])
    assert made.replayed.live_BK.tolist() == [[True, True], [True, False], [False, False]]
    assert made.replayed.reasons == {
        (1, 1): "no information", (2, 0): "no information", (2, 1): "no information",
    }  # fmt: skip
    assert made.weights_BKT[1, 1].tolist() == made.weights_BKT[2, 0].tolist() == [1.0] * 3
    alone = placed(policy, answers[:1], credit_BK[:1], "mrtpo", prompts=[whole])
    torch.testing.assert_close(made.weights_BKT[0], alone.weights_BKT[0])
    cort = placed(policy, answers, credit_BK[:, :1], "cort", prompts=[whole, bare, silent])
    assert cort.replayed.live_BK.tolist() == [[True], [True], [False]]
    assert cort.weights_BKT[2, 0].tolist() == [1.0] * 3


@pytest.mark.parametrize("form", ["leave_one_out", "add_one_in"])
def test_both_forms_of_contexts_are_those_of_plain_rows(form: str) -> None:
    policy, prompts, rollouts, names = batch(2)
    made = assigned("mrtpo", replay={"contexts": form, "distance": "abs_logprob"})
    for b, (asked, answer) in enumerate(zip(prompts, rollouts, strict=True)):
        chosen = chosen_information(asked, {})
        picked = torch.tensor(answer.response_ids)[:, None]
        for k, name in enumerate(names):
            if not made.replayed.live_BK[b, k]:
                continue
            pair = (set(names), set(names) - {name})
            if form == "add_one_in":
                pair = ({name}, set())
            told_T, untold_T = (
                plain_log_softmax(
                    policy, policy.prompt_ids(informed(asked, chosen, told)), answer.response_ids
                ).gather(1, picked)[:, 0]
                for told in pair
            )
            found = (told_T - untold_T).abs().tolist()
            expected = slow_mean_weights(found, 0.05)
            weights = made.weights_BKT[b, k, : len(found)].tolist()
            assert weights == pytest.approx(expected, abs=1e-4)


def test_the_default_weights_are_how_sure_it_is_which_replay_wrote_a_token() -> None:
    """Reward k's information told against none, on the verdict's side; the rest alike in the group,
    each response's peak near 1: what a new `Replay()` asks for, in loops of float64."""
    policy, prompts, rollouts, names = batch(2)
    made = assigned("mrtpo", mix=1.0, replay=Replay().model_dump())
    for k, name in enumerate(names):
        for group in (range(3), range(3, 6)):
            found: dict[int, list[float]] = {}
            for b in group:
                if not made.replayed.live_BK[b, k]:
                    continue
                picked = torch.tensor(rollouts[b].response_ids)[:, None]
                chosen = chosen_information(prompts[b], {})
                told, untold = (
                    plain_log_softmax(
                        policy, policy.prompt_ids(informed(prompts[b], chosen, names_told)),
                        rollouts[b].response_ids,
                    ).gather(1, picked)[:, 0].exp().tolist()
                    for names_told in ({name}, set[str]())
                )  # fmt: skip
                sign = 1 if made.credit_BK[b, k] > 0 else -1
                found[b] = [
                    max(0.0, sign * (p - q) / (p + q)) for p, q in zip(told, untold, strict=True)
                ]
            largest = max((d for row in found.values() for d in row), default=0.0)
            rest = 0.05 / (largest + 0.05)
            for b, row in found.items():
                expected = [rest + (1 - rest) * d / (max(row) + 0.05) for d in row]
                got = made.weights_BKT[b, k, : len(row)].tolist()
                assert got == pytest.approx(expected, abs=1e-4)
    assert made.replayed.live_BK.any()


def test_groups_placed_by_themselves_are_placed_as_in_the_whole_batch() -> None:
    policy, prompts, rollouts, names = batch(2)
    cases = [
        (m, "response") for m in ("mrtpo", "mrtpo_shuffled", "entropy", "cort", "gdpo", "oracle")
    ]
    for method, scale in (*cases, ("mrtpo", "group"), ("mrtpo", "balanced")):
        own = {"scale": scale} | ({"normalise": "max"} if scale == "balanced" else {})
        settings = tiny_settings({"train": {"method": method}, "replay": own})
        whole = assign(policy, prompts, rollouts, names, settings, MIX, spans=spans)
        for rows in (slice(0, 3), slice(3, 6)):
            part = assign(
                policy, prompts, rollouts, names, settings, MIX, rows=rows, spans=spans
            )  # fmt: skip
            assert torch.equal(part.credit_BK, whole.credit_BK)
            length = part.mask_BT.shape[1]
            torch.testing.assert_close(
                part.advantages_BT, whole.advantages_BT[rows, :length], rtol=1e-5, atol=1e-5
            )
