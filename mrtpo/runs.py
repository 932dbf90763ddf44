"""What a run says about itself in MLflow (name, tags, parameters), and finished runs read back.

Runs are told apart by name and tags: `task`, `method`, `seed`, `model`, `data`, and `experiment`
for what the user called it. `git_commit`, `data_hash`, `fingerprint`, `dvc_*` and
`prefect_flow_run_id` lead back to what made the run. A tag whose value is unknown is left out.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mrtpo.config import Settings
from mrtpo.mlflow_store import flatten, open_store, sqlite_file, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


def model_name(settings: Settings) -> str:
    """The policy in a word: the last part of its path, or the small decoder's layers × width."""
    model = settings.model
    return Path(model.path).name if model.path else f"small {model.layers}×{model.hidden_size}"


def run_name(settings: Settings) -> str:
    """Task, method and seed, then what tells this run from its siblings."""
    own = os.environ.get("MRTPO_RUN_NAME") or os.environ.get("DVC_EXP_NAME")
    about = own or f"{settings.data.source}, {model_name(settings)}"
    return f"{settings.task} {settings.train.method} seed {settings.seed} · {about}"


def run_tags(settings: Settings, fingerprint: str, data_hash: str) -> dict[str, str]:
    """Tags that group runs, and those that lead back to what made them."""
    commit, dirty = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "-uno")
    tags = {
        "task": settings.task,
        "method": settings.train.method,
        "seed": str(settings.seed),
        "model": model_name(settings),
        "data": settings.data.source,
        "experiment": os.environ.get("MRTPO_RUN_NAME") or os.environ.get("DVC_EXP_NAME"),
        "prefect_flow_run_id": os.environ.get("PREFECT_FLOW_RUN_ID"),
        "dvc_stage": os.environ.get("DVC_STAGE"),
        "dvc_exp_name": os.environ.get("DVC_EXP_NAME"),
        "git_commit": commit,
        "git_dirty": None if commit is None else str(bool(dirty)).lower(),
        "mlflow.source.git.commit": commit,
        "mlflow.source.name": f"mrtpo {os.environ.get('DVC_STAGE', 'train')}",
        "mlflow.source.type": "LOCAL",
        "data_hash": data_hash,
        "fingerprint": fingerprint,
    }
    return {key: value for key, value in tags.items() if value}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def log_params(client: MlflowClient, run: Run, settings: Settings) -> None:
    """Log settings that the run does not have yet: parameters cannot change in MLflow."""
    from mlflow.entities import Param

    flat = flatten(settings.model_dump(), ".")
    texts = {key: v if isinstance(v, str) else json.dumps(v) for key, v in flat.items()}
    missing = [Param(k, v) for k, v in texts.items() if k not in run.data.params]
    for start in range(0, len(missing), 100):  # MLflow's limit
        client.log_batch(run.info.run_id, params=missing[start : start + 100])


@dataclasses.dataclass(frozen=True)
class PastRun:
    """A finished run as the report compares it. `history` maps a metric to its (step, value)s."""

    run_id: str
    name: str
    method: str
    seed: int
    params: dict[str, str]
    tags: dict[str, str]
    final: dict[str, float]
    history: dict[str, list[tuple[int, float]]]


def curve_metric(name: str) -> bool:
    """The metrics whose history is compared by default: rewards' means, evaluations and times."""
    reward = name.startswith("reward/") and name.endswith("/mean")
    return reward or name.startswith(("valid/", "time/"))


def other_runs(
    settings: Settings, metrics: Callable[[str], bool] = curve_metric, limit: int = 50
) -> list[PastRun]:
    """Finished runs of this task in this experiment, oldest first; none where no store is yet."""
    file = sqlite_file(tracking_uri(settings))
    if file is not None and not file.exists():
        return []
    client, experiment_id = open_store(settings)
    runs = client.search_runs(
        [experiment_id],
        f"attributes.status = 'FINISHED' and tags.task = '{settings.task}'",
        max_results=limit,
        order_by=["attributes.start_time DESC"],
    )
    return [_past_run(client, run, metrics) for run in reversed(runs)]


def _past_run(client: MlflowClient, run: Run, wanted: Callable[[str], bool]) -> PastRun:
    def history(name: str) -> list[tuple[int, float]]:
        found = client.get_metric_history(run.info.run_id, name)
        return sorted((point.step, point.value) for point in found)

    return PastRun(
        run_id=run.info.run_id,
        name=run.info.run_name or run.info.run_id,
        method=run.data.tags.get("method", ""),
        seed=int(run.data.tags.get("seed", 0)),
        params=dict(run.data.params),
        tags=dict(run.data.tags),
        final=dict(run.data.metrics),
        history={name: history(name) for name in sorted(run.data.metrics) if wanted(name)},
    )
