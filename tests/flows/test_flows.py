"""The flows against a real Prefect server, slow to start and so shared by these tests."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect import Flow, flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter
from prefect.settings import PREFECT_API_URL
from prefect.states import Running
from prefect.testing.utilities import prefect_test_harness
from prefect.utilities.callables import parameter_schema

from flows.attribute import attribute
from flows.benchmark import benchmark
from flows.evaluate import evaluate
from flows.explore import explore
from flows.locks import run_lock
from flows.lost import mark_lost_runs
from flows.pipeline import pipeline
from flows.prepare import prepare
from flows.results import show_result
from flows.rollout import rollout
from flows.serve import NAMES
from flows.study import study
from flows.train import train
from flows.workspace import run_label
from mrtpo.config import Settings

FLOWS: dict[str, Flow[..., Any]] = {
    one.name: one
    for one in (pipeline, prepare, rollout, attribute, train, evaluate, benchmark, explore)
}


@pytest.fixture(scope="session")
def server() -> Iterator[None]:
    with prefect_test_harness(server_startup_timeout=120):
        yield


def run_id_of(state: Any) -> UUID:
    identifier = state.state_details.flow_run_id
    assert identifier is not None
    return UUID(str(identifier))


def tasks_of(run_id: UUID) -> dict[str, str]:
    wanted = FlowRunFilter.model_validate({"id": {"any_": [run_id]}})
    with get_client(sync_client=True) as client:
        runs = client.read_task_runs(flow_run_filter=wanted)
    return {run.name: run.state_name or "" for run in runs}


def artifacts_of(run_id: UUID) -> dict[str, Any]:
    wanted = ArtifactFilter.model_validate({"flow_run_id": {"any_": [run_id]}})
    with get_client(sync_client=True) as client:
        return {a.key or "": a.data for a in client.read_artifacts(artifact_filter=wanted)}


def test_a_form_has_a_described_field_for_every_parameter() -> None:
    assert {*FLOWS, study.name} == set(NAMES)
    for one in (*FLOWS.values(), study):
        schema = parameter_schema(one).properties
        assert {"overrides", "stage_minutes"} < set(schema) or one is study
        assert all(field.get("description") for field in schema.values()), one.name


def test_every_field_of_a_form_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in FLOWS.values():
        given: dict[str, Any] = {}
        module = sys.modules[one.fn.__module__]
        monkeypatch.setattr(
            module, "run_stages", lambda _, named, *a, _g=given, **k: _g.update(named)
        )
        one.fn()
        assert given
        for key in given:
            found: Any = Settings().model_dump()
            for part in key.split("."):
                assert part in found, key
                found = found[part]


def test_a_run_with_a_setting_is_shown_stage_by_stage_and_becomes_a_branch(
    server: None, finished: Path, git: Callable[..., str]
) -> None:
    status = git(finished, "status", "--porcelain")
    run = pipeline(method="gdpo", overrides={"train.steps": 4}, return_state=True)
    assert run.is_completed()
    expected = {"prepare": "Skipped", "train": "Completed", "report": "Completed"}
    assert tasks_of(run_id_of(run)) == expected
    branch = git(finished, "branch", "--list", "run/*").strip()
    assert branch.endswith(run_id_of(run).hex[:8])
    assert "method: gdpo" in git(finished, "show", f"{branch}:params.yaml")
    assert git(finished, "status", "--porcelain") == status
    shown = artifacts_of(run_id_of(run))
    assert shown["train-progress"] == 100
    assert "/#/experiments/7/runs/abc" in shown["train-mlflow"]
    assert "| reward | 0.5 |" in shown["result"]
    assert f"git checkout {branch}" in shown["result"]
    assert "reports/report.html](file:///" in shown["report"]
    assert "figures" not in shown


def test_figures_and_pages_are_artifacts_of_the_run(server: None, tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "figures"
    folder.mkdir(parents=True)
    (folder.parent / "explorer.html").write_text("page")
    (folder / "figure-6.png").write_bytes(b"drawn")
    names = {"svg": "figure-6.svg", "png": "figure-6.png", "data": "figure-6.csv"}
    listed = [{"number": "6", "caption": "Shares.", **names}]
    (folder / "figures.json").write_text(json.dumps(listed))

    @flow
    def shows() -> None:
        show_result(tmp_path, ["attribute", "explore", "report"], None)

    shown = artifacts_of(run_id_of(shows(return_state=True)))
    assert set(shown) == {"result", "figures", "explorer", "figure-files"}
    assert "**Fig. 6** Shares." in shown["figures"]
    assert base64.b64encode(b"drawn").decode() in shown["figures"]
    page = (folder.parent / "explorer.html").as_uri()
    assert shown["explorer"] == f"[reports/explorer.html]({page})"
    assert shown["figure-files"].endswith("/reports/figures/figures.json)")


def test_a_run_without_settings_works_in_the_workspace(
    server: None, finished: Path, git: Callable[..., str]
) -> None:
    run = pipeline(return_state=True)
    assert tasks_of(run_id_of(run)) == dict.fromkeys(("prepare", "train", "report"), "Skipped")
    assert git(finished, "branch", "--list", "run/*") == ""


def test_a_failed_run_says_what_its_stage_said(
    server: None, finished: Path, set_params: Callable[[str, str], None]
) -> None:
    set_params("seed: 0 ", "seed: 13 ")
    bad = train(return_state=True)
    assert bad.is_failed()
    assert tasks_of(run_id_of(bad)) == {"train": "Failed"}
    assert "train: params.yaml: seed 13 brings bad luck" in (bad.message or "")


def test_a_wrong_setting_is_told_before_any_work(server: None, project: Path) -> None:
    unknown = pipeline(overrides={"train.stepz": 4}, return_state=True)
    assert "train.stepz: unknown key; accepted here: " in (unknown.message or "")
    assert tasks_of(run_id_of(unknown)) == {}
    assert not (project / "runs").exists()


def test_a_stopped_flow_leaves_no_process(
    server: None,
    finished: Path,
    processes_of: Callable[..., list[str]],
) -> None:
    code = (
        "from flows.pipeline import pipeline\n"
        "pipeline(overrides={'verifier.seconds': 0.3, 'train.kl': 0.5, 'train.steps': 200})"
    )
    env = {"PREFECT_API_URL": PREFECT_API_URL.value() or "", "MRTPO_ROOT": str(finished)}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=finished.parent, env={**os.environ, **env}
    )
    deadline = time.monotonic() + 90
    while not any("sleep 600" in line for line in processes_of(finished)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    assert processes_of(finished, patience=5.0) == []


def test_runs_whose_process_is_gone_are_marked_and_others_are_not(
    server: None, tmp_path: Path
) -> None:
    with get_client(sync_client=True) as client:
        gone, working, elsewhere = (
            client.create_flow_run(pipeline, name=name, state=Running())
            for name in ("gone", "working", "elsewhere")
        )
        labels = [run_label(run.name, str(run.id)) for run in (gone, working)]
        with run_lock(tmp_path, labels[0]):
            pass
        with run_lock(tmp_path, labels[1]):
            assert mark_lost_runs(tmp_path) == labels[:1]
        states = [client.read_flow_run(run.id).state_name for run in (gone, working, elsewhere)]
    assert states == ["Crashed", "Running", "Running"]


STUDY = """
import json, os, sys
from pathlib import Path

