"""MLflow: one top-level run for each training, continued by id when the training is resumed.

State file `<state>/mlflow.json`: `{"run_id", "model_id"}`. It lies beside the resumable checkpoint,
so a training that continues also continues its run; a run that was lost or deleted is replaced by a
new one.

Metric names hold `/`, which MLflow turns into sections of its chart page; no name may be another's
path prefix. Steps are written in order by one thread, so what the store holds is always the
beginning of what was logged: a (name, step) that is already there is left out, and a resumed
training may repeat steps freely. Only rank 0 logs; other ranks hold a `NoLog`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import pandas as pd

from mrtpo.config import Settings
from mrtpo.mlflow_store import (
    MetricNames,
    Writer,
    find_run,
    flatten,
    last_point,
    open_store,
    points,
    slug,
    write_mlmodel,
)
from mrtpo.runs import PastRun, log_params, other_runs, run_name, run_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["NoLog", "PastRun", "RunLog", "other_runs", "read_state"]

STATE_FILE = "mlflow.json"
TRAINING_PAGES = "?workflowType=machine_learning"
NON_FINITE = "health/non_finite"


class NoLog:
    """Takes the calls of `RunLog` and keeps nothing: for ranks other than 0."""

    run_id: str | None = None
    page: str | None = None

    def step(self, step: int, metrics: Mapping[str, float | None]) -> None: ...
    def finish_metrics(self, metrics: Mapping[str, Any], prefix: str = "final") -> None: ...
    def table(self, name: str, rows: Any, shown: int = 100) -> None: ...
    def figure(self, path: Path) -> None: ...
    def dataset(self, path: Path, name: str, split: str) -> None: ...
    def policy(self, folder: Path, step: int = 0) -> None: ...
    def flush(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def __enter__(self) -> NoLog:
        return self


class RunLog:
    """An open run. Use as a context manager: however the block ends, the run gets its status."""

    def __init__(self, client: MlflowClient, run: Run, state: Path, ends: bool) -> None:
        self.client, self.state, self.ends = client, state, ends
        self.run_id: str = run.info.run_id
        self.experiment_id: str = run.info.experiment_id
        # The UI has pages for agents and for trainings, and opens the former unless told.
        self.page = f"/#/experiments/{self.experiment_id}/runs/{self.run_id}{TRAINING_PAGES}"
        self._tags: dict[str, str] = dict(run.data.tags)
        self._names = MetricNames(run.data.metrics)
        self._last = {name: last_point(client, self.run_id, name) for name in run.data.metrics}
        self._non_finite: list[str] = []
        self._writer = Writer(lambda batch: client.log_batch(self.run_id, metrics=batch))
        self._restore: Callable[[], None] = lambda: None

    @classmethod
    def open(
        cls,
        settings: Settings,
        state: Path,
        fingerprint: str,
        data_hash: str,
        step: int | None = None,
    ) -> RunLog:
        """Start the run of a training, or continue the one that `state` names.

        `step` is the step that a resume starts from; it is kept in the tag `resumed_from`.
        """
        client, experiment_id = open_store(settings)
        run = find_run(client, read_state(state).get("run_id"))
        tags = run_tags(settings, fingerprint, data_hash)
        if run is None:
            run = client.create_run(experiment_id, run_name=run_name(settings), tags=tags)
            # Kept at once: killed from here on, the run can still be continued.
            _write_state(state, {"run_id": run.info.run_id})
        else:
            client.update_run(run.info.run_id, status="RUNNING")
            if step is not None:
                past = run.data.tags.get("resumed_from")
                tags["resumed_from"] = f"{past}, {step}" if past else str(step)
            for key, value in tags.items():
                if run.data.tags.get(key) != value:
                    client.set_tag(run.info.run_id, key, value)
        log_params(client, run, settings)
        return cls(client, client.get_run(run.info.run_id), state, ends=True)

    @classmethod
    def reopen(cls, settings: Settings, state: Path, run_id: str | None = None) -> RunLog | NoLog:
        """Add to a training's run from a later stage, leaving its status alone.

        The run is the one in `state`, else `run_id`. Where the store knows neither (a policy that
        was fetched from elsewhere), a warning says so and nothing is logged.
        """
        client, _ = open_store(settings)
        for candidate in (read_state(state).get("run_id"), run_id):
            if run := find_run(client, candidate):
                return cls(client, run, state, ends=False)
        warnings.warn("the training's MLflow run is not in this store: not logged", stacklevel=2)
        return NoLog()

    @staticmethod
    def off() -> NoLog:
        return NoLog()

    def step(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Queue one step's metrics; returns at once. None means "nothing to say at this step".

        NaN and infinities would be stored as 0 and ±1.8e308 and ruin the charts: they are left out,
        counted in `health/non_finite` and named in the tag `non_finite`.
        """
        present = {raw: float(value) for raw, value in metrics.items() if value is not None}
        finite = {raw: value for raw, value in present.items() if math.isfinite(value)}
        if len(finite) < len(present):
            finite[NON_FINITE] = float(len(present) - len(finite))
            if step > self._last_step(NON_FINITE):
                self._non_finite += [f"{raw}@{step}" for raw in present if raw not in finite]
        named = {self._names(raw): value for raw, value in finite.items()}
        fresh = {name: value for name, value in named.items() if step > self._last_step(name)}
        self._last |= {name: (step, value) for name, value in fresh.items()}
        self._writer.put(points(fresh, step))

    def _last_step(self, name: str) -> int:
        return self._last[name][0] if name in self._last else -1

    def finish_metrics(self, metrics: Mapping[str, Any], prefix: str = "final") -> None:
        """Log final figures: `{"exec": 1, "kind": {"join": 0}}` → `final/exec`, `final/kind/join`.

        MLflow sorts sections of charts by name and puts names without `/` last; `final` comes
        before what is logged along the way. A figure logged again with another value gets the next
        step, so that the newest counts and no step is doubled. Figures are also tied to the logged
        policy, which makes the models page comparable.
        """
        model_id = read_state(self.state).get("model_id")
        for raw, value in flatten(metrics, "/").items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            raw = f"{prefix}/{raw}"
            name = self._names(raw)
            step = self._last_step(name)
            if step >= 0 and self._last[name][1] == value:
                continue
            self.step(step + 1, {raw: value})
            if model_id and math.isfinite(value):
                self._writer.put(points({name: float(value)}, step + 1, model_id))

    def table(self, name: str, rows: Any, shown: int = 100) -> None:
        """Log rows as a table for the UI (the first `shown`) and, all of them, as parquet."""
        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
        path = f"tables/{name}.json"
        text = frame.head(shown).to_json(orient="split", index=False, double_precision=6)
        self.client.log_text(self.run_id, text, path)
        listed = json.loads(self._tags.get("mlflow.loggedArtifacts", "[]"))
        if (entry := {"path": path, "type": "table"}) not in listed:
            self._tag("mlflow.loggedArtifacts", json.dumps([*listed, entry]))
        with tempfile.TemporaryDirectory() as folder:
            frame.to_parquet(file := Path(folder) / f"{name}.parquet")
            self.client.log_artifact(self.run_id, str(file), "tables")

    def figure(self, path: Path) -> None:
        self.client.log_artifact(self.run_id, str(path), "figures")

    def dataset(self, path: Path, name: str, split: str) -> None:
        """Record a parquet file as an input: digest, schema and number of rows, not the rows."""
        import pyarrow.parquet as pq
        from mlflow.entities import Dataset, DatasetInput, InputTag

        file = pq.ParquetFile(path)
        with open(path, "rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()[:16]
        columns = [{"name": field.name, "type": str(field.type), "required": False}
                   for field in file.schema_arrow]  # fmt: skip
        entity = Dataset(
            name=name, digest=digest, source_type="local",
            source=json.dumps({"uri": Path(path).as_posix()}),
            schema=json.dumps({"mlflow_colspec": columns}),
            profile=json.dumps({"num_rows": file.metadata.num_rows}),
        )  # fmt: skip
        tags = [InputTag("mlflow.data.context", split)]
        self.client.log_inputs(self.run_id, [DatasetInput(entity, tags)])

    def policy(self, folder: Path, step: int = 0) -> None:
        """Log a transformers folder as the run's model; a model logged before is replaced.

        Files are copied as they are: nothing is loaded, whatever the size. MLflow's own `log_model`
        cannot take a folder with transformers 5, and asks the hub for a model card; so `MLmodel` is
        written here. `mlflow.transformers.load_model("models:/<model id>")` reads it.
        """
        from mlflow.entities import LoggedModelOutput

        state = read_state(self.state)
        about = {key: self._tags.get(key, "") for key in ("task", "method", "seed", "model")}
        model = self.client.create_logged_model(
            self.experiment_id,
            name=slug(f"{about['task']}-{about['method']}-seed{about['seed']}"),
            source_run_id=self.run_id, params=about, model_type="policy",
        )  # fmt: skip
        self.client.log_model_artifacts(model.model_id, str(folder), "model")
        with tempfile.TemporaryDirectory() as extra:
            write_mlmodel(Path(extra), folder, model)
            self.client.log_model_artifacts(model.model_id, extra)
        self.client.finalize_logged_model(model.model_id, "READY")
        self.client.log_outputs(self.run_id, [LoggedModelOutput(model.model_id, step)])
        if past := state.get("model_id"):
            self.client.delete_logged_model(past)
        _write_state(self.state, {"run_id": self.run_id, "model_id": model.model_id})

    def flush(self) -> None:
        """Wait until queued metrics are stored: do so before a checkpoint is declared complete."""
        self._writer.flush()

    def _tag(self, key: str, value: str) -> None:
        self._tags[key] = value
        self.client.set_tag(self.run_id, key, value)

    def __enter__(self) -> RunLog:
        if self.ends:
            self._restore = _terminate_as_exit()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stopped = kind is not None and issubclass(kind, (SystemExit, KeyboardInterrupt))
        status = "FINISHED" if kind is None else "KILLED" if stopped else "FAILED"
        try:
            self.flush()
            self._tag_problems(error if status == "FAILED" else None)
            if self.ends:
                self.client.set_terminated(self.run_id, status)
        except Exception as problem:  # a store that went away must not hide what ended the block
            warnings.warn(f"MLflow: run {self.run_id} not closed: {problem}", stacklevel=2)
        finally:
            self._restore()

    def _tag_problems(self, error: BaseException | None) -> None:
        past = self._tags.get("non_finite")
        names = [*([past] if past else []), *self._non_finite[:20]]
        problems = {
            "non_finite": ", ".join(names)[:2000] if self._non_finite else "",
            "tracking_errors": "; ".join(self._writer.errors[:3]),
            "error": f"{type(error).__name__}: {error}"[:500] if error else "",
        }
        for key, text in problems.items():
            if text:
                self._tag(key, text)


def _terminate_as_exit() -> Callable[[], None]:
    """Turn SIGTERM into SystemExit, so that blocks close; returns what undoes it.

    Left alone where somebody else handles SIGTERM, and outside the main thread.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # asked twice, still close properly
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)

    def restore() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    return restore


def read_state(state: Path) -> dict[str, str]:
    file = state / STATE_FILE
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _write_state(state: Path, values: dict[str, str]) -> None:
    state.mkdir(parents=True, exist_ok=True)
    temporary = state / f".{STATE_FILE}.{os.getpid()}"
    temporary.write_text(json.dumps(values), encoding="utf-8")
    temporary.replace(state / STATE_FILE)
