"""`dvc.yaml` against the code: every module and setting that a stage uses is a dependency of it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mrtpo.benchmarks import BENCHMARKS
from mrtpo.config import Settings, load_settings

ROOT = Path(__file__).parents[1]
STAGES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
TASKS = Settings.model_fields["task"].annotation.__args__
ORDER = ("prepare", "warmstart", "rollout", "attribute", "train", "evaluate", "benchmark",
         "explore", "report")  # fmt: skip
# Their change cannot change an output: settings are tracked by value, the others only tell.
NEUTRAL = {"mrtpo", "mrtpo.config", "mrtpo.paths", "mrtpo.progress", "mrtpo.tracking",
           "mrtpo.runs", "mrtpo.mlflow_store"}  # fmt: skip
# Imported with what a stage does use, but not at work in it. Validation gates `prepare` alone;
# the look of its curves is no reason to train again.
IDLE = {stage: {"mrtpo.validation", "mrtpo.data_docs"} for stage in ORDER if stage != "prepare"} | {
    "prepare": set[str]()
}
# Readers of public sets, which `prepare` alone uses, share code with the benchmarks.
SET_READERS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "mrtpo" / "benchmarks").rglob("*.py")
}
for stage in ("warmstart", "rollout", "attribute", "train", "evaluate"):
    IDLE[stage] |= SET_READERS
IDLE["train"] |= {"mrtpo.report", "mrtpo.report.credit", "mrtpo.report.curves",
                  "mrtpo.report.curve_figures", "mrtpo.report.figures",
                  "mrtpo.report.text"}  # fmt: skip
# Sections read by idle code, or that change an output only through an input (`data` → prompts).
IDLE_SETTINGS = {
    stage: {"tracking", "data"} for stage in ORDER if stage not in ("prepare", "explore", "report")
} | {"prepare": {"tracking"}, "explore": {"tracking"}, "report": {"tracking"}}
IDLE_KEYS = {"evaluate.batch_size"}  # how many prompts are decoded at once changes no score
IDLE_SETTINGS["rollout"] |= {"replay", "train"}  # the attribution half of mrtpo.rollouts


def source_of(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    found = [path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()]
    return found[0] if found else None


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def walk(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """All nodes below, but what is imported for type checkers only."""
    for node in nodes:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        yield node
        yield from walk(ast.iter_child_nodes(node))


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Modules of this package that code imports, with the packages they stand in."""
    names = set()
    for node in walk(nodes):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = {name for name in names if name.split(".")[0] == "mrtpo" and source_of(name)}
    found |= {parent for name in found for parent in parents(name)}
    # An empty file is no dependency: DVC warns of it, and it cannot change anything.
    return {name for name in found if (path := source_of(name)) and path.stat().st_size}


def parents(module: str) -> Iterable[str]:
    parts = module.split(".")
    return (".".join(parts[:n]) for n in range(1, len(parts)))


def settings_read(nodes: Iterable[ast.AST]) -> set[str]:
    """Sections that code reads as `settings.<section>` or `….settings.<section>`."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if section_of(node) in Settings.model_fields:
                found.add(section_of(node))
            elif f"{section_of(node.value)}.{node.attr}" in IDLE_KEYS:
                continue
        found |= settings_read(ast.iter_child_nodes(node))
    return found


def section_of(node: ast.AST) -> str:
    """`x` of `settings.x`, else ''."""
    if isinstance(node, ast.Attribute):
        owner = node.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return node.attr if name == "settings" else ""
    return ""


def own_code(stage: str) -> list[ast.AST]:
    """A stage's function in mrtpo/stages.py, the helpers there that it calls, and their imports."""
    body = tree_of(ROOT / "mrtpo" / "stages.py").body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    wanted, waiting = {stage}, [stage]
    while waiting:
        for node in ast.walk(functions[waiting.pop()]):
            if isinstance(node, ast.Name) and node.id in functions.keys() - wanted:
                wanted.add(node.id)
                waiting.append(node.id)
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    return [*imports, *(functions[name] for name in wanted)]


