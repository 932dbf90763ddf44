from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flows import ui
from flows.ui import Trouble, environment, require_free, wait_until


def test_a_taken_port_is_named_with_the_variable_that_changes_it() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Trouble, match=rf"127\.0\.0\.1:{port} .*make ui MLFLOW_PORT="):
            require_free("127.0.0.1", port, "MLFLOW_PORT")
    require_free("127.0.0.1", port, "MLFLOW_PORT")


def test_a_server_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "mlflow.log").write_text("starting\nno such database\n")
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    process.wait()
    with pytest.raises(Trouble, match="mlflow ended by itself:\nstarting\nno such database"):
        wait_until(lambda: False, "prefect", {"mlflow": process}, tmp_path)


def test_a_server_that_does_not_answer_in_time_is_told(tmp_path: Path) -> None:
    (tmp_path / "prefect.log").write_text("still migrating\n")
    with pytest.raises(Trouble, match="prefect did not start in 0 s:\nstill migrating"):
        wait_until(lambda: False, "prefect", {}, tmp_path, seconds=0.0)


def test_the_servers_keep_to_the_project_and_tell_each_other_where_they_are(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(project, "http://localhost:4311", "http://localhost:5311")
    assert env["PREFECT_HOME"] == str(project / "state" / "prefect")
    assert env["PREFECT_API_URL"] == env["PREFECT_SERVER_UI_API_URL"] == "http://localhost:4311/api"
    assert env["MLFLOW_TRACKING_URI"] == f"sqlite:///{project / 'mlflow.db'}"
    assert env["MRTPO_MLFLOW_URL"] == "http://localhost:5311"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere:5000")
    elsewhere = environment(project, "http://localhost:4311", "http://elsewhere:5000")
    assert elsewhere["MLFLOW_TRACKING_URI"] == "http://elsewhere:5000"


def test_what_keeps_the_servers_from_running_is_one_line_and_not_a_traceback(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "params.yaml").write_text("seed: many\n")
    monkeypatch.setattr(ui.signal, "signal", lambda *_: None)
    assert ui.main() == 1
    told = capsys.readouterr().err
    assert told.startswith("make ui: ")
    assert "seed" in told
    assert "Traceback" not in told
