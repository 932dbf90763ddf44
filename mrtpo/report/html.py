"""The report: one self-contained HTML file that needs no network, no script and no other file.

Everything that a model wrote is escaped by the template engine; a content security policy in the
page forbids scripts and loading anyhow. The same results give the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from mrtpo.config import Settings
from mrtpo.mlflow_store import flatten
from mrtpo.report import svg, tables, text
from mrtpo.report.credit import (
    even_credit,
    examples,
    full_colour,
    part_shares,
    token_credit,
    top_shares,
    weights,
    with_credit,
)
from mrtpo.report.curves import curves, frame_of_runs, metric_columns
from mrtpo.report.page import render, write_page
from mrtpo.report.results import PREDICTION_COLUMNS, Results, Row
from mrtpo.runs import PastRun, model_name

TASKS = {"text2sql": "Text-to-SQL"}
COLOURS = ("var(--blue)", "var(--green)", "var(--purple)", "var(--red)", "var(--gold)")
SHADE = 0.75  # colour grows a little faster at first, as in the figures


def write_report(path: Path, results: Results, failures: int = 12) -> Path:
    """Write the report of `results`; `failures` is how many wrong answers it lists."""
    return write_page(path, render("report.html.j2", **context(results, failures)))


def context(results: Results, failures: int) -> dict[str, Any]:
    """What the template shows, section by section."""
    settings, rows = results.settings, results.predictions
    scores = text.ordered(tables.score_columns(rows), settings.train.best_metric or "")
    main = scores[0] if scores else settings.train.best_metric or ""
    wrong = tables.failures(rows, main)
    runs = tables.comparable(results.runs, results.origin)
    columns = {"Kind": "kind", "Difficulty": "difficulty", "Database": "source"}
    groups = {name: tables.by_group(rows, column) for name, column in columns.items()}
    shown = examples(results.attribution, settings.report.examples)
    return {
        "title": f"{TASKS.get(settings.task, settings.task)} with {settings.train.method.upper()}",
        "facts": _facts(results),
        "count": len(rows),
        "split": settings.evaluate.split,
        "scores": scores,
        "main": main,
        "tiles": [_tile(name, results) for name in scores[:4]],
        "best_step": _best_step(results),
        "hints": {name: text.NAMES[name][1] for name in scores if name in text.NAMES},
        "benchmark": settings.data.source,
        "overall": {name: tables.share(row.get(name) for row in rows) for name in scores},
        "groups": {name: found for name, found in groups.items() if len(found) > 1},
        "public": tables.public(results.metrics.get("benchmark", {})),
        "charts": _charts(results),
        "comparison": _comparison(runs, scores) if len(runs) > 1 else None,
        "uncompared": len(results.runs) - len(runs),
        "statuses": tables.statuses(rows),
        "training_totals": tables.training_totals(results.history),
        "gains": tables.gains(results.metrics),
        "shares": _shares(results.attribution),
        "examples": [_example(rollout, results.questions) for rollout in shown],
        "failures": [_failure(row, scores) for row in wrong[:failures]],
        "wrong": len(wrong),
        "settings": _settings(settings),
        "figures": {stage: _plain_figures(values) for stage, values in results.metrics.items()},
    }


def _facts(results: Results) -> dict[str, str]:
    settings = results.settings
    own = tables.own_run(results.runs, results.origin)
    origin = {
        **({"run_id": own.run_id} if own else {}),
        **(own.tags if own else {}),
        **results.origin,
    }
    best = _best_step(results)
    generated = settings.data.source == "synthetic"
    changed = " + changes" if origin.get("git_dirty") == "true" else ""
    facts = {
        "Model": model_name(settings),
        "Data": "generated questions" if generated else settings.data.source,
        "Steps": str(settings.train.steps) + (f", best {best:g}" if best is not None else ""),
        "Seed": str(settings.seed),
        "Experiment": origin.get("experiment", ""),
        "Commit": f"{origin['git_commit'][:10]}{changed}" if origin.get("git_commit") else "",
        "Data hash": origin.get("data_hash", "")[:10],
        "MLflow run": origin.get("run_id", ""),
    }
    return {key: value for key, value in facts.items() if value}


def _best_step(results: Results) -> float | None:
    best = results.origin.get("best.step")
    return float(best) if best else None


def _tile(name: str, results: Results) -> dict[str, Any]:
    """A test score, and what validation said at the start and at the checkpoint that was tested."""
    curve = curves(results.evaluations, name, smoothed=False).get("")
    seen = dict(zip(curve.steps, curve.middle, strict=True)) if curve else {}
    best = _best_step(results)
    return {
        "name": name,
        "share": tables.share(row.get(name) for row in results.predictions),
        "start": curve.middle[0] if curve else None,
        "end": seen.get(best) if best is not None else None,
        "spark": svg.spark(curve) if curve else Markup(),
    }


def _chart(
    frame: pd.DataFrame,
    columns: Sequence[str],
    title: str,
    share: bool = False,
    smoothed: bool = True,
) -> dict[str, Any]:
    """A chart of one metric, by method if there are several; or of several metrics of one run."""
    lines = []
    for at, column in enumerate(columns):
        for method, curve in curves(frame, column, smoothed).items():
            if len(columns) > 1:
                name, colour = _short(column, columns), COLOURS[at % len(COLOURS)]
            else:
                name, colour = method, f"var(--{method}, var(--blue))" if method else COLOURS[0]
            lines.append(svg.Line(name, colour, curve))
    seen = [value for line in lines for value in (*line.curve.middle, *line.curve.raw)]
    share = share and all(0 <= value <= 1 for value in seen)
    legend = [(line.name, line.colour) for line in lines] if len(columns) > 1 else []
    last = text.number(lines[0].curve.middle[-1], share) if len(lines) == 1 else ""
    return {"title": title, "svg": svg.chart(lines, title, share), "legend": legend, "last": last}


def _short(column: str, columns: Sequence[str]) -> str:
    """The part of a column's name in which it differs from its neighbours."""
    split = [name.split("/") for name in columns]
    at = next((i for i, names in enumerate(zip(*split, strict=False)) if len(set(names)) > 1), 0)
    return column.split("/")[at]


