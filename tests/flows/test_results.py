"""What a run shows: pages made without a server."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from flows.results import figures_page, metrics_page
from mrtpo.report.written import Written


def figure(folder: Path, number: str, content: bytes) -> Written:
    names = [f"figure-{number}.{kind}" for kind in ("svg", "png", "csv")]
    (folder / names[1]).write_bytes(content)
    return Written(number, f"Caption {number}.", *names)


def test_figures_stand_in_the_page_with_their_captions(tmp_path: Path) -> None:
    found = [figure(tmp_path, number, number.encode()) for number in "16"]
    page = figures_page(tmp_path, found)
    for number in "16":
        data = base64.b64encode(number.encode()).decode()
        assert f"**Fig. {number}** Caption {number}." in page
        assert f"![Fig. {number}](data:image/png;base64,{data})" in page


def test_a_figure_without_room_is_named_and_smaller_ones_are_still_shown(tmp_path: Path) -> None:
    large, small = figure(tmp_path, "1", b"x" * 300), figure(tmp_path, "6", b"y" * 30)
    page = figures_page(tmp_path, [large, small], largest=100)
    assert f"Too large for this page: `{tmp_path / 'figure-1.png'}`" in page
    assert page.count("base64,") == 1 and "![Fig. 6]" in page
    assert len(page) < 500


def test_metrics_are_told_last_stage_first_and_how_to_get_a_branch(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    for stage, value in (("train", 0.5), ("evaluate", 0.75)):
        text = json.dumps({"reward": value, "names": {"run": 1}})
        (tmp_path / "metrics" / f"{stage}.json").write_text(text)
    page = metrics_page(tmp_path, ["prepare", "train", "evaluate"], "run/a")
    assert page.index("**evaluate**") < page.index("**train**")
    assert "| reward | 0.75 |" in page and "names" not in page
    assert page.startswith("Branch `run/a`: `git checkout run/a && dvc checkout`")
