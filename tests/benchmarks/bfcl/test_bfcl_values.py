"""Java and JavaScript source text as values; what the official checker makes of each."""

import random
import time

import pytest

from mrtpo.benchmarks.bfcl.types import TYPES
from mrtpo.benchmarks.bfcl.values import LONGEST, convert


@pytest.mark.parametrize(
    ("named", "text", "value"),
    [
        ("integer", "-12", -12), ("integer", "1.0", "1.0"), ("integer", "1L", "1L"),
        ("long", "12L", 12), ("long", "12", "12"), ("float", "1.5f", 1.5), ("float", "1.5", "1.5"),
        ("double", "1.5e3", 1500.0), ("double", "2", 2.0), ("double", "1.5f", "1.5f"),
        ("boolean", "true", True), ("boolean", "True", "True"), ("char", "'a'", "'a'"),
        ("String", "as it is", "as it is"), ("any", "5", "5"),
    ],
)  # fmt: skip
def test_java_words(named, text, value):
    assert convert(text, named, None, "java") == value
    assert type(convert(text, named, None, "java")) is type(value)


@pytest.mark.parametrize(
    ("named", "items", "text", "value"),
    [
        ("ArrayList", "integer", "new ArrayList<Integer>(Arrays.asList(1, 2))", [1, 2]),
        ("ArrayList", "String", 'new ArrayList<>(Arrays.asList("a", "b"))', ["a", "b"]),
        ("ArrayList", "long", "new ArrayList<Long>() {{ add(1L); add(2L); }}", [1, 2]),
        ("ArrayList", "String", "new ArrayList<String>()", []),
        ("ArrayList", "String", "names", "names"),
        ("Array", "integer", "new int[]{1, 2}", [1, 2]),
        # An array's text keeps its quotes, as the original has it, and then fits no answer.
        ("Array", "String", 'new String[]{"a", b}', ['"a"', "b"]),
        ("Array", "integer", "new int[]{}", []),
        ("HashMap", None, 'new HashMap<String, Object>() {{ put("a", 1); put("b", "x"); }}',
         {"a": 1, "b": "x"}),
        ("HashMap", None, 'new HashMap<>() {{ put("a", true); put("b", 2L); put("c", .5); }}',
         {"a": True, "b": 2, "c": 0.5}),
        ("HashMap", None, "new HashMap<String, Integer>()", {}),
        ("HashMap", None, "settings", "settings"),
    ],
)  # fmt: skip
def test_java_collections(named, items, text, value):
    assert convert(text, named, items, "java") == value


@pytest.mark.parametrize(
    ("named", "items", "text", "value"),
    [
        ("integer", None, "7", 7), ("float", None, "7", 7.0), ("Bigint", None, "7n", 7),
        ("Bigint", None, "7", "7"), ("Boolean", None, "false", False), ("any", None, "7", "7"),
        ("String", None, '"a"', "a"), ("String", None, "'a'", "a"), ("String", None, "a", "a"),
        ("array", "String", '["a", \'b\']', ["a", "b"]),
        ("array", "integer", "new Array(1, 2)", [1, 2]),
        ("array", "integer", "[]", []), ("array", "float", "names", "names"),
        ("array", "array", "[[1, 2], [3]]", [[1, 2], [3]]),
        ("array", "float", "[[1.5,\n], [2]]", "[[1.5,\n], [2]]"),
        ("array", "array", "new Array([1], ['a'])", [[1], ["a"]]),
        ("dict", None, "{}", {}), ("dict", None, "config", "config"),
        ("dict", None, "{a: 1, 'b': true, \"c\": x}", {"a": 1, "b": True, "c": "x"}),
        ("dict", None, "{a: [1, 2], url: \"http://x\"}", {"a": [1, 2], "url": "http://x"}),
        # Quotes do not keep a number from being one, and an inner object is not read.
        ("dict", None, '{a: "12"}', {"a": 12}),
        ("dict", None, "{a: {b: 1}, c: 2}", {"a": "{b: 1"}),
    ],
)  # fmt: skip
def test_javascript_values(named, items, text, value):
    found = convert(text, named, items, "javascript")
    assert found == value and type(found) is type(value)


PIECES = {
    "java": ["new ", "ArrayList<", "HashMap<", ">", "(", ")", "{{", "}}", "{", "}", "add(", 'put("',
             '",', "Arrays.asList(", "int[]{", ",", "1", "2L", "\n", " ", '"', "x", ")) "],
    "javascript": ["[", "]", "[[", "]]", "{", "}", ":", ",", "new Array(", ")", "1", "2n", "\n",
                   " ", '"', "'", "x", "true"],
}  # fmt: skip


@pytest.mark.parametrize("language", ["java", "javascript"])
def test_any_text_is_a_value_of_a_known_class_or_stays_itself(language):
    chance = random.Random(0)
    for _ in range(4000):
        text = "".join(chance.choices(PIECES[language], k=chance.randint(0, 20)))
        for named, expected in TYPES[language].items():
            items = "integer" if expected is list else None
            value = convert(text, named, items, language)
            if type(value) is not expected:
                assert value.strip() == text.strip()


@pytest.mark.parametrize("language", ["java", "javascript"])
def test_repeated_text_takes_little_time(language):
    start = time.process_time()
    for piece in PIECES[language]:
        for second in PIECES[language]:
            text = ((piece + second) * LONGEST)[:LONGEST]
            for named, expected in TYPES[language].items():
                if expected in (list, dict):
                    convert(text, named, "integer", language)
    assert time.process_time() - start < 60
    assert convert("9" * 10_000, "integer", None, language) == "9" * 10_000
    assert convert("[" + "1," * LONGEST + "]", "array", "integer", "javascript").startswith("[1")
