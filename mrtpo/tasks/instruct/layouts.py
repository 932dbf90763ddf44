"""Where training sets of instruction following keep their files."""

from __future__ import annotations

from pathlib import Path

FOLDERS = {
    "if_rlvr": ("if_rlvr", "IF_multi_constraints_upto5", "RLVR-IFeval"),
    "muldimif": ("muldimif", "MulDimIF"),
    "recast": ("recast", "RECAST-30K"),
    "hir": ("hir", "HIR-16K"),
    "composed": (),
}
"""By source, the names of its folder."""
PATTERNS = ("*.json", "*.jsonl", "*.parquet")


def locate(source: str, folder: Path) -> Path:
    """The set's file, or its own folder: what `folder` holds under one of the set's names, or
    itself.

    Raises ValueError if there are no files of rows.
    """
    if folder.is_file():
        return folder
    for root in (*(folder / name for name in FOLDERS[source]), folder):
        if _files(root):
            return root
    below = f", nor below {', '.join(FOLDERS[source])}" if FOLDERS[source] else ""
    raise ValueError(f"{folder}: no {', '.join(PATTERNS)} is there{below}")


def split_files(path: Path) -> dict[str, list[Path]]:
    """The files by split, `train` and `test`, as their names tell.

    All are `train` where no name does; so they are where all names say `test`.
    """
    found = [path] if path.is_file() else _files(path)
    test = [file for file in found if "test" in file.name.lower()]
    named = [file for file in found if "train" in file.name.lower()]
    train = named or [file for file in found if file not in test]
    return {"train": train, "test": test} if train else {"train": found, "test": []}


def _files(folder: Path) -> list[Path]:
    """Beside each other, or in a folder `data` as on the hub."""
    below = (folder, folder / "data")
    found = [file for root in below for pattern in PATTERNS for file in root.glob(pattern)]
    return sorted(file for file in found if file.is_file())
