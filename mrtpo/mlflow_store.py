"""What `tracking` needs of an MLflow store: opening it, metric names, a writer, model files.

With sqlite the artifacts lie in `mlartifacts/` beside the database. A new database is migrated
under a lock on `mlartifacts/.lock`: MLflow itself lets two processes create the same tables.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mrtpo.config import Settings
from mrtpo.paths import home

if TYPE_CHECKING:  # importing MLflow takes seconds; stages that do not track must not pay for it
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Metric, Run

logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)

FLUSH_SECONDS = 20.0  # a supervisor that asked us to stop waits 30 s before it kills
KIND = {"mlflow.experimentKind": "custom_model_development"}
RETRY_PAUSES = (0.5, 2.0)  # seconds; a busy store is worth waiting for
_BAD_CHARACTERS = re.compile(r"[^\w\-. /]")


def tracking_uri(settings: Settings) -> str:
    """The setting, else `$MLFLOW_TRACKING_URI`, else `mlflow.db` here; sqlite paths absolute."""
    uri = settings.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")
    uri = uri or f"sqlite:///{home() / 'mlflow.db'}"
    file = sqlite_file(uri)
    return f"{uri.partition(':')[0]}:///{file}" if file else uri


def sqlite_file(uri: str) -> Path | None:
    """The database file of a sqlite URI, absolute; None for other stores and in memory."""
    parts = urlsplit(uri)
    if parts.scheme.split("+")[0] != "sqlite" or parts.path in ("", "/", "/:memory:"):
        return None
    return Path(parts.path[1:]).resolve()


def open_store(settings: Settings) -> tuple[MlflowClient, str]:
    """A client and the id of the settings' experiment; both are made where they do not exist."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    uri, name = tracking_uri(settings), settings.tracking.experiment
    with _only_one(uri) as artifacts:
        client = MlflowClient(uri)
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            place = (artifacts / slug(name)).as_uri() if artifacts else None
            try:
                return client, client.create_experiment(name, place, KIND)
            except MlflowException:  # on a server, another process may have been first
                experiment = client.get_experiment_by_name(name)
                if experiment is None:
                    raise
        if experiment.lifecycle_stage != "active":
            client.restore_experiment(experiment.experiment_id)
        return client, experiment.experiment_id


@contextlib.contextmanager
def _only_one(uri: str) -> Iterator[Path | None]:
    """Hold the lock of a sqlite store; yields its artifact folder."""
    if (file := sqlite_file(uri)) is None:
        yield None
        return
    artifacts = file.parent / "mlartifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    with open(artifacts / ".lock", "a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield artifacts


def find_run(client: MlflowClient, run_id: str | None) -> Run | None:
    """The run of that id unless it is unknown or deleted."""
    from mlflow.exceptions import MlflowException

    if not run_id:
        return None
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise
    return run if run.info.lifecycle_stage == "active" else None


def last_point(client: MlflowClient, run_id: str, name: str) -> tuple[int, float]:
    """Step and value of the last point of a metric."""
    point = max(client.get_metric_history(run_id, name), key=lambda p: (p.step, p.timestamp))
    return point.step, point.value


def points(values: Mapping[str, float], step: int, model_id: str | None = None) -> list[Metric]:
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    return [Metric(name, value, now, step, model_id) for name, value in values.items()]


