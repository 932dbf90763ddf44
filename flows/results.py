"""What a finished run shows in Prefect: metrics, figures, and where its pages are.

Figures stand in their artifact as data, so that they are seen from wherever the UI is, and last as
long as the run is listed. Links lead to files of the machine that ran.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows.summary import plain_numbers
from mrtpo.paths import EXPLORER, FIGURES, METRICS, REPORT
from mrtpo.report.written import INDEX, Written, read_index

LINKED = (
    ("explore", "explorer", EXPLORER, "The credit of every response"),
    ("explore", "figure-files", FIGURES / INDEX, "The figures as SVG and PNG, with their data"),
    ("report", "report", REPORT, "The report"),
)
"""Stage, key of the artifact, file, and what it is."""
LARGEST = 2_000_000  # characters of figures in an artifact; others are only named


def show_result(folder: Path, stages: Sequence[str], branch: str | None) -> None:
    """Artifacts of the stages' outputs below `folder`: whatever of them is there."""
    create_markdown_artifact(metrics_page(folder, stages, branch), key="result")
    if "explore" in stages and (found := read_index(folder / FIGURES)):
        create_markdown_artifact(figures_page(folder / FIGURES, found), key="figures")
    for stage, key, file, about in LINKED:
        if stage in stages and (folder / file).exists():
            link = (folder / file).resolve().as_uri()
            create_link_artifact(link, link_text=str(file), key=key, description=about)


def metrics_page(folder: Path, stages: Sequence[str], branch: str | None) -> str:
    """The metrics of the stages, last first, and how to get at what the run made."""
    lines = [f"Files: `{folder}`", ""]
    if branch:
        lines = [f"Branch `{branch}`: `git checkout {branch} && dvc checkout`", "", *lines]
    for path in (folder / METRICS / f"{stage}.json" for stage in reversed(stages)):
        if not path.exists():
            continue
        if values := plain_numbers(json.loads(path.read_text("utf-8"))):
            lines += [f"**{path.stem}**", "", "| metric | value |", "|---|---|"]
            lines += [f"| {name} | {value:.4g} |" for name, value in values.items()] + [""]
    return "\n".join(lines)


def figures_page(folder: Path, found: Sequence[Written], largest: int = LARGEST) -> str:
    """The figures with their captions; one that has no room left is named."""
    lines: list[str] = []
    room = largest
    for one in found:
        data = base64.b64encode((folder / one.png).read_bytes()).decode()
        lines += [f"**Fig. {one.number}** {one.caption}", ""]
        if len(data) <= room:
            room -= len(data)
            lines += [f"![Fig. {one.number}](data:image/png;base64,{data})", ""]
        else:
            lines += [f"Too large for this page: `{folder / one.png}`", ""]
    return "\n".join(lines)