def _charts(results: Results) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """(heading, note, charts) of the section on training."""
    history, evaluations = results.history, results.evaluations
    rewards = metric_columns(history, "reward/", "/mean")
    scores = [name for name in metric_columns(evaluations) if "/" not in name]
    scores = text.ordered(scores, results.settings.train.best_metric or "")
    own = tables.own_run(results.runs, results.origin)
    timed = frame_of_runs([own]).drop(columns=["method", "seed"]) if own else history
    single = {
        "response/length": "Response length, tokens",
        "policy/grad_norm": "Gradient norm",
        "policy/entropy": "Entropy, nats",
        "policy/kl": "KL to the start",
    }
    present = [name for name in metric_columns(history) if name in single and history[name].any()]
    health = [_chart(history, [name], single[name]) for name in single if name in present]
    for frame, prefix, suffix, title, share in (
        (history, "reward/", "/dead_groups", "Groups without contrast", True),
        (history, "replay/", "/n_eff_share", "Tokens that share the credit", True),
        (timed, "time/", "", "Seconds a step", False),
    ):
        if names := metric_columns(frame, prefix, suffix):
            health.append(_chart(frame, names, title, share))
    found = [
        (
            "Rewards",
            "Mean over the responses sampled in a step; the thin line is as measured.",
            [_chart(history, [name], name.split("/")[1], "total" not in name) for name in rewards],
        ),
        (
            "Evaluations",
            "Greedy answers to validation questions.",
            [_chart(evaluations, [name], text.name_of(name), True, False) for name in scores],
        ),
        (
            "Sampled",
            "One answer to each of them at the sampling temperature, which is what RL optimises.",
            [
                _chart(evaluations, [f"sampled/{name}"], text.name_of(name), True, False)
                for name in scores
                if f"sampled/{name}" in evaluations
            ],
        ),
        ("Health", "Where to look when a reward does not move.", health),
    ]
    return [section for section in found if section[2]]


def _comparison(runs: Sequence[PastRun], scores: Sequence[str]) -> dict[str, Any]:
    rows = tables.methods(runs, scores)
    frame = frame_of_runs(runs)
    wanted = [f"valid/{name}" for name in scores] + metric_columns(frame, "reward/", "/mean")
    charts = [
        _chart(frame, [name], _curve_title(name), True, name.startswith("reward/"))
        for name in wanted
        if name in metric_columns(frame)
    ]
    several = any(row.runs > 1 for row in rows)
    timed = any(row.seconds for row in rows)
    return {"rows": rows, "columns": list(rows[0].figures), "charts": charts, "timed": timed,
            "several": several}  # fmt: skip


