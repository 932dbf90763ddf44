"""Resumable training state, atomic.

`<state>/<fingerprint>/step-000010/` holds the policy's folder, the optimiser's state and
`trainer.json`. A checkpoint is written under a temporary name, and renamed when complete, so that
whatever is called `step-…` is whole. The fingerprint covers settings, input data and code: a run
resumes only what is its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

KEPT = 2
PACKAGE = Path(__file__).parent


def fingerprint(settings: dict[str, Any], inputs: Iterable[Path], code: bool = True) -> str:
    """Hash of settings, of the files below `inputs`, and (`code`) of this package's sources.

    All sources but the report's, loaded or not: what a stage imports late counts too, and a flow
    and the command line come to the same.
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for root in inputs:
        files = sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]
        _add(digest, root, files)
    if code:
        sources = sorted(PACKAGE.rglob("*.py"))
        _add(digest, PACKAGE, [p for p in sources if p.relative_to(PACKAGE).parts[0] != "report"])
    return digest.hexdigest()[:16]


def _add(digest: Any, root: Path, files: Iterable[Path]) -> None:
    for file in files:
        digest.update(str(file.relative_to(root)).encode())
        with open(file, "rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())


def save(
    root: Path,
    step: int,
    model: Any,
    optimizer: Any,
    trainer: dict[str, Any],
    averaged: Any = None,
) -> Path:
    """Write the checkpoint of `step` and drop all but the last two.

    `averaged`: a second model of the same kind, where the training keeps one.
    """
    target = root / f"step-{step:06d}"
    temporary = root / f".step-{step:06d}.{os.getpid()}"
    for left in root.glob(".step-*"):  # by a process that was killed
        shutil.rmtree(left)
    temporary.mkdir(parents=True)
    _write(model, temporary / "model.safetensors")
    if averaged is not None:
        _write(averaged, temporary / "averaged.safetensors")
    torch.save(optimizer.state_dict(), temporary / "optimizer.pt")
    (temporary / "trainer.json").write_text(json.dumps(trainer))
    shutil.rmtree(target, ignore_errors=True)
    temporary.replace(target)
    for old in completed(root)[:-KEPT]:
        shutil.rmtree(old)
    return target


def _write(model: Any, file: Path) -> None:
    # Tied weights share memory; the file format wants each tensor to own its own.
    weights = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
    save_file(weights, file)


def completed(root: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(p for p in root.glob("step-*") if (p / "trainer.json").is_file())


def restore(folder: Path, model: Any, optimizer: Any, averaged: Any = None) -> dict[str, Any]:
    """Load a checkpoint into model and optimiser; returns what `save` was given as `trainer`."""
    model.load_state_dict(load_file(folder / "model.safetensors"))
    if averaged is not None:
        averaged.load_state_dict(load_file(folder / "averaged.safetensors"))
    optimizer.load_state_dict(torch.load(folder / "optimizer.pt", weights_only=True))
    return json.loads((folder / "trainer.json").read_text())
