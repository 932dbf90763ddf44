"""From rewards to credit: one small pure function for each method.

Rows B are rollouts; `group_B` holds the prompt each row answers (never a view of shape (−1, G)). A
reward that is missing (`present_BK` False) is left out of its group's mean and std, and its
advantage is 0. Credit carries its reward axis K until weights spread it over tokens
(`token_advantages`):

    A_BT = Σ_k credit_BK[:, k] · w_BKT[:, k]

so GDPO is MRTPO with every weight 1, to the bit. Standard deviations are unbiased (ddof 1), as in
the published GDPO figures: rewards [1, missing, 0, 1] give advantages [.577, 0, −1.155, .577].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

EPSILON = 1e-6
NO_SIGMA = 1e-4  # a smaller σ is rounding: the weighted advantages cancel in every row
NO_SIDE = 1e-8  # a weighted advantage closer to 0 takes no side in a conflict of rewards
CONFLICTS = ("hard", "soft")


def conditioned(
    rewards_BK: Tensor, present_BK: Tensor, names: Sequence[str], requires: dict[str, str]
) -> Tensor:
    """Rewards with those zeroed whose required reward did not reach its maximum of the batch's
    rows.

    GDPO's conditioned reward (arXiv 2601.05242, eq. 8): reward k counts only where reward l is
    reached; a missing l counts as not reached. The maximum of a reward is 1 in all tasks where
    this is used.
    """
    out_BK = rewards_BK.clone()
    for name, needed in requires.items():
        k, needs = names.index(name), names.index(needed)
        passed_B = present_BK[:, needs] & (rewards_BK[:, needs] >= 1.0)
        out_BK[:, k] = torch.where(passed_B, out_BK[:, k], torch.zeros_like(out_BK[:, k]))
    return out_BK


def group_advantages(rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor) -> Tensor:
    """`A = (r − mean) / (std + ε)` of every reward inside its group, over the rows where it is
    present.

    0 where the group is constant (min == max) or the reward is missing.
    """
    advantages_BK = torch.zeros_like(rewards_BK)
    for group in group_B.unique():
        rows = (group_B == group).nonzero().squeeze(1)
        for k in range(rewards_BK.shape[1]):
            kept = rows[present_BK[rows, k]]
            values = rewards_BK[kept, k]
            if len(kept) > 1 and values.min() != values.max():
                advantages_BK[kept, k] = (values - values.mean()) / (values.std() + EPSILON)
    return advantages_BK


def dead_groups(rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor) -> Tensor:
    """Share of groups, per reward, in which that reward tells the rows nothing. Shape K."""
    advantages_BK = group_advantages(rewards_BK, present_BK, group_B)
    groups = group_B.unique()
    dead = torch.stack([(advantages_BK[group_B == g] == 0).all(0) for g in groups])
    return dead.to(rewards_BK.dtype).mean(0)


def informative_groups(
    rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor, weight_K: Tensor
) -> Tensor:
    """Whether any reward of non-zero weight differs within a group, in `group_B.unique()`'s order.

    DAPO's dynamic sampling (arXiv 2503.14476) draws the other groups anew. Rewards are judged one
    by one over the rows where they are present: two that cancel in the sum still inform.
    """
    told = []
    for group in group_B.unique():
        rows = group_B == group
        columns = [rewards_BK[rows & present_BK[:, k], k] for k in weight_K.nonzero().flatten()]
        told.append(any(len(c) > 1 and bool(c.min() != c.max()) for c in columns))
    return torch.tensor(told, dtype=torch.bool, device=group_B.device)


def weighted_sums(
    rewards_BK: Tensor, present_BK: Tensor, weight_K: Tensor
) -> tuple[Tensor, Tensor]:
    """`Σ_k λ_k r_k` of every row and whether it has one; both (B, 1).

    A row with a missing reward has no comparable sum: it is left out like a missing reward.
    """
    complete_B1 = (present_BK | (weight_K == 0)).all(1, keepdim=True)
    return (torch.nan_to_num(rewards_BK) * weight_K).sum(1, keepdim=True), complete_B1


def grpo_credit(
    rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor, weight_K: Tensor
) -> Tensor:
    """GRPO (arXiv 2402.03300): the weighted sum of rewards, normalised once. Shape (B, 1)."""
    total_B1, complete_B1 = weighted_sums(rewards_BK, present_BK, weight_K)
    return group_advantages(total_B1, complete_B1, group_B)


def centred_credit(
    rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor, weight_K: Tensor
) -> Tensor:
    """GRPO without its std (Dr. GRPO, arXiv 2503.20783): `R − mean R`, R the weighted sum of
    rewards. Shape (B, 1).

    0 where the group is constant or a weighted reward is missing.
    """
    total_B1, complete_B1 = weighted_sums(rewards_BK, present_BK, weight_K)
    credit_B1 = torch.zeros_like(total_B1)
    for group in group_B.unique():
        kept = (group_B == group) & complete_B1[:, 0]
        values = total_B1[kept]
        if len(values) > 1 and values.min() != values.max():
            credit_B1[kept] = values - values.mean()
    return credit_B1


def gdpo_credit(
    rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor, weight_K: Tensor
) -> Tensor:
    """GDPO (arXiv 2601.05242): `λ_k A_BK / (σ + ε)`, with σ the std over rows of `Σ_k λ_k A_BK`.

    One σ for the batch, over rollouts and not over tokens. The mean of the sums is 0 by
    construction, also with missing rewards, so none is subtracted.
    """
    advantages_BK = group_advantages(rewards_BK, present_BK, group_B)
    summed_B = (advantages_BK * weight_K).sum(1)
    return advantages_BK * weight_K / _scale(summed_B)


def _scale(summed_B: Tensor) -> Tensor:
    """`σ + ε` of the rows' sums, and 1 where σ is nothing but rounding."""
    sigma = summed_B.std() if len(summed_B) > 1 else torch.zeros_like(summed_B.sum())
    return torch.where(sigma > NO_SIGMA, sigma + EPSILON, torch.ones_like(sigma))


