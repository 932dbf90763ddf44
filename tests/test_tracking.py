"""The MLflow run of a training: how it starts, is killed, resumed, closed, and read back."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mrtpo import mlflow_store, paths, stages
from mrtpo.config import Settings, settings_from
from mrtpo.mlflow_store import MetricNames, Writer, sqlite_file, tracking_uri
from mrtpo.rollouts import write_attribution
from mrtpo.tracking import NoLog, RunLog, other_runs, read_state

TWICE = """
import sys
from pathlib import Path
from mrtpo.config import settings_from
from mrtpo.tracking import RunLog
settings = settings_from({"seed": int(sys.argv[1])})
with RunLog.open(settings, Path(sys.argv[1]), "f", "d") as log:
    log.step(1, {"loss": 1.0})
"""


@pytest.fixture(scope="session")
def made_by_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that two processes opened at once where there was none; copied for other tests."""
    folder = tmp_path_factory.mktemp("store")
    path = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    surroundings.pop("MLFLOW_TRACKING_URI", None)
    processes = [
        subprocess.Popen([sys.executable, "-c", TWICE, seed], cwd=folder, env=surroundings,
                         stderr=subprocess.PIPE, text=True)
        for seed in "12"
    ]  # fmt: skip
    errors = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    return folder / "mlflow.db"


