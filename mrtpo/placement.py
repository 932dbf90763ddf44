"""Where each reward's credit goes within a response: the token weights of every method.

`even` is 1 on every token. Replays, the policy's entropy or known spans give distances, which
`attribution` turns into weights; the controls put a replay's weights in a wrong place. With `mix`
they are `(1 − λ) + λ·w`. A pair of response and reward that was not replayed has weights 1.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mrtpo.attribution import oriented, token_weights
from mrtpo.config import Replay, Settings
from mrtpo.contexts import plan_replay
from mrtpo.logprobs import CHUNK_LOGITS, budgeted, log_softmax, row_size
from mrtpo.methods import METHODS
from mrtpo.policy import Policy
from mrtpo.prefix import response_hidden, right_padded
from mrtpo.records import Prompt, Rollout
from mrtpo.replay import Distance, Replayed, measure
from mrtpo.spread import cort_weights, entropy, lexemes, permuted, pooled, shuffled, words

Spans = Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Replayer:
    """Who replays, and what of it is not to be trusted (`gain`).

    `stored`: the log-probabilities kept while sampling are this policy's own.
    """

    policy: Policy
    stored: bool = True
    untrusted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Placement:
    """`weights_BKT`, 0 on padding, with `mask_BT`; `replayed` where the method replays."""

    weights_BKT: Tensor
    mask_BT: Tensor
    replayed: Replayed | None = None


def place(
    replayer: Replayer,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    names: Sequence[str],
    credit_BK: Tensor,
    verdict_BK: Tensor,
    group_B: Tensor,
    settings: Settings,
    *,
    step: int,
    mix: float,
    spans: Sequence[Spans] | None = None,
) -> Placement:
    """Token weights of a batch under `train.method`. Groups must be whole.

    `verdict_BK` has the signs of A_k (`credit.verdict`). `spans`: for each row and reward the
    responsible characters, for the method `oracle`.
    """
    policy, spread = replayer.policy, METHODS[settings.train.method].spread
    ids = [rollout.response_ids for rollout in rollouts]
    _, mask_BT = right_padded(ids, policy.pad_id, policy.device)
    even_BKT = mask_BT[:, None].expand(-1, credit_BK.shape[1], -1).to(credit_BK.dtype)
    if spread == "even":
        return Placement(even_BKT, mask_BT)
    if spread == "cort":
        replayed = replay_rows(
            replayer, prompts, rollouts, names, credit_BK, settings, step=step,
            form="leave_all_out",
        )  # fmt: skip
        own = settings.replay
        weights_BT = cort_weights(
            replayed.delta_BKT[:, 0], mask_BT, strength=own.cort_strength,
            sharpness=own.cort_sharpness, offset=own.cort_offset,
        )  # fmt: skip
        mixed_B1T = ((1.0 - mix) + mix * weights_BT[:, None]) * mask_BT[:, None]
        live_B11 = replayed.live_BK[:, :1, None]
        return Placement(torch.where(live_B11, mixed_B1T, even_BKT), mask_BT, replayed)
    if spread in ("entropy", "oracle"):
        if spread == "entropy":
            distance_BT = entropies(policy, rollouts, settings)
            distance_BKT = distance_BT[:, None].expand_as(even_BKT)
        else:
            distance_BKT = indicators(policy, rollouts, names, spans or [], even_BKT)
        weights_BKT = torch.stack(
            [_weights(distance_BKT[:, k], mask_BT, settings.replay, mix)
             for k in range(credit_BK.shape[1])], 1,
        )  # fmt: skip
        return Placement(weights_BKT, mask_BT)
    replayed = replay_rows(replayer, prompts, rollouts, names, credit_BK, settings, step=step)
    units_BT = units(policy, rollouts, settings.replay.pool)
    weights_BKT = weights_of(replayed, verdict_BK, group_B, settings.replay, mix, units_BT)
    if spread == "shuffled":
        weights_BKT = shuffled(weights_BKT, replayed.live_BK, group_B, mask_BT)
    elif spread == "permuted":
        weights_BKT = permuted(weights_BKT, replayed.live_BK, mask_BT)
    return Placement(weights_BKT, mask_BT, replayed)


def replay_rows(
    replayer: Replayer,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    names: Sequence[str],
    credit_BK: Tensor,
    settings: Settings,
    *,
    step: int,
    form: str | None = None,
) -> Replayed:
    """Replay a batch as the settings say: pairs without an advantage, or of a reward that is not
    trusted, or beyond `replay.max_rewards`, need none."""
    own = settings.replay
    columns = names if form is None else ("all information",)
    doubted = {k for k, name in enumerate(columns) if name in replayer.untrusted}
    drawn = [
        drawn_rewards(
            rollout, [k for k in credit_K.nonzero().flatten().tolist() if k not in doubted],
            settings, step,
        )
        for rollout, credit_K in zip(rollouts, credit_BK, strict=True)
    ]  # fmt: skip

    def wanted(b: int, k: int) -> str:
        if credit_BK[b, k] == 0:
            return "no advantage"
        if k in doubted:
            return "not trusted"
        return "" if k in drawn[b] else "not drawn"

    plan = plan_replay(
        replayer.policy, prompts, rollouts, columns, wanted, variants=own.variants,
        form=form or own.contexts,
    )  # fmt: skip
    return measure(
        replayer.policy, rollouts, plan, len(columns), Distance(own.distance, own.top_k),
        temperature=settings.sampling.temperature,
        token_budget=settings.train.micro_batch_tokens, stored=replayer.stored,
    )  # fmt: skip


def drawn_rewards(
    rollout: Rollout, live: Sequence[int], settings: Settings, step: int
) -> Collection[int]:
    """At most `replay.max_rewards` of a response's live rewards, by seed, step and response."""
    most = settings.replay.max_rewards
    if most is None or len(live) <= most:
        return live
    key = f"replay {settings.seed} {step} {rollout.prompt_id} {rollout.sample}"
    return random.Random(key).sample(list(live), most)


