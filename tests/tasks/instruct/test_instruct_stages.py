"""The main job's stages on prompts with fewer constraints than the task has rewards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrtpo import stages
from mrtpo.config import load_settings, with_overrides
from mrtpo.tracking import NoLog, RunLog

PARAMS = Path(__file__).parents[3] / "params.yaml"
STAGES = ("prepare", "warmstart", "rollout", "attribute", "train", "evaluate", "explore", "report")
SMALL = [
    "task=instruct", "data.source=composed", "data.path=mine.jsonl",
    "data.fewest_constraints=1", "data.most_constraints=2", "data.valid_prompts=5",
    "data.test_prompts=5", "model.hidden_size=16", "model.layers=1", "model.vocab_size=400",
    "warmstart.steps=2", "warmstart.copying=0", "sampling.group_size=4",
    "sampling.max_new_tokens=12", "rollout.prompts=2", "train.steps=2", "train.warmup_steps=1",
    "train.prompts_per_step=2", "train.evaluate_every=2", "train.evaluate_prompts=3",
    "replay.gain_prompts=2", "evaluate.prompts=4",
]  # fmt: skip


def test_prompts_with_two_constraints_at_most_go_all_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name in ("open", "reopen"):
        monkeypatch.setattr(RunLog, name, lambda *_, **__: NoLog())
    monkeypatch.delenv("MRTPO_STATE", raising=False)
    rows = [{"prompt": f"Write a note about {n} cats."} for n in range(40)]
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = with_overrides(load_settings(PARAMS), SMALL)
    for name in STAGES:
        getattr(stages, name)(settings)
    said = capsys.readouterr()
    line = next(line for line in said.out.splitlines() if line.startswith("evaluate: 4 test"))
    assert "constraint_1 0." in line and "followed " in line and "constraint_3" not in line
    assert "nan" not in said.err
    (warning,) = {r.getMessage() for r in caplog.records if "constraint_12" in r.getMessage()}
    assert "constraint_3, constraint_4" in warning and "without information" in warning
    assert Path("reports/report.html").is_file()
