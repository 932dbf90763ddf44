"""Our MRTPO step alone: replay and update time over rewards K, response T, prompt and group size.

One of the four varies at a time, the others keep `BASE`. Information is appended in replay, 24
tokens for each reward, so that K lengthens the contexts as well as their number. All points live in
one process and take turns; each has its own trainer, and they share the weights, which hardly move.
Writes `scaling.json` and `scaling.svg`.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

BASE = {"rewards": 4, "response": 64, "prompt": 128, "group": 8}
VARIED = {
    "rewards": (1, 2, 4, 8, 12, 16),
    "response": (32, 64, 128, 256),
    "prompt": (64, 128, 256, 512, 1024),
    "group": (4, 8, 16),
}
LABELS = {
    "rewards": "rewards K",
    "response": "response tokens T",
    "prompt": "prompt tokens",
    "group": "group size G",
}
PROMPTS = 2


def points() -> list[dict[str, int]]:
    """All settings that are measured, each once."""
    found: list[dict[str, int]] = []
    for name, values in VARIED.items():
        for value in values:
            point = BASE | {name: value}
            if point not in found:
                found.append(point)
    return found


def scaling(target: Path, *, repeats: int = 7, size: str = "0.9M") -> None:
    """Measure every point, print a table, write the JSON and the plot below `target`."""
    import torch

    from benchmarks.fixture import (
        Checksums,
        check_prompts,
        loaded_policy,
        make_prompts,
        save_model,
        step_settings,
    )
    from benchmarks.step import machine
    from benchmarks.step_worker import check_step
    from mrtpo.trainer import Trainer

    torch.set_num_threads(1)
    measured: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        save_model(size, Path(folder) / "model")
        policy = loaded_policy(Path(folder) / "model")
        trainers = []
        for point in points():
            prompts = make_prompts(4 * PROMPTS, point["prompt"], point["rewards"], "append")
            check_prompts(policy, prompts, point["prompt"])
            settings = step_settings(
                "mrtpo", group=point["group"], prompts=PROMPTS, response=point["response"]
            )
            task: Any = Checksums(point["rewards"])
            trainers.append(Trainer(settings, policy, task, prompts, prompts[:1], Path(folder)))
            measured.append({**point, "phases": []})
        for number in range(1 + repeats):
            for trainer, entry in zip(trainers, measured, strict=True):
                metrics, phases = trainer.one_step()
                trainer.step += 1
                check_step(metrics, entry["response"])
                if number:
                    entry["phases"].append(phases)
    for entry in measured:
        for phase in ("replay", "update"):
            seconds = [phases[phase] for phases in entry["phases"]]
            entry[f"{phase}_ms"] = 1000 * statistics.median(seconds)
        print(
            "  ".join(f"{LABELS[name]} {entry[name]:4}" for name in BASE),
            f"  replay {entry['replay_ms']:7.0f} ms  update {entry['update_ms']:7.0f} ms",
        )
    target.mkdir(parents=True, exist_ok=True)
    about = {**machine(), "model": size, "prompts": PROMPTS, "base": BASE, "repeats": repeats}
    text = json.dumps({**about, "points": measured}, indent=1)
    (target / "scaling.json").write_text(text + "\n")
    plot(measured, target / "scaling.svg")


def curve(measured: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The points at which only `name` differs from `BASE`, in order."""
    others = [other for other in BASE if other != name]
    chosen = [entry for entry in measured if all(entry[o] == BASE[o] for o in others)]
    return sorted(chosen, key=lambda entry: entry[name])


def plot(measured: list[dict[str, Any]], path: Path) -> None:
    """Replay time against each of the four, with the update's time for reference."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    for axes, name in zip(figure.subplots(2, 2).flat, BASE, strict=True):
        chosen = curve(measured, name)
        at = [entry[name] for entry in chosen]
        axes.plot(at, [e["replay_ms"] for e in chosen], "o-", color="#1f5fa8", label="replay")
        axes.plot(
            at, [e["update_ms"] for e in chosen], "s--", color="#8a8a8a", label="update"
        )  # fmt: skip
        axes.set_xlabel(LABELS[name])
        axes.set_ylabel("ms a step")
        axes.set_xticks(at)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False)
    with matplotlib.rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None, "Creator": None})
