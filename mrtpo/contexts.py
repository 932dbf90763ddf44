"""Replay contexts: the prompt with a reward's information and without it.

A context is the policy's own conversation. Information that the prompt does not state is added at
the end of the last user turn, so that every context shares its beginning with the sampling prompt;
information that the prompt states is left out by taking it out of there
(`records.Information.where`). Responses are replayed as the token ids that were sampled; contexts
are never cut.

Several rewards may speak of one text (three scores of a result, of the reference). It then stands
in a context once, and leaving one of these rewards out leaves out the text, and with it the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mrtpo.policy import Policy
from mrtpo.records import Information, Message, Prompt, Rollout


def chosen_information(prompt: Prompt, variants: Mapping[str, str]) -> dict[str, Information]:
    """The information of each reward: the variant asked for, else the first one listed.

    A prompt that says nothing of a reward has none for it. Raises ValueError naming the reward and
    its variants where it says something, but not what was asked for.
    """
    chosen: dict[str, Information] = {}
    for entry in prompt.information:
        wanted = variants.get(entry.reward, entry.variant)
        if entry.variant == wanted:
            chosen.setdefault(entry.reward, entry)
    for reward, wanted in variants.items():
        offered = [e.variant for e in prompt.information if e.reward == reward]
        if offered and reward not in chosen:
            raise ValueError(
                f"replay.variants: {reward}: {wanted!r} is not offered by prompt {prompt.id}; it "
                f"offers: {', '.join(offered)}"
            )
    return chosen


def sharing(chosen: Mapping[str, Information], reward: str) -> set[str]:
    """The rewards with the same information text as `reward`, which is among them; none if it has
    no information."""
    if reward not in chosen:
        return set()
    own = (chosen[reward].where, chosen[reward].text)
    return {name for name, entry in chosen.items() if (entry.where, entry.text) == own}


def informed(
    prompt: Prompt,
    chosen: Mapping[str, Information],
    told: Collection[str],
    details: Mapping[str, str] | None = None,
) -> tuple[Message, ...]:
    """The conversation with the information of the rewards in `told`, and of no other in `chosen`
    but those that share a text with them.

    `details` fills `{detail}` with each reward's verifier message on the replayed response. Raises
    ValueError where a text that should stand in the prompt once does not, or one that is added
    stands there already.
    """
    at = max(i for i, message in enumerate(prompt.messages) if message.role == "user")
    messages = list(prompt.messages)
    added: list[str] = []
    kept = {entry.text for reward, entry in chosen.items() if reward in told}
    for reward, entry in chosen.items():
        if entry.where == "append" and reward in told:
            detail = (details or {}).get(reward, "") or "no complaint"
            text = entry.text.replace("{detail}", detail)
            if any(text in message.content for message in prompt.messages):
                raise ValueError(
                    f"prompt {prompt.id}: information of reward {reward} stands in the messages "
                    "already; told twice, it cannot be left out"
                )
            if text not in added:
                added.append(text)
        elif entry.where == "prompt" and entry.text not in kept:
            messages = _without(messages, entry, prompt.id)
            kept.add(entry.text)  # once is enough
    if added:
        content = "\n".join([messages[at].content, *added])
        messages[at] = Message("user", content)
    return tuple(messages)


def _without(messages: list[Message], entry: Information, prompt_id: str) -> list[Message]:
    count = sum(message.content.count(entry.text) for message in messages)
    if count != 1:
        raise ValueError(
            f"prompt {prompt_id}: information of reward {entry.reward} stands {count} times in the "
            "messages; leaving it out needs exactly one"
        )
    return [
        Message(m.role, m.content.replace(entry.text, "").strip("\n"))
        if entry.text in m.content
        else m
        for m in messages
    ]


Ids = tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """Response b replayed under two contexts, for reward k: what is told in one is not in the
    other."""

    b: int
    k: int
    told: Ids
    untold: Ids


@dataclass(frozen=True)
class Plan:
    """What a replay has to score. `reasons` says why a (response, reward) has no pair."""

    pairs: list[Pair]
    reasons: dict[tuple[int, int], str]


def compared(
    form: str, chosen: Mapping[str, Information], reward: str
) -> tuple[set[str], set[str]]:
    """Whose information stands in the two contexts of a reward's replay, told and untold.

    `leave_one_out` compares everything with everything but the reward's own, which other rewards
    may share; `add_one_in` the reward's own with nothing; `leave_all_out` everything with nothing.
    """
    everything, own = set(chosen), sharing(chosen, reward)
    if form == "leave_all_out":
        return everything, set()
    return (own, set()) if form == "add_one_in" else (everything, everything - own)


def plan_replay(
    policy: Policy,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    names: Sequence[str],
    wanted: Callable[[int, int], str],
    *,
    variants: Mapping[str, str],
    form: str = "leave_one_out",
) -> Plan:
    """The contexts of each response and reward. Row b is `rollouts[b]`, an answer to `prompts[b]`.

    `wanted(b, k)` is empty, or why reward k of response b need not be replayed. `form`: see
    `compared`; `leave_all_out` is replayed once for a response (k = 0). A context that leaves no
    room for the response is never cut: that pair is dropped, and `reasons` says so.
    """
    encoded: dict[tuple[Message, ...], Ids] = {}
    pairs: list[Pair] = []
    reasons: dict[tuple[int, int], str] = {}
    for b, (prompt, rollout) in enumerate(zip(prompts, rollouts, strict=True)):
        chosen = chosen_information(prompt, variants)
        details = {reward.name: reward.detail for reward in rollout.rewards}

        def ids_of(told: Collection[str]) -> Ids:
            messages = informed(prompt, chosen, told, details)  # noqa: B023 - used in this turn
            if messages not in encoded:
                encoded[messages] = policy.prompt_ids(messages)
            return encoded[messages]

        for k, name in enumerate(names):
            if reason := wanted(b, k):
                reasons[b, k] = reason
                continue
            told_names, untold_names = compared(form, chosen, name)
            if told_names == untold_names:
                reasons[b, k] = "no information"
                continue
            told, untold = ids_of(told_names), ids_of(untold_names)
            if told == untold:
                reasons[b, k] = "its information changes nothing"
            elif max(len(told), len(untold)) + len(rollout.response_ids) > policy.max_positions:
                reasons[b, k] = "context too long"
            else:
                pairs.append(Pair(b, k, told, untold))
    return Plan(pairs, reasons)
