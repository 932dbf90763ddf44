"""The hand-written probes: their verdicts are the verifiers', their labels are in the text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchmarks.probe_set import (
    FOLDER,
    TASKS,
    places,
    prompts_of,
    read_probes,
    tasks_of,
    verdicts,
)
from mrtpo.contexts import chosen_information, informed


def test_there_are_twenty_probes_of_each_task_with_faults_and_without():
    probes = read_probes()
    counts = Counter(probe.task for probe in probes)
    assert len(probes) >= 60 and all(counts[task] >= 20 for task in TASKS)
    for task in TASKS:
        labelled = Counter(
            probe.passes[name] for probe in probes if probe.task == task for name in probe.spans
        )
        assert labelled[True] >= 10 and labelled[False] >= 10


def test_the_verifiers_agree_with_every_verdict_and_spans_of_passes_cover_the_labels(
    tmp_path: Path,
):
    probes, tasks = read_probes(), tasks_of(tmp_path)
    try:
        for probe, prompt in zip(probes, prompts_of(probes, tmp_path), strict=True):
            assert verdicts(probe, prompt, tasks) == probe.passes, probe.id
            known = tasks[probe.task].spans(prompt, probe.response)
            for name, labels in probe.spans.items():
                if probe.passes[name] and name in known:
                    inside = {i for span in known[name] for i in range(*span)}
                    missed = {i for span in labels for i in range(*span)} - inside
                    assert not "".join(probe.response[i] for i in missed).strip(), (probe.id, name)
    finally:
        for task in tasks.values():
            task.close()


def test_each_rewards_information_can_be_left_out_of_each_prompt(tmp_path: Path):
    probes = read_probes()
    for probe, prompt in zip(probes, prompts_of(probes, tmp_path), strict=True):
        chosen = chosen_information(prompt, {})
        assert set(chosen) == set(probe.passes) or probe.given.get("text")
        everything = informed(prompt, chosen, set(chosen))
        for name in chosen:
            assert informed(prompt, chosen, set(chosen) - {name}) != everything


def test_a_label_is_found_by_whole_words_occurrence_part_tag_and_end():
    text = "<think> age </think> manage age, age! Berlin"
    with pytest.raises(ValueError, match="3 times"):
        places(text, "age")
    assert places(text, ["age", 1], 20) == [(28, 31)]
    assert places(text, ["age", "all"], 20) == [(28, 31), (33, 36)]
    assert places(text, {"part": "lin", "of": "Berlin"}) == [(41, 44)]
    assert places(text, "@tags") == [(0, 7), (12, 20)]
    assert places(text, "<end>") == [(44, 45)]
    for wrong in ("Berl", ["age", 4], {"part": "x", "of": "Berlin"}):
        with pytest.raises(ValueError):
            places(text, wrong)


def test_an_entry_that_is_wrong_is_named(tmp_path: Path):
    content = yaml.safe_load((FOLDER / "text2sql.yaml").read_text())
    for fault, match in (
        ({"rewards": {"format": ["pas"]}}, "sql-unknown-table: format: verdict"),
        ({"rewards": {"format": ["pass", "nowhere"]}}, "sql-unknown-table: format: label"),
        ({"id": "sql-unknown-column"}, "same id: sql-unknown-column"),
    ):
        for task in ("tools", "instruct"):
            (tmp_path / f"{task}.yaml").write_text((FOLDER / f"{task}.yaml").read_text())
        changed = [content[0] | fault, *content[1:]]
        (tmp_path / "text2sql.yaml").write_text(yaml.safe_dump(changed))
        with pytest.raises(ValueError, match=match):
            read_probes(tmp_path)
