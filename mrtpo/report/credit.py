"""Where credit falls: statistics of attribution rows, and which responses to show.

One row per (rollout, reward): `prompt_id, sample, reward, value, advantage, skipped, reason`, and
per token `tokens, parts, logprob_with, logprob_without, distance, weight`. `advantage` is what GDPO
gives every token for this reward; MRTPO gives token t `advantage · weight[t]`.

Share of part p = Σ_{t in p} d_t / Σ_t d_t, averaged over replays with Σ d > 0; its uniform share is
|p| / T over the same replays.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

Row = Mapping[str, Any]
NO_PART = "other"
TOP = 0.1
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
        total, reward = sum(row["distance"]), row["reward"]
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
        found[row["reward"]].append((share, count / len(distances)))
    rows = [
        (reward, *(sum(values) / len(pairs) for values in zip(*pairs, strict=True)), len(pairs))
        for reward, pairs in found.items()
    ]
    return pd.DataFrame(rows, columns=["reward", "share", "uniform", "replays"])


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
