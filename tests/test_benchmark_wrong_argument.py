"""One wrong argument: the responses that are written down, and what is read off their replay."""

from benchmarks.wrong_argument import looked_at, summary, with_wrong_integer
from mrtpo.tasks.tools.prompts import render
from mrtpo.tasks.tools.rewards import correctness, format_ok, reference_calls
from mrtpo.tasks.tools.schema import Call


def test_one_integer_is_wrong_and_all_else_as_it_was():
    calls = [Call("a", {"x": "3", "flag": True}), Call("b", {"n": 2, "m": 5})]
    reference = render(calls, "", "Both.")
    wrong = with_wrong_integer(reference)
    assert wrong is not None and format_ok(wrong, reference)
    assert reference_calls(wrong) == [calls[0], Call("b", {"n": 3, "m": 5})]
    assert correctness(wrong, reference) < 3.0
    assert wrong.split("</think>")[0] == reference.split("</think>")[0]


def test_a_reference_without_an_integer_gives_no_response():
    assert with_wrong_integer(render([Call("a", {"x": "3", "flag": True})], "", "One.")) is None
    assert with_wrong_integer(render([], "Which?", "None.")) is None


def test_the_share_of_responsible_tokens_is_held_against_an_even_one():
    row = {
        "prompt_id": "p", "skipped": False, "distance": [0.0, 3.0, 1.0, 0.0],
        "weight": [0.1, 1.0, 0.4, 0.1], "responsible": [False, True, False, False],
    }  # fmt: skip
    assert looked_at(row) == {"prompt": "p", "share": 0.75, "even": 0.25, "first": True}
    assert looked_at({**row, "distance": [0.0] * 4}) is None
    assert looked_at({**row, "skipped": True}) is None
    text = summary([looked_at(row), {"share": 0.25, "even": 0.25, "first": False}], 3)
    assert "Of 3 responses" in text and "a distance in 2" in text
    assert "holds 50.0% of the" in text and "in 50%." in text
