"""One contender in a process of its own: a JSON line in asks for a step, a JSON line out tells.

    python -m benchmarks.step_worker '{"contender": …, "folder": …, …}'

A step is sampling, rewards, credit, loss and one optimiser update. Memory is counted from the
moment when libraries are imported, the model is loaded and the trainer is built: `base_mb` is the
resident size then, at which the kernel's peak (VmHWM) is reset where it can be; `peak_mb` is the
peak afterwards less `base_mb`, with gradients and optimiser state in it, as both sides make them in
their first step. `maxrss_growth_mb` is the growth of `ru_maxrss`, which cannot see a peak below
that of the start-up.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

import torch

from benchmarks.fixture import (
    Checksums,
    check_prompts,
    loaded_policy,
    make_prompts,
    step_settings,
)
from mrtpo.trainer import Trainer

# Contender: (method, distance, rewards, where their information stands, replay.max_rewards).
OURS = {
    "gdpo": ("gdpo", "directional_logprob", 3, "append", None),
    "mrtpo_k3": ("mrtpo", "directional_logprob", 3, "append", None),
    "mrtpo_k3_js": ("mrtpo", "js", 3, "append", None),
    "gdpo_k12": ("gdpo", "directional_logprob", 12, "prompt", None),
    "mrtpo_k12": ("mrtpo", "directional_logprob", 12, "prompt", None),
    "mrtpo_k12_draw4": ("mrtpo", "directional_logprob", 12, "prompt", 4),
}
PROMPTS = 64


class Channel:
    """The pipe to the parent; whatever else writes to stdout goes to stderr."""

    def __init__(self) -> None:
        self._out: TextIO = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._base_mb = self._base_maxrss = 0.0

    def ready(self, **about: Any) -> None:
        reset_peak()
        self._base_mb, self._base_maxrss = status_mb("VmRSS"), maxrss_mb()
        self._send({"ready": True, **about})

    def step(self, seconds: float, cpu: float, phases: dict[str, float], rows: int) -> None:
        self._send(
            {
                "wall": seconds, "cpu": cpu, "phases": phases, "rows": rows,
                "base_mb": self._base_mb, "peak_mb": status_mb("VmHWM") - self._base_mb,
                "maxrss_growth_mb": maxrss_mb() - self._base_maxrss,
            }
        )  # fmt: skip

    def asked(self) -> bool:
        """Wait; False when the parent wants no further step."""
        return sys.stdin.readline().strip() == "step"

    def _send(self, message: dict[str, Any]) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()


def reset_peak() -> None:
    """Set VmHWM to the present size, where the kernel has that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("VmHWM cannot be reset here: peaks below the start-up's are hidden", file=sys.stderr)


def status_mb(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no {field} in /proc/self/status")


def maxrss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check_step(metrics: dict[str, float], response: int, *, drawn: bool = False) -> None:
    """Raise ValueError where a step did less than it should: shorter responses, dead pairs.

    `drawn`: some pairs are left out on purpose (`replay.max_rewards`).
    """
    if metrics["response/length"] != response:
        raise ValueError(f"responses of {metrics['response/length']} tokens, not {response}")
    idle = {
        name: value
        for name, value in metrics.items()
        if name.endswith("/dead_groups" if drawn else ("/dead_groups", "/skipped")) and value
    }
    if idle:
        raise ValueError(f"rewards that gave a step less to do: {idle}")


def our_trainer(
    contender: str, folder: Path | str, state: Path, *, tokens: int, group: int, prompts: int,
    response: int,
) -> Trainer:  # fmt: skip
    """The trainer of one of `OURS` with the model saved in `folder`."""
    method, distance, rewards, where, drawn = OURS[contender]
    settings = step_settings(
        method, distance=distance, max_rewards=drawn, group=group, prompts=prompts,
        response=response,
    )  # fmt: skip
    policy = loaded_policy(folder)
    made = make_prompts(PROMPTS, tokens, rewards, where)
    check_prompts(policy, made, tokens)
    task: Any = Checksums(rewards)
    return Trainer(settings, policy, task, made, made[:1], state)


def serve_ours(spec: dict[str, Any], channel: Channel) -> None:
    shape = {name: spec[name] for name in ("tokens", "group", "prompts", "response")}
    drawn = OURS[spec["contender"]][-1] is not None
    with tempfile.TemporaryDirectory() as state:
        trainer = our_trainer(spec["contender"], spec["folder"], Path(state), **shape)
        channel.ready()
        while channel.asked():
            wall, cpu = time.perf_counter(), time.process_time()
            metrics, phases = trainer.one_step()
            trainer.step += 1
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            check_step(metrics, spec["response"], drawn=drawn)
            channel.step(wall, cpu, phases, spec["group"] * spec["prompts"])


def main() -> None:
    torch.set_num_threads(1)
    spec = json.loads(sys.argv[1])
    channel = Channel()
    if spec["contender"] in OURS:
        serve_ours(spec, channel)
    else:
        from benchmarks.step_trl import serve_trl

        serve_trl(spec, channel)


if __name__ == "__main__":
    main()
