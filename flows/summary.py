"""What `make run` says at its end: the headline metrics, and where the report is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.repro import graph
from mrtpo.paths import METRICS, POLICY, REPORT

SHOWN = 8  # metrics of one stage; all are in its file


def plain_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The numbers at the top level of a metrics file; a name with a slash is a detail."""
    return {
        name: value
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and "/" not in name
    }


def headline(metrics: Mapping[str, Any]) -> str:
    shown = list(plain_numbers(metrics).items())[:SHOWN]
    return "  ".join(f"{name} {value:.4g}" for name, value in shown)


def summary(folder: Path) -> list[str]:
    """One line a stage that wrote metrics, then the files."""
    lines = []
    for stage in graph(folder):
        path = folder / METRICS / f"{stage}.json"
        if path.exists() and (text := headline(json.loads(path.read_text("utf-8")))):
            lines.append(f"{stage:>10}  {text}")
    return [*lines, "", f"    policy  {folder / POLICY}", f"    report  {folder / REPORT}"]


if __name__ == "__main__":
    print("\n".join(["", *summary(Path().resolve())]))