@pytest.fixture
def settings(made_by_two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("MRTPO_RUN_NAME", "DVC_EXP_NAME", "DVC_STAGE", "PREFECT_FLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(made_by_two, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    return settings_from({"tracking": {"uri": uri, "experiment": "under test"}})


def client(settings: Settings) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri(settings))


def open_log(settings: Settings, state: Path, **more: Any) -> RunLog:
    return RunLog.open(settings, state, fingerprint="f" * 8, data_hash="d" * 8, **more)


def steps(settings: Settings, run_id: str, name: str) -> list[int]:
    return [point.step for point in client(settings).get_metric_history(run_id, name)]


def test_resume_continues_the_same_run_without_double_steps_or_parameter_errors(
    settings: Settings, tmp_path: Path
) -> None:
    killed = open_log(settings, tmp_path / "state")
    for step in range(1, 8):
        killed.step(step, {"policy/grad_norm": step / 10, "reward/format/mean": 0.5})
    killed.flush()  # then killed at step 7; the last checkpoint is that of step 5
    with open_log(settings, tmp_path / "state", step=5) as log:
        for step in range(6, 11):
            log.step(step, {"policy/grad_norm": step / 10, "reward/format/mean": 0.5})
    assert log.run_id == killed.run_id
    assert steps(settings, log.run_id, "policy/grad_norm") == list(range(1, 11))
    run = client(settings).get_run(log.run_id)
    assert run.data.params["train.method"] == "mrtpo"
    assert run.data.tags["resumed_from"] == "5"


def test_resume_with_other_settings_keeps_the_first_parameters_and_does_not_fail(
    settings: Settings, tmp_path: Path
) -> None:
    with open_log(settings, tmp_path / "state"):
        pass
    longer = settings.model_copy(update={"seed": 7})
    with open_log(longer, tmp_path / "state") as log:
        pass
    assert client(settings).get_run(log.run_id).data.params["seed"] == "0"


def test_a_run_killed_without_warning_is_closed_when_it_is_resumed(
    settings: Settings, tmp_path: Path
) -> None:
    killed = open_log(settings, tmp_path / "state")
    assert client(settings).get_run(killed.run_id).info.status == "RUNNING"
    with open_log(settings, tmp_path / "state"):
        pass
    run = client(settings).get_run(killed.run_id)
    assert run.info.status == "FINISHED"
    assert run.info.end_time is not None


def test_sigterm_closes_the_run_as_killed_with_all_its_steps(
    settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as caught, open_log(settings, tmp_path / "state") as log:
        for step in range(50):
            log.step(step, {"loss": 1.0})
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert caught.value.code == 128 + signal.SIGTERM
    assert client(settings).get_run(log.run_id).info.status == "KILLED"
    assert steps(settings, log.run_id, "loss") == list(range(50))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_stays_with_whoever_handles_it(settings: Settings, tmp_path: Path) -> None:
    def own(*_: object) -> None: ...

    before = signal.signal(signal.SIGTERM, own)
    try:
        with open_log(settings, tmp_path / "state"):
            assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("error", "status"),
    [(RuntimeError("no memory"), "FAILED"), (KeyboardInterrupt(), "KILLED"),
     (SystemExit(1), "KILLED")],
)  # fmt: skip
def test_a_block_that_raises_closes_the_run_and_raises_on(
    settings: Settings, tmp_path: Path, error: BaseException, status: str
) -> None:
    with pytest.raises(type(error)), open_log(settings, tmp_path / "state") as log:
        raise error
    run = client(settings).get_run(log.run_id)
    assert run.info.status == status
    assert run.data.tags.get("error") == ("RuntimeError: no memory" if status == "FAILED" else None)


def test_two_processes_may_open_a_new_database_at_once(made_by_two: Path) -> None:
    settings = settings_from({"tracking": {"uri": f"sqlite:///{made_by_two}"}})
    assert sorted(run.seed for run in other_runs(settings)) == [1, 2]
    experiments = client(settings).search_experiments()
    assert sorted(experiment.name for experiment in experiments) == ["Default", "mrtpo"]
    ours = client(settings).get_experiment_by_name("mrtpo")
    assert ours.artifact_location == (made_by_two.parent / "mlartifacts" / "mrtpo").as_uri()


def test_metric_names_are_mapped_and_prefix_free() -> None:
    names = MetricNames(["valid/spider_exec"])
    assert names("reward/5 < x & y/mean") == "reward/5 _ x _ y/mean"
    assert names("a//../b") == "a/_/_/b"
    assert names("valid/spider_exec") == "valid/spider_exec"
    with pytest.raises(ValueError, match="path"):
        names("valid")
    with pytest.raises(ValueError, match="path"):
        names("valid/spider_exec/join")
    with pytest.raises(ValueError, match="one name"):
        names("reward/5 > x & y/mean")
    assert names("valid/spider") == "valid/spider"  # a prefix of the text, not of the path


def test_every_mapped_name_is_one_that_the_store_takes(settings: Settings, tmp_path: Path) -> None:
    odd = ["a//b", "../x", "./y", "é/ü", "n\nl", "q?", "x" * 300, "trailing/ "]
    with open_log(settings, tmp_path / "state") as log:
        log.step(1, dict.fromkeys(odd, 1.0))
    run = client(settings).get_run(log.run_id)
    assert len(run.data.metrics) == len(odd)
    assert "tracking_errors" not in run.data.tags


def test_a_name_conflict_is_found_even_across_a_resume(settings: Settings, tmp_path: Path) -> None:
    with open_log(settings, tmp_path / "state") as log:
        log.step(1, {"reward/format/mean": 1.0})
    with pytest.raises(ValueError, match="path"), open_log(settings, tmp_path / "state") as log:
        log.step(2, {"reward/format": 1.0})


def test_non_finite_values_are_left_out_counted_and_named(
    settings: Settings, tmp_path: Path
) -> None:
    with open_log(settings, tmp_path / "state") as log:
        log.step(1, {"loss": 0.5, "policy/kl": 0.1})
        log.step(2, {"loss": float("nan"), "policy/kl": float("inf"), "reward/x/mean": None})
    run = client(settings).get_run(log.run_id)
    assert run.data.metrics == {"loss": 0.5, "policy/kl": 0.1, "health/non_finite": 2.0}
    assert run.data.tags["non_finite"] == "loss@2, policy/kl@2"


def test_logging_does_not_wait_for_the_store_and_flush_does() -> None:
    written: list[int] = []

    def slow(batch: list[Any]) -> None:
        time.sleep(0.1)
        written.extend(batch)

    writer = Writer(slow)
    start = time.monotonic()
    for number in range(100):
        writer.put([number])  # type: ignore[list-item]
    assert time.monotonic() - start < 0.1
    writer.flush()
    assert written == list(range(100))


def test_a_store_that_fails_is_reported_and_does_not_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def broken(batch: list[Any]) -> None:
        calls.append(batch)
        raise OSError("store is gone")

    monkeypatch.setattr(mlflow_store, "RETRY_PAUSES", (0.0, 0.0))
    writer = Writer(broken)
    with pytest.warns(UserWarning, match="1 points lost: OSError: store is gone"):
        writer.put([1])  # type: ignore[list-item]
        writer.flush()
    assert len(calls) == 3, "a write is tried again before it is given up"
    assert "store is gone" in writer.errors[0]


def test_final_figures_count_newest_and_double_no_step(settings: Settings, tmp_path: Path) -> None:
    with open_log(settings, tmp_path / "state") as log:
        log.step(1, {"loss": 1.0})
    first = {"spider_exec": 0.5, "kind": {"join": 0.25}, "note": "text", "n": None}
    for figures in (first, first, {"spider_exec": 0.75}):
        with RunLog.reopen(settings, tmp_path / "state") as again:
            again.finish_metrics(figures)
    run = client(settings).get_run(log.run_id)
    assert run.data.metrics == {"loss": 1.0, "final/spider_exec": 0.75, "final/kind/join": 0.25}
    assert steps(settings, log.run_id, "final/spider_exec") == [0, 1]
    assert run.info.status == "FINISHED"


def test_reopen_leaves_the_status_alone_even_when_its_stage_fails(
    settings: Settings, tmp_path: Path
) -> None:
    with open_log(settings, tmp_path / "state") as log:
        pass
    with pytest.raises(RuntimeError), RunLog.reopen(settings, tmp_path / "x", log.run_id) as again:
        raise RuntimeError("evaluation failed")
    assert again.run_id == log.run_id
    assert client(settings).get_run(log.run_id).info.status == "FINISHED"


def test_reopen_of_an_unknown_run_warns_and_logs_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match="not in this store"):
        log = RunLog.reopen(settings, tmp_path / "state", "0" * 32)
    assert isinstance(log, NoLog)


