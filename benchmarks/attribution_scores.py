"""Replays of responses whose responsible tokens are known, under all distances at once.

A response is run over all its contexts together, and every distance is made from these:

    leave_one_out    everything told, and everything but reward k's information
    add_one_in       reward k's information alone, and nothing
    placebo          everything told with a neutral block as long as reward k's information behind
                     it, and without the block: what any change of the context does
    null             everything told, in two batch shapes: rounding

The sign of an advantage is the verdict's: + for a pass, − for a fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mrtpo.attribution import (
    DIRECTIONAL,
    DISTRIBUTIONAL,
    EMITTED,
    distribution_distance,
    emitted_distance,
    oriented,
)
from mrtpo.contexts import Ids, chosen_information, informed, sharing
from mrtpo.logprobs import log_softmax
from mrtpo.placement import indicators, units
from mrtpo.policy import Policy
from mrtpo.prefix import response_hidden
from mrtpo.records import Message, Prompt, Rollout
from mrtpo.report.quality import confusion, scores
from mrtpo.spread import pooled

FORMS = ("leave_one_out", "add_one_in", "placebo", "null")
DISTANCES = (*DISTRIBUTIONAL, *EMITTED, *DIRECTIONAL)
POOLS = ("none", "word", "lexeme")
NEUTRAL = (
    "Note: the library opens at nine in the morning and closes in the evening, the bus stops in "
    "front of it, and on market days there is a stand with warm soup beside the door. "
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A response with its verdicts (`signs`: 1 or −1 by reward) and responsible characters.

    What has the same `cluster` is drawn together when intervals are made.
    """

    task: str
    cluster: str
    prompt: Prompt
    rollout: Rollout
    signs: Mapping[str, int]
    spans: Mapping[str, Sequence[tuple[int, int]]]


@torch.no_grad()
def measured(
    policy: Policy, case: Case, variants: Mapping[str, str], temperature: float
) -> tuple[list[Row], list[Row]]:
    """Scores of each reward with responsible tokens by form, distance and pool; and where each
    reward's distance lies: its share on the tokens of each."""
    chosen = chosen_information(case.prompt, variants)
    names = [name for name in case.signs if name in case.spans and name in chosen]
    if not names:
        return [], []
    contexts, pairs = contexts_of(policy, case, chosen, names)
    longest = max(map(len, contexts)) + len(case.rollout.response_ids)
    if longest > policy.max_positions:
        return [], []
    logps = log_distributions(policy, contexts, case.rollout.response_ids, temperature)
    ids_T = torch.tensor(case.rollout.response_ids, device=policy.device)
    like_1KT = torch.zeros(1, len(names), len(ids_T))
    inside_KT = indicators(policy, [case.rollout], names, [case.spans], like_1KT)[0].bool()
    unit_T = {pool: units(policy, [case.rollout], pool) for pool in POOLS}
    mask_1T = torch.ones(1, len(ids_T), device=policy.device)
    rows, lies = [], []
    plain: dict[tuple[str, str], list[Tensor]] = {}
    undirected: dict[tuple[int, int], dict[str, Tensor]] = {}
    for k, name in enumerate(names):
        sign_1 = torch.tensor([float(case.signs[name])], device=policy.device)
        for form in FORMS:
            told, untold = pairs[name, form]
            if (told, untold) not in undirected:
                undirected[told, untold] = distances(logps[told], logps[untold], ids_T)
            for distance, found_1T in directed(undirected[told, untold], sign_1):
                plain.setdefault((form, distance), []).append(found_1T[0])
                for pool in POOLS if form in FORMS[:2] else POOLS[:1]:
                    d_1T = found_1T
                    if (unit_1T := unit_T[pool]) is not None:
                        d_1T = pooled(found_1T, unit_1T, mask_1T)
                    rows.append(
                        {"task": case.task, "cluster": case.cluster, "reward": label(case, name),
                         "verdict": "pass" if case.signs[name] > 0 else "fail", "form": form,
                         "distance": distance, "pool": pool, "sum": float(d_1T.sum()),
                         "largest": float(d_1T.max()),
                         **scores(d_1T[0].tolist(), inside_KT[k].tolist())}
                    )  # fmt: skip
    for distance in DISTANCES:
        share_KL = confusion(torch.stack(plain["leave_one_out", distance]).cpu(), inside_KT.cpu())
        for k, name in enumerate(names):
            for at, other in enumerate(names):
                on = label(case, other)
                if case.task == "instruct":
                    on = "the same constraint" if k == at else "another constraint"
                lies.append(
                    {"task": case.task, "cluster": case.cluster, "reward": label(case, name),
                     "on": on, "distance": distance, "share": float(share_KL[k, at]),
                     "uniform": float(inside_KT[at].float().mean())}
                )  # fmt: skip
    return rows, lies


