"""Prompts of any set, to compose constraints onto."""

import json

import pytest

from mrtpo.tasks.instruct.questions import read_questions


def read(tmp_path, *rows):
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_questions([file])


TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Tea? "}]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"prompt": " Tea? ", "instruction": "no"}, "Tea?"),
        ({"question": "Tea?"}, "Tea?"),
        ({"instruction": "Tea?", "input": "green"}, "Tea?\n\ngreen"),
        ({"instruction": "Tea?", "input": ""}, "Tea?"),
        ({"messages": TURNS}, "Tea?"),
        ({"conversations": [*TURNS, {"role": "assistant", "content": "Yes."}]}, "Tea?"),
    ],
)
def test_the_prompt_of_a_row(tmp_path, row, text):
    [sample] = read(tmp_path, row).samples
    assert (sample.bare, sample.row, sample.constraints) == (text, 0, ())
    assert sample.messages[-1].role == "user"


def test_what_is_left_without_the_constraints_of_a_training_set(tmp_path):
    def row(text):
        return {
            "id": "1", "conversations": [{"role": "user", "content": text}],
            "constraints": [["Length", "Words", "At most 9 words"]],
            "constraint_pattern": "Listing",
        }  # fmt: skip

    found = read(tmp_path, row("Tea?\nRules:\n1. At most 9 words"), row("Tea, in 9 words?"))
    [sample] = found.samples
    assert (sample.bare, sample.messages[-1].content, sample.row) == ("Tea?", "Tea?", 0)
    assert found.dropped == {"it has constraints of its own": 1}


def test_a_row_without_a_prompt_and_a_set_without_one_are_errors(tmp_path):
    with pytest.raises(ValueError, match=r"row 1 \(from 0\): none of the fields prompt.*has text"):
        read(tmp_path, {"prompt": "Tea?"}, {"text": "Tea?"})
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): field prompt: empty"):
        read(tmp_path, {"prompt": " "})
    with pytest.raises(ValueError, match=r"no row is of use \(no message of the user: 1\)"):
        read(tmp_path, {"messages": TURNS[:1]})
