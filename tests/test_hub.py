"""Data sets by hub id; the hub itself is never asked here."""

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from mrtpo.config import SettingsError, data_folder, databases_folder, settings_from
from mrtpo.hub import is_hub_id


def data(**values):
    return settings_from({"data": {"source": "bird", **values}}).data


@pytest.mark.parametrize("text", ["owner/name", "my-org/Set_2.5M", "a/b"])
def test_hub_ids(text):
    assert is_hub_id(text)


@pytest.mark.parametrize("text", ["name", "/a/b", "./a", "a/b/c", "../a", "~/a", "$D/a", "a/"])
def test_paths_that_are_no_hub_ids(text):
    assert not is_hub_id(text)


def test_a_hub_id_is_downloaded_at_its_revision(tmp_path, monkeypatch):
    asked = []

    def snapshot(repo_id, *, repo_type, revision):
        asked.append((repo_id, repo_type, revision))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert data_folder(data(path="owner/bird", revision="0a1b")) == tmp_path
    assert asked == [("owner/bird", "dataset", "0a1b")]


def test_an_existing_folder_goes_before_the_hub(tmp_path, monkeypatch):
    (tmp_path / "owner/bird").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    assert data_folder(data(path="owner/bird")).is_dir()


def test_a_hub_id_needs_a_revision():
    with pytest.raises(SettingsError, match=r"data\.path: owner/bird .* set data\.revision"):
        data_folder(data(path="owner/bird"))
    with pytest.raises(SettingsError, match=r"data\.revision needs a hub id"):
        data(revision="main")


def test_without_a_network_the_error_says_what_to_do(monkeypatch):
    def fail(*args, **kwargs):
        raise LocalEntryNotFoundError("Got: no route\nmore")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(
        SettingsError, match=r"owner/bird, revision main: .*no route\. .*hf download"
    ):
        data_folder(data(path="owner/bird", revision="main"))


def test_the_folder_of_databases_must_exist(tmp_path):
    assert databases_folder(data()) is None
    assert databases_folder(data(databases_path=str(tmp_path))) == tmp_path
    with pytest.raises(SettingsError, match=r"data\.databases_path: /nowhere is not a folder"):
        databases_folder(data(databases_path="/nowhere"))
