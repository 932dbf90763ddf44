"""One response as heat maps in a terminal, and the tokens that hold most of the credit."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mrtpo.report import text
from mrtpo.report.credit import Row, full_colour, heading, token_credit, weights, with_credit
from mrtpo.report.source import Attributed, Question

Show = Literal["advantage", "weight", "distance"]
BLUE, RED, ORANGE = (33, 102, 172), (192, 37, 55), (200, 88, 12)
SHADE = 0.75


def explain(
    console: Console,
    found: Attributed,
    rows: Sequence[Row],
    show: Show = "advantage",
    reward: str | None = None,
    top: int = 5,
) -> None:
    """Print one response: its question and verdicts, and by reward the heat map and `top` tokens.

    `reward` chooses one, by its name or label; else those with credit. Raises ValueError for one
    that the response does not have.
    """
    chosen = [row for row in rows if reward in (row["reward"], row.get("label"), heading(row))]
    if reward is not None and not chosen:
        known = ", ".join(row["reward"] for row in rows)
        raise ValueError(f"reward {reward}: this response has: {known}")
    asked = found.questions.get(rows[0]["prompt_id"], Question(""))
    console.print(Text(asked.question or rows[0]["prompt_id"], "bold"))
    about = f"{rows[0]['prompt_id']}, response {rows[0]['sample']}, {len(rows[0]['tokens'])} tokens"
    console.print(Text(" · ".join(filter(None, (about, asked.about))), "dim"))
    if asked.reference:
        console.print(Text("reference  ", "dim") + Text(asked.reference))
    console.print(_verdicts(rows))
    peak = _peak(rows, show)
    for row in chosen or with_credit(rows):
        console.print(Text(f"\n{heading(row)}", "bold") + Text(f"  {show}, MRTPO", "dim"))
        console.print(Padding(heat(row["tokens"], _values(row, show), peak, show), (0, 2)))
        console.print(_most(row, top))
    if show == "advantage":
        even = "GDPO gives each token the reward's advantage. Blue is credit, red a penalty"
        console.print(Text(f"\n{even}, full colour at {text.number(peak)}.", "dim"))


def heat(tokens: Sequence[str], values: Sequence[float], peak: float, show: Show) -> Text:
    """The response, each token on its colour; newlines are shown and kept."""
    made = Text()
    for token, value in zip(tokens, values, strict=True):
        strength = min(1.0, abs(value) / peak) ** SHADE
        shown = "".join(
            c if c == "\n" or unicodedata.category(c)[0] != "C" else "·" for c in token
        ).replace("\n", "↵\n")
        made.append(shown, _style(value, strength, show))
    return made


def _style(value: float, strength: float, show: Show) -> str:
    if strength < 0.08:
        return ""
    tint = ORANGE if show != "advantage" else BLUE if value > 0 else RED
    red, green, blue = (round(255 - strength * (255 - c)) for c in tint)
    light = 0.299 * red + 0.587 * green + 0.114 * blue
    return f"rgb({'255,255,255' if light < 140 else '0,0,0'}) on rgb({red},{green},{blue})"


def _values(row: Row, show: Show) -> Sequence[float]:
    if show == "advantage":
        return token_credit(row)
    if show == "weight":
        return weights(row)
    return list(row["distance"]) or [0.0] * len(row["tokens"])


def _peak(rows: Sequence[Row], show: Show) -> float:
    if show == "advantage":
        return full_colour(rows)
    return max((v for row in rows for v in _values(row, show)), default=0.0) or 1.0


def _verdicts(rows: Sequence[Row]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name, side in (
        ("reward", "left"),
        ("verdict", "left"),
        ("advantage", "right"),
        ("", "left"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for row in rows:
        tint = "blue" if row["advantage"] > 0 else "red" if row["advantage"] < 0 else ""
        status = row.get("status") or "ok"
        why = f"not replayed: {row['reason']}" if row["skipped"] else ""
        notes = [status if status != "ok" else "", row.get("detail") or "", why]
        table.add_row(
            Text(heading(row)), text.mark(text.present(row["value"])),
            Text(text.signed(row["advantage"]), tint), Text(" · ".join(filter(None, notes)), "dim"),
        )  # fmt: skip
    return table


def _most(row: Row, top: int) -> RenderableType:
    """The tokens with most distance: probabilities, distance, weight, advantage."""
    if row["skipped"]:
        return Padding(Text(f"not replayed: {row['reason']}; spread evenly", "dim"), (0, 2))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("token", "part"):
        table.add_column(name)
    for name in ("told", "not told", "distance", "weight", "advantage"):
        table.add_column(name, justify="right")
    order = sorted(range(len(row["tokens"])), key=lambda t: -row["distance"][t])[:top]
    for t in order:
        told, untold = (math.exp(row[key][t]) for key in ("logprob_with", "logprob_without"))
        table.add_row(
            Text(repr(row["tokens"][t])), Text(row["parts"][t], "dim"), text.number(told),
            text.number(untold), text.number(row["distance"][t]), text.number(row["weight"][t]),
            text.signed(token_credit(row)[t]),
        )  # fmt: skip
    return Group(Padding(table, (0, 2)))