def _curve_title(name: str) -> str:
    if name.startswith("valid/"):
        return f"{text.name_of(name.removeprefix('valid/'))}, validation"
    return f"{name.split('/')[1]}, training reward"


def _shares(rows: Sequence[Row]) -> dict[str, Any] | None:
    parts = part_shares(rows)
    if parts.empty:
        return None
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for row in parts.itertuples():
        found.setdefault(str(row.part), {})[str(row.reward)] = (row.share, row.uniform)
    top = {row.reward: (row.share, row.uniform) for row in top_shares(rows).itertuples()}
    limit = max(0.3, parts["share"].max(), parts["uniform"].max())
    return {"rewards": list(top), "parts": found, "top": top, "limit": limit}


def _example(rollout: Sequence[Row], questions: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """One response: for each reward its tokens under GDPO and under MRTPO, on one colour scale."""
    peak = full_colour(rollout)
    about = questions.get(rollout[0]["prompt_id"], {})
    rewards = []
    for row in with_credit(rollout):
        even = even_credit(row)
        tips = [_tip(row, at) for at in range(len(row["tokens"]))]
        rewards.append(
            {
                "name": row["reward"],
                "advantage": row["advantage"],
                "skipped": (row["reason"] or "skipped") if row["skipped"] else "",
                "even": _tokens(
                    row["tokens"], even, peak, [f"credit {text.signed(c)}" for c in even]
                ),
                "placed": _tokens(row["tokens"], token_credit(row), peak, tips),
            }
        )
    return {
        "id": rollout[0]["prompt_id"],
        "sample": rollout[0]["sample"],
        "verdicts": [(r["reward"], text.present(r["value"]), r["advantage"]) for r in rollout],
        "quiet": [row["reward"] for row in rollout if not row["advantage"]],
        "rewards": rewards,
        "question": about.get("question", ""),
        "reference": about.get("reference", ""),
    }


def _tokens(
    tokens: Sequence[str], credit: Sequence[float], peak: float, tips: Sequence[str]
) -> list[tuple[str, str, str, str]]:
    """(text, class, strength, tip) of each token; newlines are shown and kept."""
    found = []
    for token, value, tip in zip(tokens, credit, tips, strict=True):
        sign = "p" if value > 0 else "n" if value < 0 else "z"
        strength = f"{min(1.0, abs(value) / peak) ** SHADE:.2f}"
        found.append((token.replace("\r", "").replace("\n", "↵\n"), sign, strength, tip))
    return found


def _tip(row: Row, at: int) -> str:
    """The numbers of one token under MRTPO."""
    lines = []
    if not row["skipped"] and len(row["distance"]) > at:
        told, untold = (math.exp(row[key][at]) for key in ("logprob_with", "logprob_without"))
        lines += [f"told {text.plain(told)}, not told {text.plain(untold)}",
                  f"distance {text.plain(row['distance'][at])}"]  # fmt: skip
    lines += [
        f"weight {text.plain(weights(row)[at])}",
        f"credit {text.signed(token_credit(row)[at])}",
    ]
    return "\n".join([*lines, row["parts"][at]] if row["parts"][at] else lines)


def _failure(row: Row, scores: Sequence[str]) -> dict[str, Any]:
    expected, found = text.difference(row["reference"] or "", row["sql"] or "")
    texts = {name: row[name] or "" for name in PREDICTION_COLUMNS}
    marks = [(name, text.present(row.get(name))) for name in scores]
    return {**texts, "expected": expected, "found": found, "scores": marks}


def _settings(settings: Settings) -> dict[str, list[tuple[str, str, str | None]]]:
    """By section: key, value, and the default where the value differs from it."""
    default = flatten(Settings().model_dump(), ".")
    found: dict[str, list[tuple[str, str, str | None]]] = {}
    for key, value in flatten(settings.model_dump(), ".").items():
        section, _, name = key.rpartition(".")
        changed = json.dumps(default.get(key)) if value != default.get(key) else None
        shown = value if isinstance(value, str) else json.dumps(value)
        found.setdefault(section or "general", []).append((name, shown, changed))
    return found


def _plain_figures(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for key, value in flatten(values, " / ").items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        found.append((key, text.plain(value) if number or value is None else str(value)))
    return found
