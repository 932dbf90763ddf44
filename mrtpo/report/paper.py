"""The paper's figures from attribution rows and from records of runs, with the data they show.

    1, 2     advantages of one response, GDPO's beside MRTPO's: as text, and along its tokens
    3, 7, 8  replay of one response: of text-to-SQL, of tool calls, of instructions
    4, 5     training curves of methods: of tool calls, of the other tasks
    6        share of each reward's replay distance by top tokens and by part, against uniform

Each is written as `figure-<number>.svg` and `.png` with its data in `figure-<number>.csv`;
`figures.json` has for each the caption and the names of its files.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from mrtpo.report.credit import (
    Row,
    even_credit,
    heading,
    part_shares,
    replay_example,
    token_credit,
    top_curves,
    weights,
)
from mrtpo.report.curve_figures import method_curves
from mrtpo.report.curves import Comparison
from mrtpo.report.figures import rollout_heat_map, save
from mrtpo.report.share_figure import share_figure
from mrtpo.report.source import TASKS, Attributed, Question, pick
from mrtpo.report.token_figures import advantage_figure, replay_figure
from mrtpo.report.written import INDEX, Written, read_index

TABLED = 2000
REPLAY = {"text2sql": 3, "tools": 7, "instruct": 8}
PENALISED = {"text2sql": ("executability", "execution"), "tools": ("correctness",)}
"""Rewards of whose penalties Fig. 3 and 7 show one; of instructions, any constraint."""


@dataclass(frozen=True)
class Made:
    """A figure to write; `number` as 5-text2sql where a number has several."""

    number: str
    caption: str
    figure: Figure
    data: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """The data's first `TABLED` rows; of tokens those of the largest weights, by weight."""
        if "weight" in self.data:
            return self.data.nlargest(TABLED, "weight")
        return self.data.head(TABLED)


def attribution_figures(
    found: Attributed, prompt: str | None = None, sample: int | None = None
) -> list[Made]:
    """Figures 1, 2, the replay of the task's own number, and 6.

    Figures 1 and 2 show the response whose rewards disagree most, the replay one with a penalty
    (`credit.examples`, `credit.replay_example`); or all the one that `prompt` and `sample` name.
    Where no replay found a distance there is no figure of one. Raises ValueError without rows, and
    for a response that is not there.
    """
    if not found.rows:
        raise ValueError("no attribution rows: nothing to draw")
    rows = pick(found, prompt, sample)
    name, notes = _name(rows), _notes(found, rows)
    made = [
        Made("1", f"Advantages of {name}: GDPO's even spread beside MRTPO's, red below 0, blue "
             "above.", rollout_heat_map(rows, name, notes), token_table(rows)),
        Made("2", f"Advantages of {name} along its tokens.", advantage_figure(rows, name, notes),
             token_table(rows)),
    ]  # fmt: skip
    if any(_replayed(row) for row in found.rows):
        made += [_replay(found, rows if prompt or sample is not None else None), _shares(found)]
    return made


def _replay(found: Attributed, rows: Sequence[Row] | None) -> Made:
    task = found.settings.task
    rows = rows or replay_example(found.rows, PENALISED.get(task, ()))
    name = _name(rows)
    caption = (
        f"Replay of {name} ({TASKS[task]}): log-probability of each token with and "
        f"without what the verifier checks, distance ({found.settings.replay.distance}), weight."
    )
    figure = replay_figure(rows, name, _notes(found, rows))
    return Made(str(REPLAY[task]), caption, figure, token_table(rows))


def _shares(found: Attributed) -> Made:
    caption = "Share of each reward's replay distance held by the top tokens, and by each part of "
    caption += f"the response, against an even spread; {len(found.responses())} responses."
    return Made("6", caption, share_figure(found.rows), share_table(found.rows))


def comparison_figures(found: Sequence[Comparison]) -> list[Made]:
    """Fig. 4 of tool calls, Fig. 5 of each other task. Raises ValueError for a task given twice."""
    tasks = [one.task for one in found]
    if twice := sorted({task for task in tasks if tasks.count(task) > 1}):
        raise ValueError(f"several records of task {', '.join(twice)}: give one of each")
    made = []
    for one in found:
        number = "4" if one.task == "tools" else f"5-{one.task}"
        seeds = one.history.groupby("method")["seed"].nunique()
        caption = (
            f"Training curves, {TASKS.get(one.task, one.task)}: median and interquartile range of "
            f"{seeds.min()}{'' if seeds.min() == seeds.max() else f' to {seeds.max()}'} seeds."
        )
        made.append(Made(number, caption, method_curves(one), curve_table(one)))
    return made


