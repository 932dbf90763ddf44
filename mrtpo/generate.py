"""Sampling: each distinct prompt is run once, its cache is cloned over the group.

Every random number is a function of (seed, step, prompt id, sample), drawn before the first token,
so what a row samples does not depend on its batch, on the order of prompts, or on a resume. Rows
that have ended leave the batch. Log-probabilities are kept at the sampling temperature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mrtpo.decoding import Decoder
from mrtpo.logprobs import log_softmax
from mrtpo.policy import Policy
from mrtpo.records import Rollout


def uniforms(seed: int, step: int, prompt_id: str, sample: int, count: int) -> np.ndarray:
    """`count` numbers in [0, 1) that belong to one row of one step."""
    key = hashlib.sha256(f"{seed}/{step}/{prompt_id}/{sample}".encode()).digest()[:16]
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little"))).random(count)


@torch.no_grad()
def generate(
    policy: Policy,
    prompts: Sequence[tuple[str, Sequence[int]]],
    *,
    samples: int,
    temperature: float,
    max_new_tokens: int,
    seed: int,
    step: int,
) -> list[Rollout]:
    """`samples` responses for each (prompt id, prompt ids), prompts in order, samples within them.

    `temperature` 0 is greedy; its log-probabilities are those at temperature 1. Raises ValueError
    naming the prompt when it leaves no room for `max_new_tokens`.
    """
    for prompt_id, ids in prompts:
        if len(ids) + max_new_tokens > policy.max_positions:
            raise ValueError(
                f"prompt {prompt_id}: {len(ids)} tokens and max_new_tokens {max_new_tokens} exceed "
                f"the model's {policy.max_positions} positions"
            )
    if not policy.shares and len(prompts) > 1:
        return [
            rollout
            for prompt in prompts
            for rollout in generate(
                policy, [prompt], samples=samples, temperature=temperature,
                max_new_tokens=max_new_tokens, seed=seed, step=step,
            )
        ]  # fmt: skip
    device = policy.device
    owner = [c for c in range(len(prompts)) for _ in range(samples)]
    rows = Decoder(policy, [ids for _, ids in prompts], owner)
    draws_BT = torch.tensor(
        np.stack(
            [
                uniforms(seed, step, prompt_id, g, max_new_tokens)
                for prompt_id, _ in prompts
                for g in range(samples)
            ]
        ),
        dtype=torch.float64,
    ).to(device)
    ends = torch.tensor(sorted(policy.end_ids), device=device)
    ids_BT = torch.full((len(owner), max_new_tokens), -1, device=device)
    logps_BT = torch.zeros((len(owner), max_new_tokens), device=device)
    active_A = torch.arange(len(owner), device=device)
    for t in range(max_new_tokens):
        token_A, logp_A = pick(
            log_softmax(policy, rows.hidden_AD, temperature or 1.0),
            draws_BT[active_A, t],
            temperature,
        )
        ids_BT[active_A, t], logps_BT[active_A, t] = token_A, logp_A
        going = ~torch.isin(token_A, ends)
        if not going.any() or t + 1 == max_new_tokens:
            break
        if not going.all():
            kept_A = going.nonzero().squeeze(1)
            rows.keep(kept_A)
            active_A, token_A = active_A[kept_A], token_A[kept_A]
        rows.step(token_A)
    return _rollouts(policy, prompts, samples, ids_BT.tolist(), logps_BT.tolist())


def pick(logps_AV: Tensor, draw_A: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The next token of each row and its log-probability: greedy, or by the inverse of the
    cumulative distribution at `draw_A`.
    """
    if temperature == 0:
        logp_A, token_A = logps_AV.max(1)
        return token_A, logp_A
    cumulative_AV = logps_AV.exp().cumsum(1, dtype=torch.float64)
    target_A1 = (draw_A * cumulative_AV[:, -1])[:, None]
    token_A = torch.searchsorted(cumulative_AV, target_A1, right=True).squeeze(1)
    token_A = token_A.clamp(max=logps_AV.shape[1] - 1)
    return token_A, logps_AV.gather(1, token_A[:, None]).squeeze(1)


def _rollouts(
    policy: Policy,
    prompts: Sequence[tuple[str, Sequence[int]]],
    samples: int,
    ids: list[list[int]],
    logps: list[list[float]],
) -> list[Rollout]:
    made = []
    for b, (row, row_logps) in enumerate(zip(ids, logps, strict=True)):
        prompt_id, prompt_ids = prompts[b // samples]
        length = row.index(-1) if -1 in row else len(row)
        response = tuple(row[:length])
        made.append(
            Rollout(
                prompt_id=prompt_id,
                sample=b % samples,
                prompt_ids=tuple(prompt_ids),
                response_ids=response,
                logprobs=tuple(row_logps[:length]),
                text=policy.text(response),
                finished=response[-1] in policy.end_ids,
            )
        )
    return made
