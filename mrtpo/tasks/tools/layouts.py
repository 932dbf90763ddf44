"""Where the public tool-calling sets keep their files.

    set      files by split; of each entry the first name that exists
    rlla     train: train.parquet, rlla_rl.json or rlla_sft.json; test: test.parquet
    toolace  data.json
    xlam     xlam_function_calling_60k.json, or parquet files
    hammer   train: the instruction sets; test: test/*.json
    apibank  level-*-api_processed.json
    bfcl     BFCL_v4_*.json

A folder is the set's own or one that holds it under one of its names. Rows that no one has divided
have the split ''.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

Kind = Literal["rlla", "toolace", "xlam", "hammer", "apibank", "bfcl"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Names = tuple[str, ...]

FOLDERS: dict[Kind, Names] = {
    "rlla": ("rlla", "rlla_4k", "rlla_4k_raw", "dataset/rlla_4k"),
    "toolace": ("toolace", "ToolACE"),
    "xlam": ("xlam", "xlam-function-calling-60k"),
    "hammer": ("hammer", "Hammer/data"),
    "apibank": ("apibank", "api_bank", "API-Bank", "rlla_4k/api_bank", "benchmarks/API-Bank"),
    "bfcl": ("bfcl",),
}
FILES: dict[Kind, dict[str, tuple[Names, ...]]] = {
    "rlla": {
        "train": (("train.parquet", "rlla_rl.json", "rlla_sft.json"),),
        "test": (("test.parquet",),),
    },
    "toolace": {"": (("data.json", "train*.parquet"),)},
    "xlam": {"": (("xlam_function_calling_60k.json", "xlam*.json", "*.parquet"),)},
    "hammer": {
        "train": (("masking_sft_data*.json", "train/*.json"),),
        "test": (("test/*.json", "test/original/*.json"),),
    },
    "apibank": {"": (("level-*-api*.json",),)},
    "bfcl": {"": (("BFCL_v4_*.json",),)},
}
"""A `*` stands for any characters."""


def locate(kind: Kind, folder: Path) -> Path:
    """The set's own folder: `folder` itself, or what it holds under one of the set's names.

    Raises ValueError if none of its files is there.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: not a folder")
    for root in (folder, *(folder / name for name in FOLDERS[kind])):
        if files_of(kind, root):
            return root
    names = [name for entries in FILES[kind].values() for entry in entries for name in entry]
    raise ValueError(
        f"{folder}: none of {', '.join(names)} is there, nor below {', '.join(FOLDERS[kind])}"
    )


def files_of(kind: Kind, root: Path) -> dict[str, list[Path]]:
    """The set's files by split; splits without files are left out."""
    found = {
        split: [path for names in entries for path in _first(root, names)]
        for split, entries in FILES[kind].items()
    }
    return {split: paths for split, paths in found.items() if paths}


def _first(root: Path, names: Names) -> list[Path]:
    for name in names:
        if paths := sorted(path for path in root.glob(name) if path.is_file()):
            return paths
    return []
