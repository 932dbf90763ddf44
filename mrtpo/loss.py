"""The policy loss on token advantages: sums, so that one global denominator can follow.

    −min(ρ_t A_t, clip(ρ_t, 1−ε_l, 1+ε_h) A_t),   ρ_t = exp(log π(y_t) − log π_old(y_t))

averaged over all response tokens of the whole batch, however it is cut into micro-batches. Padding
is masked before the exponential, because a masked infinity still has a NaN gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0


def clipped_surrogate(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    clip_low: float,
    clip_high: float,
) -> tuple[Tensor, Tensor]:
    """Sum over tokens of the clipped surrogate's loss, and how many tokens the clip decides.

    PPO's clip (arXiv 1707.06347) with separate bounds (DAPO, arXiv 2503.14476). The log-ratio
    of a real token is clamped to ±20, so that the exponential stays finite; a token beyond that has
    no gradient.
    """
    mask = mask_BT.bool()
    log_ratio_BT = torch.where(mask, logps_BT - old_logps_BT, torch.zeros_like(logps_BT))
    ratio_BT = log_ratio_BT.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    plain_BT = ratio_BT * advantages_BT
    clipped_BT = ratio_BT.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages_BT
    decided = (clipped_BT < plain_BT) & mask
    loss_BT = torch.where(mask, -torch.minimum(plain_BT, clipped_BT), torch.zeros_like(plain_BT))
    return loss_BT.sum(), decided.sum()


def kl_to_reference(logps_BT: Tensor, reference_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Sum over tokens of `exp(r) − r − 1`, r = log π_ref − log π: never negative, unbiased (k3)."""
    mask = mask_BT.bool()
    log_ratio_BT = torch.where(mask, reference_BT - logps_BT, torch.zeros_like(logps_BT))
    log_ratio_BT = log_ratio_BT.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    # expm1: the difference of exp(r) and 1 + r rounds to less than 0 where r is small.
    return torch.where(mask, log_ratio_BT.expm1() - log_ratio_BT, log_ratio_BT).sum()