out, task = Path(sys.argv[1]), sys.argv[-1]
with open("called.txt", "a") as file:
    print(*sys.argv[2:], file=file)
if task == "tools" and not Path("lucky").exists():
    sys.exit("tools: out of luck")
out.mkdir(parents=True, exist_ok=True)
path = out / "results.json"
tasks = json.loads(path.read_text())["tasks"] if path.exists() else {}
row = {"method": "gdpo", "seed": 0, "rate": 0.1, "main_area": 0.75, "steps_to": {"0.5": 7},
       "test": {"sampled/main": 0.5}, "response_length": 3.0, "grad_norm": 1.0,
       "n_eff_share": None, "main_curve": [0.5] * 5 + [1.0] * 5}
found = {"about": {"main": "main", "thresholds": [0.5]}, "runs": [row],
         "start": {"train": {"main": 0.25}, "told": {}}}
path.write_text(json.dumps({"tasks": tasks | {task: found}}))
with open(os.environ["MRTPO_EVENTS"], "a") as events:
    print(json.dumps({"step": 1, "total": 1, "metrics": {"gdpo-0": 0.75}}), file=events)
"""


def test_a_study_is_a_task_for_each_testbed_and_goes_on_after_a_failure(
    server: None, project: Path
) -> None:
    (project / "benchmarks").mkdir()
    (project / "benchmarks" / "__init__.py").touch()
    (project / "benchmarks" / "study.py").write_text(STUDY)
    shutil.copy(Path(__file__).parents[2] / "benchmarks" / "study.yaml", project / "benchmarks")
    wrong = study(tasks=["chess"], return_state=True)
    assert "tasks: no chess; there are: text2sql; tools; instruct" in (wrong.message or "")
    assert not (project / "called.txt").exists()

    first = study(tasks=["text2sql", "tools"], methods=["gdpo"], return_state=True)
    assert tasks_of(run_id_of(first)) == {"text2sql": "Completed", "tools": "Failed"}
    assert "tools: out of luck" in (first.message or "")
    shown = artifacts_of(run_id_of(first))
    assert shown["text2sql-progress"] == 100
    assert "| gdpo | 1 | 0.1 | 7 | 10 | 0.750 (0.750–0.750) |" in shown["study-text2sql"]
    assert shown["study-text2sql-curves"].endswith("/runs/study-record/text2sql.svg)")

    (project / "lucky").touch()
    again = study(tasks=["text2sql", "tools"], methods=["gdpo"], smoke=True, return_state=True)
    assert again.is_completed()
    called = (project / "called.txt").read_text().splitlines()
    file, work = project / "benchmarks" / "study.yaml", project / "runs" / "study"
    options = f"--plan {file} --work {work} --processes 2 --methods gdpo --tasks text2sql"
    assert called[0] == options
    assert "--work " + str(project / "runs" / "study-smoke") in called[3]
    assert called[3].endswith("--methods gdpo --smoke --tasks tools")
