"""IFEval's kinds about form, and those that ask for a copy."""

import pytest
from constraint_cases import Case, examine, named

from mrtpo.verifiers.constraints import check
from mrtpo.verifiers.constraints.copies import ONLY_SENTENCE

CASES = [
    Case(
        "detectable_format:number_bullet_lists", "* one\n  - two\nand", "* one\n* two\n- three",
        {"num_bullets": 2}, fulfils=["* one", "  - two"], breaks=["- three"],
    ),
    Case(
        "detectable_format:number_highlighted_sections", "*one* and **two**", "*one* and ** **",
        {"num_highlights": 2}, fulfils=["*one*", "**two**"],
    ),
    Case(
        "detectable_format:multiple_sections", "Day 1\nx\nDay 2\ny", "Day 1\nx\nDay two",
        {"section_spliter": "Day", "num_sections": 2}, fulfils=["Day 1", "Day 2"],
    ),
    Case("detectable_format:json_format", '```json\n{"a": [1]}\n```', '{"a": [1}'),
    Case("detectable_format:title", "<<A song>>\nLa", "<<>>\n<< \n>>", fulfils=["<<A song>>"]),
    Case(
        "detectable_format:constrained_response", "Well. My answer is no.", "My answer: no.",
        fulfils=["My answer is no."],
    ),
    Case(
        "detectable_content:number_placeholders", "Dear [name], [date]", "Dear [name\n], [date]",
        {"num_placeholders": 2}, fulfils=["[name]", "[date]"],
    ),
    Case(
        "detectable_content:postscript", "Bye.\np. s. Call me.", "Bye.\nps Call me.",
        {"postscript_marker": "P.S."}, fulfils=["p. s. Call me."],
    ),
    Case(
        "combination:two_responses", "Yes.\n******\nNo.", "Yes.\n******\nYes.",
        fulfils=["******"], breaks=["******"],
    ),
    Case(
        "startend:end_checker", 'So. "That is ALL."', "That is all. Bye now, friend.",
        {"end_phrase": "That is all."}, fulfils=["That is ALL."], breaks=["now, friend."],
    ),
    Case("startend:quotation", ' "All of it." ', '"All" of it.', fulfils=['"', '"'], breaks=["."]),
    Case("punctuation:no_comma", "None; here.", "Here, and, there", breaks=[",", ","]),
    Case(
        "combination:repeat_prompt", "write a Poem. Here it is:", "Here is a poem: la la",
        {"prompt_to_repeat": "Write a poem."}, fulfils=["write a Poem."], breaks=["Here is a poe"],
    ),
    Case(
        "repeat:repeat_change", "Sing a song.", "Write a song.",
        {"prompt_to_repeat": "Write a song."}, fulfils=["Sing a song."], breaks=["Write a song."],
    ),
    Case(
        "repeat:repeat_simple", ONLY_SENTENCE.upper(), "Only this.",
        fulfils=[ONLY_SENTENCE.upper()], breaks=["Only this."],
    ),
    Case(
        "repeat:repeat_span", " te a S ", "te a song",
        {"prompt_to_repeat": "Write a song", "n_start": 3, "n_end": 8},
        fulfils=["te a S"], breaks=["te a song"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_tells_good_from_bad_and_where(case):
    examine(case)


@pytest.mark.parametrize(
    ("text", "bullets"),
    [
        ("* a\n\n\n* b", 2), ("**a**\n* b", 1), ("*\nb", 1), ("a * b - c", 0), (" \n \t-a", 1),
        ("*", 0), ("--- \n---", 2), ("\u2003* a", 1), ("* a\r\n* b", 2), ("\n\n*a\n*b\n", 2),
    ],
)  # fmt: skip
def test_bullets_are_counted_as_in_the_original(text, bullets):
    id = "detectable_format:number_bullet_lists"
    assert check(id, {"num_bullets": bullets}, text).passed is True
    assert check(id, {"num_bullets": bullets + 1}, text).passed is False


@pytest.mark.parametrize("marker", ["P.P.S", "P.S.", "N.B."])
def test_a_postscript_begins_with_its_marker(marker):
    given = {"postscript_marker": marker}
    assert check("detectable_content:postscript", given, f"x\n{marker} y").passed is True
    assert check("detectable_content:postscript", given, "x y").passed is False


def test_two_responses_are_two():
    id = "combination:two_responses"
    assert check(id, {}, "******a******b******").passed is True
    assert check(id, {}, "a******b******c").passed is False
    assert check(id, {}, "a************b").passed is False  # a blank one between
    assert check(id, {}, "a").passed is False
