"""All settings together: what may stand beside what, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, model_validator

from mrtpo.config.names import INSTRUCT_SOURCES, TOOL_SOURCES, TaskName
from mrtpo.config.sections import (
    Benchmark,
    Data,
    Evaluate,
    Model,
    Replay,
    Report,
    Rewards,
    Rollout,
    Sampling,
    Section,
    Tracking,
    Train,
    Verifier,
    Warmstart,
)


class SettingsError(ValueError):
    """A setting that cannot be used; the text names the file, the key and what is accepted."""


class Settings(Section):
    """All of `params.yaml`."""

    task: TaskName = "text2sql"
    """What the policy learns."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Every random choice of every stage follows from it."""
    data: Data = Data()
    model: Model = Model()
    warmstart: Warmstart = Warmstart()
    sampling: Sampling = Sampling()
    rewards: Rewards = Rewards()
    verifier: Verifier = Verifier()
    rollout: Rollout = Rollout()
    replay: Replay = Replay()
    train: Train = Train()
    evaluate: Evaluate = Evaluate()
    benchmark: Benchmark = Benchmark()
    report: Report = Report()
    tracking: Tracking = Tracking()

    @model_validator(mode="after")
    def _combinations(self) -> Settings:
        source = self.data.source
        own = {"tools": TOOL_SOURCES, "instruct": INSTRUCT_SOURCES}
        task = next((task for task, sources in own.items() if source in sources), "text2sql")
        if source != "synthetic" and task != self.task:
            raise ValueError(f"data.source: {source} is no source of task {self.task}")
        if source == "composed" and self.data.path is None:
            raise ValueError("data.source: composed needs data.path, the prompts to compose onto")
        if self.data.fewest_constraints > self.data.most_constraints:
            raise ValueError("data.fewest_constraints must not exceed data.most_constraints")
        embedded = self.task == "instruct" and source == "synthetic"
        if embedded and self.data.most_constraints > self.data.lines:
            raise ValueError("data.most_constraints must not exceed data.lines: a line has one")
        if self.data.prompt == "chat" and self.task != "tools":
            raise ValueError("data.prompt: chat needs task tools")
        if self.data.source == "synthetic" and self.data.path is not None:
            raise ValueError("data.path has no meaning with data.source: synthetic; set it to null")
        if self.data.max_prompt_tokens is not None and self.model.path is None:
            raise ValueError("data.max_prompt_tokens needs model.path; use data.max_prompt_chars")
        if self.data.path is None and self.data.revision is not None:
            raise ValueError("data.revision needs a hub id in data.path")
        if self.train.method == "mrtpo_permuted" and self.replay.max_rewards == 1:
            raise ValueError("method mrtpo_permuted needs replay.max_rewards above 1")
        if self.task != "text2sql" and self.rewards.recipe != "default":
            raise ValueError(f"rewards.recipe {self.rewards.recipe} is one of task text2sql")
        if 0 < self.sampling.max_new_tokens <= self.rewards.overlong:
            raise ValueError("rewards.overlong must be below sampling.max_new_tokens")
        if self.train.warmup_steps > self.train.steps:
            raise ValueError("train.warmup_steps must not exceed train.steps")
        if self.train.processes > 1 and ":" in self.model.device:
            raise ValueError(
                f"model.device {self.model.device} is one device; with train.processes above 1 use "
                "auto or cpu"
            )
        if self.train.processes > self.train.prompts_per_step:
            raise ValueError(
                f"train.processes must not exceed train.prompts_per_step "
                f"({self.train.prompts_per_step}): each process samples whole groups"
            )
        return self


class _Loader(yaml.SafeLoader):
    """YAML 1.2 as DVC has it: `1e-4` is a number and not a text, and no key stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for at, key in enumerate(keys):
            if key in keys[:at]:
                mark = node.value[at][0].start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands twice", mark)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def settings_from(values: dict[str, Any], where: str = "params.yaml") -> Settings:
    """Validate a nested mapping. Raises `SettingsError` with one line per fault."""
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(_explain(error, where)) from None


def override(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested settings in which dotted keys are set: `{"train.steps": 5}`."""
    changed: dict[str, Any] = {**values}
    for key, value in overrides.items():
        _set(changed, key.split("."), value)
    return changed


def _set(values: dict[str, Any], path: list[str], value: Any) -> None:
    if len(path) > 1:
        inner = values.get(path[0])
        values[path[0]] = inner = dict(inner) if isinstance(inner, dict) else {}
        _set(inner, path[1:], value)
    else:
        values[path[0]] = value


def with_overrides(settings: Settings, given: Sequence[str]) -> Settings:
    """Settings with `section.key=value` laid over them, values as YAML. Raises `SettingsError`."""
    overrides = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"--set {text}: write section.key=value")
        try:
            overrides[key.strip()] = yaml.load(value, Loader=_Loader)
        except yaml.YAMLError as error:
            raise SettingsError(f"--set {text}: the value is not valid YAML: {error}") from None
    return settings_from(override(settings.model_dump(), overrides), "--set")


def load_settings(path: Path | str = "params.yaml") -> Settings:
    """Read and validate a settings file. Raises `SettingsError`."""
    path = Path(path)
    if not path.is_file():
        raise SettingsError(f"{path}: no such settings file (run from the project's root)")
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: expected sections, found {type(values).__name__}")
    return settings_from(values, str(path))


def _explain(error: ValidationError, where: str) -> str:
    lines = []
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"]) or "(whole file)"
        text = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            text = f"unknown key; accepted here: {', '.join(_keys_at(fault['loc'][:-1]))}"
        else:
            text = f"{text} (found {fault['input']!r})" if fault["loc"] else text
        lines.append(f"{where}: {key}: {text}")
    return "\n".join(lines)


def _keys_at(location: tuple[Any, ...]) -> list[str]:
    model: Any = Settings
    for part in location:
        model = model.model_fields[part].annotation
    return sorted(model.model_fields)
