"""Where credit falls: statistics of attribution rows, and which responses to show.

One row per (rollout, reward): `prompt_id, sample, reward, value, advantage, skipped, reason`, and
per token `tokens, parts, logprob_with, logprob_without, distance, weight`. `advantage` is what GDPO
gives every token for this reward; MRTPO gives token t `advantage · weight[t]`.

Share of part p = Σ_{t in p} d_t / Σ_t d_t, averaged over replays with Σ d > 0; its uniform share is
|p| / T over the same replays.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

Row = Mapping[str, Any]
NO_PART = "other"
TOP = 0.1
TOPS = (0.01, 0.02, *(n / 20 for n in range(1, 21)))
SATURATED = 6.0


def as_rows(table: pd.DataFrame | Iterable[Row]) -> list[Row]:
    """Rows as mappings, from a data frame or from rows."""
    return table.to_dict("records") if isinstance(table, pd.DataFrame) else list(table)


def filed(row: Row) -> str:
    """What figures of a row go under: the reward, or its label where prompts differ in theirs."""
    return row.get("label") or row["reward"]


def heading(row: Row) -> str:
    """What a row is about: the reward, or its constraint where prompts differ in theirs."""
    if filed(row) == row["reward"]:
        return str(row["reward"])
    return str(row.get("information") or filed(row)).removeprefix("- ")


def weights(row: Row) -> list[float]:
    """Token weights; 1 everywhere where the replay was skipped."""
    found = list(row["weight"])
    return found if found and not row["skipped"] else [1.0] * len(row["tokens"])


def token_credit(row: Row) -> list[float]:
    """What MRTPO gives each token for this reward."""
    return [row["advantage"] * weight for weight in weights(row)]


def even_credit(row: Row) -> list[float]:
    """What GDPO gives each token for this reward: the same mass, spread evenly."""
    return [row["advantage"]] * len(row["tokens"])


def with_credit(rollout: Sequence[Row]) -> list[Row]:
    """The rewards that have something to place: in a group without contrast there is nothing."""
    return [row for row in rollout if row["advantage"]]


def full_colour(rollout: Sequence[Row]) -> float:
    """The credit drawn in full colour: the largest, but at most `SATURATED` times an even share.

    One token may hold thirty times its even share; scaled to it, all others would look empty.
    """
    largest = max((abs(c) for row in rollout for c in token_credit(row)), default=0.0)
    even = max((abs(row["advantage"]) for row in rollout), default=0.0)
    return min(largest, SATURATED * even) or 1.0


def part_shares(table: pd.DataFrame | Iterable[Row]) -> pd.DataFrame:
    """Columns reward, part, share, uniform, replays; parts in the order in which they appear."""
    share: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    uniform: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    replays: dict[str, int] = defaultdict(int)
    names: dict[str, None] = {}
    for row in _measured(table):
        total, reward = sum(row["distance"]), filed(row)
        replays[reward] += 1
        for part, distance in zip(row["parts"], row["distance"], strict=True):
            names[part or NO_PART] = None
            share[reward][part or NO_PART] += distance / total
            uniform[reward][part or NO_PART] += 1 / len(row["distance"])
    ordered = [name for name in names if name != NO_PART] + [n for n in names if n == NO_PART]
    found = [
        (reward, part, share[reward][part] / count, uniform[reward][part] / count, count)
        for reward, count in replays.items()
        for part in ordered
    ]
    return pd.DataFrame(found, columns=["reward", "part", "share", "uniform", "replays"])


def top_shares(table: pd.DataFrame | Iterable[Row], top: float = TOP) -> pd.DataFrame:
    """Columns reward, share, uniform, replays: distance held by the top ⌈top · T⌉ tokens."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in _measured(table):
        distances = sorted(row["distance"], reverse=True)
        count = math.ceil(top * len(distances))
        share = sum(distances[:count]) / sum(distances)
        found[filed(row)].append((share, count / len(distances)))
    rows = [
        (reward, *(sum(values) / len(pairs) for values in zip(*pairs, strict=True)), len(pairs))
        for reward, pairs in found.items()
    ]
    return pd.DataFrame(rows, columns=["reward", "share", "uniform", "replays"])


