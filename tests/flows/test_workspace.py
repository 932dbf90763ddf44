from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from flows.repro import Place, graph, reproduce
from flows.workspace import (
    WorkspaceError,
    anchored,
    checked_settings,
    isolated,
    merged,
    publish,
    run_label,
    write_overrides,
)
from mrtpo.config import SettingsError, override, settings_from

Git = Callable[..., str]


def dvc(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "dvc", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def test_empty_fields_of_a_form_override_nothing() -> None:
    assert merged({"seed": None, "train.steps": 0}, {"train.kl": 0.1}) == {
        "train.steps": 0,
        "train.kl": 0.1,
    }


def test_a_setting_given_twice_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"train\.steps"):
        merged({"train.steps": 5}, {"train.steps": 6})


def test_overriding_leaves_the_given_settings_alone() -> None:
    values = {"seed": 0, "train": {"steps": 1, "kl": 0.0}}
    assert override(values, {"train.steps": 2, "seed": 3}) == {
        "seed": 3,
        "train": {"steps": 2, "kl": 0.0},
    }
    assert values == {"seed": 0, "train": {"steps": 1, "kl": 0.0}}


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"train.lr": 0.1}, "train.lr: unknown key; accepted here: .*learning_rate"),
        ({"trainer.steps": 1}, "trainer: unknown key; accepted here: .*train"),
        ({"train.steps": "many"}, "train.steps: .*integer"),
        ({"seed.value": 1}, "seed: .*integer"),
    ],
)
def test_a_wrong_override_is_named_with_what_is_accepted(
    project: Path, overrides: dict[str, object], told: str
) -> None:
    with pytest.raises(SettingsError, match=told):
        checked_settings(project, overrides)


def test_written_overrides_keep_comments_and_load_as_they_were_given(project: Path) -> None:
    path = project / "params.yaml"
    before = path.read_text().splitlines()
    given = {
        "train.learning_rate": 1e-5,
        "rewards.weights": {"format": 0.5},
        "replay.variants.execution": "schema",
        "model.path": None,
    }
    write_overrides(path, given)
    loaded = settings_from(yaml.safe_load(path.read_text()))
    assert loaded == settings_from(override(yaml.safe_load("\n".join(before)), given))
    assert loaded.train.learning_rate == 1e-5
    unchanged = [line for line in path.read_text().splitlines() if line in before]
    assert len(before) - len(unchanged) == 3  # model.path was null and is


def test_a_label_is_a_readable_name_for_folder_and_branch() -> None:
    label = run_label("Ünsafe  Name/..", "1a2b3c4d-aaaa-bbbb")
    assert label == "nsafe-name-1a2b3c4d"
    assert re.fullmatch(r"[a-z0-9-]+", run_label("", "1a2b3c4d-aaaa"))


def test_files_named_relative_to_the_workspace_are_named_absolutely(project: Path) -> None:
    (project / "weights").mkdir()
    settings = settings_from({"model": {"path": "weights"}})
    assert anchored(project, settings) == {"model.path": str(project / "weights")}
    assert anchored(project, settings_from({"model": {"path": "owner/hub-model"}})) == {}


def test_an_isolated_run_leaves_the_workspace_alone_and_ends_as_a_branch_that_reproduces(
    finished: Path, git: Git, set_params: Callable[[str, str], None]
) -> None:
    set_params("  steps: 20", "  steps: 21")  # not committed, and so part of the run
    (finished / "notes.txt").write_text("untracked")
    status, report = git(finished, "status", "--porcelain"), finished / "reports" / "report.html"
    before = report.read_text()

    clone = isolated(finished, "a-run-1a2b3c4d", {"train.method": "gdpo"})
    place = Place(clone, finished / "state", "sqlite://", "a-run")
    ran = {stage: reproduce(stage, place) for stage in graph(clone)}
    branch = publish(finished, clone, "A run")

    assert ran == {"prepare": False, "train": True, "report": True}
    assert branch == "run/a-run-1a2b3c4d"
    assert git(finished, "status", "--porcelain") == status
    assert report.read_text() == before
    assert not (clone / "notes.txt").exists()
    git(finished, "stash", "--include-untracked", "--quiet")
    git(finished, "checkout", "--quiet", branch)
    dvc(finished, "checkout", "--quiet")
    assert report.read_text() == "policy gdpo 0 21"
    assert "up to date" in dvc(finished, "status")


def test_a_retry_goes_on_in_the_clone_of_its_run(finished: Path) -> None:
    first = isolated(finished, run_label("old name", "1a2b3c4d-11"), {"seed": 5})
    (first / "data" / "half").write_text("x")
    assert isolated(finished, run_label("new name", "1a2b3c4d-11"), {"seed": 5}) == first
    assert (first / "data" / "half").exists()
    assert [path.name for path in (finished / "runs").iterdir()] == ["old-name-1a2b3c4d"]


def test_a_clone_that_cannot_be_made_says_why_and_leaves_nothing(finished: Path) -> None:
    (finished / ".dvc" / "config.local").write_text("not a configuration")
    with pytest.raises(WorkspaceError, match=r"cache dir.*Invalid line"):
        isolated(finished, "c-run-00000000", {"seed": 5})
    assert list((finished / "runs").iterdir()) == []
