"""Where state goes."""

from mrtpo.paths import home, state_root


def test_state_stands_in_the_workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MRTPO_STATE", raising=False)
    assert state_root() == tmp_path / "state"


def test_temporary_experiments_keep_their_state_in_the_workspace_they_came_from(
    tmp_path, monkeypatch
):
    temporary = tmp_path / ".dvc" / "tmp" / "exps" / "tmpabc"
    temporary.mkdir(parents=True)
    monkeypatch.chdir(temporary)
    monkeypatch.delenv("MRTPO_STATE", raising=False)
    assert home() == tmp_path
    assert state_root() == tmp_path / "state"


def test_the_environment_decides_where_state_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("MRTPO_STATE", str(tmp_path / "elsewhere"))
    assert state_root() == tmp_path / "elsewhere"
