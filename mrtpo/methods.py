"""What each `train.method` is: whose advantages, spread how, under which loss.

A method is a row of `METHODS`; docs/methods.md has the equations and sources. The trainer sees
token advantages and an `Objective`, and knows no method by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from mrtpo.advantages import centred_credit, gd2po_credit, gdpo_credit, grpo_credit
from mrtpo.config import AverageName, LossName, MethodName, Settings

Spread = Literal["even", "replay", "shuffled", "permuted", "entropy", "cort", "oracle"]


@dataclass(frozen=True)
class Method:
    """`credit`: one column for the sum of rewards, or one a reward. `spread`: over tokens."""

    credit: Literal["grpo", "centred", "gdpo", "gd2po"]
    spread: Spread = "even"
    loss: LossName = "clipped"
    average: AverageName = "tokens"
    clip_low: float = 0.2
    clip_high: float = 0.2
    refill: int = 0


METHODS: dict[MethodName, Method] = {
    "grpo": Method("grpo"),
    "grpo_no_std": Method("centred"),
    "dr_grpo": Method("centred", average="constant"),
    "dapo": Method("grpo", clip_high=0.28, refill=3),
    "gspo": Method("grpo", loss="gspo", average="responses", clip_low=3e-4, clip_high=4e-4),
    "cispo": Method("grpo", loss="cispo", clip_low=1.0, clip_high=4.0),
    "gdpo": Method("gdpo"),
    "gd2po": Method("gd2po"),
    "mrtpo": Method("gdpo", "replay"),
    "mrtpo_shuffled": Method("gdpo", "shuffled"),
    "mrtpo_permuted": Method("gdpo", "permuted"),
    "entropy": Method("gdpo", "entropy"),
    "cort": Method("grpo", "cort"),
    "oracle": Method("gdpo", "oracle"),
}


@dataclass(frozen=True)
class Objective:
    """The loss on token advantages, settings and the method's defaults put together."""

    loss: LossName
    average: AverageName
    clip_low: float
    clip_high: float


def objective(settings: Settings) -> Objective:
    train, own = settings.train, METHODS[settings.train.method]
    return Objective(
        train.loss or own.loss,
        train.average or own.average,
        own.clip_low if train.clip_low is None else train.clip_low,
        own.clip_high if train.clip_high is None else train.clip_high,
    )


def refill_rounds(settings: Settings) -> int:
    """How often groups without a signal are sampled anew, from other prompts."""
    own = METHODS[settings.train.method].refill
    return own if settings.train.refill is None else settings.train.refill


def replays(settings: Settings) -> bool:
    """Whether the method replays responses under contexts with information."""
    return METHODS[settings.train.method].spread in ("replay", "shuffled", "permuted", "cort")


def trusts(settings: Settings) -> bool:
    """Whether each reward is replayed by itself, so that one of them may be left out (`gain`)."""
    return replays(settings) and METHODS[settings.train.method].spread != "cort"


def credit(
    settings: Settings, rewards_BK: Tensor, present_BK: Tensor, group_B: Tensor, weight_K: Tensor
) -> Tensor:
    """`credit_BK` (or `credit_B1`, for methods of the summed reward): what an even spread gives
    each token of a row."""
    table = (rewards_BK, present_BK, group_B, weight_K)
    kind = METHODS[settings.train.method].credit
    if kind == "grpo":
        return grpo_credit(*table)
    if kind == "centred":
        return centred_credit(*table)
    if kind == "gdpo":
        return gdpo_credit(*table)
    return gd2po_credit(
        *table, form=settings.train.conflict, threshold=settings.train.conflict_threshold
    )
