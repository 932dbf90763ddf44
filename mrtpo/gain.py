"""Whether a policy can use what the replay tells it: the information gain of each reward.

The replay reads credit off the difference between two contexts of a reward k (`replay.contexts`):
all information and all but k's, or k's alone and none. That difference says where k was decided
only if the policy does better when it is told. A policy that cannot read the information, or is
misled by it, gives weights that mean nothing, and directional distances then teach it the opposite.
So the same two contexts are compared on prompts, before training and now and then during it:

(a) sampled: mean reward k of responses where k's information is told, minus that where it is not;
(b) log-likelihood: of responses that reward k found good, whichever context they were sampled
    from, mean log-probability a token where it is told minus where it is not.

(a) is what matters, but it is noisy: with the samples that a check can afford, its standard error
is about as large as a gain. (b) compares the same responses under both contexts, so that what else
makes a response likely cancels, and a few responses suffice; but it says nothing of bad ones, which
may have become likelier too. So (b) decides and (a) can only veto: a reward is trusted if (b) is
above 0 and (a) is not below 0 by more than two standard errors. Where no response was good there is
no (b), and (a) must itself be above 0.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from mrtpo.config import Settings
from mrtpo.contexts import chosen_information, compared, informed
from mrtpo.evaluation import verified
from mrtpo.generate import generate
from mrtpo.logprobs import budgeted, response_logps
from mrtpo.policy import Policy
from mrtpo.records import Information, Message, Prompt, Rollout
from mrtpo.tasks import Task

Ids = tuple[int, ...]
NOISE = 1e-5  # nats a token that one row may differ by between two batches, in float32
VETO = 2.0  # standard errors


@dataclass(frozen=True)
class Gain:
    """What telling reward k's information does to reward k.

    `told` and `untold` are means over prompts of each prompt's mean reward; `sampled_error` is the
    standard error of their paired difference over prompts, `loglik_error` that of `loglik` over
    responses. Both are None for a single one. `left_out` counts prompts that could not be compared.
    """

    reward: str
    told: float | None
    untold: float | None
    sampled: float | None
    sampled_error: float | None
    loglik: float | None
    loglik_error: float | None
    good: int
    prompts: int
    left_out: int
    trusted: bool
    reason: str


@dataclass(frozen=True)
class Compared:
    """The two contexts of one prompt, as token ids, and whose information stands in each.

    `tellable` is False where I_k holds a verifier's message on a response: sampling from it then
    tells the policy nothing, and only responses that are there already can be compared.
    """

    prompt: Prompt
    chosen: Mapping[str, Information]
    names: tuple[set[str], set[str]]
    told: Ids
    untold: Ids
    tellable: bool


Encode = Callable[[tuple[Message, ...]], Ids]
Answers = Mapping[tuple[str, Ids], Sequence[Rollout]]


@torch.no_grad()
def information_gain(
    policy: Policy,
    task: Task,
    prompts: Sequence[Prompt],
    settings: Settings,
    *,
    step: int,
    samples: int,
) -> dict[str, Gain]:
    """The gain of each of the task's rewards, from `samples` responses to each context.

    A function of the policy, the prompts, the settings and `step`: the draws are not those of the
    training's rollouts, and neither the order of prompts nor how they are batched matters. A prompt
    is left out, for a reward, where it has no information, where leaving that out changes nothing,
    where a context leaves no room to answer, and where no reward was decided under a context.
    """
    encode = functools.cache(policy.prompt_ids)
    pairs, left_out = comparable(policy, encode, task.reward_names, prompts, settings)
    answers = answered(policy, task, pairs, settings, step, samples)
    for name in pairs:
        decided = [
            pair
            for pair in pairs[name]
            if all(values(answers[pair.prompt.id, ids], name) for ids in (pair.told, pair.untold))
        ]
        left_out[name]["undecided"] += len(pairs[name]) - len(decided)
        pairs[name] = decided
    replayed: dict[str, list[tuple[Ids, Ids, Ids]]] = {}  # response, told, untold
    too_long: dict[str, int] = {}
    for name in pairs:
        rows = [
            contexts_of(encode, pair, rollout)
            for pair, rollout in good_responses(pairs[name], answers, name)
        ]
        fit = [row for row in rows if len(row[0]) + max(map(len, row[1:])) <= policy.max_positions]
        replayed[name], too_long[name] = fit, len(rows) - len(fit)
    logps = mean_logps(
        policy,
        {(ids, row[0]) for rows in replayed.values() for row in rows for ids in row[1:]},
        settings.sampling.temperature, settings.train.micro_batch_tokens,
    )  # fmt: skip
    gains = {}
    for name in pairs:
        differences = [logps[told, r] - logps[untold, r] for r, told, untold in replayed[name]]
        gains[name] = measured(
            name, pairs[name], answers, differences, left_out[name], too_long[name]
        )
    return gains


def gain_metrics(gains: Mapping[str, Gain]) -> dict[str, float]:
    """Figures of a check for a step's metrics; what could not be measured is absent, never 0."""
    metrics: dict[str, float] = {}
    for name, gain in gains.items():
        for what in ("sampled", "told", "untold", "loglik"):
            value = getattr(gain, what)
            if value is not None:
                metrics[f"gain/{name}/{what}"] = value
        metrics[f"gain/{name}/good"] = float(gain.good)
        metrics[f"gain/{name}/trusted"] = float(gain.trusted)
    return metrics