def test_a_deleted_run_and_a_deleted_experiment_do_not_stop_a_training(
    settings: Settings, tmp_path: Path
) -> None:
    with open_log(settings, tmp_path / "state") as log:
        pass
    client(settings).delete_experiment(log.experiment_id)
    with open_log(settings, tmp_path / "state") as again:
        pass
    client(settings).delete_run(again.run_id)
    with open_log(settings, tmp_path / "state") as third:
        pass
    assert third.run_id != again.run_id
    assert read_state(tmp_path / "state")["run_id"] == third.run_id


def test_a_table_is_replaced_and_whole_as_parquet(settings: Settings, tmp_path: Path) -> None:
    rows = [{"tokens": ["a", "b"], "weight": [0.5, 1.5], "value": None}] * 3
    with open_log(settings, tmp_path / "state") as log:
        log.table("attribution", rows, shown=2)
        log.table("attribution", pd.DataFrame(rows), shown=2)
    run = client(settings).get_run(log.run_id)
    listed = json.loads(run.data.tags["mlflow.loggedArtifacts"])
    assert listed == [{"path": "tables/attribution.json", "type": "table"}]
    folder = Path(run.info.artifact_uri.removeprefix("file://")) / "tables"
    table = json.loads((folder / "attribution.json").read_text())
    assert table["columns"] == ["tokens", "weight", "value"]
    assert table["data"] == [[["a", "b"], [0.5, 1.5], None]] * 2
    assert len(pd.read_parquet(folder / "attribution.parquet")) == 3


