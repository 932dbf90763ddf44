"""Where every stage reads and writes, relative to the workspace (the current directory).

Stage outputs are what `dvc.yaml` lists. Resumable state lives outside them, in
`$MRTPO_STATE` (default `state/`), under a fingerprint of settings, data and code, so that a run
that was killed resumes and a changed one starts afresh.
"""

from __future__ import annotations

import os
from pathlib import Path

PROMPTS = Path(
    "data/prompts"
)  # prepare: {train,valid,test}.parquet, databases/<db_id>/<db_id>.sqlite
DATA_DOCS = Path("reports/data_docs")  # prepare: Great Expectations HTML, index.html
WARMSTART = Path("models/warmstart")  # warmstart: a transformers folder
ROLLOUTS = Path("data/rollouts/rollouts.parquet")  # rollout
ATTRIBUTION = Path("data/attribution/attribution.parquet")  # attribute
POLICY = Path("models/policy")  # train: the best checkpoint, a transformers folder, run.json
HISTORY = Path("reports/train")  # train: history.csv, evaluations.csv, curves.png
PREDICTIONS = Path("data/predictions/predictions.parquet")  # evaluate
BENCHMARKS = Path("data/benchmarks")  # benchmark: <name>.jsonl and what goes with it
EXPLORER = Path("reports/explorer.html")  # explore
FIGURES = Path("reports/figures")  # explore: SVG, PNG, CSV, figures.json
REPORT = Path("reports/report.html")  # report
METRICS = Path("metrics")  # <stage>.json


def home() -> Path:
    """The workspace that outlives this run.

    `dvc exp run --temp` and `--queue` work in a folder below `.dvc/tmp/exps` that is deleted
    afterwards; for them it is the workspace they were started from.
    """
    here = Path.cwd()
    for folder in here.parents:
        if folder.parts[-3:] == (".dvc", "tmp", "exps"):
            return folder.parents[2]
    return here


def state_root() -> Path:
    """Folder of resumable checkpoints: `$MRTPO_STATE`, else `state/` of the workspace."""
    return Path(os.environ.get("MRTPO_STATE") or home() / "state")


def metrics_file(stage: str) -> Path:
    return METRICS / f"{stage}.json"
