"""`make ui`: the Prefect server, the MLflow server and the served deployments, until Ctrl-C.

Everything is kept in the project's folder: Prefect's home in `state/prefect`, MLflow's database
where training writes it. `$PREFECT_PORT`, `$MLFLOW_PORT` and `$MRTPO_HOST` say where to listen.
Where `tracking.uri` names a server, no MLflow server is started here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from flows.process import child
from flows.serve import NAMES
from flows.workspace import state_folder, tracking_uri, workspace_root
from mrtpo.config import SettingsError, load_settings

START_SECONDS = 120.0  # the first start creates Prefect's tables
GRACE_SECONDS = 30.0  # runs in progress write a checkpoint and close their MLflow run
# Opens the store as training does, under its lock: two processes must not both create the tables.
MIGRATE = """from mrtpo.config import load_settings
from mrtpo.mlflow_store import open_store
open_store(load_settings())"""


class Trouble(RuntimeError):
    """Something that keeps the servers from running; the text says what to do."""


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    host = os.environ.get("MRTPO_HOST", "127.0.0.1")
    ports = {name: int(os.environ.get(name) or default)
             for name, default in (("PREFECT_PORT", 4200), ("MLFLOW_PORT", 5000))}  # fmt: skip
    try:
        run(workspace_root(), host, ports["PREFECT_PORT"], ports["MLFLOW_PORT"])
    except (Trouble, SettingsError) as error:
        print(f"make ui: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped: nothing is left running", flush=True)
    return 0


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: stopping is under way
    raise KeyboardInterrupt


def run(root: Path, host: str, prefect_port: int, mlflow_port: int) -> None:
    """Start all three, say where they are, and watch them until interrupted."""
    store = load_settings(root / "params.yaml").tracking.uri or tracking_uri(root)
    remote = store if store.startswith(("http://", "https://")) else None
    for name, port in (("PREFECT_PORT", prefect_port), ("MLFLOW_PORT", mlflow_port)):
        if not (remote and name == "MLFLOW_PORT"):
            require_free(host, port, name)
    prefect_url, mlflow_url = f"http://{host}:{prefect_port}", f"http://{host}:{mlflow_port}"
    env = environment(root, prefect_url, remote or mlflow_url)
    logs = state_folder(root) / "ui"
    with contextlib.ExitStack() as stack:
        running: dict[str, subprocess.Popen[bytes]] = {}

        def start(name: str, *arguments: str) -> None:
            log = logs / f"{name}.log"
            log.unlink(missing_ok=True)
            command = [sys.executable, "-m", *arguments]
            running[name] = stack.enter_context(child(command, root, env, log, GRACE_SECONDS))

        start("prefect", "prefect", "server", "start", "--host", host, "--port", str(prefect_port))
        if not remote:
            migrate(root, env)
            start("mlflow", "mlflow", "server", "--backend-store-uri", store, "--workers", "1",
                  "--host", host, "--port", str(mlflow_port))  # fmt: skip
        wait_until(lambda: _answers(f"{prefect_url}/api/health"), "prefect", running, logs)
        start("flows", "flows.serve")
        if not remote:
            wait_until(lambda: _answers(f"{mlflow_url}/health"), "mlflow", running, logs)
        wait_until(lambda: _served(f"{prefect_url}/api"), "flows", running, logs)
        print(f"\n  Prefect  {prefect_url}   {', '.join(NAMES)}\n"
              f"  MLflow   {remote or mlflow_url}\n\nCtrl-C stops both.", flush=True)  # fmt: skip
        wait_until(lambda: False, "", running, logs, seconds=None)


def environment(root: Path, prefect_url: str, mlflow_url: str) -> dict[str, str]:
    """Settings of the three processes, and through the served flows of the stages."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PREFECT_HOME": str(state_folder(root) / "prefect"),
        "PREFECT_API_URL": f"{prefect_url}/api",
        "PREFECT_SERVER_UI_API_URL": f"{prefect_url}/api",  # else the page asks port 4200
        "PREFECT_UI_URL": prefect_url,
        # On a machine that trains, sqlite is slow at times: better late than "service unavailable".
        "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
        "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60",
        "MLFLOW_TRACKING_URI": tracking_uri(root),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # 0.5 GB instead of 3
        "MRTPO_MLFLOW_URL": mlflow_url,
        "MRTPO_ROOT": str(root),
    }


def migrate(root: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MIGRATE], cwd=root, env=env, capture_output=True, text=True
    )
    if done.returncode:
        raise Trouble(f"MLflow's database cannot be opened:\n{done.stderr.strip()}")


def require_free(host: str, port: int, variable: str) -> None:
    """Raises `Trouble` if the port is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Trouble(
                f"cannot listen on {host}:{port} ({error.strerror}); stop what is there, "
                f"or choose another port: make ui {variable}={port + 1}"
            ) from None


def wait_until(
    ready: Callable[[], bool],
    name: str,
    running: Mapping[str, subprocess.Popen[bytes]],
    logs: Path,
    seconds: float | None = START_SECONDS,
) -> None:
    """Wait for `ready`. Raises `Trouble` if a process has ended, or after `seconds`."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while not ready():
        for other, process in running.items():
            if process.poll() is not None:
                raise Trouble(f"{other} ended by itself:\n{_end_of(logs / f'{other}.log')}")
        if deadline is not None and time.monotonic() > deadline:
            raise Trouble(
                f"{name} did not start in {seconds:.0f} s:\n{_end_of(logs / f'{name}.log')}"
            )
        time.sleep(0.5)


def _answers(url: str, body: Mapping[str, object] | None = None) -> bool:
    return _fetch(url, body) is not None


def _served(api: str) -> bool:
    """Whether every deployment is known and its process has reported for work."""
    found = json.loads(_fetch(f"{api}/deployments/filter", {}) or "[]")
    return set(NAMES) <= {entry["name"] for entry in found if entry["status"] == "READY"}


def _fetch(url: str, body: Mapping[str, object] | None = None) -> str | None:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            text: str = reply.read().decode()
            return text
    except OSError:
        return None


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:])


if __name__ == "__main__":
    raise SystemExit(main())
