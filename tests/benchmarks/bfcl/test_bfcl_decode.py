"""Responses as calls in each form, and hostile text in all of them."""

import json
import random
import time

import pytest

from mrtpo.benchmarks.bfcl.decode import DEEPEST, LONGEST, decode, too_deep

FORMS = ("auto", "python", "json", "qwen", "toolrl")


def calls(text, form="python", language="python"):
    return decode(text, form, language).calls


@pytest.mark.parametrize(
    "text",
    ["[f(a=1), g.h(b='x')]", "f(a=1), g.h(b='x')", "```\n[f(a=1), g.h(b='x')]\n```",
     "  `f(a=1), g.h(b=\"x\")`\n", "[f(a=1), g.h(b='x')"],
)  # fmt: skip
def test_brackets_and_back_ticks_may_be_missing(text):
    assert calls(text) == [{"f": {"a": 1}}, {"g.h": {"b": "x"}}]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("-1.5", -1.5), ("+5", 5), ("None", None), ("True", True), ("[1, [2]]", [1, [2]]),
        ("(1, 'a')", (1, "a")), ("{'a': {'b': 2}}", {"a": {"b": 2}}), ("name", "name"),
        ("data['x']", "data['x']"), ("g()", "g()"), ("g(1)", "g(1)"), ("g(b=2)", {"g": {"b": 2}}),
        ("2 * 3 + 1", 7), ("2 ** 10", 1024), ("'a' + 'b'", "ab"), ("...", "..."), ("1e400", 1e400),
    ],
)  # fmt: skip
def test_python_values(written, value):
    found = calls(f"f(x={written})")
    assert found == [{"f": {"x": value}}]
    assert type(found[0]["f"]["x"]) is type(value)


@pytest.mark.parametrize(
    "written",
    ["x.y", "a + 1", "not True", "-name", "lambda: 1", "{1, 2}", "f'{a}'", "a if b else c", "1 / 0",
     "[i for i in a]", "a < b", "{**a}", "{[]: 1}", "9 ** 9 ** 9", "'a' * 10 ** 9", "1 << 10 ** 9",
     "'%999999999d' % 1", "9" * 5000],
)  # fmt: skip
def test_python_values_that_cannot_be_decoded_have_a_reason(written):
    found = decode(f"f(x={written})", "python")
    assert found.calls is None and found.reason


def test_positional_arguments_are_not_seen_and_the_last_of_equal_names_counts():
    assert calls("f(1, 2, x=3, x=4)") == [{"f": {"x": 4}}]
    assert calls("f(**more)") == [{"f": {"**": "more"}}]


@pytest.mark.parametrize("text", ["I cannot do that.", "hello", "1", "f(a=", "[f(a=1)] and more",
                                  "['f']", "None of the functions fits: f(x)"])  # fmt: skip
def test_prose_has_no_calls(text):
    for form in ("auto", "python", "json"):
        assert calls(text, form) is None


def test_nothing_is_an_empty_list_of_calls():
    for text in ("", "[]", "``"):
        assert calls(text) == [] and calls(text, "auto") == []


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "f", "arguments": {"a": 1}}],
        {"name": "f", "parameters": {"a": 1}},
        {"function": "f", "parameters": {"a": 1}},
        {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        [{"f": {"a": 1}}],
    ],
)
def test_json_calls(value):
    text = json.dumps(value)
    for form in ("json", "auto"):
        assert calls(text, form) == [{"f": {"a": 1}}]
        assert calls(f"```json\n{text}\n```", form) == [{"f": {"a": 1}}]


def test_of_equal_keys_the_last_counts_and_numbers_may_be_infinite():
    assert calls('{"name": "f", "arguments": {"a": 1, "a": Infinity}}', "json") == [
        {"f": {"a": float("inf")}}
    ]


QWEN = (
    '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
)


def test_qwen_takes_every_block_and_skips_bad_json():
    both = [{"f": {"a": 1}}, {"g": {}}]
    assert calls(QWEN, "qwen") == both
    assert calls(f"<tool_call>\n{{bad\n</tool_call>\n{QWEN}", "qwen") == both
    assert calls("no tags", "qwen") == []
    # Tags stand on lines of their own for the official handler; `auto` does not mind.
    inline = QWEN.replace("\n", "")
    assert calls(inline, "qwen") == [] and calls(inline, "auto") == both


@pytest.mark.parametrize("block", ['{"name": "f"}', "[1]", '{"name": 1, "arguments": {}}'])
def test_qwen_fails_where_a_block_is_json_and_no_call(block):
    assert calls(f"{QWEN}<tool_call>\n{block}\n</tool_call>", "qwen") is None


def test_toolrl_takes_the_last_block_line_by_line():
    text = (
        "<think> a <tool_call> is needed </think>\n<tool_call>\n"
        '{"name": "f", "parameters": {"a": 1}}\nnot json\n{"name": "None", "parameters": {}}\n'
        '{"name": "x"}\n{"name": 3, "parameters": {}}\n{"name": "g", "parameters": {}}\n'
        "</tool_call>"
    )
    assert calls(text, "toolrl") == [{"f": {"a": 1}}, {"g": {}}]
    assert calls(text, "auto") == [{"f": {"a": 1}}, {"g": {}}]
    assert calls('f(a=1)\n{"name": "f", "parameters": {}}', "toolrl") == []


