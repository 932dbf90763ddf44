"""IFBench's kinds about form."""

import random

import pytest
from constraint_cases import Case, examine, named, need_data

from mrtpo.verifiers.constraints import check

CASES = [
    Case(
        "format:parentheses", "x (a [b {c (d [e])}]) y", "(a [b {c (d)}])",
        fulfils=["(a [b {c (d [e]"],
    ),
    Case(
        "format:quotes", "He: \"she: 'they: \"no\"'\" so", "He: \"she: 'no'\"",
        fulfils=["\"she: 'they: \"no\"'\""],
    ),
    Case(
        "format:options", "Maybe.", "Maybe yes.", {"options": "yes/no/maybe"},
        fulfils=["Maybe."], breaks=["Maybe yes."],
    ),
    Case("format:newline", "one\n\ntwo.\n-", "one two\nthree", breaks=["one two"]),
    Case(
        "format:line_indent", "a\n b\n  c", "a\n b\n b", fulfils=[" ", "  "], breaks=[" "],
    ),
    Case("format:quote_unquote", '"Hi" is a greeting.', 'He said "hi".', breaks=['"']),
    Case("format:list", "!?!? one\n!?!? two", "!?!? one", {"sep": "!?!?"}, fulfils=["!?!?"] * 2),
    Case(
        "format:thesis", "<i>It is so.</i> Since", "<i>It is so.</i>", fulfils=["<i>It is so."],
    ),
    Case(
        "format:sub-bullets", "* a\n  - b", "* a\n - b\n* c",
        fulfils=["*", "-"], breaks=["*"],
    ),
    Case(
        "format:no_bullets_bullets", "We go. They go.\n* a\n* b", "We go.\n* a\n* b",
        fulfils=["* a", "* b"],
    ),
    Case("format:title_case", "We Saw The NASA", "We saw The sea", breaks=["saw", "sea"]),
    Case(
        "format:output_template", "My Answer: a My Conclusion: b Future Outlook: c", "My Answer: a",
        fulfils=["My Answer:", "My Conclusion:", "Future Outlook:"],
    ),
    Case("format:no_whitespace", "all-in-one", "not so\n", breaks=[" ", "\n"]),
    Case(
        "count:punctuation", "A: b; c, d. E! F? G?!", "A: b; c, d. E! F?",
        fulfils=[":", ";", ",", ".", "!", "?", "?", "!"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_tells_good_from_bad_and_where(case):
    examine(case)


def rises_after_a_walk(lines):
    """At each blank line that the walk comes to, the first that equals it goes; all move up."""
    place = 0
    while place < len(lines):
        if lines[place].isspace() or not lines[place]:
            del lines[lines.index(lines[place])]
        place += 1
    steps = [next((i for i, c in enumerate(line) if c != " "), len(line)) for line in lines]
    return steps == sorted(set(steps))


def test_stairs_with_blank_lines_are_judged_as_in_the_original():
    rng = random.Random(5)
    seen = set()
    for _ in range(4000):
        pieces = ["", " ", "  ", "\t", "a", " b", "  c", "   d", "    e"]
        count = rng.randint(1, 7)
        lines = sorted(rng.sample(pieces[4:], min(count, 5)), key=len)
        for _ in range(rng.randint(0, 4)):
            lines.insert(rng.randint(0, len(lines)), rng.choice(pieces[:4]))
        text = "\n".join(lines)
        expected = rises_after_a_walk(list(lines))
        assert check("format:line_indent", {}, text).passed is expected, lines
        seen.add(expected)
    assert seen == {True, False}


def test_many_blank_lines_take_no_time():
    assert check("format:line_indent", {}, "a" + "\n" * 90_000 + " b").passed is False


@pytest.mark.parametrize(
    ("text", "passed"),
    [("a)", True), (" a)", False), ("A)", False), ("a", False), ("a) or b)", False)],
)
def test_lettered_options_are_taken_to_the_letter(text, passed):
    assert check("format:options", {"options": "a), b), c), d)"}, text).passed is passed


def test_a_closing_bracket_that_does_not_fit_discards_what_is_open():
    assert check("format:parentheses", {}, "((((]) )(((()").passed is False
    assert check("format:parentheses", {}, "(((]((((())))").passed is True


def test_bullets_follow_the_sentences_without_a_blank_line():
    need_data(["format:no_bullets_bullets"])
    id = "format:no_bullets_bullets"
    assert check(id, {}, "We go. They go.\n\n* a\n* b").passed is True
    assert check(id, {}, "We go.\n\nThey go.\n* a\n* b").passed is False
    assert check(id, {}, "We go. They go.\n* a\n* b\n").passed is False


@pytest.mark.parametrize(
    ("text", "passed"),
    [('"a" "b" c', False), ("“a” means b", True), ("no quotes", True), ("the '\"' mark", True)],
)
def test_quotes_need_something_unquoted_after_them(text, passed):
    assert check("format:quote_unquote", {}, text).passed is passed
