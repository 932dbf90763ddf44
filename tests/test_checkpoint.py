"""Resumable state: whole or not there, exact, and only of the same settings, data and code."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from helpers import text_policy, weights_equal

from mrtpo import checkpoint


def pair(seed: int = 0) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)


def work(model: Any, optimizer: Any, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    model(torch.randn(5, 3, generator=generator)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def states_equal(one: Any, other: Any) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return all(torch.equal(a[name], b[name]) for name in a)


def test_what_is_restored_goes_on_to_the_bit(tmp_path: Path) -> None:
    model, optimizer = pair()
    for step in range(3):
        work(model, optimizer, step)
    trainer = {"step": 3, "history": [{"x": 0.1 + 0.2, "lost": float("inf")}], "best": None}
    folder = checkpoint.save(tmp_path / "state", 3, model, optimizer, trainer)
    other, other_optimizer = pair(9)
    assert checkpoint.restore(folder, other, other_optimizer) == trainer
    for step in range(3, 6):
        assert states_equal(model, other)
        work(model, optimizer, step)
        work(other, other_optimizer, step)
    assert states_equal(model, other)
    # The optimiser's state is part of it: weights alone go on differently.
    checkpoint.restore(folder, other, other_optimizer)
    alone = torch.optim.AdamW(other.parameters(), lr=0.1, weight_decay=0.1)
    for step in range(3, 6):
        work(other, alone, step)
    assert not states_equal(model, other)


def test_a_second_model_is_kept_beside_the_first(tmp_path: Path) -> None:
    (model, optimizer), (averaged, _) = pair(1), pair(2)
    folder = checkpoint.save(tmp_path, 1, model, optimizer, {}, averaged)
    other, other_optimizer = pair(3)
    second, _ = pair(4)
    checkpoint.restore(folder, other, other_optimizer, second)
    assert states_equal(other, model) and states_equal(second, averaged)
    assert not states_equal(other, second)
    alone = checkpoint.save(tmp_path, 2, model, optimizer, {})
    assert not (alone / "averaged.safetensors").exists()


def test_a_tied_model_is_restored_and_stays_tied(tmp_path: Path) -> None:
    one, other = text_policy(0), text_policy(1)
    optimizers = [torch.optim.AdamW(p.model.parameters()) for p in (one, other)]
    folder = checkpoint.save(tmp_path, 1, one.model, optimizers[0], {})
    assert not weights_equal(one, other)
    checkpoint.restore(folder, other.model, optimizers[1])
    assert weights_equal(one, other)
    assert other.model.lm_head.weight is other.model.model.embed_tokens.weight


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    model, optimizer = pair()
    for step in (0, 5, 10, 200, 1000):
        checkpoint.save(tmp_path, step, model, optimizer, {"step": step})
    assert [p.name for p in checkpoint.completed(tmp_path)] == ["step-000200", "step-001000"]
    assert checkpoint.KEPT == 2
    assert {p.name for p in tmp_path.iterdir()} == {"step-000200", "step-001000"}


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    model, optimizer = pair()
    checkpoint.save(tmp_path, 4, model, optimizer, {"try": 1})
    checkpoint.save(tmp_path, 4, model, optimizer, {"try": 2})
    (folder,) = checkpoint.completed(tmp_path)
    assert json.loads((folder / "trainer.json").read_text()) == {"try": 2}


@pytest.mark.parametrize("broken", ["save_file", "torch.save", "json.dumps", "Path.replace"])
def test_a_save_that_dies_half_way_is_never_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    model, optimizer = pair()
    checkpoint.save(tmp_path, 1, model, optimizer, {"step": 1})
    saved = {name: value.clone() for name, value in model.state_dict().items()}
    work(model, optimizer, 1)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"mrtpo.checkpoint.{broken}", die)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.save(tmp_path, 2, model, optimizer, {"step": 2})
    (found,) = checkpoint.completed(tmp_path)
    other, other_optimizer = pair(5)
    assert checkpoint.restore(found, other, other_optimizer) == {"step": 1}
    assert all(torch.equal(other.state_dict()[name], saved[name]) for name in saved)
    # And the next save is not in the way of what was left lying.
    checkpoint.save(tmp_path, 2, model, optimizer, {"step": 2})
    assert [p.name for p in checkpoint.completed(tmp_path)] == ["step-000001", "step-000002"]


def test_what_a_killed_save_left_is_cleared_away_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / ".step-000003.4711"  # of a process that is gone
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"gigabytes")
    checkpoint.save(tmp_path, 4, *pair(), {})
    assert [p.name for p in tmp_path.iterdir()] == ["step-000004"]


def test_folders_that_are_not_whole_are_no_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "step-000009").mkdir()
    (tmp_path / ".step-000008.77").mkdir()
    (tmp_path / ".step-000008.77" / "trainer.json").write_text("{}")
    (tmp_path / "best-000007").mkdir()
    assert checkpoint.completed(tmp_path) == []
    assert checkpoint.completed(tmp_path / "nowhere") == []


def inputs(folder: Path) -> list[Path]:
    (folder / "data" / "sub").mkdir(parents=True)
    (folder / "data" / "a.txt").write_text("one")
    (folder / "data" / "sub" / "b.txt").write_text("two")
    (folder / "single.txt").write_text("three")
    return [folder / "data", folder / "single.txt"]


def test_the_fingerprint_is_of_content_not_of_place_or_order_of_settings(tmp_path: Path) -> None:
    one, other = inputs(tmp_path / "here"), inputs(tmp_path / "there")
    settings = {"train": {"steps": 3, "rate": 0.1}, "seed": 0}
    turned = {"seed": 0, "train": {"rate": 0.1, "steps": 3}}
    assert checkpoint.fingerprint(settings, one) == checkpoint.fingerprint(turned, other)


def test_the_fingerprint_changes_with_settings_and_data(tmp_path: Path) -> None:
    roots = inputs(tmp_path)
    seen = {checkpoint.fingerprint({"seed": 0}, roots)}

    def changed() -> bool:
        before = len(seen)
        seen.add(checkpoint.fingerprint({"seed": 0}, roots))
        return len(seen) > before

    assert not changed()
    seen.add(checkpoint.fingerprint({"seed": 1}, roots))
    assert len(seen) == 2
    (tmp_path / "data" / "a.txt").write_text("One")
    assert changed()
    (tmp_path / "data" / "a.txt").rename(tmp_path / "data" / "c.txt")
    assert changed()
    (tmp_path / "data" / "sub" / "new.txt").write_text("")
    assert changed()
    (tmp_path / "single.txt").write_text("four")
    assert changed()
    shutil.rmtree(tmp_path / "data" / "sub")
    assert changed()


def test_the_fingerprint_changes_with_the_code_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    shutil.copytree(checkpoint.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    here = checkpoint.fingerprint({}, [])
    monkeypatch.setattr(checkpoint, "PACKAGE", package)
    assert checkpoint.fingerprint({}, []) == here
    without = checkpoint.fingerprint({}, [], code=False)
    report = package / "report" / "html.py"
    report.write_text(report.read_text() + "\n# how it is shown\n")
    assert checkpoint.fingerprint({}, []) == here
    verifier = package / "tasks" / "text2sql" / "task.py"
    verifier.write_text(verifier.read_text() + "\n# how it is judged\n")
    assert checkpoint.fingerprint({}, []) != here
    assert checkpoint.fingerprint({}, [], code=False) == without


def test_the_fingerprint_does_not_depend_on_what_happens_to_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed stage resumes whether it was started alone or by a flow that loaded more."""
    before = checkpoint.fingerprint({}, [])
    late = ModuleType("mrtpo.late")
    late.__file__ = str(tmp_path / "late.py")
    Path(late.__file__).write_text("x = 1\n")
    monkeypatch.setitem(sys.modules, "mrtpo.late", late)
    assert checkpoint.fingerprint({}, []) == before
