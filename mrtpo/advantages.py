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


def grpo_credit(
    rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor, weight_K: Tensor
) -> Tensor:
    """GRPO (arXiv 2402.03300): the weighted sum of rewards, normalised once. Shape (B, 1).

    A row with a missing reward has no comparable sum: it is left out like a missing reward.
    """
    complete_B1 = (present_BK | (weight_K == 0)).all(1, keepdim=True)
    total_B1 = (torch.nan_to_num(rewards_BK) * weight_K).sum(1, keepdim=True)
    return group_advantages(total_B1, complete_B1, group_B)


def gdpo_credit(
    rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor, weight_K: Tensor
) -> Tensor:
    """GDPO (arXiv 2601.05242): `λ_k A_BK / (σ + ε)`, with σ the std over rows of `Σ_k λ_k A_BK`.

    One σ for the batch, over rollouts and not over tokens. The mean of the sums is 0 by
    construction, also with missing rewards, so none is subtracted.
    """
    advantages_BK = group_advantages(rewards_BK, present_BK, group_B)
    summed_B = (advantages_BK * weight_K).sum(1)
    sigma = summed_B.std() if len(summed_B) > 1 else torch.zeros_like(summed_B.sum())
    scale = torch.where(sigma > NO_SIGMA, sigma + EPSILON, torch.ones_like(sigma))
    return advantages_BK * weight_K / scale


def token_advantages(credit_BK: Tensor, weights_BKT: Tensor, mask_BT: Tensor) -> Tensor:
    """`A_BT = Σ_k credit_BK · w_BKT`, 0 on padding."""
    return torch.einsum("bk,bkt->bt", credit_BK, weights_BKT) * mask_BT
