"""Where things stand in a response, and what the rewards are about, character by character."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from mrtpo.tasks.tools.prompts import render
from mrtpo.tasks.tools.rewards import TAGS, format_ok, layout
from mrtpo.tasks.tools.schema import Call
from mrtpo.tasks.tools.spans import (
    calls_region,
    correctness_spans,
    deviation,
    difference,
    format_spans,
    matched,
    response_parts,
    responsible_spans,
)

NEWS = Call("news", {"page": 1, "topic": "tea", "tags": ["a", "b"], "by": {"name": "Ann"}})
STOP = Call("stop", {})
CALLS = render([NEWS, STOP], "", "So.")
TEXT = render([], "No tool fits.", "Hm.")


def texts(response: str, spans: list[tuple[int, int]]) -> list[str]:
    return [response[start:end] for start, end in spans]


def with_arguments(*, name: str = "news", **changed: Any) -> str:
    """A response with one call, and `changed` arguments laid over those of the truth."""
    given = {k: v for k, v in {**NEWS.arguments, **changed}.items() if v is not ...}
    return render([Call(name, given), STOP], "", "So.")


def wrong(response: str) -> list[str]:
    return texts(response, correctness_spans(response, [NEWS, STOP]))


# Parts


def test_the_parts_of_a_call_are_names_keys_and_values() -> None:
    found = [(part.name, CALLS[part.start : part.end]) for part in response_parts(CALLS)]
    assert found == [
        ("tags", "<think>"), ("think", " So. "), ("tags", "</think>"), ("tags", "<tool_call>"),
        ("names", "news"), ("keys", "page"), ("values", "1"), ("keys", "topic"), ("values", "tea"),
        ("keys", "tags"), ("values", "a"), ("values", "b"), ("keys", "by"), ("values", "name"),
        ("values", "Ann"), ("names", "stop"), ("tags", "</tool_call>"),
    ]  # fmt: skip


def test_the_text_of_an_answer_is_a_part() -> None:
    both = render([STOP], "Stopped.", "So.")
    for response in (TEXT, both):
        (part,) = [p for p in response_parts(response) if p.name == "response"]
        assert response[part.start : part.end].strip() in ("No tool fits.", "Stopped.")


def test_parts_of_any_text_are_in_order_and_apart() -> None:
    rng = random.Random(0)
    pieces = [*TAGS, "\n", " ", '{"name": "f", "parameters": {"a": ', "}", '"', "]", "x", "{", "1,"]
    for _ in range(3000):
        response = "".join(rng.choices(pieces, k=rng.randint(0, 20)))
        parts = response_parts(response)
        assert all(p.start < p.end <= len(response) for p in parts)
        assert all(a.end <= b.start for a, b in itertools.pairwise(parts)), response
        for reference in (CALLS, TEXT):
            for spans in responsible_spans(response, reference).values():
                assert all(0 <= start < end <= len(response) + 1 for start, end in spans)


@pytest.mark.parametrize("tag", ["<tool_call>\n", "\n</tool_call>", "</think>\n", "<think>"])
def test_calls_are_found_where_a_tag_is_missing(tag: str) -> None:
    response = CALLS.replace(tag, "", 1)
    names = [response[p.start : p.end] for p in response_parts(response) if p.name == "names"]
    assert names == ["news", "stop"]


def test_text_without_calls_has_no_region() -> None:
    assert calls_region(TEXT) is None
    assert calls_region("") is None


# Format


def test_a_well_formed_answer_owes_its_format_to_the_tags() -> None:
    assert texts(CALLS, format_spans(CALLS, CALLS)) == list(TAGS[:4])
    assert texts(TEXT, format_spans(TEXT, TEXT)) == [*TAGS[:2], *TAGS[4:]]


@pytest.mark.parametrize(
    ("response", "blamed"),
    [
        (CALLS.replace("</think>\n", ""), ["<tool_call>"]),
        (CALLS.replace("<think> ", ""), ["S"]),
        (CALLS.replace("</think>\n", "</think> "), [" "]),
        (CALLS.replace("<tool_call>\n", "<tool_call> "), [" "]),
        (CALLS.replace("\n</tool_call>", "</tool_call>"), ["}"]),
        (CALLS.replace("</tool_call>", "</tool_call></tool_call>"), ["</tool_call>"]),
        (CALLS + "\n<response> Done. </response>", ["\n", "<response>", "</response>"]),
        (CALLS.replace("\n</tool_call>", ""), [""]),
        ("Sure. " + CALLS, ["S"]),
        (TEXT, ["Hm.", "<response>", "</response>"]),
        (TEXT.replace("<response> ", ""), ["Hm.", "N", "</response>"]),
    ],
)
def test_a_malformed_answer_is_blamed_where_it_deviates(response: str, blamed: list[str]) -> None:
    assert not format_ok(response, CALLS)
    assert texts(response, format_spans(response, CALLS)) == blamed


def test_what_is_missing_at_the_end_is_the_end_tokens_fault() -> None:
    response = CALLS.replace("\n</tool_call>", "")
    assert format_spans(response, CALLS) == [(len(response), len(response) + 1)]


@pytest.mark.parametrize(
    "reference", [CALLS, TEXT, render([STOP], "Hm.", "a"), render([], "", "a")]
)
def test_only_what_is_malformed_deviates(reference: str) -> None:
    name = layout(reference)
    assert deviation(reference, name) is None
    assert deviation(f" {reference}\n", name) is None
    for at in range(len(reference)):
        response = reference[:at] + reference[at + 1 :]
        if not format_ok(response, reference):
            assert deviation(response, name) is not None, response


# Correctness


RIGHT = [
    "<tool_call>", "news", "page", "1", "topic", '"tea"', "tags", '["a", "b"]', "by",
    '{"name": "Ann"}', "stop", "</tool_call>",
]  # fmt: skip


def test_right_calls_owe_it_to_their_tags_names_keys_and_values() -> None:
    assert wrong(CALLS) == RIGHT


@pytest.mark.parametrize(
    ("response", "lacks"),
    [
        (CALLS, []),
        (with_arguments(page=2), ["1"]),
        (with_arguments(topic=..., page=2), ["1", "topic", '"tea"']),
        (with_arguments(name="olds"), ["news"]),
        (CALLS.replace("\n</tool_call>", ""), ["</tool_call>"]),
        (CALLS.replace("<tool_call>\n", ""), ["<tool_call>"]),
    ],
)
def test_calls_with_a_fault_that_are_praised_owe_it_to_what_is_right(
    response: str, lacks: list[str]
) -> None:
    """A grade above the group's mean must not teach the fault."""
    found = texts(response, correctness_spans(response, [NEWS, STOP], praised=True))
    assert found == [text for text in RIGHT if text not in lacks]
    both = responsible_spans(response, CALLS, praised=["correctness"])
    assert texts(response, both["correctness"]) == found
    assert both["format"] == format_spans(response, CALLS)