def drawn_metric(name: str) -> bool:
    """The metrics of an MLflow run that Fig. 4 and 5 show."""
    reward = name.startswith("reward/") and name.endswith("/mean")
    return reward or name.startswith("valid/") or name == "response/length"


def write_figures(folder: Path, made: Sequence[Made]) -> list[Written]:
    """Write all into `folder`; figures that are there already and not made anew stay listed."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = {entry.number: entry for entry in read_index(folder)}
    for one in made:
        png, svg = save(one.figure, folder / f"figure-{one.number}")
        data = svg.with_suffix(".csv")
        one.data.to_csv(data, index=False, float_format="%.6g")
        listed[one.number] = Written(one.number, one.caption, svg.name, png.name, data.name)
    found = sorted(listed.values(), key=lambda e: (int(e.number.partition("-")[0]), e.number))
    text = json.dumps([asdict(entry) for entry in found], indent=1, ensure_ascii=False)
    (folder / INDEX).write_text(text + "\n", encoding="utf-8")
    return found


def replace_figures(folder: Path, made: Sequence[Made]) -> list[Written]:
    """Write all into a folder that holds nothing else afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    return write_figures(folder, made)


def token_table(rows: Sequence[Row]) -> pd.DataFrame:
    """A row a reward and token of one response: all that its figures show, as numbers."""
    found: list[dict[str, Any]] = []
    for row in rows:
        placed = zip(row["tokens"], row["parts"], even_credit(row), token_credit(row), weights(row),
                     strict=True)  # fmt: skip
        for at, (token, part, even, credit, weight) in enumerate(placed):
            measured = {name: row[name][at] if not row["skipped"] else math.nan
                        for name in ("logprob_with", "logprob_without", "distance")}  # fmt: skip
            found.append(
                {"prompt_id": row["prompt_id"], "sample": row["sample"], "reward": heading(row),
                 "place": at, "token": token, "part": part, **measured, "weight": weight,
                 "gdpo": even, "mrtpo": credit}
            )  # fmt: skip
    return pd.DataFrame(found)


def share_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Columns reward, of, name, share, uniform, replays: `of` is `part`, or `top` with its x."""
    parts = part_shares(rows).rename(columns={"part": "name"}).assign(of="part")
    tops = top_curves(rows).rename(columns={"top": "name"}).assign(of="top")
    tops["uniform"] = tops["name"]
    tops["name"] = [f"{top:g}" for top in tops["name"]]
    whole = pd.concat([tops, parts], ignore_index=True)
    return whole[["reward", "of", "name", "share", "uniform", "replays"]]


def curve_table(found: Comparison) -> pd.DataFrame:
    """Columns of, method, seed, step, score, value: what the runs measured, unsmoothed."""
    frames = []
    shown = [n for n in found.history if str(n).startswith("reward/") or n == "response/length"]
    for of, frame, names in (
        ("training", found.history, shown),
        ("evaluation", found.evaluations, found.scores),
        ("test", found.tests.assign(step=math.nan), [] if found.tests.empty else [found.tested]),
    ):
        if names:
            long = frame.melt(["method", "seed", "step"], names, "score", "value")
            frames.append(long.dropna(subset=["value"]).assign(of=of))
    whole = pd.concat(frames, ignore_index=True)
    return whole[["of", "method", "seed", "step", "score", "value"]]


def _replayed(row: Row) -> bool:
    return not row["skipped"] and sum(row["distance"]) > 0


def _notes(found: Attributed, rows: Sequence[Row]) -> list[str]:
    """What was asked, and what would have been right."""
    asked = found.questions.get(rows[0]["prompt_id"], Question(""))
    reference = asked.reference or rows[0].get("reference") or ""
    told = {"asked": asked.question, "reference": reference}
    return [f"{name}: {text}" for name, text in told.items() if text]


def _name(rows: Sequence[Row]) -> str:
    return f"{rows[0]['prompt_id']}, response {rows[0]['sample']}"
