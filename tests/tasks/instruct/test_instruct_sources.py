"""Readers of training sets of instruction following."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mrtpo.tasks.instruct.layouts import locate, split_files
from mrtpo.tasks.instruct.sources import form_of, read_samples
from mrtpo.verifiers.constraints import Constraint

COMMA = Constraint("punctuation:no_comma", {})
TITLE = Constraint("detectable_format:title", {})
NUMBERS = Constraint("count:numbers", {"N": 2})


def read(tmp_path, *rows):
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_samples([file])


def asked(text):
    return [{"role": "user", "content": text}]


def rlvr(truth, text="What is tea? Use no comma.", constraint="Use no comma.", **more):
    return {
        "key": "k1", "messages": asked(text), "ground_truth": truth, "dataset": "ifeval",
        "constraint_type": "x", "constraint": constraint, **more,
    }  # fmt: skip


RULE = {"instruction_id": ["punctuation:no_comma"], "kwargs": [None]}
TWO = {
    "instruction_id": ["punctuation:no_comma", "count:numbers"],
    "kwargs": [{"N": None}, {"N": 2}],
}


@pytest.mark.parametrize(
    "truth",
    [str([RULE]), str([json.dumps(RULE)]), json.dumps([RULE]), json.dumps(RULE), [str([RULE])]],
)
def test_the_truth_of_if_rlvr_in_each_of_its_forms(tmp_path, truth):
    found = read(tmp_path, rlvr(truth))
    [sample] = found.samples
    assert (found.form, sample.id, sample.bare) == ("if_rlvr", "k1", "What is tea?")
    [checked] = sample.constraints
    assert (checked.constraint, checked.stated) == (COMMA, "Use no comma.")


def test_several_constraints_are_not_told_apart_in_the_prompt(tmp_path):
    [sample] = read(tmp_path, rlvr(str([TWO]))).samples
    assert [c.constraint for c in sample.constraints] == [COMMA, NUMBERS]
    assert {c.stated for c in sample.constraints} == {""}


def test_the_older_form_names_a_function(tmp_path):
    truth = json.dumps({"func_name": "validate_no_commas", "N": None})
    [sample] = read(tmp_path, rlvr(truth, key=None)).samples
    assert [c.constraint for c in sample.constraints] == [COMMA]
    assert sample.id == "0"


def test_what_cannot_be_checked_is_counted_and_the_rest_kept(tmp_path):
    unknown = {"instruction_id": ["punctuation:no_comma", "taste:good"], "kwargs": [None, {}]}
    found = read(
        tmp_path,
        rlvr(str([unknown])),
        rlvr(str([{"instruction_id": ["count:numbers"], "kwargs": [None]}])),
        rlvr("[" + "1," * 20_000 + "]"),
        {**rlvr(str([RULE])), "messages": [{"role": "assistant", "content": "Tea."}]},
    )
    assert [c.constraint for c in found.samples[0].constraints] == [COMMA]
    assert len(found.samples) == 1
    assert found.unchecked["unknown constraint 'taste:good'"] == 1
    assert found.dropped == {
        "nothing that can be checked": 1,
        "ground_truth of more than 20000 characters": 1,
        "no message of the user": 1,
    }


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (rlvr("__import__('os')"), "field ground_truth: neither JSON nor a Python literal"),
        (rlvr("(" * 9_000), "field ground_truth: neither"),
        (rlvr("[3]"), "field ground_truth: expected an object, found int"),
        (rlvr(None), "field ground_truth: expected an object, found NoneType"),
        (rlvr(str([{"kwargs": []}])), "field ground_truth.instruction_id: expected a list"),
        (rlvr(str([{**RULE, "kwargs": []}])), "field ground_truth.kwargs: expected a list, one"),
        (rlvr(str([{**RULE, "kwargs": [3]}])), r"field ground_truth.kwargs\[0\]: expected an obj"),
        ({**rlvr(str([RULE])), "messages": "Tea?"}, "field messages: expected a list"),
        ({**rlvr(str([RULE])), "messages": [{"role": "user"}]}, r"field messages\[0\]: expected"),
    ],
)
def test_what_is_malformed_names_file_row_and_field(tmp_path, row, fault):
    with pytest.raises(ValueError, match=rf"train\.jsonl: row 1 \(from 0\): {fault}"):
        read(tmp_path, rlvr(str([RULE])), row)


def test_parquet_of_several_files_in_a_folder(tmp_path):
    (tmp_path / "data").mkdir()
    for shard in range(2):
        table = pa.Table.from_pylist([rlvr(str([TWO]), key=f"k{shard}")])
        pq.write_table(table, tmp_path / "data" / f"train-0000{shard}.parquet")
    pq.write_table(pa.Table.from_pylist([{"a": 1}]), tmp_path / "data" / "test.parquet")
    files = split_files(tmp_path)
    found = read_samples(files["train"]).samples
    assert [(s.id, Path(s.file).name, s.row) for s in found] == [
        ("k0", "train-00000.parquet", 0), ("k1", "train-00001.parquet", 0),
    ]  # fmt: skip
    assert [file.name for file in files["test"]] == ["test.parquet"]


def test_a_folder_without_files_and_a_file_of_no_known_form(tmp_path):
    with pytest.raises(ValueError, match=r"no \*\.json, .* is there, nor below recast, RECAST-30K"):
        locate("recast", tmp_path)
    file = tmp_path / "a.jsonl"
    file.write_text('{"question": 1}\n')
    with pytest.raises(ValueError, match="fields question are of no known form"):
        form_of(file)


def test_a_set_of_which_nothing_is_of_use_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"no row is of use \(nothing that can be checked: 1\)"):
        read(tmp_path, rlvr(str([{"instruction_id": ["a:b"], "kwargs": [None]}])))


def test_ifeval_rows(tmp_path):
    row = {"key": 7, "prompt": "Tea?", "instruction_id_list": ["count:numbers"],
           "kwargs": [{"N": 2.0, "sep": None}]}  # fmt: skip
    [sample] = read(tmp_path, row).samples
    assert (sample.id, sample.bare) == ("7", None)
    assert [c.constraint for c in sample.constraints] == [NUMBERS]


def muldimif(prompt, *constraints):
    return {
        "id": "m", "conversations": asked(prompt), "constraint_pattern": "Listing",
        "constraints": [list(c) for c in constraints],
    }  # fmt: skip


def test_muldimif_rows_with_their_list_told_apart(tmp_path):
    words, tone = ("Length", "Words", "At most 9 words"), ("Tone", "Humour", "Be funny")
    listed = "Tea?\nKeep to these rules:\n 1. At most 9 words.\n 2. Be funny."
    found = read(tmp_path, muldimif(listed, words, tone), muldimif("Tea? At most 9 words.", words))
    first, second = found.samples
    kept = Constraint("muldimif:Length_Words", {"text": "At most 9 words"})
    assert [(c.constraint, c.stated) for c in first.constraints] == [(kept, " 1. At most 9 words.")]
    assert (first.bare, second.bare) == ("Tea?", None)
    assert second.constraints[0].stated == "At most 9 words"
    assert found.unchecked == {"unknown kind 'Tone', 'Humour'": 1}


def test_recast_rows(tmp_path):
    row = {
        "id": "r", "winner_prompt": "Tea? In 80-120 words. Say tea once. No commas, please.",
        "added_constraint_from_rule": {
            "Length": ["In 80-120 words."], "Keyword": ["Say tea once."],
            "No_Commas": ["No commas"],
        },
        "added_constraint_from_LLM": {"Style": ["Be warm.", "Be brief."]},
        "rule_evaluate_dict": {
            "word_length": {
                "func": "evaluate_word_length", "func_input": ["x", [80, 120], None, None, 2],
            },
            "keyword": {"func": "evaluate_keyword", "func_input": ["x", {"tea": 1}, {}]},
            "no_commas": {"func": "contains_no_punctuation", "func_input": ["x"]},
            "format": {"func": "evaluate_format", "func_input": [None, "x"]},
        },
    }  # fmt: skip
    found = read(tmp_path, row)
    [sample] = found.samples
    assert [(c.constraint.id, c.stated) for c in sample.constraints] == [
        ("count:word_count_range", "In 80-120 words."),
        ("exact:text_frequency", "Say tea once."),
        ("punctuation:no_comma", "No commas"),
    ]
    assert found.unchecked == {"asks for a judge": 2, "unknown function 'evaluate_format'": 1}
    with pytest.raises(ValueError, match=r"field rule_evaluate_dict\.keyword: expected func"):
        read(tmp_path, {**row, "rule_evaluate_dict": {"keyword": {"func": "x"}}})


def hir(truth, criteria=("Use no comma.", "Give it a title."), prompt="Tea?"):
    return {"id": 3, "source": "type1", "prompt": prompt, "criteria": list(criteria),
            "ground_truth": truth}  # fmt: skip


def test_hir_rows_whose_criteria_are_not_in_the_prompt_get_a_list(tmp_path):
    truth = {
        "instruction_id_list": ["punctuation:no_comma", "detectable_format:title"],
        "kwargs": [{}, {}],
    }
    code = {"checker": ["[rule]x", "[llm]y"], "functions": ["import os", "z"]}
    found = read(tmp_path, hir(truth), hir(code))
    [sample] = found.samples
    assert sample.messages[-1].content == "Tea?\n\nRules:\n- Use no comma.\n- Give it a title."
    assert [(c.constraint, c.stated) for c in sample.constraints] == [
        (COMMA, "- Use no comma."), (TITLE, "- Give it a title.")
    ]  # fmt: skip
    assert sample.bare == "Tea?"
    assert found.unchecked == {"code, or asks for a judge": 2}


def test_hir_rows_whose_criteria_are_in_the_prompt_stay_as_they_are(tmp_path):
    truth = {
        "constraints": [["Length", "Words", "At most 9 words"]],
        "constraint_pattern": "Listing",
    }
    [sample] = read(tmp_path, hir(truth, ["At most 9 words"], "Tea? At most 9 words!")).samples
    assert sample.messages[-1].content == "Tea? At most 9 words!"
    assert (sample.constraints[0].stated, sample.bare) == ("At most 9 words", None)
    with pytest.raises(ValueError, match="field criteria: 2, but 1 rules"):
        read(tmp_path, hir(truth))


@pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")
@pytest.mark.parametrize(
    ("file", "form", "rows", "bare", "again"),
    [
        ("muldimif/test.json", "muldimif", 1200, 331, 0),
        ("ifeval/input_data.jsonl", "ifeval", 541, 0, 1),
        ("ifbench/IFBench_test.jsonl", "ifeval", 300, 0, 0),
    ],
)
def test_real_files(file, form, rows, bare, again):
    found = read_samples([Path(os.environ["MRTPO_DATA"]) / file])
    assert (found.form, len(found.samples), found.dropped) == (form, rows, {})
    assert sum(sample.bare is not None for sample in found.samples) == bare
    assert found.unchecked.total() == found.unchecked["the same once more"] == again