def gd2po_credit(
    rewards_BK: Tensor,
    present_BK: Tensor,
    group_B: Tensor,
    weight_K: Tensor,
    *,
    form: str,
    threshold: float,
) -> Tensor:
    """GD2PO (arXiv 2606.16771): GDPO's sums of the rollouts whose rewards agree. Shape (B, 1).

    A rollout conflicts if its `λ_k A_k` lie on both sides of 0. `hard` drops each one, `soft` those
    with `|Σ_k λ_k A_k| / Σ_k |λ_k A_k|` below the threshold. The sums that are kept are scaled by
    their group's share of kept rollouts, then whitened over all kept rollouts; dropped ones get 0.

    A rollout whose advantages are all 0 does not conflict and is kept, so it gets −mean/σ: dropping
    others moves the mean off 0. One without any weighted reward was not judged: it counts neither
    as kept nor in its group's size. Where σ is nothing (also of a single kept rollout, which then
    gets 0) the mean is subtracted and nothing divided; with none kept, all credit is 0.
    """
    if form not in CONFLICTS:
        raise ValueError(f"unknown form {form!r}; accepted: {', '.join(CONFLICTS)}")
    parts_BK = group_advantages(rewards_BK, present_BK, group_B) * weight_K
    summed_B = parts_BK.sum(1)
    dropped_B = (parts_BK > NO_SIDE).any(1) & (parts_BK < -NO_SIDE).any(1)
    if form == "soft":
        dropped_B &= summed_B.abs() < threshold * parts_BK.abs().sum(1)
    judged_B = (present_BK & (weight_K != 0)).any(1)
    kept_B = judged_B & ~dropped_B
    for group in group_B.unique():
        rows = (group_B == group) & judged_B
        summed_B[rows] = summed_B[rows] * kept_B[rows].to(summed_B.dtype).mean()
    credit_B1 = torch.zeros_like(summed_B)[:, None]
    if kept_B.any():
        centred = summed_B[kept_B] - summed_B[kept_B].mean()
        credit_B1[kept_B, 0] = centred / _scale(centred)
    return credit_B1


def overlong_penalty(length_B: Tensor, limit: int, buffer: int) -> Tensor:
    """DAPO's soft overlong punishment (arXiv 2503.14476, eq. 13): 0 up to `limit − buffer` tokens,
    from there linear to −1 at `limit`, −1 beyond.

    Without a buffer it is 0 up to the limit and −1 beyond.
    """
    return ((limit - buffer - length_B) / max(buffer, 1)).clamp(-1.0, 0.0)


def token_advantages(credit_BK: Tensor, weights_BKT: Tensor, mask_BT: Tensor) -> Tensor:
    """`A_BT = Σ_k credit_BK · w_BKT`, 0 on padding."""
    return torch.einsum("bk,bkt->bt", credit_BK, weights_BKT) * mask_BT
