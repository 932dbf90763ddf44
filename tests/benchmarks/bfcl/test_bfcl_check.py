"""The AST checker's rules one by one, each with the official kind of fault."""

import pytest

from mrtpo.benchmarks.bfcl.check import check_call, check_calls, check_value, well_formed


def function(name="f", required=(), **properties):
    schemas = {k: v if isinstance(v, dict) else {"type": v} for k, v in properties.items()}
    return {"name": name, "parameters": {"type": "dict", "properties": schemas,
                                         "required": list(required)}}  # fmt: skip


def kind(fault):
    return None if fault is None else fault.kind


def value_kind(value, accepted, named="string", items=None, language="python"):
    schema = {"type": named} | ({} if items is None else {"items": {"type": items}})
    return kind(check_value(value, accepted, schema, language))


def call_kind(arguments, accepted, made, name="f", **options):
    return kind(check_call(made, {name: arguments}, {"f": accepted}, "python", **options))


def test_a_call_has_the_name_that_is_asked_for():
    made = function("a.f", x="integer")
    fits = {"a.f": {"x": [1]}}
    assert check_call(made, {"a.f": {"x": 1}}, fits, "python") is None
    wrong = check_call(made, {"a_f": {"x": 1}}, fits, "python")
    assert kind(wrong) == "simple_function_checker:wrong_func_name"
    # Models that cannot write a dot are asked for an underscore instead, and only for that.
    assert check_call(made, {"a_f": {"x": 1}}, fits, "python", underscored=True) is None
    assert check_call(made, {"a.f": {"x": 1}}, fits, "python", underscored=True) is not None


def test_required_arguments_come_before_anything_else():
    made = function(required=["x"], x="integer", y="integer")
    missing = "simple_function_checker:missing_required"
    assert call_kind({"y": "wrong"}, {"x": [1], "y": [2]}, made) == missing


def test_what_the_answer_does_not_allow_to_be_left_out_must_be_there():
    made = function(x="integer", y="integer")
    assert call_kind({"x": 1}, {"x": [1], "y": [2, ""]}, made) is None
    missing = "simple_function_checker:missing_optional"
    assert call_kind({"x": 1}, {"x": [1], "y": [2]}, made) == missing


@pytest.mark.parametrize("accepted", [{"x": [1]}, {"x": [1], "z": [2]}])
def test_an_argument_must_stand_in_the_schema_and_in_the_answer(accepted):
    made = function(x="integer", y="integer")
    unexpected = "simple_function_checker:unexpected_param"
    for other in ("y", "z"):
        assert call_kind({"x": 1, other: 2}, accepted, made) == unexpected


@pytest.mark.parametrize(
    ("value", "named", "accepted"),
    [
        (True, "integer", [1]), (1, "boolean", [True]), ("1", "integer", [1]),
        (1.0, "integer", [1]), ((1, 2), "array", [[1, 2]]), (None, "string", ["x"]),
        ({}, "array", [[]]), (1, "string", ["1"]),
    ],
)  # fmt: skip
def test_a_type_is_exactly_that_type(value, named, accepted):
    items = "integer" if named == "array" else None
    assert value_kind(value, accepted, named, items) == "type_error:simple"


def test_an_integer_is_a_float_at_the_top_only():
    assert value_kind(2, [2.0], "float") is None
    assert value_kind(2.0, [2], "integer") == "type_error:simple"
    assert value_kind([2], [[2.0]], "array", "float") == "type_error:nested"
    assert value_kind(10**400, [2.0], "float") == "type_error:simple"  # no float is that large


def test_a_tuple_is_a_list_where_the_schema_says_tuple():
    for value in ((1.0, 2.0), [1.0, 2.0]):
        assert value_kind(value, [[1.0, 2.0]], "tuple", "float") is None


def test_items_are_checked_one_level_deep():
    assert value_kind([1, "x"], [[1, 2]], "array", "integer") == "type_error:nested"
    assert value_kind([[1], ["x"]], [[[1], [2]]], "array", "array") == "value_error:list/tuple"


def test_anything_but_a_list_among_the_accepted_leaves_the_types_of_items_open():
    # So a list of the wrong items is a wrong value there, not a wrong type.
    assert value_kind(["x"], [[1], ""], "array", "integer") == "value_error:list/tuple"


def test_a_value_of_the_answers_own_type_is_a_variable():
    # The schema says integer; the answer has a name. Names are looked up as they are.
    assert value_kind("limit", ["limit"], "integer") is None
    assert value_kind("LIMIT", ["limit"], "integer") == "value_error:others"
    assert value_kind(3, ["limit"], "integer") == "value_error:others"
    # Only the first accepted value tells which type that is.
    assert value_kind("limit", [3, "limit"], "integer") == "type_error:simple"
    assert value_kind(None, [None], "string") is None


