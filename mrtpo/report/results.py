"""What the report is made of, read from where the stages wrote it.

Every file but the predictions may be absent: a section of the report that has nothing to say is
left out. An attribution row is described in `mrtpo.report.credit`, a prediction in
`PREDICTION_COLUMNS`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from mrtpo import paths
from mrtpo.config import Settings
from mrtpo.mlflow_store import flatten
from mrtpo.records import read_rows
from mrtpo.report.source import prompts_of, question
from mrtpo.tracking import PastRun, other_runs

PREDICTION_COLUMNS = (
    "prompt_id", "kind", "difficulty", "source", "question", "reference", "response", "sql",
    "status", "detail",
)  # fmt: skip
"""Text of a prediction; every other column is a score, absent where it could not be decided."""

Row = Mapping[str, Any]


@dataclass
class Results:
    """Everything a report may show."""

    settings: Settings
    predictions: Sequence[Row]
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)  # by stage
    history: pd.DataFrame = field(default_factory=pd.DataFrame)
    evaluations: pd.DataFrame = field(default_factory=pd.DataFrame)
    attribution: Sequence[Row] = field(default_factory=list)
    questions: dict[str, dict[str, str]] = field(default_factory=dict)  # question, reference by id
    runs: list[PastRun] = field(default_factory=list)
    origin: dict[str, str] = field(default_factory=dict)  # fingerprint, best step of this policy


def read_results(settings: Settings, root: Path = Path()) -> Results:
    """Read the workspace. Raises `FileNotFoundError` without predictions."""
    attribution = root / paths.ATTRIBUTION
    rows = read_rows(attribution) if attribution.is_file() else []
    return Results(
        settings=settings,
        predictions=read_rows(root / paths.PREDICTIONS),
        metrics=_metrics(root / paths.METRICS),
        history=_table(root / paths.HISTORY / "history.csv"),
        evaluations=_table(root / paths.HISTORY / "evaluations.csv"),
        attribution=rows,
        questions=_questions(root, {row["prompt_id"] for row in rows}),
        runs=_runs(settings),
        origin=_origin(root / paths.POLICY / "training.json"),
    )


def _table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def _metrics(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(folder.glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def _questions(root: Path, wanted: set[str]) -> dict[str, dict[str, str]]:
    """Question and reference of the prompts that are wanted."""
    found = {prompt.id: question(prompt) for prompt in prompts_of(root, wanted)}
    return {id: {"question": q.question, "reference": q.reference} for id, q in found.items()}


def _origin(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    values = flatten(json.loads(file.read_text(encoding="utf-8")), ".")
    return {key: str(value) for key, value in values.items()}


def _runs(settings: Settings) -> list[PastRun]:
    try:
        return other_runs(settings)
    except Exception as error:  # a report without a comparison is better than none
        warnings.warn(f"no comparison of runs, MLflow cannot be read: {error}", stacklevel=2)
        return []
