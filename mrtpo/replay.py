"""Replay contexts: the prompt with all information, and with one reward's information left out.

A context is the policy's own conversation. Information that the prompt does not state is added at
the end of the last user turn, so that every context shares its beginning with the sampling prompt;
information that the prompt states is left out by taking it out of there
(`records.Information.where`). Responses are replayed as the token ids that were sampled; contexts
are never cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mrtpo.attribution import DIRECTIONAL, distribution_distance, needs_distribution
from mrtpo.logprobs import CHUNK_LOGITS, budgeted, log_softmax, response_hidden, right_padded
from mrtpo.policy import Policy
from mrtpo.records import Information, Message, Prompt, Rollout


def chosen_information(prompt: Prompt, variants: Mapping[str, str]) -> dict[str, Information]:
    """The information of each reward: the variant asked for, else the first one listed.

    Raises ValueError naming the reward and its variants.
    """
    chosen: dict[str, Information] = {}
    for entry in prompt.information:
        wanted = variants.get(entry.reward, entry.variant)
        if entry.variant == wanted:
            chosen.setdefault(entry.reward, entry)
    for reward in variants:
        if reward not in chosen:
            known = [e.variant for e in prompt.information if e.reward == reward]
            raise ValueError(
                f"replay.variants: {reward}: {variants[reward]!r} is not offered by prompt "
                f"{prompt.id}; it offers: {', '.join(known) or 'nothing for this reward'}"
            )
    return chosen


def informed(
    prompt: Prompt,
    chosen: Mapping[str, Information],
    told: Collection[str],
    details: Mapping[str, str] | None = None,
) -> tuple[Message, ...]:
    """The conversation with the information of the rewards in `told`, and of no other in `chosen`.

    `details` fills `{detail}` with each reward's verifier message on the replayed response. Raises
    ValueError where a text that should stand in the prompt once does not, or one that is added
    stands there already.
    """
    at = max(i for i, message in enumerate(prompt.messages) if message.role == "user")
    messages = list(prompt.messages)
    added = []
    for reward, entry in chosen.items():
        if entry.where == "append" and reward in told:
            detail = (details or {}).get(reward, "") or "no complaint"
            text = entry.text.replace("{detail}", detail)
            if any(text in message.content for message in prompt.messages):
                raise ValueError(
                    f"prompt {prompt.id}: information of reward {reward} stands in the messages "
                    "already; told twice, it cannot be left out"
                )
            added.append(text)
        elif entry.where == "prompt" and reward not in told:
            messages = _without(messages, entry, prompt.id)
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


@dataclass(frozen=True)
class Replayed:
    """What the replay measured, rows B, rewards K, tokens T.

    `distance_BKT` is undirected (`attribution.oriented` orients it), `with_BT` and `without_BKT`
    the emitted tokens' log-probabilities, `live_BK` which pairs were replayed; `reasons` says why
    others were not.
    """

    with_BT: Tensor
    without_BKT: Tensor
    distance_BKT: Tensor
    live_BK: Tensor
    mask_BT: Tensor
    reasons: dict[tuple[int, int], str]

    @property
    def delta_BKT(self) -> Tensor:
        return (self.with_BT[:, None] - self.without_BKT) * self.live_BK[..., None]


@torch.no_grad()
def replay(
    policy: Policy,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    reward_names: Sequence[str],
    advantages_BK: Tensor,
    *,
    distance: str,
    variants: Mapping[str, str],
    temperature: float,
    token_budget: int,
) -> Replayed:
    """Leave-one-out replay of each rollout, for the rewards whose advantage is not 0.

    Row b is `rollouts[b]`, an answer to `prompts[b]`. Contexts that are equal are computed once. A
    context that leaves no room for the response is never cut: that pair is dropped and `reasons`
    says so.
    """
    rows, count = len(rollouts), len(reward_names)
    longest = max(len(r.response_ids) for r in rollouts)
    device = policy.device
    with_BT = torch.zeros(rows, longest, device=device)
    without_BKT = torch.zeros(rows, count, longest, device=device)
    distance_BKT = torch.zeros(rows, count, longest, device=device)
    live_BK = torch.zeros(rows, count, dtype=torch.bool, device=device)
    ids_BT, mask_BT = right_padded([r.response_ids for r in rollouts], policy.pad_id, device)
    reasons: dict[tuple[int, int], str] = {}
    plans = []
    encoded: dict[tuple[Message, ...], tuple[int, ...]] = {}

    def ids_of(messages: tuple[Message, ...]) -> tuple[int, ...]:
        if messages not in encoded:
            encoded[messages] = policy.prompt_ids(messages)
        return encoded[messages]

    for b, (prompt, rollout) in enumerate(zip(prompts, rollouts, strict=True)):
        chosen = chosen_information(prompt, variants)
        details = {reward.name: reward.detail for reward in rollout.rewards}
        full = ids_of(informed(prompt, chosen, set(chosen), details))
        left_out: dict[int, tuple[int, ...]] = {}
        for k, name in enumerate(reward_names):
            if advantages_BK[b, k] == 0:
                reasons[b, k] = "no advantage"
            elif name not in chosen:
                reasons[b, k] = "no information"
            else:
                context = ids_of(informed(prompt, chosen, set(chosen) - {name}, details))
                if max(len(context), len(full)) + len(rollout.response_ids) > policy.max_positions:
                    reasons[b, k] = "context too long"
                else:
                    left_out[k] = context
        if left_out:
            plans.append((b, full, left_out))

    # Rows of one group stand together, so that a run shares their contexts.
    sizes = [(1 + len(p[2])) * len(rollouts[p[0]].response_ids) + len(p[1]) for p in plans]
    for run in budgeted(sizes, token_budget):
        contexts: dict[tuple[int, ...], int] = {}
        pairs: list[tuple[int, int | None]] = []
        context_of: list[int] = []
        for b, full, left_out in (plans[i] for i in run):
            told_and_left: list[tuple[int | None, tuple[int, ...]]] = [(None, full)]
            told_and_left += left_out.items()
            for left, context in told_and_left:
                pairs.append((b, left))
                context_of.append(contexts.setdefault(context, len(contexts)))
        hidden_NTD, _ = response_hidden(
            policy, list(contexts), [rollouts[b].response_ids for b, _ in pairs], context_of
        )
        base = -1
        for n, (b, left) in enumerate(pairs):
            length = len(rollouts[b].response_ids)
            if left is None:
                base = n
                continue
            with_T, without_T, distance_T = compare(
                policy, hidden_NTD[base, :length], hidden_NTD[n, :length], ids_BT[b, :length],
                temperature, distance,
            )  # fmt: skip
            with_BT[b, :length] = with_T
            without_BKT[b, left, :length] = without_T
            distance_BKT[b, left, :length] = distance_T
            live_BK[b, left] = True
    return Replayed(with_BT, without_BKT, distance_BKT, live_BK, mask_BT, reasons)


def compare(
    policy: Policy,
    with_TD: Tensor,
    without_TD: Tensor,
    ids_T: Tensor,
    temperature: float,
    distance: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Emitted log-probabilities with and without, and the undirected distance, chunk by chunk."""
    chunk = max(1, CHUNK_LOGITS // (2 * policy.model.config.vocab_size))
    undirected = DIRECTIONAL.get(distance, distance)
    pieces = []
    for p_ND, q_ND, ids_N in zip(
        with_TD.split(chunk), without_TD.split(chunk), ids_T.split(chunk), strict=True
    ):
        logp_NV = log_softmax(policy.model, p_ND, temperature)
        logq_NV = log_softmax(policy.model, q_ND, temperature)
        logp_N = logp_NV.gather(1, ids_N[:, None]).squeeze(1)
        logq_N = logq_NV.gather(1, ids_N[:, None]).squeeze(1)
        if needs_distribution(distance):
            distance_N = distribution_distance(undirected, logp_NV, logq_NV)
        else:
            distance_N = (logp_N - logq_N).abs()
        pieces.append((logp_N, logq_N, distance_N))
    return tuple(torch.cat(parts) for parts in zip(*pieces, strict=True))  # type: ignore[return-value]