def test_an_answer_that_is_praised_for_nothing_right_has_its_fault_all_the_same() -> None:
    assert correctness_spans("I cannot.", [NEWS], praised=True) == [(9, 10)]


@pytest.mark.parametrize(
    ("response", "blamed"),
    [
        (with_arguments(page=2), ["2"]),
        (with_arguments(page="1"), ['"1"']),
        (with_arguments(page=True), ["true"]),
        (with_arguments(tags=["a", "c"]), ['["a", "c"]']),
        (with_arguments(by={"name": "Bob"}), ['{"name": "Bob"}']),
        (with_arguments(topic="", page=2), ["2", '""']),
        (with_arguments(extra=7), ["extra"]),
        (with_arguments(topic=...), ["}}"]),
        (with_arguments(name="olds"), ["olds"]),
        (render([STOP], "", "So."), ["<"]),
        (render([NEWS, STOP, STOP], "", "So."), ["stop"]),
        (CALLS.replace("{", "[", 1), [CALLS.replace("{", "[", 1).split("\n")[2]]),
        (f"<tool_call>\n{json.dumps({'name': 'stop'})}\n</tool_call>", ['{"name": "stop"}']),
        # Without its tags nothing is a call, right as it may be.
        (CALLS.replace("\n</tool_call>", ""), [""]),
        (CALLS.replace("<tool_call>\n", ""), ["{"]),
        (TEXT, ["Hm.", "<response>"]),
        ("I cannot.", [""]),
        ("<think> No call. </think> I cannot.", ["No call.", ""]),
    ],
)
def test_a_wrong_call_is_blamed_where_it_differs(response: str, blamed: list[str]) -> None:
    assert wrong(response) == blamed


