"""Rows of MulDimIF's files."""

import json

import pytest

from mrtpo.tasks.instruct.muldimif import Row, Stated, read_muldimif

ROW = {
    "id": 7,
    "conversations": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Ask"},
        {"role": "assistant", "content": "Answer"},
    ],
    "constraints": [["Length", "Words", "At most 3 words"]],
    "constraint_pattern": "Example",
}


def read(tmp_path, row) -> list[Row]:
    file = tmp_path / "train.json"
    file.write_text(json.dumps([ROW, row]))
    return list(read_muldimif(file))


def test_rows_with_and_without_difficulty(tmp_path):
    first, second = read(tmp_path, {**ROW, "difficulty": "Level 3"})
    assert first.constraints == (Stated("Length", "Words", "At most 3 words"),)
    assert (first.id, first.prompt, first.pattern, first.level) == ("7", "Ask", "Example", "")
    assert [message.role for message in first.messages] == ["system", "user"]
    assert second.level == "Level 3"


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"id": None}, "field id: expected text"),
        ({"conversations": "Ask"}, "field conversations: expected a list"),
        ({"conversations": [{"role": "user"}]}, r"field conversations\[0\]: expected a role"),
        ({"conversations": []}, "field conversations: no message of the user"),
        ({"constraints": []}, "field constraints: expected a list, not empty"),
        ({"constraints": [["Length", "Words"]]}, r"field constraints\[0\]: expected category"),
        ({"constraint_pattern": "Other"}, "field constraint_pattern: 'Other'; expected Example"),
    ],
)
def test_faults_name_file_row_and_field(tmp_path, changed, fault):
    with pytest.raises(ValueError, match=rf"train\.json: row 1 \(from 0\): {fault}"):
        read(tmp_path, {**ROW, **changed})
