"""Policy losses on token advantages, one number per token, so that any average can follow.

    loss = Σ_b c_b Σ_t loss_bt        c = row_scale(…), from the lengths of the whole batch

so it does not matter how the batch is cut into micro-batches. With ρ_t = exp(log π(y_t) − log
π_old(y_t)), each loss also says which tokens its clip decides. Padding is masked before the
exponential, because a masked infinity still has a NaN gradient. The log-ratio of a real token is
clamped to ±20, so that the exponential stays finite.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
AVERAGES = ("tokens", "responses", "constant")


def clipped_surrogate(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    clip_low: float,
    clip_high: float,
) -> tuple[Tensor, Tensor]:
    """`−min(ρ_t A_t, clip(ρ_t, 1−ε_l, 1+ε_h) A_t)`, and where the clip decides it. Shapes (B, T).

    PPO's clip (arXiv 1707.06347) with separate bounds (DAPO, arXiv 2503.14476). A token beyond
    the clamp has no gradient.
    """
    log_ratio_BT = _real(logps_BT, mask_BT) - _real(old_logps_BT, mask_BT)
    return _clipped(log_ratio_BT, _real(advantages_BT, mask_BT), clip_low, clip_high)


def gspo_surrogate(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    clip_low: float,
    clip_high: float,
) -> tuple[Tensor, Tensor]:
    """The clipped surrogate of `s_t = sg(s) · π_t / sg(π_t)`, s = exp(mean_t log ρ_t) of the row.

    Token form of GSPO (arXiv 2507.18071): its value is the response's ratio, its gradient the
    token's own. The clamp is on the mean.
    """
    logps_BT = _real(logps_BT, mask_BT)
    frozen_BT = logps_BT.detach()
    log_ratio_BT = frozen_BT - _real(old_logps_BT, mask_BT)
    length_B1 = mask_BT.bool().sum(1, keepdim=True).clamp(min=1)
    mean_B1 = log_ratio_BT.sum(1, keepdim=True) / length_B1
    log_ratio_BT = _real(mean_B1 + (logps_BT - frozen_BT), mask_BT)
    return _clipped(log_ratio_BT, _real(advantages_BT, mask_BT), clip_low, clip_high)


def cispo_surrogate(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    clip_low: float,
    clip_high: float,
) -> tuple[Tensor, Tensor]:
    """CISPO (MiniMax-M1, arXiv 2506.13585): `−sg(clip(ρ_t, 1−ε_l, 1+ε_h)) · A_t · log π_t`.

    No token loses its gradient; decided are those whose ρ the clip changed.
    """
    logps_BT = _real(logps_BT, mask_BT)
    ratio_BT = _ratio(logps_BT.detach() - _real(old_logps_BT, mask_BT))
    kept_BT = ratio_BT.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss_BT = -kept_BT * _real(advantages_BT, mask_BT) * logps_BT
    return loss_BT, (kept_BT != ratio_BT) & mask_BT.bool()


Loss = Callable[[Tensor, Tensor, Tensor, Tensor, float, float], tuple[Tensor, Tensor]]
LOSSES: dict[str, Loss] = {
    "clipped": clipped_surrogate,
    "gspo": gspo_surrogate,
    "cispo": cispo_surrogate,
}


def kl_to_reference(logps_BT: Tensor, reference_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """`exp(r) − r − 1` of every token, r = log π_ref − log π: never negative, unbiased (k3)."""
    log_ratio_BT = _real(reference_BT, mask_BT) - _real(logps_BT, mask_BT)
    log_ratio_BT = log_ratio_BT.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    # expm1: the difference of exp(r) and 1 + r rounds to less than 0 where r is small.
    return log_ratio_BT.expm1() - log_ratio_BT


def row_scale(length_B: Tensor, average: str, longest: int) -> Tensor:
    """`c_b` of `loss = Σ_b c_b Σ_t loss_bt`, from the lengths of the whole batch. Shape B.

    `tokens`: every token counts alike (DAPO, GDPO). `responses`: every response does, whatever its
    length (GRPO as published, GSPO). `constant`: a token counts alike in every batch, with
    `longest` the most tokens a response can have (Dr. GRPO). An empty response divides by 1.
    """
    if not length_B.is_floating_point():
        length_B = length_B.to(torch.float64)
    if average == "tokens":
        denominator_B = length_B.sum().expand_as(length_B)
    elif average == "responses":
        denominator_B = len(length_B) * length_B.clamp(min=1)
    elif average == "constant":
        denominator_B = torch.full_like(length_B, len(length_B) * longest)
    else:
        raise ValueError(f"unknown average {average!r}; accepted: {', '.join(AVERAGES)}")
    return 1.0 / denominator_B.clamp(min=1)


def _real(values_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The values with 0 on padding, whatever stands there; so is the gradient."""
    return torch.where(mask_BT.bool(), values_BT, torch.zeros_like(values_BT))


def _ratio(log_ratio_BT: Tensor) -> Tensor:
    return log_ratio_BT.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def _clipped(
    log_ratio_BT: Tensor, advantages_BT: Tensor, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """The clipped surrogate of any ratio; advantages of 0 make it 0 on padding."""
    ratio_BT = _ratio(log_ratio_BT)
    plain_BT = ratio_BT * advantages_BT
    clipped_BT = ratio_BT.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages_BT
    return -torch.minimum(plain_BT, clipped_BT), clipped_BT < plain_BT
