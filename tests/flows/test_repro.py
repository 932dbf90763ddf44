from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from flows.repro import NotReady, Place, StageFailed, graph, missing_inputs, reproduce
from mrtpo.config import TaskName

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def place(project: Path) -> Place:
    return Place(project, project / "state", f"sqlite:///{project / 'mlflow.db'}", "a-run", "id-1")


def test_the_graph_is_read_from_dvc_yaml_in_its_order(project: Path) -> None:
    assert list(graph(project)) == ["prepare", "train", "report"]


def test_a_stage_runs_once_and_then_is_up_to_date(place: Place) -> None:
    lines: list[str] = []
    assert reproduce("prepare", place, lines.append) is True
    assert reproduce("prepare", place, lines.append) is False
    assert lines == ["Running stage 'prepare':", "Stage 'prepare' didn't change, skipping"]


def test_progress_arrives_as_events_and_the_stage_knows_its_run(place: Place) -> None:
    (place.folder / "stage.py").write_text(
        "import os, json\n"
        "names = 'MRTPO_RUN_NAME', 'PREFECT_FLOW_RUN_ID', 'MLFLOW_TRACKING_URI', 'MRTPO_STATE'\n"
        "event = {'step': 1, 'total': 2, 'seen': [os.environ[n] for n in names]}\n"
        "open(os.environ['MRTPO_EVENTS'], 'a').write(json.dumps(event) + '\\n')\n"
        "os.makedirs('data', exist_ok=True)\n"
        "open('data/prompts', 'w').write('x')\n"
    )
    place.log_file("prepare", "events.jsonl").parent.mkdir(parents=True)
    place.log_file("prepare", "events.jsonl").write_text('{"half a line of a killed att')
    events: list[dict[str, Any]] = []
    reproduce("prepare", place, on_event=events.append)
    state = str(place.state)
    assert events == [
        {"step": 1, "total": 2, "seen": ["a-run", "id-1", place.tracking, state]}
    ]  # fmt: skip


def test_a_failing_stage_says_what_the_stage_said(
    place: Place, set_params: Callable[[str, str], None]
) -> None:
    set_params("seed: 0 ", "seed: 13 ")
    reproduce("prepare", place)
    with pytest.raises(StageFailed, match=r"train failed \(exit 1\)") as caught:
        reproduce("train", place)
    assert "train: params.yaml: seed 13 brings bad luck" in str(caught.value)
    assert str(place.log_file("train")) in str(caught.value)
    assert not caught.value.killed


def test_a_stage_that_the_system_killed_is_told_from_one_that_failed(
    place: Place, set_params: Callable[[str, str], None]
) -> None:
    set_params("seed: 0 ", "seed: 14 ")
    reproduce("prepare", place)
    with pytest.raises(StageFailed) as caught:
        reproduce("train", place)
    assert caught.value.killed


def test_a_stage_whose_input_is_not_there_names_it_and_what_to_run(place: Place) -> None:
    with pytest.raises(NotReady, match=r"train reads data/prompts.*dvc repro train"):
        reproduce("train", place)


def test_what_a_stage_reads_may_be_named_by_a_setting(
    place: Place, set_params: Callable[[str, str], None]
) -> None:
    reproduce("prepare", place)
    set_params("task: text2sql ", "task: tools ")
    with pytest.raises(NotReady, match="train reads tasks/tools, not there"):
        reproduce("train", place)


@pytest.mark.parametrize("task", get_args(TaskName))
def test_all_that_stages_read_is_the_projects_own_or_made_by_a_stage(
    task: str, tmp_path: Path
) -> None:
    """With the real `dvc.yaml`, on a folder that holds the project's files and nothing else."""
    for name in ("mrtpo", "flows"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "dvc.yaml").symlink_to(REPOSITORY / "dvc.yaml")
    params = (REPOSITORY / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(params.replace("task: text2sql ", f"task: {task} "))
    made: set[str] = set()
    for stage, about in graph(tmp_path).items():
        assert set(missing_inputs(stage, tmp_path)) <= made, stage
        outputs = [*about["outs"], *about.get("metrics", [])]
        made |= {name if isinstance(name, str) else next(iter(name)) for name in outputs}
    assert missing_inputs("prepare", tmp_path) == []


def test_a_stage_over_its_time_is_stopped_and_resumes(
    place: Place,
    set_params: Callable[[str, str], None],
    processes_of: Callable[..., list[str]],
) -> None:
    set_params("  kl: 0.0 ", "  kl: 0.1 ")  # makes the stage start a process of its own
    set_params("  seconds: 0.01", "  seconds: 0.2")
    reproduce("prepare", place)
    steps: list[int] = []

    def note(event: dict[str, Any]) -> None:
        steps.append(event["step"])

    with pytest.raises(TimeoutError):
        reproduce("train", place, on_event=note, seconds=4.0)
    assert processes_of(place.folder, patience=5.0) == []
    reached = steps[-1]
    assert 1 <= reached < 20
    lines: list[str] = []
    assert reproduce("train", place, lines.append, note)
    assert any(line.startswith("resumed at") for line in lines)
    assert steps[-1] == 20
    assert processes_of(place.folder, patience=5.0) == []
