from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from flows import sources
from flows.sources import digest, refresh
from mrtpo.config import SettingsError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "external" / "spider"
    folder.mkdir(parents=True)
    (folder / "dev.json").write_text("[]")
    (folder / "tables.json").write_text("{}")
    return folder


def test_a_digest_tells_content_and_names_but_not_hidden_files(data: Path) -> None:
    before = digest(data)
    (data / ".DS_Store").write_text("noise")
    assert digest(data) == before
    (data / "dev.json").rename(data / "train.json")
    renamed = digest(data)
    (data / "train.json").write_text("[1]")
    assert len({before, renamed, digest(data)}) == 3


def test_a_digest_does_not_depend_on_where_the_folder_is(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "copy")
    assert digest(tmp_path / "copy") == digest(data)


def test_of_a_large_file_both_ends_and_the_size_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "WHOLE", 10)
    monkeypatch.setattr(sources, "END", 4)
    file = tmp_path / "weights"
    seen = set()
    for content in (b"aaaa------bbbb", b"Aaaa------bbbb", b"aaaa------bbbB", b"aaaa-------bbbb"):
        file.write_bytes(content)
        seen.add(digest(file))
    assert len(seen) == 4


def test_sources_yaml_follows_the_data_and_keeps_the_rest(
    project: Path, data: Path, monkeypatch: pytest.MonkeyPatch, set_params
) -> None:
    before = (project / "sources.yaml").read_text()
    assert refresh(project) == []
    assert (project / "sources.yaml").read_text() == before
    set_params("source: synthetic", "source: spider")
    monkeypatch.setenv("MRTPO_DATA", str(data.parent))
    assert refresh(project) == ["spider"]
    assert refresh(project) == []
    first = yaml.safe_load((project / "sources.yaml").read_text())
    (data / "dev.json").write_text("[2]")
    assert refresh(project) == ["spider"]
    second = yaml.safe_load((project / "sources.yaml").read_text())
    assert second.pop("spider") != first.pop("spider")
    assert first == second
    assert {key for key, value in first.items() if value is not None} == {"synthetic"}
    assert before.splitlines()[0] in (project / "sources.yaml").read_text()


def test_databases_outside_of_the_sets_folder_count(
    project: Path, data: Path, set_params, tmp_path: Path
) -> None:
    extra = tmp_path / "more" / "shop"
    extra.mkdir(parents=True)
    set_params("source: synthetic", "source: spider")
    set_params("path: null                  # a set's", f"path: {data}  # a set's")
    set_params("databases_path: null", f"databases_path: {extra.parent}")
    assert refresh(project) == ["spider"]
    (extra / "shop.sqlite").write_bytes(b"1")
    assert refresh(project) == ["spider"]
    assert refresh(project) == []


def test_a_local_model_is_followed_and_forgotten_again(project: Path, set_params) -> None:
    (project / "weights").write_bytes(b"1")
    set_params("\nmodel:\n  path: null ", "\nmodel:\n  path: weights ")
    assert refresh(project) == ["model"]
    set_params("path: weights", "path: null")
    assert refresh(project) == ["model"]
    assert yaml.safe_load((project / "sources.yaml").read_text())["model"] is None


def test_data_that_cannot_be_found_is_named(project: Path, set_params) -> None:
    set_params("source: synthetic", "source: bird")
    with pytest.raises(SettingsError, match="MRTPO_DATA"):
        refresh(project)