def top_curves(table: pd.DataFrame | Iterable[Row]) -> pd.DataFrame:
    """Columns reward, top, share, replays: distance held by the top x·T tokens, x in `TOPS`.

    A token that lies across the bound counts in part, so that an even spread gives x itself.
    """
    found: dict[str, list[np.ndarray]] = defaultdict(list)
    for row in _measured(table):
        held = np.cumsum([0.0, *sorted(row["distance"], reverse=True)])
        places = np.linspace(0.0, 1.0, len(held))
        found[filed(row)].append(np.interp(TOPS, places, held / held[-1]))
    rows = [
        (reward, top, float(share), len(curves))
        for reward, curves in found.items()
        for top, share in zip(TOPS, np.mean(curves, axis=0), strict=True)
    ]
    return pd.DataFrame(rows, columns=["reward", "top", "share", "replays"])


def kept_tokens(scores: Sequence[float], most: int, around: int = 8) -> list[int]:
    """Places of at most `most` tokens, in order: all, or the highest scores with their neighbours.

    Of a long response, first its beginning, then by falling score each token with `around` before
    and behind it, for as long as there is room.
    """
    if len(scores) <= most:
        return list(range(len(scores)))
    kept: set[int] = set()
    for peak in [0, *sorted(range(len(scores)), key=lambda t: (-scores[t], t))]:
        near = set(range(max(0, peak - around), min(len(scores), peak + around + 1)))
        if len(kept | near) > most:
            break
        kept |= near
    return sorted(kept)


def most_credit(rollout: Sequence[Row], most: int) -> list[Row]:
    """At most `most` rewards with credit to place, in their order: those of the largest distance.

    Where none has credit, the first ones.
    """
    rows = with_credit(rollout) or list(rollout)
    ranked = sorted(rows, key=lambda row: -_distance(row))[:most]
    return [row for row in rows if any(row is kept for kept in ranked)]


def _distance(row: Row) -> float:
    return 0.0 if row["skipped"] else float(sum(row["distance"]))


def replay_example(table: pd.DataFrame | Iterable[Row], preferred: Sequence[str] = ()) -> list[Row]:
    """The rows of the response in which replay places a penalty most narrowly.

    Looked for among the responses with most rewards, of these among those that have credit beside
    the penalty if any do, and there among penalties on the first of `preferred` that has any, else
    on any reward. Of these the larger half of penalties, of them the larger half of distances, and
    then the one whose three largest tokens hold the largest share. Raises ValueError where no
    replay found a distance.
    """
    rows = as_rows(table)
    own: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        own[row["prompt_id"], row["sample"]].append(row)
    most = max(map(len, own.values()), default=0)
    found = [row for row in _measured(rows) if len(own[row["prompt_id"], row["sample"]]) == most]
    found = [row for row in found if row["advantage"] < 0] or found or list(_measured(rows))
    praised = {key for key, others in own.items() if any(row["advantage"] > 0 for row in others)}
    found = [row for row in found if (row["prompt_id"], row["sample"]) in praised] or found
    for reward in preferred:
        if penalties := [row for row in found if row["reward"] == reward]:
            found = penalties
            break
    if not found:
        raise ValueError("no replay found a distance: there is nothing to draw")
    for size in (lambda row: abs(row["advantage"]), _distance):
        enough = statistics.median_high(map(size, found))
        found = [row for row in found if size(row) >= enough]
    best = max(found, key=lambda row: sum(sorted(row["distance"])[-3:]) / _distance(row))
    return own[best["prompt_id"], best["sample"]]


def examples(table: pd.DataFrame | Iterable[Row], count: int) -> list[list[Row]]:
    """The rollouts most worth a look, each as its rows; one per prompt as long as there are others.

    First those whose rewards disagree, then by how many rewards have credit to place, then by how
    far the largest weight stands out.
    """
    rollouts: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in as_rows(table):
        rollouts[row["prompt_id"], row["sample"]].append(row)

    def interest(key: tuple[str, int]) -> tuple[Any, ...]:
        live = [r for r in rollouts[key] if not r["skipped"] and r["advantage"]]
        signs = {r["advantage"] > 0 for r in live}
        peak = max((max(weights(r), default=1.0) for r in live), default=1.0)
        return (-len(signs), -len(live), -peak, key)

    ranked = sorted(rollouts, key=interest)
    best: dict[str, tuple[str, int]] = {}
    for key in ranked:
        best.setdefault(key[0], key)
    chosen = [*best.values(), *(key for key in ranked if key not in best.values())]
    return [rollouts[key] for key in chosen[:count]]


def _measured(table: pd.DataFrame | Iterable[Row]) -> Sequence[Row]:
    return [row for row in as_rows(table) if not row["skipped"] and sum(row["distance"]) > 0]
