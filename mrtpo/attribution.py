"""From two replays of a response to token weights.

`P_t` is the policy's distribution with reward k's information in context, `Q_t` the one without.
`d_kt ≥ 0` says how far they are apart at token t; the weights are

    w_kt = T · (d_kt + δ) / Σ_s (d_ks + δ)        (`mean`: Σ_t w = T)

so each reward keeps the mass that GDPO gives it, and where the replay finds nothing (Σd ≪ δT) the
weights tend to 1. Directional distances keep only what agrees with the reward's verdict, by Δ_t =
log P(y_t) − log Q(y_t): a penalty falls on tokens that the information speaks against, credit on
tokens that it speaks for. No gradient flows through anything here.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

DIRECTIONAL = {
    "directional_logprob": "abs_logprob",
    "directional_contrast": "contrast",
    "directional_js": "js",
}
DISTRIBUTIONAL = ("js", "kl", "reverse_kl", "tv", "hellinger")
EMITTED = ("abs_logprob", "contrast")
LARGEST = 1e4  # nats that a divergence counts at most, also where it is infinite


def needs_distribution(distance: str) -> bool:
    """Whether the distance needs the whole vocabulary, not the emitted token alone."""
    return DIRECTIONAL.get(distance, distance) in DISTRIBUTIONAL


def distribution_distance(name: str, logp_TV: Tensor, logq_TV: Tensor) -> Tensor:
    """Distance of two log-distributions at each position; natural units (nats). Shape T.

    `kl` is KL(P‖Q), `reverse_kl` KL(Q‖P), `js` at most ln 2, `tv` and `hellinger` 1. A token
    of probability 0 makes the KLs infinite; they count as `LARGEST`, so that weights stay numbers.
    """
    p_TV, q_TV = logp_TV.exp(), logq_TV.exp()
    if name == "kl":
        distance_T = (p_TV * (logp_TV - logq_TV)).nan_to_num(0.0).sum(-1)
    elif name == "reverse_kl":
        distance_T = (q_TV * (logq_TV - logp_TV)).nan_to_num(0.0).sum(-1)
    elif name == "tv":
        distance_T = (p_TV - q_TV).abs().sum(-1) / 2
    elif name == "hellinger":
        distance_T = ((p_TV.sqrt() - q_TV.sqrt()).square().sum(-1) / 2).clamp(min=0).sqrt()
    elif name == "js":
        logm_TV = torch.logaddexp(logp_TV, logq_TV) - math.log(2.0)
        from_p = (p_TV * (logp_TV - logm_TV)).nan_to_num(0.0).sum(-1)
        from_q = (q_TV * (logq_TV - logm_TV)).nan_to_num(0.0).sum(-1)
        distance_T = (from_p + from_q) / 2
    else:
        raise ValueError(f"unknown distance {name!r}; known: {', '.join(DISTRIBUTIONAL)}")
    return distance_T.clamp(min=0.0, max=LARGEST)


def emitted_distance(name: str, delta_T: Tensor) -> Tensor:
    """Undirected distance at the emitted tokens, from Δ in nats.

    `abs_logprob` |Δ|; `contrast` |P−Q|/(P+Q) = tanh(|Δ|/2): how sure it is which of the two
    replays wrote the token, 0 for a coin's throw, 1 for certainty.
    """
    name = DIRECTIONAL.get(name, name)
    if name == "abs_logprob":
        return delta_T.abs()
    if name == "contrast":
        return (delta_T.abs() / 2).tanh()
    raise ValueError(f"unknown distance {name!r}; known: {', '.join(EMITTED)}")


def coarse(logp_NV: Tensor, logq_NV: Tensor, ids_N: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Both distributions over the k tokens that P finds likeliest, the emitted token, and the rest
    as one. Shapes (N, k+2).

    The emitted token is taken out of the k, or, if it is not among them, out of the rest, so that
    both still sum to 1. Lumping tokens together never makes such a divergence larger.
    """
    top_NK = logp_NV.topk(k, dim=1).indices
    is_emitted_NK = top_NK == ids_N[:, None]
    seen_NX = torch.cat([top_NK, ids_N[:, None]], 1)
    pieces = []
    for log_NV in (logp_NV, logq_NV):
        own_N1 = log_NV.gather(1, ids_N[:, None])
        kept_NK = log_NV.gather(1, top_NK).masked_fill(is_emitted_NK, -torch.inf)
        # Not one minus the others: where that rounds to 0, a divergence is infinite.
        rest_N1 = log_NV.scatter(1, seen_NX, -torch.inf).logsumexp(1, keepdim=True)
        pieces.append(torch.cat([kept_NK, own_N1, rest_N1], 1))
    return pieces[0], pieces[1]