def used_by(stage: str) -> tuple[set[str], set[str]]:
    """Modules that a stage may load, directly or not, and settings sections that they read."""
    code = own_code(stage)
    modules, sections = {"mrtpo.stages"}, settings_read(code)
    waiting = sorted(imported(code))
    while waiting:
        module = waiting.pop()
        path = source_of(module)
        if module in modules or path is None:
            continue
        modules.add(module)
        body = tree_of(path).body
        if module not in NEUTRAL:
            sections |= settings_read(body)
            waiting += imported(body)
        if module == "mrtpo.benchmarks.score":  # opens them by name
            waiting += BENCHMARKS.values()
    return modules - NEUTRAL - IDLE[stage], sections - IDLE_SETTINGS[stage]


def declared(stage: str) -> tuple[list[Path], set[str]]:
    named = [path.replace("${task}", task) for path in STAGES[stage]["deps"] for task in TASKS]
    deps = [ROOT / path for path in dict.fromkeys(named)]
    return deps, {param for param in STAGES[stage]["params"] if isinstance(param, str)}


def test_the_stages_are_the_command_lines_stages_in_their_order() -> None:
    assert tuple(STAGES) == ORDER
    assert [stage["cmd"] for stage in STAGES.values()] == [f"python -m mrtpo {n}" for n in ORDER]


@pytest.mark.parametrize("stage", ORDER)
def test_a_stage_depends_on_all_modules_that_it_uses(stage: str) -> None:
    deps, _ = declared(stage)
    modules, _ = used_by(stage)
    missing = {
        module
        for module in modules
        if not any(Path(str(source_of(module))).is_relative_to(dep) for dep in deps)
    }
    assert missing == set()


@pytest.mark.parametrize("stage", ORDER)
def test_a_stage_depends_on_no_module_that_it_does_not_use(stage: str) -> None:
    deps, _ = declared(stage)
    used = {source_of(module) for module in used_by(stage)[0]}
    code = [dep for dep in deps if dep.is_relative_to(ROOT / "mrtpo")]
    assert [d for d in code if not any(p and p.is_relative_to(d) for p in used)] == []


@pytest.mark.parametrize("task", TASKS)
def test_a_task_uses_no_other_task(task: str) -> None:
    """Else its stages would have to depend on `mrtpo/tasks` as a whole."""
    others = tuple(f"mrtpo.tasks.{other}" for other in TASKS if other != task)
    files = sorted((ROOT / "mrtpo" / "tasks" / task).glob("*.py"))
    assert files
    used = {name for file in files for name in imported(tree_of(file).body)}
    assert [name for name in used if name.startswith(others)] == []


@pytest.mark.parametrize("stage", ORDER)
def test_a_stage_depends_on_all_settings_that_it_reads(stage: str) -> None:
    _, params = declared(stage)
    covered = {param.split(".")[0] for param in params}
    assert used_by(stage)[1] - covered == set()


@pytest.mark.parametrize("stage", ORDER)
def test_every_declared_setting_exists(stage: str) -> None:
    values = Settings().model_dump()
    for param in declared(stage)[1]:
        found: Any = values
        for key in param.split("."):
            assert key in found, param
            found = found[key]


def test_every_input_is_an_output_of_an_earlier_stage_or_a_file_of_the_project() -> None:
    made: set[str] = set()
    for stage in STAGES.values():
        for dep in stage["deps"]:
            found = [ROOT / dep.replace("${task}", task) for task in TASKS]
            assert dep in made or all(path.exists() for path in found), dep
        metrics = [next(iter(entry)) for entry in stage.get("metrics", [])]
        made |= {*stage["outs"], *metrics}


def test_params_yaml_is_valid_and_lists_every_setting() -> None:
    load_settings(ROOT / "params.yaml")
    listed = yaml.safe_load((ROOT / "params.yaml").read_text())
    for section, values in Settings().model_dump().items():
        assert section in listed
        if isinstance(values, dict):
            assert list(listed[section]) == list(values), section


def test_sources_yaml_has_every_kind_of_data() -> None:
    listed = yaml.safe_load((ROOT / "sources.yaml").read_text())
    kinds = Settings.model_fields["data"].annotation.model_fields["source"].annotation.__args__
    assert {*kinds, "model", "benchmarks"} == set(listed)
