"""One stage of `dvc.yaml` through one `dvc repro --single-item`, watched while it runs.

`dvc.yaml` is the only definition of the stages and their order; nothing here repeats it. Nothing
here knows Prefect either: `flows/stages.py` gives the callbacks that show lines and events there.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flows.process import Tail, child, run_to_end

_CHATTER = re.compile(
    r"""^\s*$ | \d+%\| | ^>\s | lock\ file\ 'dvc\.lock'
    | ^To\ (track\ the\ changes|enable\ auto) | ^\s+(git\ add|dvc\ config)\  | ^Use\ `dvc\ push`
    | ^Data\ and\ pipelines\ are\ up\ to\ date | RWLock-file""",
    re.VERBOSE,
)
_EXIT = re.compile(r"exited with (-?\d+)")
_TAIL_LINES = 15


class StageFailed(RuntimeError):
    """A stage that ended with an error; the text is the stage's own last lines."""

    def __init__(self, stage: str, code: int, lines: list[str], output: Path) -> None:
        told = "\n".join(lines[-_TAIL_LINES:]) or "(it printed nothing)"
        super().__init__(f"{stage} failed (exit {code}):\n{told}\nAll it printed: {output}")
        self.code = code

    @property
    def killed(self) -> bool:
        """Ended by a signal, as the system does when memory runs out: worth another try."""
        return self.code < 0 or 128 < self.code < 160


class NotReady(RuntimeError):
    """What a stage reads is not there."""


@dataclass(frozen=True)
class Place:
    """Where stages run: the workspace itself or a clone of it, and where they keep state."""

    folder: Path
    state: Path  # resumable checkpoints and logs: the workspace's, also for a clone
    tracking: str  # MLflow
    run_name: str
    flow_run_id: str = ""

    def log_file(self, stage: str, suffix: str = "log") -> Path:
        return self.state / "flows" / self.run_name / f"{stage}.{suffix}"

    def environment(self, stage: str) -> dict[str, str]:
        """`python` in a stage's command must be this one, wherever the flow was started from."""
        return {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYTHONUNBUFFERED": "1",
            "MRTPO_STATE": str(self.state),
            "MRTPO_EVENTS": str(self.log_file(stage, "events.jsonl")),
            "MRTPO_RUN_NAME": self.run_name,
            "PREFECT_FLOW_RUN_ID": self.flow_run_id,
            "MLFLOW_TRACKING_URI": self.tracking,
        }


def graph(folder: Path) -> dict[str, Any]:
    """The stages of `dvc.yaml` in its order."""
    stages: dict[str, Any] = yaml.safe_load((folder / "dvc.yaml").read_text("utf-8"))["stages"]
    return stages


def missing_inputs(stage: str, folder: Path) -> list[str]:
    """What a stage reads and is not there. `${key}` stands for a setting, as DVC has it."""
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))

    def setting(match: re.Match[str]) -> str:
        return str(functools.reduce(lambda values, key: values[key], match[1].split("."), params))

    named = graph(folder)[stage].get("deps", [])
    read = [re.sub(r"\$\{([\w.]+)\}", setting, dep) for dep in named]
    return [dep for dep in read if not (folder / dep).exists()]


def require_inputs(stage: str, folder: Path) -> None:
    """Raises `NotReady` naming what a stage reads and is not there; DVC names only its path."""
    if missing := missing_inputs(stage, folder):
        raise NotReady(
            f"{stage} reads {', '.join(missing)}, not there in {folder}: run the flow `pipeline`, "
            f"or `dvc repro {stage}`, which run what comes before it"
        )


def reproduce(
    stage: str,
    place: Place,
    on_line: Callable[[str], None] = lambda line: None,
    on_event: Callable[[dict[str, Any]], None] = lambda event: None,
    seconds: float | None = None,
) -> bool:
    """Bring one stage up to date; True if its command ran, False if DVC had its outputs already.

    Raises `NotReady`, `StageFailed`, or TimeoutError after `seconds`. However this ends, no process
    is left.
    """
    require_inputs(stage, place.folder)
    command = [sys.executable, "-m", "dvc", "repro", "--single-item", stage]
    lines = watched(stage, command, place, on_line, on_event, seconds)
    return any(line.startswith(f"Running stage '{stage}'") for line in lines)


def watched(
    name: str,
    command: Sequence[str],
    place: Place,
    on_line: Callable[[str], None],
    on_event: Callable[[dict[str, Any]], None],
    seconds: float | None = None,
) -> list[str]:
    """Run a command to its end, with its lines and events as they come; the lines.

    Raises `StageFailed`, or TimeoutError after `seconds`. However this ends, no process is left.
    """
    output, events = place.log_file(name), place.log_file(name, "events.jsonl")
    events.unlink(missing_ok=True)  # a killed attempt may have left half a line
    printed, happened = Tail(output), Tail(events)
    lines: list[str] = []

    def tick() -> None:
        for line in printed.lines():
            if not _CHATTER.search(line):
                lines.append(line)
                if not line[0].isspace():  # the rest of a traceback or of a warning
                    on_line(line)
        for line in happened.lines():
            on_event(json.loads(line))

    with child(command, place.folder, place.environment(name), output) as process:
        code = run_to_end(process, tick, seconds)
    tick()
    if code:
        told = [match for line in lines for match in _EXIT.findall(line)]
        raise StageFailed(name, int(told[-1]) if told else code, lines, output)
    return lines