def weights_of(
    replayed: Replayed,
    verdict_BK: Tensor,
    group_B: Tensor,
    settings: Replay,
    mix: float,
    units_BT: Tensor | None = None,
) -> Tensor:
    """Token weights of every reward; 1 on real tokens where a pair was not replayed."""
    mask_BT = replayed.mask_BT.to(verdict_BK.dtype)
    weights_BKT = mask_BT[:, None].expand_as(replayed.distance_BKT).clone()
    delta_BKT = replayed.delta_BKT
    for k in range(verdict_BK.shape[1]):
        distance_BT = oriented(
            settings.distance, replayed.distance_BKT[:, k], delta_BKT[:, k], verdict_BK[:, k]
        )
        if units_BT is not None:
            distance_BT = pooled(distance_BT, units_BT, mask_BT)
        live_B = replayed.live_BK[:, k]
        if not live_B.any():
            continue
        group_N = None if settings.scale == "response" else group_B[live_B]
        weights_BKT[live_B, k] = _weights(
            distance_BT[live_B], mask_BT[live_B], settings, mix, group_N
        )
    return weights_BKT


def _weights(
    distance_BT: Tensor,
    mask_BT: Tensor,
    settings: Replay,
    mix: float,
    group_B: Tensor | None = None,
) -> Tensor:
    return token_weights(
        distance_BT, mask_BT.to(distance_BT.dtype), floor=settings.floor,
        normalise=settings.normalise, cap=settings.cap, mix=mix, group_B=group_B,
        balanced=group_B is not None and settings.scale == "balanced",
    )  # fmt: skip


def units(policy: Policy, rollouts: Sequence[Rollout], pool: str) -> Tensor | None:
    """Which unit each token belongs to under `replay.pool`; None: each is its own."""
    if pool == "none":
        return None
    number = {"word": words, "lexeme": lexemes}[pool]
    rows = []
    for rollout in rollouts:
        ids = rollout.response_ids
        # An end token is a unit of its own, however it is written.
        shown = zip(ids, policy.pieces(ids), strict=True)
        rows.append(number(["" if i in policy.end_ids else piece for i, piece in shown]))
    return right_padded(rows, 0, policy.device)[0]


@torch.no_grad()
def entropies(policy: Policy, rollouts: Sequence[Rollout], settings: Settings) -> Tensor:
    """Entropy, in nats, of the distribution that each token was sampled from. Shape (B, T)."""
    _, mask_BT = right_padded([r.response_ids for r in rollouts], policy.pad_id, policy.device)
    out_BT = torch.zeros(mask_BT.shape, device=policy.device)
    sizes = [row_size(policy, len(r.prompt_ids), len(r.response_ids)) for r in rollouts]
    chunk = max(1, CHUNK_LOGITS // (2 * policy.vocab_size))
    for run in budgeted(sizes, settings.train.micro_batch_tokens):
        contexts: dict[tuple[int, ...], int] = {}
        context_of = [contexts.setdefault(rollouts[b].prompt_ids, len(contexts)) for b in run]
        hidden_NTD, real_NT = response_hidden(
            policy, list(contexts), [rollouts[b].response_ids for b in run], context_of
        )
        found = [
            entropy(log_softmax(policy, hidden_ND, settings.sampling.temperature))
            for hidden_ND in hidden_NTD[real_NT.bool()].split(chunk)
        ]
        rows = torch.zeros(real_NT.shape, device=policy.device)
        out_BT[run, : real_NT.shape[1]] = rows.masked_scatter(real_NT.bool(), torch.cat(found))
    return out_BT


def indicators(
    policy: Policy,
    rollouts: Sequence[Rollout],
    names: Sequence[str],
    spans: Sequence[Spans],
    like_BKT: Tensor,
) -> Tensor:
    """1 on tokens with a character in one of the reward's spans, else 0. A reward without a span
    in a response has none, and so even weights. Shape (B, K, T)."""
    out_BKT = torch.zeros_like(like_BKT)
    for b, (rollout, of_reward) in enumerate(zip(rollouts, spans, strict=True)):
        start = 0
        for t, piece in enumerate(policy.pieces(rollout.response_ids)):
            end = start + len(piece)
            for k, name in enumerate(names):
                inside = any(s < end and e > start for s, e in of_reward.get(name, ()))
                out_BKT[b, k, t] = float(inside)
            start = end
    return out_BKT
