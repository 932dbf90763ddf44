"""Fig. 6 of the paper: where the distance of each reward's replay lies, against an even spread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrtpo.report.credit import Row, part_shares, top_curves
from mrtpo.report.figures import BLUE, FAINT, INK, REWARD_COLOURS, STYLE, new_figure

ACROSS = 4
MOST = 11
SHOWN_CHARACTERS = 26


def share_figure(table: pd.DataFrame | Iterable[Row]) -> Figure:
    """First the share that the top x % of tokens hold, by reward; then, a panel a reward, the share
    of each part of the response. Black ticks and the dashed line are an even spread.

    Of more than `MOST` rewards, those with most replays have a panel.
    """
    rows = table if isinstance(table, pd.DataFrame) else list(table)
    shares, tops = part_shares(rows), top_curves(rows)
    replays = shares.groupby("reward", sort=False)["replays"].first()
    rewards = [r for r in replays.index if r in set(replays.nlargest(MOST).index)]
    parts = list(dict.fromkeys(shares["part"]))
    across = min(ACROSS, len(rewards) + 1)
    down = math.ceil((len(rewards) + 1) / across)
    size = (2.0 + 2.5 * across, down * max(2.1, 0.75 + 0.24 * len(parts)) + 0.55)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(size)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        _top_lines(grid[0], tops, rewards)
        limit = max([0.3, *shares["share"], *shares["uniform"]]) * 1.12
        for at, reward in enumerate(rewards, 1):
            chosen = shares[shares["reward"] == reward]
            named = parts if at == 1 or at % across == 0 else None
            _share_bars(grid[at], chosen["share"], chosen["uniform"], named)
            title = f"{_short(reward)}  (n={chosen['replays'].iloc[0]})"
            grid[at].set(title=title, xlim=(0, limit))
        for axes in grid[len(rewards) + 1 :]:
            axes.set_axis_off()
        top = 1 - 0.12 / size[1]
        figure.text(0.2 / size[0], top, "Share of each reward's replay distance", va="top",
                    weight="bold", fontsize=11)  # fmt: skip
        figure.text(1 - 0.2 / size[0], top, "bar: share    tick, dashes: if spread evenly",
                    ha="right", va="top", fontsize=8, color=FAINT)  # fmt: skip
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.38 / size[1]), w_pad=1.4)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= SHOWN_CHARACTERS else name[: SHOWN_CHARACTERS - 1] + "…"


def _top_lines(axes: Axes, tops: pd.DataFrame, rewards: Sequence[str]) -> None:
    for at, reward in enumerate(rewards):
        line = tops[tops["reward"] == reward]
        tint = REWARD_COLOURS[at % len(REWARD_COLOURS)]
        axes.plot([0, *line["top"]], [0, *line["share"]], color=tint, lw=1.5, label=_short(reward))
    axes.plot([0, 1], [0, 1], color=FAINT, lw=1, ls="--")
    axes.set(
        title="top x % of tokens", xlim=(0, 1), ylim=(0, 1.02), xlabel="tokens", ylabel="distance"
    )
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_formatter("{x:.0%}")
        side.set_major_locator(matplotlib.ticker.MultipleLocator(0.25))
    if rewards:
        axes.legend(
            facecolor="white", edgecolor="none", framealpha=1, handlelength=1.2,
            fontsize=7 if len(rewards) < 6 else 5.5, loc="lower right",
        )  # fmt: skip
    else:
        axes.text(0.5, 0.6, "no replay found a distance", ha="center", va="bottom")


def _share_bars(
    axes: Axes, share: pd.Series, uniform: pd.Series, names: Sequence[str] | None
) -> None:
    at = range(len(share))
    above = [BLUE if s >= u else "#a9bdd6" for s, u in zip(share, uniform, strict=True)]
    axes.barh(at, share, height=0.62, color=above)
    axes.vlines(list(uniform), [y - 0.4 for y in at], [y + 0.4 for y in at], color=INK, lw=1.4)
    axes.set_yticks(list(at), names if names is not None else [""] * len(share))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