def label(case: Case, name: str) -> str:
    """What a reward counts under: its name, and `constraint` for each of those."""
    return "constraint" if case.task == "instruct" else name


def contexts_of(
    policy: Policy, case: Case, chosen: Mapping[str, Any], names: Sequence[str]
) -> tuple[list[Ids], dict[tuple[str, str], tuple[int, int]]]:
    """The contexts, everything told first and a second time last, and by reward and form the
    places of the two that are compared."""
    details = {reward.name: reward.detail for reward in case.rollout.rewards}
    everything = set(chosen)
    contexts: list[Ids] = []
    number: dict[Ids, int] = {}

    def place(messages: Sequence[Message]) -> int:
        ids = policy.prompt_ids(messages)
        if ids not in number:
            number[ids] = len(contexts)
            contexts.append(ids)
        return number[ids]

    def told(rewards: set[str]) -> int:
        return place(informed(case.prompt, chosen, rewards, details))

    full = told(everything)
    pairs = {}
    for name in names:
        own = sharing(chosen, name)
        text = chosen[name].text.replace("{detail}", details.get(name, ""))
        block = neutral_block(policy, text)
        more = place(with_block(informed(case.prompt, chosen, everything, details), block))
        pairs[name, "leave_one_out"] = full, told(everything - own)
        pairs[name, "add_one_in"] = told(own), told(set())
        pairs[name, "placebo"] = more, full
    pairs |= {(name, "null"): (full, len(contexts)) for name in names}
    return [*contexts, contexts[full]], pairs


def neutral_block(policy: Policy, text: str) -> str:
    """Words about nothing, as many as make the text's number of tokens."""

    def size(some: str) -> int:
        return len(policy.tokenizer.encode(some, add_special_tokens=False))

    wanted, words = size(text), (NEUTRAL * (1 + len(text) // 40)).split()
    count = 1
    while count < len(words) and size(" ".join(words[:count])) < wanted:
        count += 1
    return " ".join(words[:count])


def with_block(messages: Sequence[Message], block: str) -> list[Message]:
    """The block at the end of the last user turn."""
    at = max(i for i, message in enumerate(messages) if message.role == "user")
    made = list(messages)
    made[at] = Message("user", f"{made[at].content}\n{block}")
    return made


def log_distributions(
    policy: Policy, contexts: Sequence[Ids], response: Ids, temperature: float
) -> list[Tensor]:
    """Log-distributions (T, V) of a response under each context; the last context runs alone."""
    *shared, alone = contexts
    hidden_CTD, _ = response_hidden(
        policy, shared, [response] * len(shared), range(len(shared)), [0] * len(shared)
    )
    hidden_1TD, _ = response_hidden(policy, [alone], [response], [0])
    return [log_softmax(policy, h_TD, temperature) for h_TD in [*hidden_CTD, *hidden_1TD]]


def distances(logp_TV: Tensor, logq_TV: Tensor, ids_T: Tensor) -> dict[str, Tensor]:
    """Each undirected distance by name, and Δ under `delta`; shapes (1, T)."""
    delta_1T = (logp_TV - logq_TV).gather(1, ids_T[:, None]).T
    found = {name: distribution_distance(name, logp_TV, logq_TV)[None] for name in DISTRIBUTIONAL}
    found |= {name: emitted_distance(name, delta_1T) for name in EMITTED}
    return {**found, "delta": delta_1T}


def directed(undirected: Mapping[str, Tensor], sign_1: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Each distance by name for a verdict's sign, shape (1, T)."""
    for name in DISTANCES:
        plain_1T = undirected[DIRECTIONAL.get(name, name)]
        yield name, oriented(name, plain_1T, undirected["delta"], sign_1)
