"""Where data is read from, as settings and the environment say."""

from __future__ import annotations

import os
from pathlib import Path

from mrtpo.config.names import INSTRUCT_SOURCES
from mrtpo.config.reading import SettingsError
from mrtpo.config.sections import Benchmark, Data
from mrtpo.hub import download, is_hub_id


def data_folder(data: Data) -> Path:
    """The folder of an external data source, or the file of one for `task: instruct`.

    A hub id is downloaded. Raises `SettingsError`.
    """
    if data.path is not None:
        folder = _expanded(data.path)
        if not folder.exists() and is_hub_id(data.path):
            return _from_hub(data.path, data.revision)
    elif root := os.environ.get("MRTPO_DATA"):
        folder = Path(root) / data.source
        folder = folder if folder.is_dir() else Path(root)
    else:
        raise SettingsError(
            f"data.source is {data.source}: set data.path to its folder, "
            "or the environment variable MRTPO_DATA to the folder that holds it"
        )
    if not folder.is_dir() and not (folder.is_file() and data.source in INSTRUCT_SOURCES):
        raise SettingsError(f"data.path: {folder} is not a folder")
    return folder


def benchmark_folder(benchmark: Benchmark) -> Path:
    """The folder that holds the benchmarks. Raises `SettingsError` if it cannot be told."""
    given = benchmark.path or os.environ.get("MRTPO_DATA")
    if not given:
        raise SettingsError(
            "benchmark.names: set benchmark.path to the folder that holds "
            f"{', '.join(benchmark.names)}, or the environment variable MRTPO_DATA"
        )
    folder = _expanded(given)
    if not folder.is_dir():
        raise SettingsError(f"benchmark.path: {folder} is not a folder")
    return folder


def databases_folder(data: Data) -> Path | None:
    """The further folder of databases. Raises `SettingsError` if it is named and not there."""
    if data.databases_path is None:
        return None
    folder = _expanded(data.databases_path)
    if not folder.is_dir():
        raise SettingsError(f"data.databases_path: {folder} is not a folder")
    return folder


def _expanded(path: str) -> Path:
    return Path(os.path.expandvars(path)).expanduser()


def _from_hub(hub_id: str, revision: str | None) -> Path:
    if revision is None:
        raise SettingsError(
            f"data.path: {hub_id} is no folder here and looks like a hub id; set data.revision to "
            "the commit to use (or to main), so that a later run reads the same"
        )
    try:
        return download(hub_id, revision)
    except ValueError as error:
        raise SettingsError(f"data.path: {error}") from error