def oriented(name: str, undirected_BT: Tensor, delta_BT: Tensor, advantage_B: Tensor) -> Tensor:
    """The distance a setting asks for, from the undirected one and Δ.

    A directional form is 0 where Δ and the reward's advantage disagree in sign.
    """
    if name not in DIRECTIONAL:
        return undirected_BT
    agrees_BT = torch.sign(advantage_B)[:, None] * delta_BT > 0
    return torch.where(agrees_BT, undirected_BT, torch.zeros_like(undirected_BT))


def token_weights(
    distance_BT: Tensor,
    mask_BT: Tensor,
    *,
    floor: float,
    normalise: str = "mean",
    cap: float | None = None,
    mix: float = 1.0,
    group_B: Tensor | None = None,
    balanced: bool = False,
) -> Tensor:
    """Weights of one reward from its distances; padding gets 0.

    `normalise`: `mean` Σw = T; `max` w = (d+δ)/(max d + δ), which amplifies nothing; `l2` Σw² = T.
    Sums and the largest are over a response, or, with `group_B`, over all rows of its group: then a
    distance weighs the same in every row of a group, whether it passed or failed.
    `balanced` (with `max`) takes of the group only what a token without a distance weighs,
    b = δ/(max of the group + δ), and lets each row's largest distance weigh about 1:
    w = b + (1−b)·d/(max of the row + δ).
    `cap` bounds w, spreading the excess evenly; then `(1−mix) + mix·w`. Where there is no distance
    at all, weights are 1.
    """
    if balanced and normalise != "max":
        raise ValueError(f"balanced weights need the normalisation max, not {normalise}")
    real_BT = mask_BT.to(distance_BT.dtype)
    raised_BT = (distance_BT + floor) * real_BT
    own_B1 = raised_BT.amax(1, keepdim=True)
    largest_B1 = _over_rows(own_B1, group_B, "amax")
    length_B1 = _over_rows(real_BT.sum(1, keepdim=True), group_B, "sum")
    if normalise == "mean":
        scale_B1 = length_B1 / _over_rows(raised_BT.sum(1, keepdim=True), group_B, "sum")
    elif normalise == "l2":
        squares_B1 = _over_rows(raised_BT.square().sum(1, keepdim=True), group_B, "sum")
        scale_B1 = (length_B1 / squares_B1).sqrt()
    elif normalise == "max":
        scale_B1 = 1.0 / largest_B1
    else:
        raise ValueError(f"unknown normalisation {normalise!r}; known: mean, max, l2")
    scaled_BT = raised_BT * scale_B1
    if balanced:
        rest_B1 = floor * scale_B1
        peak_BT = torch.where(own_B1 > 0, distance_BT / own_B1, 0.0)
        scaled_BT = (rest_B1 + (1.0 - rest_B1) * peak_BT) * real_BT
    weights_BT = torch.where(largest_B1 > 0, scaled_BT, real_BT)
    if cap is not None:
        weights_BT = capped(weights_BT, mask_BT, cap)
    return ((1.0 - mix) + mix * weights_BT) * real_BT


def _over_rows(value_B1: Tensor, group_B: Tensor | None, reduce: str) -> Tensor:
    """A row's value, or the sum or largest of its group's rows."""
    if group_B is None:
        return value_B1
    groups, at_B = group_B.unique(return_inverse=True)
    found_N = value_B1.new_zeros(len(groups))
    return found_N.scatter_reduce(0, at_B, value_B1[:, 0], reduce, include_self=False)[at_B, None]


def capped(weights_BT: Tensor, mask_BT: Tensor, cap: float) -> Tensor:
    """Weights at most `cap`, what is cut off spread evenly over the tokens below it (Σw kept)."""
    for _ in range(weights_BT.shape[1]):
        excess_B1 = (weights_BT - cap).clamp(min=0).sum(1, keepdim=True)
        if (excess_B1 <= 1e-9).all():
            break
        weights_BT = weights_BT.clamp(max=cap)
        room_BT = (weights_BT < cap) & mask_BT.bool()
        count_B1 = room_BT.sum(1, keepdim=True).clamp(min=1)
        weights_BT = weights_BT + room_BT * excess_B1 / count_B1
    return weights_BT


def concentration(weights_BT: Tensor, mask_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Per row: N_eff/T, N_eff = (Σw)²/Σw², and the share of Σw in the top tenth of tokens."""
    length_B = mask_BT.sum(1)
    total_B = weights_BT.sum(1)
    n_eff_B = total_B.square() / weights_BT.square().sum(1).clamp(min=1e-30)
    top_B = torch.stack(
        [
            row.sort(descending=True).values[: max(1, int(n) // 10)].sum()
            for row, n in zip(weights_BT, length_B, strict=True)
        ]
    )
    return n_eff_B / length_B.clamp(min=1), top_B / total_B.clamp(min=1e-30)
