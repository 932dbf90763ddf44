"""Replay contexts: what is told in them, and which pairs of them a replay needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from helpers import prompt, rollout, text_policy

from mrtpo.contexts import Pair, Plan, chosen_information, informed, plan_replay, sharing
from mrtpo.policy import Policy
from mrtpo.records import Information, Message, Prompt, Reward, Rollout

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


def of_one_text() -> Prompt:
    """Four rewards: two share a text that is added, two one that the prompt states."""
    return prompt(1, information=(
        Information("letter", "rule", "prompt", "Answer with letters."),
        Information("vowel", "rule", "prompt", "Answer with letters."),
        Information("plain", "rule", "append", "Plain means plain."),
        Information("simple", "rule", "append", "Plain means plain."),
        Information("short", "rule", "append", "Be quick."),
    ))  # fmt: skip


def test_a_text_of_several_rewards_stands_in_a_context_once() -> None:
    asked = of_one_text()
    chosen = chosen_information(asked, {})
    for told in (set(chosen), {"letter", "plain", "short"}, {"vowel", "simple", "short"}):
        full = informed(asked, chosen, told)
        assert full[0] == asked.messages[0]
        assert full[1].content == asked.messages[1].content + "\nPlain means plain.\nBe quick."


def test_leaving_out_a_reward_leaves_out_what_it_shares() -> None:
    asked = of_one_text()
    chosen = chosen_information(asked, {})
    assert sharing(chosen, "simple") == {"plain", "simple"}
    assert sharing(chosen, "short") == {"short"}
    assert sharing(chosen, "unheard of") == set()
    for name, entry in chosen.items():
        left = "".join(contents(informed(asked, chosen, set(chosen) - sharing(chosen, name))))
        assert [e.text in left for e in chosen.values()] == [
            e.text != entry.text for e in chosen.values()
        ]


def test_rewards_of_one_text_are_replayed_under_the_same_contexts() -> None:
    asked, policy = of_one_text(), text_policy()
    names = ("letter", "vowel", "plain", "simple", "short")
    for form in ("leave_one_out", "add_one_in"):
        plan = plan_replay(
            policy, [asked], [rollout([5, 0])], names, lambda b, k: "", variants={}, form=form
        )
        assert not plan.reasons
        letter, vowel, plain, simple, short = ((pair.told, pair.untold) for pair in plan.pairs)
        assert letter == vowel and plain == simple
        assert len({letter, plain, short}) == 3
        assert all(told != untold for told, untold in (letter, plain, short))


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


def test_an_unknown_variant_is_named() -> None:
    with pytest.raises(ValueError, match=r"plain: 'rumour' .*prompt p1; it offers: rule, verdict"):
        chosen_information(prompt(1), {"plain": "rumour"})


def test_a_prompt_that_says_nothing_of_a_reward_has_none_of_its_variants_either() -> None:
    """Constraints differ from prompt to prompt; a variant is of those that have the constraint."""
    asked = prompt(1, information=prompt(1).information[:1])
    assert list(chosen_information(asked, {"plain": "verdict"})) == ["letter"]


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


def answers(prompts: list[Prompt], each: int = 1) -> tuple[list[Prompt], list[Rollout]]:
    """Rows of `each` responses to every prompt, whose verifiers say something different of each."""
    rows = [p for p in prompts for _ in range(each)]
    made = [
        rollout([40, 41, 42], [Reward("letter", 1.0, "ok", f"fine {b}"),
                               Reward("plain", 0.0, "ok", f"bad {b}")], prompt_id=p.id, sample=b)
        for b, p in enumerate(rows)
    ]  # fmt: skip
    return rows, made


def planned(
    policy: Policy, prompts: list[Prompt], rollouts: list[Rollout], names: Any = NAMES,
    wanted: Any = lambda b, k: "", **changes: Any,
) -> Plan:  # fmt: skip
    return plan_replay(policy, prompts, rollouts, names, wanted, **({"variants": {}} | changes))


def ids_of(policy: Policy, asked: Prompt, told: Collection[str], **changes: Any) -> Any:
    chosen = chosen_information(asked, changes.pop("variants", {}))
    return policy.prompt_ids(informed(asked, chosen, told, changes.pop("details", None)))


def test_leaving_one_out_compares_everything_with_everything_but_one() -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0), prompt(1)])
    plan = planned(policy, prompts, rollouts)
    assert plan.reasons == {}
    assert plan.pairs == [
        Pair(b, k, ids_of(policy, asked, set(NAMES)), ids_of(policy, asked, {other}))
        for b, asked in enumerate(prompts)
        for k, other in ((0, "plain"), (1, "letter"))
    ]


def test_adding_one_in_compares_it_alone_with_nothing() -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0), prompt(1)])
    plan = planned(policy, prompts, rollouts, form="add_one_in")
    assert plan.pairs == [
        Pair(b, k, ids_of(policy, asked, {name}), ids_of(policy, asked, set()))
        for b, asked in enumerate(prompts)
        for k, name in enumerate(NAMES)
    ]


def test_leaving_all_out_compares_everything_with_nothing_once() -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0), prompt(1)])
    plan = planned(policy, prompts, rollouts, ("all information",), form="leave_all_out")
    assert plan.pairs == [
        Pair(b, 0, ids_of(policy, asked, set(NAMES)), ids_of(policy, asked, set()))
        for b, asked in enumerate(prompts)
    ]
    bare = [replace(asked, information=()) for asked in prompts]
    plan = planned(policy, bare, rollouts, ("all information",), form="leave_all_out")
    assert (plan.pairs, set(plan.reasons.values())) == ([], {"no information"})


@pytest.mark.parametrize("form", ["leave_one_out", "add_one_in"])
def test_with_a_single_reward_all_forms_are_one(form: str) -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0)])
    prompts = [replace(p, information=p.information[1:2]) for p in prompts]
    (one,) = planned(policy, prompts, rollouts, ("plain",), form=form).pairs
    (every,) = planned(policy, prompts, rollouts, ("any",), form="leave_all_out").pairs
    assert one == every


@pytest.mark.parametrize("form", ["leave_one_out", "add_one_in", "leave_all_out"])
def test_what_is_not_wanted_is_said_and_not_planned(form: str) -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0)], 2)
    asked: list[tuple[int, int]] = []

    def wanted(b: int, k: int) -> str:
        asked.append((b, k))
        return "no advantage" if (b, k) == (0, 0) else "not drawn" if (b, k) == (1, 1) else ""

    plan = planned(policy, prompts, rollouts, wanted=wanted, form=form)
    assert plan.reasons == {(0, 0): "no advantage", (1, 1): "not drawn"}
    assert [(pair.b, pair.k) for pair in plan.pairs] == [(0, 1), (1, 0)]
    assert asked == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_reward_without_information_is_said_and_changes_no_other_context() -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0)])
    plan = planned(policy, prompts, rollouts, ("letter", "unknown", "plain"))
    assert plan.reasons == {(0, 1): "no information"}
    assert [(pair.b, pair.k) for pair in plan.pairs] == [(0, 0), (0, 2)]
    without = planned(policy, prompts, rollouts)
    assert [(p.told, p.untold) for p in plan.pairs] == [(p.told, p.untold) for p in without.pairs]


@pytest.mark.parametrize("form", ["leave_one_out", "add_one_in", "leave_all_out"])
def test_information_that_changes_no_token_needs_no_replay(form: str) -> None:
    policy = text_policy()
    # A template that trims what ends a turn, as many do.
    policy.tokenizer.chat_template = policy.tokenizer.chat_template.replace(
        "message.content", "message.content | trim"
    )
    blank = Information("plain", "rule", "append", " ")
    asked = prompt(0, information=(blank,), messages=(Message("user", "Question"),))
    prompts, rollouts = answers([asked])
    names = ("plain",)
    plan = planned(policy, prompts, rollouts, names, form=form)
    assert plan == Plan([], {(0, 0): "its information changes nothing"})


@pytest.mark.parametrize("form", ["leave_one_out", "add_one_in", "leave_all_out"])
def test_a_pair_that_leaves_no_room_for_the_response_is_dropped_and_never_cut(form: str) -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0)])
    names = ("all",) if form == "leave_all_out" else NAMES
    whole = planned(policy, prompts, rollouts, names, form=form)
    longest = {p.k: max(len(p.told), len(p.untold)) + 3 for p in whole.pairs}
    for limit in sorted({*longest.values(), *(n - 1 for n in longest.values()), 10}):
        policy.max_positions = limit
        plan = planned(policy, prompts, rollouts, names, form=form)
        assert plan.pairs == [pair for pair in whole.pairs if longest[pair.k] <= limit]
        assert plan.reasons == {
            (0, k): "context too long" for k, length in longest.items() if length > limit
        }


def test_each_response_is_told_its_own_detail() -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0)], 3)
    plan = planned(policy, prompts, rollouts, variants={"plain": "verdict"})
    told = {pair.b: policy.tokenizer.decode(list(pair.told)) for pair in plan.pairs}
    for b in range(3):
        assert f"The judge says: bad {b}<|im_end|>" in told[b]
        assert "fine" not in told[b]  # what is said of another reward is not asked for
    untold = {pair.untold for pair in plan.pairs if pair.k == 1}
    assert len(untold) == 1


def test_each_conversation_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0), prompt(1)], 4)
    encode = policy.prompt_ids
    encoded: list[Any] = []

    def counted(messages: Any) -> Any:
        encoded.append(messages)
        return encode(messages)

    monkeypatch.setattr(policy, "prompt_ids", counted)
    # Everything, all but each reward: for two prompts, however many responses they have.
    planned(policy, prompts, rollouts)
    assert len(encoded) == len(set(encoded)) == 2 * 3
    encoded.clear()
    planned(policy, prompts, rollouts, form="add_one_in")
    assert len(encoded) == len(set(encoded)) == 2 * 3
    encoded.clear()
    # A detail is of one response: what tells it is another conversation for each.
    planned(policy, prompts, rollouts, variants={"plain": "verdict"})
    assert len(encoded) == len(set(encoded)) == 8 + 8 + 2
    encoded.clear()
    planned(policy, prompts, rollouts, wanted=lambda b, k: "no advantage")
    assert not encoded


def test_the_order_of_rows_changes_no_pair() -> None:
    policy = text_policy()
    prompts, rollouts = answers([prompt(0), prompt(1)], 2)
    before = planned(policy, prompts, rollouts)
    order = [2, 0, 3, 1]
    after = planned(policy, [prompts[b] for b in order], [rollouts[b] for b in order])
    assert {(order[p.b], p.k, p.told, p.untold) for p in after.pairs} == {
        (p.b, p.k, p.told, p.untold) for p in before.pairs
    }