def comparable(
    policy: Policy,
    encode: Encode,
    names: Sequence[str],
    prompts: Sequence[Prompt],
    settings: Settings,
) -> tuple[dict[str, list[Compared]], dict[str, Counter[str]]]:
    """By reward: the prompts' pairs of contexts, and how many have none, by why."""
    room = policy.max_positions - settings.sampling.max_new_tokens
    pairs: dict[str, list[Compared]] = {name: [] for name in names}
    left_out: dict[str, Counter[str]] = {name: Counter() for name in names}
    for prompt in prompts:
        chosen = chosen_information(prompt, settings.replay.variants)
        for name in names:
            if name not in chosen:
                left_out[name]["without information"] += 1
                continue
            both = compared(settings.replay.contexts, chosen, name)
            told, untold = (encode(informed(prompt, chosen, one)) for one in both)
            if told == untold:
                left_out[name]["the same without it"] += 1
            elif max(len(told), len(untold)) > room:
                left_out[name]["too long"] += 1
            else:
                entry = chosen[name]
                tellable = entry.where != "append" or "{detail}" not in entry.text
                pairs[name].append(Compared(prompt, chosen, both, told, untold, tellable))
    return pairs, left_out


def answered(
    policy: Policy,
    task: Task,
    pairs: Mapping[str, Sequence[Compared]],
    settings: Settings,
    step: int,
    samples: int,
) -> dict[tuple[str, Ids], list[Rollout]]:
    """Verified responses by prompt and context. Equal contexts of a prompt are sampled once, and
    contexts of like length together, at most as many responses as a training step samples.
    """
    forms = {"leave_one_out": ("all", "without {}"), "add_one_in": ("only {}", "nothing")}
    asked: dict[tuple[str, Ids], tuple[str, Prompt]] = {}
    for name, wanted in pairs.items():
        for pair in wanted:
            prompt = pair.prompt
            for ids, label in zip(
                (pair.told, pair.untold), forms[settings.replay.contexts], strict=True
            ):
                draw = f"{prompt.id}/gain/{label.format(name)}"
                asked.setdefault((prompt.id, ids), (draw, prompt))
    order = sorted(asked, key=lambda key: (len(key[1]), key))
    size = max(1, settings.train.prompts_per_step * settings.sampling.group_size // samples)
    answers: dict[tuple[str, Ids], list[Rollout]] = {}
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        rollouts = generate(
            policy, [(asked[key][0], key[1]) for key in batch], samples=samples,
            temperature=settings.sampling.temperature,
            max_new_tokens=settings.sampling.max_new_tokens, seed=settings.seed, step=step,
        )  # fmt: skip
        rollouts = verified(
            task, [asked[key][1] for key in batch for _ in range(samples)], rollouts
        )
        for at, key in enumerate(batch):
            answers[key] = rollouts[at * samples : (at + 1) * samples]
    return answers


def value_of(rollout: Rollout, name: str) -> float | None:
    """A reward's value; None where its verifier could not decide."""
    return next((reward.number for reward in rollout.rewards if reward.name == name), None)


def values(rollouts: Iterable[Rollout], name: str) -> list[float]:
    """The values of a reward that are present."""
    found = (value_of(rollout, name) for rollout in rollouts)
    return [value for value in found if value is not None]


def good_responses(
    pairs: Sequence[Compared], answers: Answers, name: str
) -> list[tuple[Compared, Rollout]]:
    """Responses to either context that reward k found good.

    A reward of 0 and 1 is good at 1. Of another it is not known how much is much, so a prompt's
    best are good, unless all its responses fared alike.
    """
    rows = [
        (pair, [*answers[pair.prompt.id, pair.told], *answers[pair.prompt.id, pair.untold]])
        for pair in pairs
    ]
    binary = all(value in (0.0, 1.0) for _, found in rows for value in values(found, name))
    good = []
    for pair, rollouts in rows:
        seen = values(rollouts, name)
        best = 1.0 if binary else max(seen)
        if binary or min(seen) < best:
            good += [(pair, rollout) for rollout in rollouts if value_of(rollout, name) == best]
    return good


def contexts_of(encode: Encode, pair: Compared, rollout: Rollout) -> tuple[Ids, Ids, Ids]:
    """A response, and the contexts told and untold that the replay would show it under: with what
    the verifiers said of this very response.
    """
    details = {reward.name: reward.detail for reward in rollout.rewards}
    told, untold = (
        encode(informed(pair.prompt, pair.chosen, names, details)) for names in pair.names
    )
    return rollout.response_ids, told, untold


def mean_logps(
    policy: Policy, rows: Iterable[tuple[Ids, Ids]], temperature: float, token_budget: int
) -> dict[tuple[Ids, Ids], float]:
    """Mean log-probability a token of each distinct (context, response)."""
    # Like lengths stand together, and so do the rows of one context, which then is run once.
    order = sorted(set(rows), key=lambda row: (len(row[0]), row))
    found: dict[tuple[Ids, Ids], float] = {}
    for run in budgeted(
        [len(context) + len(response) for context, response in order], token_budget
    ):
        chosen = [order[i] for i in run]
        contexts: dict[Ids, int] = {}
        context_of = [contexts.setdefault(context, len(contexts)) for context, _ in chosen]
        logps_BT, mask_BT = response_logps(
            policy, list(contexts), [response for _, response in chosen], context_of, temperature
        )
        means_B = logps_BT.double().sum(1) / mask_BT.sum(1)
        found |= zip(chosen, means_B.tolist(), strict=True)
    return found


def measured(
    name: str,
    pairs: Sequence[Compared],
    answers: Answers,
    differences: Sequence[float],
    left_out: Counter[str],
    too_long: int,
) -> Gain:
    """The gain of one reward: `differences` are those of its good responses."""
    both = [
        tuple(
            statistics.fmean(values(answers[pair.prompt.id, ids], name))
            for ids in (pair.told, pair.untold)
        )
        for pair in pairs
        if pair.tellable
    ]
    told, _ = mean_and_error([told for told, _ in both])
    untold, _ = mean_and_error([untold for _, untold in both])
    sampled, sampled_error = mean_and_error([told - untold for told, untold in both])
    loglik, loglik_error = mean_and_error(differences)
    if pairs:
        trusted, reason = decide(sampled, sampled_error, loglik, loglik_error, len(differences))
        if too_long:
            reason += f" Replayed, {too_long} more good responses would be too long."
    else:
        why = ", ".join(f"{count} {what}" for what, count in left_out.items() if count)
        trusted, reason = False, f"No prompt could be compared ({why or 'there are none'})."
    return Gain(
        name, told, untold, sampled, sampled_error, loglik, loglik_error, len(differences),
        len(pairs), left_out.total(), trusted, reason,
    )  # fmt: skip


def mean_and_error(numbers: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and its standard error, None where there are too few; the order does not matter."""
    if not numbers:
        return None, None
    error = statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else None
    return statistics.fmean(numbers), error


def decide(
    sampled: float | None,
    sampled_error: float | None,
    loglik: float | None,
    loglik_error: float | None,
    good: int,
) -> tuple[bool, str]:
    """Whether replay weights are to be trusted, and why: see the module's text.

    A log-likelihood gain within `NOISE` is 0: a policy that does not see the difference has one of
    either sign. Without a standard error (one prompt) samples veto nothing.
    """
    rewards = "" if sampled is None else f"{_pm(sampled, sampled_error)} in sampled reward"
    if loglik is None:
        if sampled is None:
            return False, "No good response to compare, and no way to tell before one is there."
        if sampled > 0:
            return True, f"No good response to compare, but the policy gains {rewards}."
        return False, f"No good response to compare, and the policy does not gain: {rewards}."
    likelier = f"{_pm(loglik, loglik_error)} nats a token over {good} good responses"
    if not loglik > NOISE:  # nor where it is no number
        return False, f"Told, good responses are not likelier: {likelier}."
    if sampled is None:
        return True, f"Told, good responses are likelier: {likelier}."
    if sampled_error is not None and sampled < -VETO * sampled_error:
        return False, f"Told, good responses are likelier, {likelier}, but it loses: {rewards}."
    return True, f"Told, good responses are likelier: {likelier}; {rewards}."


def _pm(value: float, error: float | None) -> str:
    return f"{value:+.3g}" + ("" if error is None else f" ± {error:.2g}")