@pytest.mark.parametrize(
    "written", ["April 1, 2024", "april 1 2024", "April1,2024", "APRIL-1-2024", "april/1.2024^*"]
)
def test_text_is_compared_without_blanks_marks_and_case(written):
    assert value_kind(written, ["April 1, 2024"]) is None


def test_quotes_are_equal_and_other_marks_count():
    assert value_kind("status = 'on'", ['status = "on"']) is None
    for other in ("a:b", "a\tb", "a+b"):
        assert value_kind(other, ["ab"]) == "value_error:string"


def test_lists_are_compared_in_order_with_their_text_folded():
    assert value_kind(["New York", "LA"], [["new-york", "la"]], "array", "string") is None
    turned = value_kind(["LA", "New York"], [["new-york", "la"]], "array", "string")
    assert turned == "value_error:list/tuple"
    assert value_kind([], ["", ["a"]], "array", "string") is None  # as in the original


def test_objects_are_compared_key_by_key():
    accepted = [{"city": ["Paris", "paris, fr"], "days": [3], "unit": ["C", ""]}]
    for value, fault in [
        ({"city": "PARIS", "days": 3}, None),
        ({"city": "Paris FR", "days": 3, "unit": "c"}, None),
        ({"city": "Rome", "days": 3}, "value_error:dict_value"),
        ({"city": "Paris"}, "value_error:dict_key"),
        ({"city": "Rome"}, "value_error:dict_key"),  # the missing key is reported
        ({"city": "Paris", "days": 3, "rain": 0}, "value_error:dict_key"),
        ({"city": "Paris", "days": "3"}, "value_error:dict_value"),
    ]:
        assert value_kind(value, accepted, "dict") == fault, value
    assert value_kind({"a": 2}, [{"a": [1]}, {"a": [2]}], "dict") is None
    assert value_kind({"a": 2}, [""], "dict") == "dict_checker:unclear"


def test_lists_of_objects_are_compared_place_by_place():
    accepted = [[{"a": [1]}, {"a": [2]}]]
    objects = lambda value: value_kind(value, accepted, "array", "dict")  # noqa: E731
    assert objects([{"a": 1}, {"a": 2}]) is None
    assert objects([{"a": 2}, {"a": 1}]) == "value_error:dict_value"
    assert objects([{"a": 1}]) == "value_error:list_dict_count"


def test_what_is_no_object_in_a_list_of_objects_is_a_fault_and_no_crash():
    # The second accepted value keeps the type of items open, where the original raises.
    assert value_kind(["x"], ["", [{"a": [1]}]], "array", "dict") == "type_error:nested"
    assert value_kind({"a": {"b": 1}}, [{"a": [{"b": [1]}]}], "dict") == "value_error:dict_value"


def test_simple_and_multiple_take_one_call():
    made, answer = [function("g"), function(x="integer")], [{"f": {"x": [1]}}]
    call = {"f": {"x": 1}}
    assert check_calls(made, [call], answer, "multiple") is None
    assert (
        kind(check_calls(made, [], answer, "multiple")) == "multiple_function_checker:wrong_count"
    )
    assert kind(check_calls(made[1:], [call] * 2, answer, "simple")) == (
        "simple_function_checker:wrong_count"
    )


def test_parallel_calls_fit_in_any_order_and_each_once():
    made = [function(x="integer"), function("g", y="string")]
    answers = [{"f": {"x": [1, 2]}}, {"f": {"x": [1]}}, {"g": {"y": ["a"]}}]
    one, two, other = {"f": {"x": 1}}, {"f": {"x": 2}}, {"g": {"y": "A"}}
    assert check_calls(made, [other, two, one], answers, "parallel") is None
    no_match = "parallel_function_checker_no_order:cannot_find_match"
    assert kind(check_calls(made, [two, two, other], answers, "parallel")) == no_match
    # The first answer takes the first call that fits it and is not asked again.
    assert kind(check_calls(made, [one, two, other], answers, "parallel")) == no_match
    assert kind(check_calls(made, [one, other], answers, "parallel")) == (
        "parallel_function_checker_no_order:wrong_count"
    )


@pytest.mark.parametrize("language", ["java", "javascript"])
def test_other_languages_take_source_text_only(language):
    short = {"java": "java", "javascript": "js"}[language]
    assert value_kind("3", [3], "integer", language=language) is None
    assert value_kind(3, [3], "integer", language=language) == f"type_error:{short}"
    assert value_kind("three", [3], "integer", language=language) == "type_error:simple"
    assert value_kind("Name.OF", ["nameof"], "any", language=language) is None


@pytest.mark.parametrize(
    "calls", [None, "f()", {"f": {}}, ["f"], [{}], [{"f": {}, "g": {}}], [{"f": [1]}], [[]]]
)
def test_what_is_no_list_of_calls_is_malformed(calls):
    assert not well_formed(calls)
    assert well_formed([]) and well_formed([{"f": {}}, {"g": {"x": None}}])
