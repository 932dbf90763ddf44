"""BFCL's AST checker, in own words: do calls fit the accepted answers?

    answer     {name: {argument: [accepted value, …]}}; "" among them: the argument may be left out
    one call   right name; all required arguments; no argument beside schema and answer; for each
               argument its type, then its value; what is left out must be optional by the answer
    category   simple, multiple: one call. parallel: as many calls as answers, in any order; each
               answer takes the first call left that fits it, and is not asked again

Values compare as the official checker has it: text without blanks and `,./-_*^`, in lower case,
`'` as `"`; lists item by item in order, text in them folded; objects by key, each value against its
own list of accepted ones; lists of objects place by place; anything else by `==`.

A value whose type is not the schema's but that of the first accepted value counts as a variable and
is only looked up among the accepted ones. Source: `ast_checker.py` of bfcl-eval 2026.3.23; kinds of
faults are its `error_type`. Where the original raises on a value, a fault stands here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mrtpo.benchmarks.bfcl.types import TYPES, Language, item_type
from mrtpo.benchmarks.bfcl.values import convert

Call = dict[str, dict[str, Any]]
Kind = Literal["simple", "multiple", "parallel"]

_FOLDED = re.compile(r"[ ,./\-_*^]")
_COUNTED_BY = {
    "simple": "simple_function_checker", "multiple": "multiple_function_checker",
    "parallel": "parallel_function_checker_no_order",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """`kind` is the official `error_type`; `detail` says which call and argument."""

    kind: str
    detail: str


def well_formed(calls: Any) -> bool:
    """Whether it is a list of `{name: {argument: value}}`; an empty list is."""
    return isinstance(calls, list) and all(
        isinstance(call, dict) and len(call) == 1 and isinstance(next(iter(call.values())), dict)
        for call in calls
    )


def check_calls(
    functions: Sequence[Mapping[str, Any]],
    calls: Sequence[Call],
    answers: Sequence[Call],
    kind: Kind,
    language: Language = "python",
    *,
    underscored: bool = False,
) -> Fault | None:
    """The first fault of well-formed calls, or None where they fit.

    `underscored` is for models that cannot write a dot in a name: the names asked for have `_`.
    """
    if len(calls) != (wanted := 1 if kind == "simple" else len(answers)):
        return Fault(
            f"{_COUNTED_BY[kind]}:wrong_count", f"{len(calls)} calls where {wanted} are asked for"
        )
    if kind != "parallel":
        function = functions[0] if kind == "simple" else _named(functions, answers[0])
        return check_call(function, calls[0], answers[0], language, underscored=underscored)
    left = list(range(len(calls)))
    for answer in answers:
        function = _named(functions, answer)
        details = []
        for place in left:
            fault = check_call(function, calls[place], answer, language, underscored=underscored)
            if fault is None:
                left.remove(place)
                break
            details.append(f"call {place}: {fault.detail}")
        else:
            return Fault(
                f"{_COUNTED_BY[kind]}:cannot_find_match",
                f"no call fits {next(iter(answer))}: {'; '.join(details)}",
            )
    return None


def _named(functions: Sequence[Mapping[str, Any]], answer: Call) -> Mapping[str, Any]:
    name = next(iter(answer))
    return next(function for function in functions if function["name"] == name)


def check_call(
    function: Mapping[str, Any],
    call: Call,
    answer: Call,
    language: Language,
    *,
    underscored: bool = False,
) -> Fault | None:
    """The first fault of one call against one answer, in the official order of tests."""
    name = function["name"].replace(".", "_") if underscored else function["name"]
    schemas, required = function["parameters"]["properties"], function["parameters"]["required"]
    accepted = next(iter(answer.values()))
    if name not in call:
        return _fault("simple_function_checker:wrong_func_name", f"expected {name}", call)
    arguments = call[name]
    for argument in required:
        if argument not in arguments:
            return Fault("simple_function_checker:missing_required", f"{argument} is missing")
    for argument, value in arguments.items():
        if argument not in schemas or argument not in accepted:
            return Fault("simple_function_checker:unexpected_param", f"{argument} is unexpected")
        fault = check_value(value, accepted[argument], schemas[argument], language)
        if fault is not None:
            return Fault(fault.kind, f"{argument}: {fault.detail}")
    for argument, values in accepted.items():
        if argument not in arguments and "" not in values:
            return Fault("simple_function_checker:missing_optional", f"{argument} is missing")
    return None


def check_value(
    value: Any, accepted: Sequence[Any], schema: Mapping[str, Any], language: Language = "python"
) -> Fault | None:
    """The fault of one argument's value, or None."""
    named, inner_named = schema["type"], item_type(language, dict(schema))
    expected = TYPES[language][named]
    inner = None if inner_named is None else TYPES[language][inner_named]
    if language != "python":
        if type(value) is not str:
            short = {"java": "java", "javascript": "js"}[language]
            return _fault(f"type_error:{short}", "expected the value as source text", value)
        value = convert(value, named, inner_named, language)
    elif named == "tuple" and type(value) is tuple:
        value = list(value)
    elif named == "float" and type(value) is int and abs(value) < 10**300:
        value = float(value)
    kind, variable = _type_fault(value, accepted, expected, inner)
    if kind is not None:
        within = "" if inner is None else f" of {inner_named}"
        return _fault(kind, f"expected {named}{within}", value)
    if not variable:
        if expected is dict:
            return _object_fault(value, accepted)
        if expected is list and inner is dict:
            return _objects_fault(value, accepted)
        if expected is str:
            texts = [fold(item) for item in accepted if isinstance(item, str)]
            return None if fold(value) in texts else _not_accepted("string", value, accepted)
        if expected is list:
            # As in the original, text among the accepted lists is a list of its characters.
            lists = [folded(item) for item in accepted if isinstance(item, list | str)]
            return None if folded(value) in lists else _not_accepted("list/tuple", value, accepted)
    return None if value in accepted else _not_accepted("others", value, accepted)


