"""The list of the figures in a folder, `figures.json`: for each its number, caption and files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

INDEX = "figures.json"


@dataclass(frozen=True)
class Written:
    """A figure in a folder; `number` as 5-text2sql where a number has several."""

    number: str
    caption: str
    svg: str
    png: str
    data: str


def read_index(folder: Path) -> list[Written]:
    """The figures in a folder; none where there is no list of them."""
    file = folder / INDEX
    if not file.is_file():
        return []
    return [Written(**entry) for entry in json.loads(file.read_text(encoding="utf-8"))]
