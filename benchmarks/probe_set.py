"""The probes of `benchmarks/probes`: responses with known faults, as prompts of the tasks' own.

`read_probes` checks them and finds the labels; `build` makes their prompts and tasks, in the form
that a pretrained model is asked in (`data.prompt: full`). What the files hold: probes/README.md.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mrtpo.config import Settings, load_settings, with_overrides
from mrtpo.records import Message, Prompt
from mrtpo.tasks import Task, get_task
from mrtpo.tasks.instruct.listing import listed
from mrtpo.tasks.instruct.prompts import build_prompt as instruct_prompt
from mrtpo.tasks.text2sql.prepare import database_file
from mrtpo.tasks.text2sql.prompts import build_prompt as sql_prompt
from mrtpo.tasks.text2sql.schema import read_schema
from mrtpo.tasks.text2sql.sources import Question
from mrtpo.tasks.tools.prompts import build_prompt as tools_prompt
from mrtpo.tasks.tools.schema import Call, Example, Turn, tool_from
from mrtpo.verifiers import constraints

FOLDER = Path(__file__).parent / "probes"
TASKS = ("text2sql", "tools", "instruct")
_TAG = re.compile(r"</?(?:think|answer|tool_call|response)>|```(?:sql)?")
_HEADER = re.compile(r"^-- database: (\w+)\n", re.MULTILINE)

Span = tuple[int, int]


@dataclass(frozen=True)
class Probe:
    """A response, which rewards it passes, and the responsible characters where they are known.

    `given` is the rest of its entry: what its task makes a prompt of.
    """

    id: str
    task: str
    fault: str
    response: str
    passes: dict[str, bool]
    spans: dict[str, list[Span]]
    given: Mapping[str, Any]


def read_probes(folder: Path = FOLDER) -> list[Probe]:
    """All probes. Raises ValueError naming the probe whose entry or label is wrong."""
    probes = []
    for task in TASKS:
        file = folder / f"{task}.yaml"
        content = yaml.safe_load(file.read_text())
        tools = content["tools"] if task == "tools" else {}
        for entry in content["probes"] if task == "tools" else content:
            probes.append(_probe(task, entry, tools))
    ids = [probe.id for probe in probes]
    if twice := sorted({i for i in ids if ids.count(i) > 1}):
        raise ValueError(f"probes of the same id: {', '.join(twice)}")
    return probes


def _probe(task: str, entry: dict[str, Any], tools: Mapping[str, Any]) -> Probe:
    rewards = entry["rewards"]
    if task == "instruct":
        if len(rewards) != len(entry["constraints"]):
            raise ValueError(f"{entry['id']}: {len(rewards)} verdicts on its constraints")
        rewards = {f"constraint_{n}": own for n, own in enumerate(rewards, start=1)}
    passes, spans = {}, {}
    for name, (verdict, *labels) in rewards.items():
        if verdict not in ("pass", "fail"):
            raise ValueError(f"{entry['id']}: {name}: verdict {verdict!r}; pass or fail")
        passes[name] = verdict == "pass"
        start = 0 if name == "format" else behind_thought(entry["response"])
        try:
            found = [s for label in labels for s in places(entry["response"], label, start)]
        except ValueError as error:
            raise ValueError(f"{entry['id']}: {name}: {error}") from None
        if found:
            spans[name] = sorted(set(found))
    given = {k: v for k, v in entry.items() if k not in ("id", "fault", "response", "rewards")}
    if task == "tools":
        given["tools"] = [{"name": name, **tools[name]} for name in given["tools"]]
    return Probe(entry["id"], task, entry["fault"], entry["response"], passes, spans, given)


def behind_thought(response: str) -> int:
    return response.find("</think>") + len("</think>") if "</think>" in response else 0


def places(response: str, label: Any, start: int = 0) -> list[Span]:
    """Where a label stands from `start` on. Raises ValueError where it does not, or not once."""
    if label == "@tags":
        return [match.span() for match in _TAG.finditer(response)]
    if label == "<end>":
        return [(len(response), len(response) + 1)]
    if isinstance(label, dict):
        ((first, last),) = places(response, label["of"], start)
        at = response.find(label["part"], first, last)
        if at < 0:
            raise ValueError(f"{label['part']!r} is not in {label['of']!r}")
        return [(at, at + len(label["part"]))]
    text, which = label if isinstance(label, list) else (label, None)
    before, after = (r"(?<!\w)" if text[0].isalnum() else ""), r"(?!\w)"
    pattern = before + re.escape(text) + (after if text[-1].isalnum() else "")
    found = [match.span() for match in re.compile(pattern).finditer(response, start)]
    if which == "all" and found:
        return found
    if which is None and len(found) == 1:
        return found
    if isinstance(which, int) and len(found) >= which:
        return [found[which - 1]]
    raise ValueError(f"label {label!r} was found {len(found)} times")


def prompts_of(probes: Sequence[Probe], work: Path) -> list[Prompt]:
    """The probes' prompts; databases are written below `work` where they are not there."""
    make = {"text2sql": _sql, "tools": _tools, "instruct": _instruct}
    write_databases(work)
    return [make[probe.task](probe, work) for probe in probes]


