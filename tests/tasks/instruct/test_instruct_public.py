"""Public sets as prompts: how constraints are stated, and which split a prompt is in."""

import json

import pytest

from mrtpo.config import Data, SettingsError, data_folder
from mrtpo.records import Message
from mrtpo.tasks.instruct.layouts import locate, split_files
from mrtpo.tasks.instruct.public import (
    CARVED,
    Unplaced,
    asked_of,
    fingerprint,
    read_pools,
    stated_fault,
)
from mrtpo.tasks.instruct.sources import Checked, Sample
from mrtpo.verifiers.constraints import Constraint, check

COMMA = Constraint("punctuation:no_comma", {})
TITLE = Constraint("detectable_format:title", {})
MULDIMIF = Data(source="muldimif", path="unused")


def sample(text, *checked, bare=None):
    return Sample("s", (Message("user", text),), tuple(checked), bare)


def test_a_prompt_that_states_each_constraint_in_its_own_place_stays_as_it_is():
    given = sample("Tea? No commas. A title.", Checked(COMMA, "No commas."),
                   Checked(TITLE, "A title."))  # fmt: skip
    asked = asked_of(given, MULDIMIF, 0)
    assert asked.messages == given.messages
    assert asked.lines == ("No commas.", "A title.") and asked.constraints == (COMMA, TITLE)


def test_constraints_that_are_told_apart_only_together_are_listed_in_our_words():
    given = sample("Tea? Neither commas nor no title.", Checked(COMMA), Checked(TITLE), bare="Tea?")
    asked = asked_of(given, MULDIMIF, 0)
    text = asked.messages[-1].content
    assert text.startswith("Tea?\n\nRules:\n- ") and text.endswith("\n".join(asked.lines))
    assert stated_fault(asked.messages, asked.lines) == ""
    assert asked.question == "Tea?"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (sample("Tea without commas?", Checked(COMMA)), "without a place of their own"),
        (sample("Tea?", *[Checked(COMMA, "Tea")] * 13), "more than 12 constraints"),
        (
            sample("Tea? A title, no commas.", Checked(COMMA, "no commas"),
                   Checked(TITLE, "A title, no commas.")),
            "without a place of their own",
        ),
    ],
)  # fmt: skip
def test_a_prompt_out_of_which_a_constraint_cannot_be_taken_is_no_prompt(given, reason):
    with pytest.raises(Unplaced, match=reason):
        asked_of(given, MULDIMIF, 0)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["a b", "c"], ""),
        (["a b", "x"], "stated 0 times: 'x'"),
        (["b"], "stated 2 times: 'b'"),
        (["a b", "b c"], "stated inside another: 'b c'"),
        ([""], "stated 0 times"),
    ],
)
def test_the_fault_of_what_is_stated(lines, fault):
    messages = (Message("system", "b"), Message("user", "a b c"))
    assert stated_fault(messages, lines).startswith(fault)
    assert bool(fault) == bool(stated_fault(messages, lines))


def test_a_composed_prompt_has_constraints_that_a_text_keeps_and_depends_on_its_seed():
    data = Data(source="composed", path="unused", fewest_constraints=3, most_constraints=5)
    given = sample("Tell me about tea.", bare="Tell me about tea.")
    asked = asked_of(given, data, 0)
    assert 3 <= len(asked.constraints) == len(asked.lines) <= 5
    assert asked == asked_of(given, data, 0) != asked_of(given, data, 1)
    assert asked.kept is not None
    assert all(check(c.id, c.arguments, asked.kept).passed for c in asked.constraints)


def rlvr(number, text="Use no comma."):
    rule = {"instruction_id": ["punctuation:no_comma"], "kwargs": [None]}
    return {
        "messages": [{"role": "user", "content": f"Question {number}? {text}"}],
        "ground_truth": json.dumps([rule]), "constraint": text,
    }  # fmt: skip


def written(tmp_path, **files):
    for name, rows in files.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Data(source="if_rlvr", path=str(tmp_path), valid_prompts=3, test_prompts=3)


def test_splits_are_carved_by_whole_questions(tmp_path):
    rows = [rlvr(n, text) for n in range(50) for text in ("No comma.", "Use no comma.")]
    data = written(tmp_path, rows=rows)
    pools = read_pools(data, 0)
    asked = {split: {fingerprint(s) for s in found} for split, found in pools.samples.items()}
    assert not asked["train"] & asked["test"] | asked["train"] & asked["valid"]
    assert not asked["valid"] & asked["test"]
    assert [len(asked[split]) for split in ("train", "valid", "test")] == [44, 3, 3]
    assert pools.counts["dropped/train/duplicate"] == 50  # the same constraint, said otherwise
    assert pools.samples == read_pools(data, 0).samples


def test_few_rows_still_give_each_split_one(tmp_path):
    pools = read_pools(written(tmp_path, rows=[rlvr(n) for n in range(CARVED // 2)]), 0)
    assert {split: len(found) for split, found in pools.samples.items()} == {
        "train": 3, "valid": 1, "test": 1,
    }  # fmt: skip


def test_a_test_file_is_the_test_split_and_leaves_training(tmp_path):
    files = {"train": [rlvr(n) for n in range(20)], "test": [rlvr(n) for n in range(18, 22)]}
    pools = read_pools(written(tmp_path, **files), 0)
    assert len(pools.samples["test"]) == 4
    left = {n: pools.counts[f"dropped/{n}/also in test"] for n in ("train", "valid")}
    assert sum(left.values()) == 2
    assert len(pools.samples["train"]) + len(pools.samples["valid"]) == 18


def test_files_of_another_form_are_an_error(tmp_path):
    data = written(tmp_path, rows=[{"prompt": "Tea?", "criteria": [], "ground_truth": {}}])
    with pytest.raises(ValueError, match="its rows are of the form hir, not if_rlvr"):
        read_pools(data, 0)


def test_where_files_are_looked_for(tmp_path):
    (tmp_path / "RECAST-30K" / "data").mkdir(parents=True)
    file = tmp_path / "RECAST-30K" / "data" / "rows.json"
    file.touch()
    assert locate("recast", tmp_path) == tmp_path / "RECAST-30K"
    assert locate("recast", file) == file
    assert split_files(tmp_path / "RECAST-30K") == {"train": [file], "test": []}
    only = tmp_path / "test.json"
    only.touch()
    assert split_files(tmp_path) == {"train": [only], "test": []}


def test_only_instruction_sets_may_be_a_file(tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.touch()
    assert data_folder(Data(source="composed", path=str(file))) == file
    with pytest.raises(SettingsError, match="is not a folder"):
        data_folder(Data(source="spider", path=str(file)))
