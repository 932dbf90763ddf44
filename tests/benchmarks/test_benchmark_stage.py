"""The stage `benchmark`: the trained policy on the named sets, for DVC, MLflow and the report."""

import json

import pytest
from helpers import Log, text_policy
from sums import write

from mrtpo import benchmarks, paths, stages
from mrtpo.config import SettingsError, settings_from
from mrtpo.tracking import RunLog


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setitem(benchmarks.BENCHMARKS, "sums", "sums")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MRTPO_DATA", raising=False)
    monkeypatch.delenv("MRTPO_STATE", raising=False)
    text_policy().save(paths.POLICY)
    (paths.POLICY / "training.json").write_text('{"fingerprint": "f"}')
    write(tmp_path / "sets" / "sums", 5)
    return tmp_path


def settings(**benchmark):
    return settings_from({"sampling": {"max_new_tokens": 4}, "benchmark": benchmark})


def test_named_sets_are_scored_and_kept(workspace, monkeypatch):
    log = Log()
    monkeypatch.setattr(RunLog, "reopen", lambda *_: log)
    stages.benchmark(settings(names=["sums"], path="sets", limit=3, samples=2))
    metrics = json.loads(paths.metrics_file("benchmark").read_text())
    assert metrics["sums"]["questions"] == 3
    assert set(metrics["sums"]["scores"]) >= {"right", "mean@2/right"}
    kept = sorted(file.name for file in paths.BENCHMARKS.iterdir())
    assert kept == ["sums.failures.html", "sums.jsonl", "sums.responses.jsonl", "sums.summary.json"]
    assert len((paths.BENCHMARKS / "sums.jsonl").read_text().splitlines()) == 9
    assert list(paths.state_root().iterdir()) == []
    assert log.finals["benchmark"]["sums"]["right"] == metrics["sums"]["scores"]["right"]


def test_a_killed_stage_goes_on_with_the_responses_it_has(workspace, monkeypatch):
    monkeypatch.setattr(RunLog, "reopen", lambda *_: Log())
    asked = settings(names=["sums"], path="sets")

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mrtpo.benchmarks.score._scored", killed)
        patch.setattr("mrtpo.benchmarks.score.shutil.move", killed)
        with pytest.raises(KeyboardInterrupt):
            stages.benchmark(asked)
    (left,) = paths.state_root().glob("benchmark-*/sums.responses.jsonl")
    before = left.read_text()
    assert len(before.splitlines()) == 6
    monkeypatch.setattr("mrtpo.benchmarks.responses.generate", killed)  # nothing is asked again
    stages.benchmark(asked)
    assert (paths.BENCHMARKS / "sums.responses.jsonl").read_text() == before


def test_without_names_the_stage_does_nothing_and_says_so(workspace, capsys):
    stages.benchmark(settings())
    assert json.loads(paths.metrics_file("benchmark").read_text()) == {"benchmarks": 0}
    assert "benchmark.names" in capsys.readouterr().out


def test_names_and_places_are_checked_before_any_work(workspace):
    with pytest.raises(SettingsError, match=r"benchmark\.names: unknown: other; known: .*sums"):
        settings(names=["sums", "other"])
    with pytest.raises(SettingsError, match=r"set benchmark.path .* or .* MRTPO_DATA"):
        stages.benchmark(settings(names=["sums"]))
    with pytest.raises(SettingsError, match=r"benchmark\.path: nowhere is not a folder"):
        stages.benchmark(settings(names=["sums"], path="nowhere"))
