"""Lists of constraints at the end of a prompt."""

import pytest

from mrtpo.tasks.instruct.listing import listed, without_list

PROMPT = (
    "What is tea?\nThe output must follow the following rules:\n    1. Be kind.\n    2. No comma.\n"
)


def test_each_line_stands_in_the_text_once_and_can_be_taken_out():
    text, lines = listed("What is tea?\n", ["Be kind.", "Use  no\ncomma."])
    assert text == "What is tea?\n\nRules:\n- Be kind.\n- Use no comma."
    assert lines == ["- Be kind.", "- Use no comma."]
    assert text.replace(lines[0], "") == "What is tea?\n\nRules:\n\n- Use no comma."


@pytest.mark.parametrize(
    ("prompt", "sentences"),
    [("Tea?", ["Be kind.", "Be kind."]), ("- Be kind. Why?", ["Be kind."]),
     ("Tea?", ["Be kind", "Be kind to all"])],
)  # fmt: skip
def test_what_would_stand_there_twice_is_refused(prompt, sentences):
    with pytest.raises(ValueError, match="'Be kind"):
        listed(prompt, sentences)


def test_a_numbered_list_of_just_the_constraints_is_taken_off():
    bare, lines = without_list(PROMPT, ["No comma", "Be kind."])
    assert bare == "What is tea?"
    assert lines == ["    2. No comma.", "    1. Be kind."]


@pytest.mark.parametrize(
    ("prompt", "sentences"),
    [
        (PROMPT, ["Be kind"]),
        (PROMPT, ["Be kind", "No dash"]),
        (PROMPT + "And be quick.", ["Be kind", "No comma"]),
        ("1. Be kind.\n2. No comma.", ["Be kind", "No comma"]),
        ("What is tea? Be kind. No comma.", ["Be kind", "No comma"]),
    ],
)
def test_any_other_prompt_is_left_alone(prompt, sentences):
    assert without_list(prompt, sentences) is None
