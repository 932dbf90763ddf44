"""Digests of what stages read from outside the project, kept in `sources.yaml`.

DVC has no optional dependency, and a path that comes from `$MRTPO_DATA` cannot stand in `dvc.yaml`.
So stages depend on a value instead: `prepare` on `sources.yaml: <data.source>`, stages that load a
pretrained model on `sources.yaml: model`, `benchmark` on `sources.yaml: benchmarks`.
`python -m flows.sources` brings these values up to date; `make run` and the flows do so first.
Before a plain `dvc repro` it is needed only when such files changed in place, since another source
or path is a changed setting, which DVC sees by itself.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from mrtpo.config import (
    INSTRUCT_SOURCES,
    TOOL_SOURCES,
    Data,
    Settings,
    SettingsError,
    benchmark_folder,
    data_folder,
    databases_folder,
    load_settings,
)
from mrtpo.tasks.instruct.layouts import locate as locate_instructions
from mrtpo.tasks.text2sql.layouts import read_paths
from mrtpo.tasks.tools.layouts import locate

WHOLE = 64 * 2**20  # a larger file is known by its size and both ends
END = 2**20


def digest(path: Path) -> str:
    """Of a file, or of a folder's files by relative name; hidden files do not count.

    Only the first and last MiB of a large file are read: a database's header changes with every
    write, and new weights differ everywhere.
    """
    total = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        name = file.relative_to(path) if file != path else Path(file.name)
        if any(part.startswith(".") for part in name.parts):
            continue
        size = file.stat().st_size
        total.update(f"{name.as_posix()}\0{size}\0".encode())
        with open(file, "rb") as handle:
            if size <= WHOLE:
                total.update(hashlib.file_digest(handle, "sha256").digest())
            else:
                total.update(handle.read(END))
                handle.seek(-END, 2)
                total.update(handle.read(END))
    return total.hexdigest()[:16]


def current(settings: Settings, folder: Path) -> dict[str, str | None]:
    """The values that `sources.yaml` should have for these settings. Raises `SettingsError`."""
    values: dict[str, str | None] = {"model": None, "benchmarks": None}
    if settings.data.source != "synthetic":
        values[settings.data.source] = _data_digest(settings.data, folder)
    if settings.model.path and (model := folder / Path(settings.model.path).expanduser()).exists():
        values["model"] = digest(model)
    if settings.benchmark.names:
        root = folder / benchmark_folder(settings.benchmark)
        found = [digest(root / name) for name in settings.benchmark.names if (root / name).is_dir()]
        values["benchmarks"] = hashlib.sha256("".join(found).encode()).hexdigest()[:16]
    return values


def _data_digest(data: Data, folder: Path) -> str:
    """Of the set's folder and of what lies elsewhere: databases, tables files."""
    databases = databases_folder(data)
    try:
        if data.source in INSTRUCT_SOURCES:
            return digest(locate_instructions(data.source, folder / data_folder(data)))
        if data.source in TOOL_SOURCES:
            return digest(locate(data.source, folder / data_folder(data)))  # type: ignore[arg-type]
        found = read_paths(
            data.source,  # type: ignore[arg-type]
            folder / data_folder(data),
            folder / databases if databases else None,
        )
    except ValueError as error:
        raise SettingsError(str(error)) from error
    digests = [digest(path) for path in found]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def refresh(folder: Path) -> list[str]:
    """Update `sources.yaml` in `folder`, comments and other values kept; the keys that changed."""
    settings = load_settings(folder / "params.yaml")
    wanted = current(settings, folder)
    path = folder / "sources.yaml"
    lines, changed = path.read_text("utf-8").splitlines(keepends=True), []
    for at, line in enumerate(lines):
        key = line.partition(":")[0]
        if key in wanted:
            lines[at] = f"{key}: {'null' if wanted[key] is None else repr(wanted[key])}\n"
            if lines[at] != line:
                changed.append(key)
    if changed:
        path.write_text("".join(lines), "utf-8")
    return changed


def main() -> int:
    try:
        changed = refresh(Path())
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"sources.yaml: {', '.join(changed) or 'nothing'} changed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
