"""The information gain check against slow references, and what it decides."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers import Letters, prompt, rollout, text_policy, tiny_settings

from mrtpo import gain
from mrtpo.contexts import chosen_information, informed
from mrtpo.gain import NOISE, Gain, decide, gain_metrics, information_gain
from mrtpo.generate import generate
from mrtpo.logprobs import plain_logps
from mrtpo.policy import Policy
from mrtpo.records import Information, Message, Prompt, Reward
from mrtpo.tasks import Verdict
from mrtpo.warmstart import Row, collate, response_loss

NAMES = ("letter", "plain")


def checked(policy: Policy, prompts: Sequence[Prompt], task: Any = None, **changes: Any) -> Any:
    values = changes.pop("values", None)
    asked: dict[str, Any] = dict(step=0, samples=4) | changes
    return information_gain(policy, task or Letters(), prompts, tiny_settings(values), **asked)


def some(count: int = 6, **changes: Any) -> list[Prompt]:
    return [prompt(n, **changes) for n in range(count)]


def taught(answer: Callable[[set[str]], str]) -> Policy:
    """A policy that has learned to say `answer` of what it is told."""
    policy = text_policy()
    rows = []
    for asked in some(4):
        for told in (set(NAMES), {"letter"}, {"plain"}):
            ids = policy.prompt_ids(informed(asked, chosen_information(asked, {}), told))
            said = [*policy.tokenizer.encode(answer(told)), *policy.end_ids]
            rows.append(Row(list(ids), said, len(ids)))
    batch = collate(rows, policy.pad_id)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=0.02)
    for _ in range(40):
        response_loss(policy.model, *batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    return policy


class Scored(Letters):
    """`letter` and `plain` as a function of the prompt and the response."""

    def __init__(self, score: Callable[[Prompt, str], tuple[Any, Any]], detail: str = "") -> None:
        self.score, self.detail = score, detail

    def verify(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[Verdict]:
        made = []
        for asked, response in zip(prompts, responses, strict=True):
            scores = zip(NAMES, self.score(asked, response), strict=True)
            made.append(Verdict(tuple(
                Reward(name, value, "timeout" if value is None else "ok", self.detail)
                for name, value in scores
            )))  # fmt: skip
        return made


def test_a_policy_that_uses_its_information_is_trusted() -> None:
    found = checked(taught(lambda told: "abc" if "letter" in told else "123"), some())["letter"]
    assert found.trusted
    assert found.told > 0.9 and found.untold < 0.2
    assert found.loglik > 1.0 and found.loglik_error < 0.5
    assert found.good >= 24 and (found.prompts, found.left_out) == (6, 0)


def test_a_policy_that_is_misled_by_its_information_is_not() -> None:
    found = checked(taught(lambda told: "123" if "letter" in told else "abc"), some())["letter"]
    assert not found.trusted
    assert found.sampled < -0.8 and found.loglik < -1.0 and found.good >= 24
    assert "not likelier" in found.reason


def test_a_policy_that_does_not_see_its_information_is_not_trusted_by_rounding() -> None:
    policy = text_policy()
    with torch.no_grad():  # a token then depends on the one before it alone
        for layer in policy.model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
    for step in range(4):
        for found in checked(policy, some(), step=step).values():
            assert found.good > 0 and abs(found.loglik) < NOISE
            assert not found.trusted


def test_where_no_response_is_good_there_is_no_log_likelihood() -> None:
    found = checked(taught(lambda told: "123"), some(), Scored(lambda p, r: (0.0, 0.5)))
    for name in NAMES:
        assert found[name].good == 0 and not found[name].trusted
        assert found[name].loglik is None and found[name].loglik_error is None
        assert (found[name].sampled, found[name].sampled_error) == (0.0, 0.0)
        assert found[name].reason.startswith("No good response")


def reference(policy: Policy, task: Letters, prompts: Sequence[Prompt], name: str,
              variants: dict[str, str], samples: int, step: int,
              form: str = "leave_one_out") -> dict[str, Any]:  # fmt: skip
    """One context, one response, one row at a time."""
    pair = {
        "leave_one_out": (("all", {*NAMES}), (f"without {name}", {*NAMES} - {name})),
        "add_one_in": ((f"only {name}", {name}), ("nothing", set[str]())),
    }[form]
    rows, told, untold = [], [], []
    for asked in prompts:
        chosen = chosen_information(asked, variants)
        means = []
        for key, names in pair:
            ids = policy.prompt_ids(informed(asked, chosen, names))
            made = generate(
                policy, [(f"{asked.id}/gain/{key}", ids)], samples=samples, temperature=0.7,
                max_new_tokens=6, seed=3, step=step,
            )  # fmt: skip
            values = []
            for answer in made:
                (verdict,) = task.verify([asked], [answer.text])
                details = {r.name: r.detail for r in verdict.rewards}
                (value,) = [r.value for r in verdict.rewards if r.name == name]
                values.append(value)
                rows.append((asked, answer, details, value))
            means.append(sum(values) / len(values))
        told.append(means[0])
        untold.append(means[1])
    differences = []
    for asked, answer, details, value in rows:
        own = [v for a, _, _, v in rows if a is asked]
        good = value == 1.0 if name == "letter" else value == max(own) > min(own)
        if good:
            chosen = chosen_information(asked, variants)
            logps = []
            for _, names in pair:
                ids = policy.prompt_ids(informed(asked, chosen, names, details))
                with torch.no_grad():
                    logps.append(plain_logps(policy, ids, answer.response_ids, 0.7).mean().item())
            differences.append(logps[0] - logps[1])
    gaps = [a - b for a, b in zip(told, untold, strict=True)]
    assert 0 < len(differences) < len(rows)
    assert len({len(answer.response_ids) for _, answer, _, _ in rows}) > 2
    return {
        "told": statistics.mean(told), "untold": statistics.mean(untold),
        "sampled": statistics.mean(gaps),
        "sampled_error": statistics.stdev(gaps) / math.sqrt(len(gaps)),
        "loglik": statistics.mean(differences),
        "loglik_error": statistics.stdev(differences) / math.sqrt(len(differences)),
        "good": len(differences),
    }  # fmt: skip


@pytest.mark.parametrize("form", ["leave_one_out", "add_one_in"])
@pytest.mark.parametrize("variants", [{}, {"plain": "verdict"}])
def test_the_figures_are_those_of_plain_rows_under_the_replays_own_contexts(
    variants: dict[str, str], form: str
) -> None:
    policy, prompts = text_policy(), some(5)
    policy.end_ids = frozenset(range(0, 300, 6))  # some responses end early
    values = {
        "replay": {"variants": variants, "contexts": form}, "sampling": {"temperature": 0.7}
    }  # fmt: skip
    found = checked(policy, prompts, values=values, step=7, samples=3)
    assert tuple(found) == NAMES
    for name in NAMES:
        wanted = reference(policy, Letters(), prompts, name, variants, 3, 7, form)
        if name in variants:  # a message on a response cannot be told before there is one
            wanted |= dict.fromkeys(("told", "untold", "sampled", "sampled_error"))
        assert wanted["loglik"] != pytest.approx(0, abs=1e-3)
        for key, value in wanted.items():
            close = None if value is None else pytest.approx(value, abs=1e-5)
            assert getattr(found[name], key) == close, (name, key)


def test_the_replayed_contexts_hold_what_was_said_of_that_very_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, shown = text_policy(), []
    real = gain.response_logps

    def spied(policy: Policy, contexts: Any, responses: Any, context_of: Any, t: float) -> Any:
        shown.extend(
            (policy.tokenizer.decode(contexts[c]), policy.text(r))
            for c, r in zip(context_of, responses, strict=True)
        )
        return real(policy, contexts, responses, context_of, t)

    monkeypatch.setattr(gain, "response_logps", spied)
    task = Scored(lambda p, r: (0.0, len(set(r)) / 10))
    task.verify = lambda prompts, responses: [  # type: ignore[method-assign]
        Verdict((verdict.rewards[0], replace(verdict.rewards[1], detail=f"[{response}]")))
        for verdict, response in zip(
            Scored(task.score).verify(prompts, responses), responses, strict=True
        )
    ]
    found = checked(policy, some(3), task, values={"replay": {"variants": {"plain": "verdict"}}})
    assert found["plain"].good > 0 and found["plain"].sampled is None
    judged = [(context, answer) for context, answer in shown if "The judge says" in context]
    assert len(judged) == len(shown) / 2
    assert all(f"The judge says: [{answer}]" in context for context, answer in judged)


def test_a_message_that_leaves_no_room_drops_that_response_and_not_the_check() -> None:
    values = {"replay": {"variants": {"plain": "verdict"}}}
    task = Scored(lambda p, r: (0.0, len(r) / 10), detail="x" * 400)
    found = checked(text_policy(), some(3), task, values=values)["plain"]
    assert (found.good, found.prompts, found.loglik, found.trusted) == (0, 3, None, False)
    assert "no way to tell before" in found.reason and "too long" in found.reason


@pytest.mark.parametrize(
    ("measured", "trusted", "said"),
    [
        ((0.1, 0.05, 0.2, 0.1, 9), True, "+0.2 ± 0.1 nats a token over 9 good responses; +0.1 ±"),
        ((-0.10, 0.05, 0.2, 0.1, 9), True, "good responses are likelier"),  # just two errors
        ((-0.11, 0.05, 0.2, 0.1, 9), False, "but it loses: -0.11 ± 0.05 in sampled reward"),
        ((-0.1, 0.0, 0.2, 0.0, 9), False, "but it loses"),
        ((-0.5, None, 0.2, None, 1), True, "+0.2 nats a token over 1 good responses"),
        ((0.5, 0.01, 0.0, 0.1, 9), False, "not likelier: +0 ± 0.1 nats"),
        ((0.5, 0.01, -0.2, 0.1, 9), False, "not likelier"),
        ((0.5, 0.01, NOISE / 2, 0.1, 9), False, "not likelier"),
        ((0.5, 0.01, math.nan, math.nan, 9), False, "not likelier"),
        ((0.01, 0.3, None, None, 0), True, "No good response to compare, but the policy gains"),
        ((0.0, 0.3, None, None, 0), False, "does not gain: +0 ± 0.3 in sampled reward"),
        ((-0.1, 0.3, None, None, 0), False, "does not gain"),
        ((None, None, 0.2, 0.1, 9), True, "+0.2 ± 0.1 nats a token over 9 good responses."),
        ((None, None, -0.2, 0.1, 9), False, "not likelier"),
        ((None, None, None, None, 0), False, "no way to tell before"),
    ],
)
def test_log_likelihood_decides_and_samples_can_only_veto(
    measured: Any, trusted: bool, said: str
) -> None:
    verdict, reason = decide(*measured)
    assert verdict is trusted
    assert said in reason and reason.endswith(".")


def test_what_a_verifier_could_not_decide_is_left_out_and_is_not_a_zero() -> None:
    """Of the responses, only those that hold a letter are decided, and all of these are good."""
    policy = text_policy()

    def score(asked: Prompt, response: str) -> tuple[Any, Any]:
        return (1.0, math.nan) if any(c.isalpha() for c in response) else (None, None)

    found = checked(policy, some(), Scored(score))
    assert (found["letter"].told, found["letter"].untold) == (1.0, 1.0)
    assert found["letter"].prompts == 6 and 0 < found["letter"].good < 48
    assert (found["plain"].prompts, found["plain"].left_out) == (0, 6)
    assert found["plain"].reason == "No prompt could be compared (6 undecided)."


def test_a_prompt_decided_under_one_context_only_is_no_pair() -> None:
    policy = taught(lambda told: "abc" if "letter" in told else "123")
    prompts = some()
    only = {"p1", "p4"}

    def score(asked: Prompt, response: str) -> tuple[Any, Any]:
        return (None if asked.id in only and "1" in response else float("a" in response), 1.0)

    found = checked(policy, prompts, Scored(score))["letter"]
    kept = checked(policy, [p for p in prompts if p.id not in only], Scored(score))["letter"]
    assert (found.prompts, found.left_out) == (4, 2)
    assert replace(found, left_out=0, loglik=0.0, loglik_error=0.0, reason="") == replace(
        kept, loglik=0.0, loglik_error=0.0, reason=""
    )
    assert found.loglik == pytest.approx(kept.loglik, abs=1e-5)


def test_the_best_are_good_where_a_reward_is_not_zero_or_one() -> None:
    asked = [prompt(0), prompt(1), prompt(2)]
    pairs = [gain.Compared(p, {}, (set(), set()), (1,), (2,), True) for p in asked]
    values = {"p0": ([-3.0, 1.0, 3.0], [3.0, 2.0]), "p1": ([1.0, 1.0], [1.0]),
              "p2": ([None, -2.0], [-3.0])}  # fmt: skip
    answers = {
        (key, (at + 1,)): [rollout([1], {"letter": v}, prompt_id=key) for v in column]
        for key, columns in values.items()
        for at, column in enumerate(columns)
    }
    good = gain.good_responses(pairs, answers, "letter")
    assert [(p.prompt.id, r.rewards[0].value) for p, r in good] == [
        ("p0", 3.0), ("p0", 3.0), ("p2", -2.0),
    ]  # fmt: skip
    binary = gain.good_responses(pairs[1:2], answers, "letter")
    assert len(binary) == 3, "ones need no contrast where only 0 and 1 were seen"


def test_prompts_without_information_or_room_are_left_out_and_counted() -> None:
    policy = text_policy(positions=160)
    prompts = some(4)
    prompts[1] = replace(prompts[1], information=prompts[1].information[:1])
    longer = Information("plain", "rule", "append", "Plain. " * 80)
    prompts[2] = replace(prompts[2], information=(prompts[2].information[0], longer))
    found = checked(policy, prompts)
    # What makes prompt 2 too long stands in both contexts of the other reward.
    assert (found["letter"].prompts, found["letter"].left_out) == (3, 1)
    assert (found["plain"].prompts, found["plain"].left_out) == (2, 2)
    fitting = checked(policy, [prompts[0], prompts[3]])["plain"]
    assert found["plain"].told == fitting.told and found["plain"].untold == fitting.untold
    alone = checked(policy, prompts[1:3])["plain"]
    assert alone.reason == "No prompt could be compared (1 without information, 1 too long)."
    assert not alone.trusted
    assert (alone.told, alone.sampled, alone.loglik, alone.good) == (None, None, None, 0)


def test_a_context_that_just_fits_is_sampled() -> None:
    policy = text_policy()
    asked = prompt(0)
    full = policy.prompt_ids(informed(asked, chosen_information(asked, {}), {*NAMES}))
    policy.max_positions = len(full) + tiny_settings().sampling.max_new_tokens
    assert checked(policy, [asked])["plain"].prompts == 1
    policy.max_positions -= 1
    assert checked(policy, [asked])["plain"].left_out == 1


def test_contexts_that_are_the_same_cannot_be_compared() -> None:
    class Deaf(Policy):
        """Reads no turn of the user."""

        def prompt_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
            return super().prompt_ids(messages[:1])

    policy = Deaf(**vars(text_policy()))
    found = checked(policy, some(3))
    assert found["plain"].reason == "No prompt could be compared (3 the same without it)."
    assert found["letter"].prompts == 3


def test_a_single_prompt_and_a_single_response_have_no_standard_error() -> None:
    found = checked(text_policy(), [prompt(0)], Scored(lambda p, r: (1.0, 1.0)), samples=1)
    for one in found.values():
        assert one.sampled == 0.0 and one.sampled_error is None
        assert one.good == 2 and one.loglik is not None and one.loglik_error is not None
    alone = gain.mean_and_error([0.5])
    assert alone == (0.5, None)


def test_no_prompts_are_no_gain() -> None:
    found = checked(text_policy(), [])
    assert [(g.trusted, g.prompts, g.reason) for g in found.values()] == [
        (False, 0, "No prompt could be compared (there are none).")
    ] * 2


def near(one: dict[str, Gain], other: dict[str, Gain]) -> None:
    """Equal to the bit in what was sampled, and within rounding in log-likelihood."""
    assert one.keys() == other.keys()
    for name, found in one.items():
        assert found.loglik == pytest.approx(other[name].loglik, abs=1e-5)
        assert found.loglik_error == pytest.approx(other[name].loglik_error, abs=1e-5)
        flat = dict(loglik=0.0, loglik_error=0.0, reason="")
        assert replace(found, **flat) == replace(other[name], **flat)


def test_neither_order_nor_batches_nor_what_ran_before_change_the_result() -> None:
    policy, prompts = text_policy(), some()
    before = checked(policy, prompts)
    torch.rand(3)
    assert checked(policy, prompts) == before
    near(checked(policy, prompts[::-1]), before)
    one_by_one = {"train": {"prompts_per_step": 1, "micro_batch_tokens": 1}}
    near(checked(policy, prompts, values=one_by_one), before)
    near(checked(policy, prompts, values={"train": {"prompts_per_step": 50}}), before)
    assert checked(policy, prompts, step=1) != before


def test_each_context_is_sampled_once_with_draws_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    def spied(policy: Policy, prompts: Any, **settings: Any) -> Any:
        asked.extend(prompts)
        return generate(policy, prompts, **settings)

    monkeypatch.setattr(gain, "generate", spied)
    checked(text_policy(), some(3))
    keys = [key for key, _ in asked]
    assert sorted(keys) == sorted(
        f"p{n}/gain/{what}" for n in range(3) for what in ("all", "without letter", "without plain")
    )
    assert len({ids for _, ids in asked}) == 9


def test_each_response_is_scored_once_under_each_context(monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[tuple[Any, Any]] = []
    real = gain.response_logps

    def spied(policy: Policy, contexts: Any, responses: Any, context_of: Any, t: float) -> Any:
        assert not torch.is_grad_enabled()
        scored.extend((contexts[c], r) for c, r in zip(context_of, responses, strict=True))
        return real(policy, contexts, responses, context_of, t)

    monkeypatch.setattr(gain, "response_logps", spied)
    found = checked(taught(lambda told: "abc"), some(3))
    assert found["letter"].good == 24
    assert len(scored) == len(set(scored)) < 24


def test_metrics_leave_out_what_was_not_measured() -> None:
    whole = Gain("a", 0.5, 0.75, -0.25, 0.125, 0.5, 0.25, 7, 4, 1, True, "")
    bare = Gain("b", None, None, None, None, None, None, 0, 0, 4, False, "")
    assert gain_metrics({"a": whole, "b": bare}) == {
        "gain/a/told": 0.5, "gain/a/untold": 0.75, "gain/a/sampled": -0.25, "gain/a/loglik": 0.5,
        "gain/a/good": 7.0, "gain/a/trusted": 1.0, "gain/b/good": 0.0, "gain/b/trusted": 0.0,
    }  # fmt: skip
