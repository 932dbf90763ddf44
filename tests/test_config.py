"""Settings: what is refused, and that the message says file, key and what is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from mrtpo.config import (
    Settings,
    SettingsError,
    data_folder,
    load_settings,
    settings_from,
    with_overrides,
)

ROOT = Path(__file__).parents[1]


def test_the_repositorys_own_settings_load_and_name_every_key() -> None:
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    settings = load_settings(ROOT / "params.yaml")
    full = settings.model_dump()
    assert values.keys() == full.keys()
    for section, entries in full.items():
        if isinstance(entries, dict):
            assert values[section].keys() == entries.keys(), section


def test_no_settings_are_the_defaults() -> None:
    assert settings_from({}) == Settings()
    assert settings_from({"train": {}}) == Settings()


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("train: {setps: 3}", "train.setps", "unknown key; accepted here: average, best_metric, "),
        ("trian: {steps: 3}", "trian", "unknown key; accepted here: benchmark, data, evaluate, "),
        (
            "rewards: {weight: {}}",
            "rewards.weight",
            "on_timeout, overlong, recipe, requires, tools, weights",
        ),
        ("train: {method: ppo}", "train.method", "'cort' or 'oracle' (found 'ppo')"),
        ("replay: {distance: cosine}", "replay.distance", "'directional_js'"),
        ("task: chess", "task", "'text2sql'"),
        ("train: {steps: '3'}", "train.steps", "valid integer (found '3')"),
        ("train: {steps: 2.5}", "train.steps", "valid integer (found 2.5)"),
        ("train: {steps: true}", "train.steps", "valid integer (found True)"),
        ("train: {learning_rate: '1e-4'}", "train.learning_rate", "valid number (found '1e-4')"),
        ("train: {learning_rate: .inf}", "train.learning_rate", "finite number"),
        ("rewards: {weights: {format: .nan}}", "rewards.weights.format", "finite number"),
        ("rewards: {weights: {format: much}}", "rewards.weights.format", "found 'much'"),
        ("train: {steps: 0}", "train.steps", "greater than or equal to 1"),
        ("sampling: {group_size: 1}", "sampling.group_size", "greater than or equal to 2"),
        ("sampling: {temperature: 0}", "sampling.temperature", "greater than 0"),
        ("replay: {mix_start: 1.5}", "replay.mix_start", "less than or equal to 1"),
        ("replay: {floor: -1}", "replay.floor", "greater than or equal to 0"),
        ("replay: {cap: 1.0}", "replay.cap", "greater than 1"),
        ("train:", "train", "found None"),
        ("train: [1]", "train", "found [1]"),
    ],
)
def test_a_bad_setting_is_named_with_its_file_and_what_is_accepted(
    tmp_path: Path, text: str, key: str, said: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as raised:
        load_settings(file)
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{file}: {key}: ")
    assert said in line


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-4", 1e-4), ("+2.E3", 2000.0), ("3.0e-2", 0.03), ("0.5", 0.5), ("3", 3.0)],
)
def test_numbers_are_read_as_people_and_dvc_write_them(
    tmp_path: Path, text: str, value: float
) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(f"train: {{learning_rate: {text}}}")
    assert load_settings(file).train.learning_rate == value


@pytest.mark.parametrize("text", ["2e10-run", "1e5f00", "12.5e3x", "e5"])
def test_a_name_that_begins_like_a_number_stays_a_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(f"tracking:\n  experiment: {text}\n")
    assert load_settings(file).tracking.experiment == text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"data": {"path": "x"}}, "data.path has no meaning with data.source: synthetic"),
        ({"train": {"steps": 3, "warmup_steps": 4}}, "train.warmup_steps must not exceed"),
        (
            {"train": {"processes": 2}, "model": {"device": "cuda:1"}},
            "model.device cuda:1 is one device; .*auto or cpu",
        ),
        (
            {"train": {"prompts_per_step": 2, "processes": 3}},
            r"train.processes must not exceed train.prompts_per_step \(2\)",
        ),
        (
            {"train": {"method": "mrtpo_permuted"}, "replay": {"max_rewards": 1}},
            "mrtpo_permuted needs replay.max_rewards above 1",
        ),
        (
            {"rewards": {"overlong": 8}, "sampling": {"max_new_tokens": 8}},
            "rewards.overlong must be below sampling.max_new_tokens",
        ),
        ({"model": {"hidden_size": 10, "heads": 4}}, "hidden_size must be an even multiple"),
        ({"model": {"hidden_size": 12, "heads": 4}}, "hidden_size must be an even multiple"),
        (
            {"replay": {"scale": "balanced", "normalise": "mean"}},
            "balanced needs normalise: max, not mean",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings_from(values, "mine.yaml")


def test_every_fault_is_listed_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        settings_from({"seed": -1, "train": {"steps": 0, "mehtod": "grpo"}}, "mine.yaml")
    lines = str(raised.value).splitlines()
    assert len(lines) == 3
    for line, key in zip(sorted(lines), ("seed", "train.mehtod", "train.steps"), strict=True):
        assert line.startswith(f"mine.yaml: {key}: ")


def test_a_key_that_stands_twice_is_refused_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    for text in ("train: {steps: 3}\nseed: 1\ntrain: {epochs: 2}\n",
                 "train:\n  steps: 3\n  steps: 4\n"):  # fmt: skip
        file.write_text(text)
        with pytest.raises(SettingsError, match=r"params.yaml: .*'(train|steps)' stands twice"):
            load_settings(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "expected sections, found NoneType"), ("- 1", "expected sections, found list"),
     ("train: {steps", "not valid YAML")],
)  # fmt: skip
def test_a_file_that_is_no_settings_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=f"params.yaml: {said}"):
        load_settings(file)
    with pytest.raises(SettingsError, match=r"gone.yaml: no such settings file"):
        load_settings(tmp_path / "gone.yaml")


def test_settings_cannot_be_changed_once_read() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.seed = 3  # type: ignore[misc]
    with pytest.raises(ValidationError):
        settings.train.steps = 3  # type: ignore[misc]


def test_every_setting_is_documented() -> None:
    for section, field in Settings.model_fields.items():
        fields = getattr(field.annotation, "model_fields", {section: field})
        for name, entry in fields.items():
            if section in ("task", "seed") or name != section:
                assert entry.description, f"{section}.{name}"


def test_the_data_folder_is_the_setting_else_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spider").mkdir()
    monkeypatch.delenv("MRTPO_DATA", raising=False)
    unset = settings_from({"data": {"source": "spider"}}).data
    with pytest.raises(SettingsError, match=r"spider: set data.path .*MRTPO_DATA"):
        data_folder(unset)
    monkeypatch.setenv("MRTPO_DATA", str(tmp_path))
    assert data_folder(unset) == tmp_path / "spider"
    other = settings_from({"data": {"source": "bird"}}).data
    assert data_folder(other) == tmp_path  # which may hold the set under another of its names
    given = settings_from({"data": {"source": "spider", "path": "$MRTPO_DATA/spider"}}).data
    assert data_folder(given) == tmp_path / "spider"
    wrong = settings_from({"data": {"source": "spider", "path": "/nowhere/at/all"}}).data
    with pytest.raises(SettingsError, match="/nowhere/at/all is not a folder"):
        data_folder(wrong)


def test_settings_are_laid_over_by_dotted_keys_as_yaml() -> None:
    changed = with_overrides(
        Settings(), ["data.prompt=full", "train.steps=3", "rewards.weights={format: 0.5}"]
    )
    assert (changed.data.prompt, changed.train.steps) == ("full", 3)
    assert changed.rewards.weights == {"format": 0.5}
    assert changed.sampling == Settings().sampling


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("data.prompt", "--set data.prompt: write section.key=value"),
        ("data.prompt=odd", "--set: data.prompt: "),
        ("data.promt=full", "--set: data.promt: unknown key"),
        ("train.steps=[", "--set train.steps=[: the value is not valid YAML"),
    ],
)
def test_a_laid_over_setting_that_cannot_be_is_named(given: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        with_overrides(Settings(), [given])
    assert str(raised.value).startswith(said)