def _type_fault(
    value: Any, accepted: Sequence[Any], expected: type, inner: type | None
) -> tuple[str | None, bool]:
    """The kind of a fault in type, or None; and whether the value counts as a variable."""
    first = next((type(item) for item in accepted if item != ""), None)
    variable = first is not None and first is not expected
    items: Any = value
    if type(value) is expected:
        if inner is None:
            return None, variable
        for choice in accepted:
            # Anything but a list among the accepted values leaves the items' types open.
            if type(choice) is not list or all(
                _type_fault(item, choice, inner, None)[0] is None for item in items
            ):
                return None, variable
        return ("type_error:nested" if type(value) is first else "type_error:simple"), variable
    if first is not None and type(value) is first:
        return None, True
    return "type_error:simple", variable


def fold(text: str) -> str:
    """Text as it is compared: without blanks and `,./-_*^`, lower case, `'` as `"`."""
    return _FOLDED.sub("", text).lower().replace("'", '"')


def folded(items: Sequence[Any]) -> list[Any]:
    return [fold(item) if type(item) is str else item for item in items]


def _object_fault(value: dict[Any, Any], accepted: Sequence[Any]) -> Fault | None:
    """Against each accepted object; the fault is that of the last one."""
    fault = Fault("dict_checker:unclear", "no object is accepted")
    for answer in accepted:
        if answer == "":
            continue
        found = _keys_fault(value, answer) if isinstance(answer, dict) else _no_object(value)
        if found is None:
            return None
        fault = found
    return fault


def _keys_fault(value: dict[Any, Any], answer: dict[str, Any]) -> Fault | None:
    fault = None
    for key, item in value.items():
        if key not in answer:
            fault = Fault("value_error:dict_key", f"{key} is unexpected")
            break
        # One answer file has bare text where a list belongs; the original reads its characters.
        given = answer[key] if isinstance(answer[key], list | str) else []
        if (fold(item) if type(item) is str else item) not in folded(given):
            fault = _fault("value_error:dict_value", f"{key} is not among {_short(given)}", item)
            break
    for key, given in answer.items():
        if key not in value and "" not in (given if isinstance(given, list | str) else []):
            return Fault("value_error:dict_key", f"{key} is missing")
    return fault


def _objects_fault(value: list[Any], accepted: Sequence[Any]) -> Fault | None:
    """Each object against the one in its place."""
    fault = Fault("list_dict_checker:unclear", "no list is accepted")
    for answer in accepted:
        if not isinstance(answer, list | str) or len(value) != len(answer):
            fault = Fault("value_error:list_dict_count", f"{len(value)} objects in the list")
            continue
        faults = [
            _object_fault(item, [one]) if isinstance(item, dict) else _no_object(item)
            for item, one in zip(value, answer, strict=True)
        ]
        found = next((one for one in faults if one is not None), None)
        if found is None:
            return None
        fault = found
    return fault


def _no_object(value: Any) -> Fault:
    return _fault("type_error:nested", "expected an object", value)


def _not_accepted(kind: str, value: Any, accepted: Sequence[Any]) -> Fault:
    return _fault(f"value_error:{kind}", f"not among {_short(accepted)}", value)


def _fault(kind: str, expected: str, value: Any) -> Fault:
    return Fault(kind, f"{expected}, found {_short(value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"