def test_the_stage_explore_puts_its_page_figures_and_their_tables_under_the_trainings_run(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MRTPO_STATE", str(tmp_path / "state"))
    rows = [
        {"prompt_id": "p0", "sample": 0, "reward": name, "value": 0.0, "status": "ok",
         "detail": "", "advantage": advantage, "skipped": False, "reason": "", "reference": "r",
         "tokens": ["a", " b", " c"], "parts": ["tags", "", ""], "logprob_with": [-1.0] * 3,
         "logprob_without": [-2.0] * 3, "distance": [0.0, 1.0, 0.5], "weight": [0.2, 1.6, 1.2],
         "responsible": [False, True, False]}
        for name, advantage in (("format", 0.5), ("execution", -0.5))
    ]  # fmt: skip
    write_attribution(paths.ATTRIBUTION, rows)
    paths.POLICY.mkdir(parents=True)
    (paths.POLICY / "training.json").write_text(json.dumps({"fingerprint": "f" * 8}))
    with open_log(settings, tmp_path / "state" / f"train-{'f' * 8}") as log:
        pass
    stages.explore(settings)
    assert f"MLflow: {log.page}" in capsys.readouterr().out
    kept = {file.path for file in client(settings).list_artifacts(log.run_id, "figures")}
    drawn = {f"figures/figure-{n}.{kind}" for n in "1236" for kind in ("svg", "png", "csv")}
    assert kept == {"figures/explorer.html", *drawn}
    run = client(settings).get_run(log.run_id)
    listed = json.loads(run.data.tags["mlflow.loggedArtifacts"])
    tables = [f"tables/figure_{n}.json" for n in "1236"]
    assert [entry["path"] for entry in listed] == tables
    folder = Path(run.info.artifact_uri.removeprefix("file://"))
    table = json.loads((folder / tables[2]).read_text())
    assert {"token", "weight", "distance", "gdpo", "mrtpo"} < set(table["columns"])
    at = table["columns"].index("weight")
    assert [row[at] for row in table["data"]] == [1.6, 1.6, 1.2, 1.2, 0.2, 0.2]


def test_a_data_set_is_one_input_with_the_digest_of_its_file(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "train.parquet"
    pd.DataFrame({"id": ["a", "b"], "ids": [[1], [2]]}).to_parquet(file)
    with open_log(settings, tmp_path / "state") as log:
        log.dataset(file, "synthetic", "train")
        log.dataset(file, "synthetic", "train")
    (found,) = client(settings).get_run(log.run_id).inputs.dataset_inputs
    digest = subprocess.run(["sha256sum", file], capture_output=True, text=True).stdout[:16]
    assert (found.dataset.name, found.dataset.digest) == ("synthetic", digest)
    assert found.tags[0].value == "train"
    assert json.loads(found.dataset.profile) == {"num_rows": 2}


def tiny_policy(folder: Path) -> Path:
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {word: at for at, word in enumerate(["<unk>", "<eos>", "select", "from", "singer"])}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<unk>")),
        unk_token="<unk>", eos_token="<eos>", pad_token="<eos>",
    )  # fmt: skip
    config = LlamaConfig(vocab_size=5, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=2)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_the_policy_is_a_model_of_the_run_that_loads_and_carries_the_test_figures(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import torch
    from transformers import AutoModelForCausalLM

    folder = tiny_policy(tmp_path / "policy")
    with open_log(settings, tmp_path / "state") as log:
        log.policy(folder)
        log.policy(folder, step=3)
    with RunLog.reopen(settings, tmp_path / "state") as again:
        again.finish_metrics({"spider_exec": 0.5})
    (model,) = client(settings).search_logged_models([log.experiment_id])
    assert model.name == "text2sql-mrtpo-seed0"
    assert model.source_run_id == log.run_id
    assert str(model.status) == "READY"
    assert [(m.key, m.value) for m in model.metrics] == [("final/spider_exec", 0.5)]
    outputs = client(settings).get_run(log.run_id).outputs.model_outputs
    assert model.model_id in [output.model_id for output in outputs]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(tracking_uri(settings))
    try:
        loaded = mlflow.transformers.load_model(f"models:/{model.model_id}")
    finally:
        mlflow.set_tracking_uri(before)
    original = AutoModelForCausalLM.from_pretrained(folder)
    assert loaded.tokenizer.convert_tokens_to_ids(["select", "singer"]) == [2, 4]
    for ours, theirs in zip(original.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_an_adapter_folder_is_logged_without_a_flavour(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    with open_log(settings, tmp_path / "state") as log:
        log.policy(tmp_path / "adapter")
    (model,) = client(settings).search_logged_models([log.experiment_id])
    files = [f.path for f in client(settings).list_logged_model_artifacts(model.model_id, "model")]
    assert files == ["model/adapter_config.json"]


def test_only_finished_runs_of_the_task_are_compared(settings: Settings, tmp_path: Path) -> None:
    for seed in (0, 1):
        with open_log(settings.model_copy(update={"seed": seed}), tmp_path / str(seed)) as log:
            for step in (0, 1):
                log.step(step, {"valid/spider_exec": seed + step / 2, "policy/kl": 0.0})
            log.finish_metrics({"spider_exec": 0.5})
    open_log(settings, tmp_path / "running")
    with pytest.raises(RuntimeError), open_log(settings, tmp_path / "failed"):
        raise RuntimeError
    with open_log(settings, tmp_path / "other") as log:
        log.client.set_tag(log.run_id, "task", "tools")
    runs = other_runs(settings)
    assert [(run.method, run.seed) for run in runs] == [("mrtpo", 0), ("mrtpo", 1)]
    assert runs[1].history == {"valid/spider_exec": [(0, 1.0), (1, 1.5)]}
    assert runs[1].final["final/spider_exec"] == 0.5


def test_where_no_store_is_yet_there_are_no_runs_and_none_is_made(tmp_path: Path) -> None:
    settings = settings_from({"tracking": {"uri": f"sqlite:///{tmp_path}/new.db"}})
    assert other_runs(settings) == []
    assert list(tmp_path.iterdir()) == []


def test_names_and_tags_tell_runs_apart(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(settings, tmp_path / "plain") as log:
        pass
    run = client(settings).get_run(log.run_id)
    size = f"{settings.model.layers}×{settings.model.hidden_size}"
    assert run.info.run_name == f"text2sql mrtpo seed 0 · synthetic, small {size}"
    assert "experiment" not in run.data.tags
    monkeypatch.setenv("DVC_EXP_NAME", "exp-a1")
    monkeypatch.setenv("MRTPO_RUN_NAME", "gentle-floor")
    monkeypatch.setenv("PREFECT_FLOW_RUN_ID", "1234")
    gdpo = settings.train.model_copy(update={"method": "gdpo"})
    with open_log(settings.model_copy(update={"train": gdpo}), tmp_path / "named") as log:
        pass
    run = client(settings).get_run(log.run_id)
    assert run.info.run_name == "text2sql gdpo seed 0 · gentle-floor"
    wanted = {"task": "text2sql", "method": "gdpo", "seed": "0", "experiment": "gentle-floor",
              "dvc_exp_name": "exp-a1", "prefect_flow_run_id": "1234", "data_hash": "d" * 8,
              "fingerprint": "f" * 8}  # fmt: skip
    assert wanted.items() <= run.data.tags.items()


def test_the_tracking_address_is_the_setting_then_the_environment_then_a_file_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri(Settings()) == f"sqlite:///{tmp_path.resolve()}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:5000")
    assert tracking_uri(Settings()) == "http://localhost:5000"
    assert sqlite_file(tracking_uri(Settings())) is None
    given = settings_from({"tracking": {"uri": "sqlite:////srv/runs.db"}})
    assert tracking_uri(given) == "sqlite:////srv/runs.db"


def test_the_null_log_takes_every_call_of_the_real_one() -> None:
    for name, method in inspect.getmembers(RunLog, inspect.isfunction):
        if not name.startswith("_") and name != "off":
            assert inspect.signature(getattr(NoLog, name)) == inspect.signature(method), name
    with RunLog.off() as log:
        log.step(1, {"loss": float("nan")})
    assert log.run_id is None