def test_auto_looks_behind_the_thought_and_into_a_fence():
    assert calls("<think> f(a=1)? </think>\n[f(a=2)]", "auto") == [{"f": {"a": 2}}]
    assert calls("Here:\n```python\n[f(a=1)]\n```\nDone.", "auto") == [{"f": {"a": 1}}]
    assert calls("<tool_call>\nnothing\n</tool_call>", "auto") is None
    # The official decoder knows no language behind the back-ticks.
    assert calls("```python\n[f(a=1)]\n```", "python") is None


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        (
            "java",
            'A.f(a=1, b="x, y", c=new int[]{1, 2})',
            {"a": "1", "b": "x, y", "c": "new int[]{1, 2}"},
        ),
        (
            "java",
            "A.f(m=new HashMap<String, Object>(), n=-5L);",
            {"m": "new HashMap<String, Object>()", "n": "-5L"},
        ),
        ("java", "A.f(a=new ArrayList<String>() {{ add(x); }})", {"a": "new ArrayList<String>()"}),
        ("java", "A.f(g(1, 2), word)", {"*": "word"}),
        (
            "javascript",
            "A.f(a=[1, 2], b={c: 'd, e'}, g=x => x + 1)",
            {"a": "[1, 2]", "b": "{c: 'd, e'}", "g": "x => x + 1"},
        ),
        (
            "javascript",
            "A.f(a='x', b=`y`, c=new Array(1, 2))",
            {"a": "x", "b": "`y`", "c": "new Array(1, 2)"},
        ),
        (
            "javascript",
            "A.f(a=b ? 1 : 2, c=async (x) => { await g(x); })",
            {"a": "b ? 1 : 2", "c": "async (x) => { await g(x); }"},
        ),
    ],
)
def test_java_and_javascript_calls_keep_values_as_source_text(language, text, found):
    for form in ("python", "auto"):
        assert calls(text, form, language) == [{"A.f": found}]
        assert calls(f"[{text}]", form, language) == [{"A.f": found}]


@pytest.mark.parametrize(
    "text",
    [
        "f(a=1), g(b=2)",
        "f(a=John Doe)",
        "f(a=(1)",
        "f(a='x)",
        "f(a=1) and more",
        "f(a=1, a=2)",
        "f(a=)",
        "f(a=1.2.3)",
        "f(a=x.)",
        "f(a=b:c)",
        "f(a=u@v.w)",
        "Sorry, I cannot.",
        "f",
        "f(a=[)]",
    ],
)
def test_what_is_no_single_call_of_these_languages_has_a_reason(text):
    for language in ("java", "javascript"):
        found = decode(text, "python", language)
        assert found.calls is None and found.reason


HOSTILE = {
    "brackets": "[" * LONGEST,
    "nested lists": "f(x=" + "[" * 90_000 + "]" * 90_000 + ")",
    "signs": "f(x=" + "-" * 150_000 + "1)",
    "names": "f(x=" + "a." * 90_000 + "b)",
    "sums": "f(x=" + "1+" * 90_000 + "1)",
    "calls": "f" + "()" * 90_000,
    "choices": "f(x=" + "1 if 1 else " * 14_000 + "1)",
    "digits": "f(x=" + "9" * 150_000 + ")",
    "objects": '{"name": "f", "arguments": ' + '{"a":' * 30_000 + "1" + "}" * 30_000 + "}",
    "opening tags": "<tool_call>\n" * 16_000,
    "generics": "f(x=" + "new a<" * 30_000 + ")",
    "blanks": "f" + " " * 190_000 + ".",
    "quotes": "f(x=" + "'" * 150_001 + ")",
    "null": "f(x='\0')",
    "half a character": "f(x='\ud800')",
    "a megabyte": "f(x=1)" + " " * 2**20,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_gives_a_reason_or_calls_and_soon(text):
    start = time.process_time()
    for language in ("python", "java", "javascript"):
        for form in FORMS:
            found = decode(text, form, language)
            assert (found.calls is None) == bool(found.reason)
    assert time.process_time() - start < 20


def test_random_text_never_raises():
    chance = random.Random(0)
    pieces = ["f(", ")", "[", "]", "{", "}", "a=", "1", "'", '"', ",", ":", "<tool_call>", "\n",
              "</tool_call>", '{"name": "f", "arguments": 1}', "```", "</think>", "-", "**", "new ",
              ".", "\\", " ", "NaN", "é", "\x00"]  # fmt: skip
    for _ in range(3000):
        text = "".join(chance.choices(pieces, k=chance.randint(0, 15)))
        for form in FORMS:
            for language in ("python", "java", "javascript"):
                found = decode(text, form, language)
                assert (found.calls is None) == bool(found.reason)


def test_depth_is_bounded_before_anything_compares_values():
    value = 0
    for _ in range(DEEPEST):
        value = [value]
    assert not too_deep(value)
    assert too_deep([value])
    assert calls("f(x=" + "[" * 80 + "]" * 80 + ")") is None


def test_an_unknown_form_is_an_error():
    with pytest.raises(ValueError, match="form: 'xml' is none of auto, python"):
        decode("f()", "xml")
