"""How well a distance finds the tokens that a reward is about, where these are known.

Of one response and reward: distances `d_T ≥ 0` and the responsible tokens R (`inside_T`).

    share       Σ_{t in R} d_t / Σ_t d_t; spread evenly it is |R| / T
    hit@n       whether one of the n largest distances lies in R
    AUROC       P(d_t > d_s) + ½ P(d_t = d_s) for t drawn from R and s from the other tokens
    confusion   the share of reward k's distance that lies on reward l's tokens

Ties are broken by chance, and what chance gives on average is counted. A distance that is 0
everywhere says nothing: it counts as spread evenly, as in the weights. Where R is empty or is the
whole response there is nothing to find, and every score is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
HITS = (1, 3)
DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with its bootstrap confidence interval, over `number` values."""

    mean: float
    low: float
    high: float
    number: int


def scores(distance_T: ArrayLike, inside_T: ArrayLike) -> dict[str, float]:
    """All scores of one response and reward by name; `uniform` is |R| / T."""
    d_T, in_T = _checked(distance_T, inside_T)
    found = {"share": share_inside(d_T, in_T), "uniform": uniform_share(in_T)}
    found |= {f"hit@{n}": hit(d_T, in_T, n) for n in HITS}
    return found | {"auroc": auroc(d_T, in_T)}


def uniform_share(inside_T: ArrayLike) -> float:
    in_T = np.asarray(inside_T, bool)
    return float(in_T.mean()) if _decidable(in_T) else math.nan


def share_inside(distance_T: ArrayLike, inside_T: ArrayLike) -> float:
    d_T, in_T = _checked(distance_T, inside_T)
    return float(shares(d_T)[in_T].sum()) if _decidable(in_T) else math.nan


def hit(distance_T: ArrayLike, inside_T: ArrayLike, most: int) -> float:
    """The chance that one of the `most` largest distances lies in R."""
    d_T, in_T = _checked(distance_T, inside_T)
    if not _decidable(in_T):
        return math.nan
    most = min(most, len(d_T))
    last = np.sort(d_T)[-most]
    if in_T[d_T > last].any():
        return 1.0
    tied_T = d_T == last
    tied, good = int(tied_T.sum()), int(in_T[tied_T].sum())
    drawn = most - int((d_T > last).sum())
    return 1.0 - math.comb(tied - good, drawn) / math.comb(tied, drawn)


def auroc(distance_T: ArrayLike, inside_T: ArrayLike) -> float:
    """Area under the ROC curve, by the rank sum (Mann-Whitney U) with mean ranks for ties."""
    d_T, in_T = _checked(distance_T, inside_T)
    if not _decidable(in_T):
        return math.nan
    _, place_T, count_U = np.unique(d_T, return_inverse=True, return_counts=True)
    rank_U = np.cumsum(count_U) - (count_U - 1) / 2
    good = int(in_T.sum())
    above = rank_U[place_T][in_T].sum() - good * (good + 1) / 2
    return float(above / (good * (len(in_T) - good)))


def confusion(distance_KT: ArrayLike, inside_LT: ArrayLike) -> Numbers:
    """Share of each distance k on the tokens of each reward l, (K, L); NaN where l has none."""
    d_KT = np.asarray(distance_KT, np.float64)
    in_LT = np.asarray(inside_LT, np.float64)
    found_KL = np.stack([shares(d_T) for d_T in d_KT]) @ in_LT.T
    found_KL[:, in_LT.sum(1) == 0] = math.nan
    return found_KL


def shares(distance_T: ArrayLike) -> Numbers:
    """Each token's share of the distance; even where there is none."""
    d_T = np.asarray(distance_T, np.float64)
    total = d_T.sum()
    return d_T / total if total > 0 else np.full(len(d_T), 1.0 / max(1, len(d_T)))


def bootstrap(
    values_N: ArrayLike, clusters_N: Sequence[Hashable], *, seed: int = 0, draws: int = DRAWS
) -> Interval:
    """Mean of the values and its percentile interval, clusters drawn with replacement.

    What belongs together (the rewards of a response, the responses to a prompt) is one cluster.
    NaN values are left out; without any, all is NaN.
    """
    v_N = np.asarray(values_N, np.float64)
    if len(v_N) != len(clusters_N):
        raise ValueError(f"{len(v_N)} values, but clusters of {len(clusters_N)}")
    known_N = ~np.isnan(v_N)
    if not known_N.any():
        return Interval(math.nan, math.nan, math.nan, 0)
    number: dict[Hashable, int] = {}
    of_N = [
        number.setdefault(c, len(number)) for c, k in zip(clusters_N, known_N, strict=True) if k
    ]
    sum_C = np.bincount(of_N, v_N[known_N])
    count_C = np.bincount(of_N)
    rng = np.random.default_rng(seed)
    drawn_DC = rng.integers(len(number), size=(draws, len(number)))
    means_D = sum_C[drawn_DC].sum(1) / count_C[drawn_DC].sum(1)
    low, high = np.quantile(means_D, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(v_N[known_N].mean()), float(low), float(high), int(known_N.sum()))


def _decidable(in_T: NDArray[np.bool_]) -> bool:
    return bool(in_T.any()) and not bool(in_T.all())


def _checked(distance_T: ArrayLike, inside_T: ArrayLike) -> tuple[Numbers, NDArray[np.bool_]]:
    """Raises ValueError on distances that are not numbers from 0 on, one for each token."""
    d_T, in_T = np.asarray(distance_T, np.float64), np.asarray(inside_T, bool)
    if d_T.shape != in_T.shape or d_T.ndim != 1:
        raise ValueError(f"distances of shape {d_T.shape}, responsible tokens {in_T.shape}")
    if not (np.isfinite(d_T).all() and (d_T >= 0).all()):
        raise ValueError("a distance is negative or not finite")
    return d_T, in_T