def tasks_of(work: Path, settings: Settings | None = None) -> dict[str, Task]:
    """The tasks by name, whose verifiers judge the probes."""
    settings = settings or load_settings(Path(__file__).parents[1] / "params.yaml")
    own = {name: [f"task={name}"] for name in TASKS}
    own["instruct"] += ["data.source=composed", f"data.path={FOLDER}"]  # constraints of any kind
    return {name: get_task(with_overrides(settings, own[name]), work) for name in TASKS}


def write_databases(work: Path, folder: Path = FOLDER) -> None:
    _, *pieces = _HEADER.split((folder / "databases.sql").read_text())
    for name, script in zip(pieces[::2], pieces[1::2], strict=True):
        file = database_file(work, name)
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(file)) as connection:
                connection.executescript(script)


def verdicts(probe: Probe, prompt: Prompt, tasks: Mapping[str, Task]) -> dict[str, bool]:
    """What the project's verifiers say of a probe: which rewards have their largest value."""
    (judged,) = tasks[probe.task].verify([prompt], [probe.response])
    most = {"correctness": 3.0 if probe.given.get("calls") else 0.0}
    return {r.name: r.value == most.get(r.name, 1.0) for r in judged.rewards
            if r.name in probe.passes}  # fmt: skip


def _sql(probe: Probe, work: Path) -> Prompt:
    given = probe.given
    schema = read_schema(database_file(work, given["database"]), given["database"], 2)
    question = Question(given["database"], given["question"], given["reference"])
    return sql_prompt(
        id=probe.id, split="test", kind="probe", question=question, schema=schema, style="full"
    )


def _tools(probe: Probe, work: Path) -> Prompt:
    given = probe.given
    example = Example(
        tools=tuple(map(tool_from, given["tools"])), turns=(Turn("user", given["request"]),),
        calls=tuple(Call(c["name"], c["parameters"]) for c in given.get("calls", ())),
        text=given.get("text", ""), file="tools.yaml", row=0,
    )  # fmt: skip
    return tools_prompt(example, id=probe.id, split="test", difficulty="", style="full")


def _instruct(probe: Probe, work: Path) -> Prompt:
    given = [
        constraints.constraint(c["id"], {k: v for k, v in c.items() if k != "id"})
        for c in probe.given["constraints"]
    ]
    stated = [constraints.sentence(c.id, c.arguments) for c in given]
    text, lines = listed(probe.given["request"], stated)
    return instruct_prompt(
        [Message("user", text)], list(probe.passes), given, lines, id=probe.id, split="test",
        source="probes", question=probe.given["request"], reference="",
    )  # fmt: skip