def flatten(values: Mapping[str, Any], joint: str) -> dict[str, Any]:
    """`{"a": {"b": 1}}` → `{"a.b": 1}`; an empty mapping stays as it is."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= {f"{key}{joint}{inner}": v for inner, v in flatten(value, joint).items()}
        else:
            flat[str(key)] = value
    return flat


def slug(text: str) -> str:
    """Text fit for a folder's or a model's name."""
    return re.sub(r"[^\w-]+", "-", text).strip("-") or "unnamed"


class MetricNames:
    """Maps names to what MLflow accepts. Raises ValueError where two cannot stand together."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._raw: dict[str, str | None] = dict.fromkeys(taken)  # mapped → raw, where known
        self._mapped: dict[str, str] = {}

    def __call__(self, raw: str) -> str:
        if raw in self._mapped:
            return self._mapped[raw]
        parts = [part.strip() for part in _BAD_CHARACTERS.sub("_", raw).split("/")]
        name = "/".join("_" if part in ("", ".", "..") else part for part in parts)[:250]
        for other, known in self._raw.items():
            if name == other and known not in (None, raw):
                raise ValueError(f"metrics {raw!r} and {known!r} have one name in MLflow: {name!r}")
            if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
                raise ValueError(
                    f"metric {raw!r} and {known or other!r}: one is a path to the other"
                )
        self._raw[name] = raw
        self._mapped[raw] = name
        return name


class Writer:
    """Writes batches of metrics in order, in a thread; never raises, keeps what went wrong."""

    def __init__(self, write: Callable[[list[Metric]], object]) -> None:
        self.write = write
        self.errors: list[str] = []
        self.queue: Queue[list[Metric]] = Queue()
        threading.Thread(target=self._run, name="mlflow-writer", daemon=True).start()

    def put(self, batch: list[Metric]) -> None:
        if batch:
            self.queue.put(batch)

    def flush(self) -> None:
        """Wait until everything is written, or `FLUSH_SECONDS`; the latter is an error kept."""
        end = time.monotonic() + FLUSH_SECONDS
        while self.queue.unfinished_tasks:
            if time.monotonic() > end:
                self._note(f"{self.queue.unfinished_tasks} steps not written in time")
                return
            time.sleep(0.005)

    def _run(self) -> None:
        while True:
            batches = [self.queue.get()]
            with contextlib.suppress(Empty):
                while sum(map(len, batches)) < 500:  # MLflow takes at most 1000 at once
                    batches.append(self.queue.get_nowait())
            self._try([point for batch in batches for point in batch])
            for _ in batches:
                self.queue.task_done()

    def _try(self, batch: list[Metric]) -> None:
        for pause in (*RETRY_PAUSES, None):
            try:
                self.write(batch)
                return
            except Exception as error:
                if pause is None:
                    self._note(f"{len(batch)} points lost: {type(error).__name__}: {error}"[:300])
                else:
                    time.sleep(pause)

    def _note(self, text: str) -> None:
        self.errors.append(text)
        warnings.warn(f"MLflow: {text}", stacklevel=2)


def write_mlmodel(target: Path, folder: Path, model: LoggedModel) -> None:
    """Write below `target` what makes the copied transformers `folder` an MLflow model.

    MLflow's `transformers` flavour keeps the model in `model/` and the tokenizer in
    `components/tokenizer/`. A folder without a configuration (an adapter, say) gets no flavour.
    """
    import mlflow
    import transformers
    from mlflow.models import Model

    spec = Model(model_uuid=model.model_id, model_id=model.model_id, run_id=model.source_run_id)
    if (folder / "config.json").is_file():
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        flavor = {
            "task": "text-generation",
            "instance_type": "TextGenerationPipeline",
            "model_binary": "model",
            "pipeline_model_type": config["architectures"][0],
            "source_model_name": "",
            "torch_dtype": f"torch.{config.get('dtype') or 'float32'}",
            "transformers_version": transformers.__version__,
        }
        if (folder / "tokenizer_config.json").is_file():
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            tokenizer.save_pretrained(target / "components" / "tokenizer")
            flavor |= {"components": ["tokenizer"], "tokenizer_type": type(tokenizer).__name__}
        spec.add_flavor("transformers", **flavor)
    needs = f"mlflow=={mlflow.__version__}\ntransformers=={transformers.__version__}\ntorch\n"
    (target / "requirements.txt").write_text(needs, encoding="utf-8")
    spec.save(str(target / "MLmodel"))