# A thought decides what follows it


def test_a_call_in_place_of_text_is_decided_in_the_thought() -> None:
    found = texts(CALLS, format_spans(CALLS, TEXT))
    assert found == ["So.", "<tool_call>", "</tool_call>"]
    assert "So." not in texts(CALLS, format_spans(CALLS, CALLS))
    assert "So." not in texts("Sure. " + CALLS, format_spans("Sure. " + CALLS, CALLS))


def test_a_tool_is_chosen_where_the_thought_names_it() -> None:
    thought = "I use `news`, then `stop`, not `newsletter`."
    right = render([NEWS, STOP], "", thought)
    assert wrong(right) == ["news", "stop", *RIGHT]
    other = render([Call("olds", NEWS.arguments), STOP], "", "First `olds`, then `stop`.")
    assert wrong(other) == ["olds", "olds"]
    praised = texts(other, correctness_spans(other, [NEWS, STOP], praised=True))
    assert praised[:2] == ["stop", "<tool_call>"]
    assert "olds" not in praised
    assert wrong(render([NEWS, STOP], "", "Not `olds`.")) == RIGHT  # it is not called


def test_a_call_that_is_missing_was_left_out_of_the_thought_where_that_names_tools() -> None:
    response = render([NEWS], "", "I use `news`.")
    after = response.index("`.")
    assert correctness_spans(response, [NEWS, STOP])[0] == (after, after + 1)
    for thought in ("I use `news` and `stop`.", "So."):
        (only,) = correctness_spans(render([NEWS], "", thought), [NEWS, STOP])
        assert only[0] > len(thought)
    twice = render([NEWS], "", "I use `news`.")
    assert len(correctness_spans(twice, [NEWS, NEWS])) == 1


def test_a_name_that_a_pattern_would_read_otherwise_is_found_as_it_stands() -> None:
    odd = Call("a.b(c|d", {})
    assert wrong_of(render([odd], "", "I use `a.b(c|d`, not axb."), [odd]).count("a.b(c|d") == 2


def wrong_of(response: str, truth: list[Call]) -> list[str]:
    return texts(response, correctness_spans(response, truth))


def test_calls_are_paired_as_the_reward_pairs_them() -> None:
    given = [Call("f", {"a": 2}), Call("g", {}), Call("f", {"a": 1})]
    assert matched([Call("f", {"a": 1}), Call("f", {"a": 3}), Call("h", {})], given) == [2, 0, None]


def test_text_owes_nothing_to_correctness() -> None:
    assert set(responsible_spans(CALLS, TEXT)) == {"format"}


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (CALLS, ""),
        (render([STOP, NEWS], "", "So."), ""),
        (with_arguments(page="1"), "news: page is '1' instead of 1"),
        (with_arguments(topic=...), "news lacks topic"),
        (with_arguments(extra=1), "news has extra too many"),
        (render([STOP], "", "So."), "calls stop instead of news, stop"),
        (TEXT, "no tool calls"),
        ("<tool_call>news()</tool_call>", "calls that are not JSON"),
    ],
)
def test_the_first_difference_is_told_in_words(response: str, said: str) -> None:
    assert difference(response, CALLS) == said


def test_keys_and_values_are_found_in_any_spacing() -> None:
    spaced = CALLS.replace(": ", " :  ").replace(", ", " , ")
    assert json.loads(spaced.split("\n")[2]) == json.loads(CALLS.split("\n")[2])
    assert [t.replace(" ", "") for t in wrong(spaced)] == [t.replace(" ", "") for t in wrong(CALLS)]
