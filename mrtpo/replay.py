"""Replay: what a response's tokens are worth with and without some information.

The policy scores the token ids that it sampled, under pairs of contexts (`contexts`), without
gradients. The contexts of a prompt are run over what they have in common, and answers over their
contexts (`prefix`). Log-probabilities and distances are made chunk by chunk from hidden states, so
that no tensor of all tokens and the vocabulary exists. A context that is the sampling prompt itself
has its log-probabilities already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mrtpo.attribution import (
    DIRECTIONAL,
    coarse,
    distribution_distance,
    emitted_distance,
    needs_distribution,
)
from mrtpo.contexts import Ids, Pair, Plan, plan_replay
from mrtpo.logprobs import CHUNK_LOGITS, budgeted, chosen_logps, log_softmax, row_size
from mrtpo.policy import Policy
from mrtpo.prefix import response_hidden, right_padded
from mrtpo.records import Prompt, Rollout


@dataclass(frozen=True)
class Distance:
    """How two replays of a token are compared (`replay.distance`, `replay.top_k`)."""

    name: str
    top_k: int | None = None

    @property
    def of_distributions(self) -> bool:
        return needs_distribution(self.name)

    def between(self, logp_NV: Tensor, logq_NV: Tensor, ids_N: Tensor) -> Tensor:
        """Undirected distance of log-distributions at N tokens, where `of_distributions`."""
        if self.top_k is not None and self.top_k + 2 < logp_NV.shape[1]:
            logp_NV, logq_NV = coarse(logp_NV, logq_NV, ids_N, self.top_k)
        return distribution_distance(DIRECTIONAL.get(self.name, self.name), logp_NV, logq_NV)


@dataclass(frozen=True)
class Replayed:
    """What the replay measured, rows B, rewards K, tokens T.

    `distance_BKT` is undirected (`attribution.oriented` orients it), `with_BKT` and `without_BKT`
    the emitted tokens' log-probabilities, `live_BK` which pairs were replayed; `reasons` says why
    others were not.
    """

    with_BKT: Tensor
    without_BKT: Tensor
    distance_BKT: Tensor
    live_BK: Tensor
    mask_BT: Tensor
    reasons: dict[tuple[int, int], str]

    @property
    def delta_BKT(self) -> Tensor:
        return (self.with_BKT - self.without_BKT) * self.live_BK[..., None]


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
    """Leave-one-out replay of each rollout, for the rewards whose advantage is not 0."""
    plan = plan_replay(
        policy, prompts, rollouts, reward_names,
        lambda b, k: "no advantage" if advantages_BK[b, k] == 0 else "", variants=variants,
    )  # fmt: skip
    return measure(
        policy, rollouts, plan, len(reward_names), Distance(distance), temperature=temperature,
        token_budget=token_budget,
    )  # fmt: skip


@torch.no_grad()
def measure(
    policy: Policy,
    rollouts: Sequence[Rollout],
    plan: Plan,
    rewards: int,
    distance: Distance,
    *,
    temperature: float,
    token_budget: int,
    stored: bool = True,
) -> Replayed:
    """Score the pairs of a plan. `stored`: the rollouts' own log-probabilities are this policy's,
    and serve where a context is the sampling prompt and the emitted token is all that is asked."""
    rows = len(rollouts)
    device = policy.device
    ids_BT, mask_BT = right_padded([r.response_ids for r in rollouts], policy.pad_id, device)
    with_BKT = torch.zeros(rows, rewards, ids_BT.shape[1], device=device)
    without_BKT, distance_BKT = torch.zeros_like(with_BKT), torch.zeros_like(with_BKT)
    live_BK = torch.zeros(rows, rewards, dtype=torch.bool, device=device)
    stored = stored and not distance.of_distributions

    of_row: dict[int, list[Pair]] = {}
    for pair in plan.pairs:
        of_row.setdefault(pair.b, []).append(pair)

    def scored(pair: Pair) -> tuple[Ids, ...]:
        """Contexts of a pair that have to be run over the response."""
        own = rollouts[pair.b].prompt_ids if stored else None
        return tuple(context for context in (pair.told, pair.untold) if context != own)

    # Rows of one group stand together, so that a run shares their contexts.
    order = list(of_row)
    sizes = [
        row_size(
            policy, len(of_row[b][0].told), len(rollouts[b].response_ids),
            len({context for pair in of_row[b] for context in scored(pair)}),
        )
        for b in order
    ]  # fmt: skip
    for run in budgeted(sizes, token_budget):
        contexts: dict[Ids, int] = {}
        base_of: list[int] = []
        base: dict[Ids, int] = {}
        entries: dict[tuple[int, Ids], int] = {}

        def add(context: Ids, prompt: Ids) -> None:
            if context not in contexts:  # noqa: B023 - used in this turn
                contexts[context] = len(contexts)  # noqa: B023
                base_of.append(base.setdefault(prompt, contexts[context]))  # noqa: B023

        for b in (order[i] for i in run):
            prompt = rollouts[b].prompt_ids
            for pair in of_row[b]:
                add(pair.told, prompt)  # the first of a prompt is what its others begin like
                for context in scored(pair):
                    add(context, prompt)
                    entries.setdefault((b, context), len(entries))
        if not entries:
            continue
        hidden_NTD, mask_NT = response_hidden(
            policy, list(contexts), [rollouts[b].response_ids for b, _ in entries],
            [contexts[context] for _, context in entries], base_of,
        )  # fmt: skip
        run_pairs = [pair for i in run for pair in of_row[order[i]]]
        if distance.of_distributions:
            for pair in run_pairs:
                length = len(rollouts[pair.b].response_ids)
                at = (pair.b, pair.k, slice(length))
                with_BKT[at], without_BKT[at], distance_BKT[at] = compare(
                    policy, hidden_NTD[entries[pair.b, pair.told], :length],
                    hidden_NTD[entries[pair.b, pair.untold], :length], ids_BT[pair.b, :length],
                    temperature, distance,
                )  # fmt: skip
        else:
            rows_N = torch.tensor([b for b, _ in entries], device=device)
            logps_NT = chosen_logps(
                policy, hidden_NTD, ids_BT[rows_N, : mask_NT.shape[1]], mask_NT, temperature
            )

            def emitted(b: int, context: Ids) -> Tensor:
                n = entries.get((b, context))  # noqa: B023
                if n is None:
                    return torch.tensor(rollouts[b].logprobs, device=device)
                return logps_NT[n, : len(rollouts[b].response_ids)]  # noqa: B023

            for pair in run_pairs:
                at = (pair.b, pair.k, slice(len(rollouts[pair.b].response_ids)))
                with_BKT[at] = emitted(pair.b, pair.told)
                without_BKT[at] = emitted(pair.b, pair.untold)
    for pair in plan.pairs:
        live_BK[pair.b, pair.k] = True
    if not distance.of_distributions:
        distance_BKT = emitted_distance(distance.name, with_BKT - without_BKT)
    return Replayed(with_BKT, without_BKT, distance_BKT, live_BK, mask_BT, plan.reasons)


def compare(
    policy: Policy,
    with_TD: Tensor,
    without_TD: Tensor,
    ids_T: Tensor,
    temperature: float,
    distance: Distance,
) -> tuple[Tensor, Tensor, Tensor]:
    """Emitted log-probabilities with and without, and the undirected distance of distributions,
    chunk by chunk."""
    chunk = max(1, CHUNK_LOGITS // (2 * policy.vocab_size))
    pieces = []
    for p_ND, q_ND, ids_N in zip(
        with_TD.split(chunk), without_TD.split(chunk), ids_T.split(chunk), strict=True
    ):
        logp_NV = log_softmax(policy, p_ND, temperature)
        logq_NV = log_softmax(policy, q_ND, temperature)
        logp_N = logp_NV.gather(1, ids_N[:, None]).squeeze(1)
        logq_N = logq_NV.gather(1, ids_N[:, None]).squeeze(1)
        pieces.append((logp_N, logq_N, distance.between(logp_NV, logq_NV, ids_N)))
    return tuple(torch.cat(parts) for parts in zip(*pieces, strict=True))  # type: ignore[return-value]


@torch.no_grad()
def null_replay(
    policy: Policy, rollouts: Sequence[Rollout], distance: Distance, *, temperature: float
) -> Tensor:
    """Distances of a replay that changes nothing: what batch shapes alone do to them.

    Each response is scored under its sampling prompt among the others and by itself. Shape N, all
    tokens of all rows. A floor below these gives credit to rounding.
    """
    contexts = list(dict.fromkeys(r.prompt_ids for r in rollouts))
    context_of = [contexts.index(r.prompt_ids) for r in rollouts]
    responses = [r.response_ids for r in rollouts]
    together_BTD, _ = response_hidden(policy, contexts, responses, context_of)
    found = []
    for b, rollout in enumerate(rollouts):
        length = len(rollout.response_ids)
        alone_1TD, _ = response_hidden(policy, [rollout.prompt_ids], [rollout.response_ids], [0])
        ids_T = torch.tensor(rollout.response_ids, device=policy.device)
        pair = (together_BTD[b, :length], alone_1TD[0])
        if distance.of_distributions:
            found.append(compare(policy, *pair, ids_T, temperature, distance)[2])
            continue
        one_T, other_T = (
            chosen_logps(policy, h[None], ids_T[None], torch.ones_like(ids_T)[None], temperature)[0]
            for h in pair
        )
        # What was kept while sampling is a third shape.
        kept_T = torch.tensor(rollout.logprobs, device=policy.device)
        found.append(
            emitted_distance(
                distance.name, torch.maximum((one_T - other_T).abs(), (one_T - kept_T).abs())
            )
        )
    return torch.cat(found)
