"""Java and JavaScript values, given as source text, as Python values.

What is not written as the type asks stays text, which then fails the test of types. The official
checker reads collections by patterns and not by a grammar; these are its readings, so that verdicts
agree, done by searches whose time is bounded on any text:

    Java        new ArrayList<T>(Arrays.asList(a, b)) up to the first `))`; new ArrayList<T>()
                {{ add(a); }}; new T[]{a, b}; new HashMap<K, V>() {{ put("key", value); }}
    JavaScript  [a, b] or new Array(a, b) up to the first end; [[a], [b]]; {key: value}

Items are cut at every comma, one within quotes too. Text in a Java array keeps its quotes, text in
an ArrayList loses them. An object within a JavaScript object is not read.
"""

from __future__ import annotations

import re
from typing import Any

from mrtpo.benchmarks.bfcl.types import Language

LONGEST = 20_000  # characters; what is longer stays text

_INTEGER = re.compile(r"-?\d+")
_DECIMAL = re.compile(r"-?\d+(\.\d+)?")
_DOUBLE = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_LIST = re.compile(r"new\s+ArrayList<\w*>\(")
_LIST_BODY = re.compile(r"\)\s*\{\{\s*")
_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{([^}\n]*)\}")
_MAP = re.compile(r"new\s+HashMap<")
_MAP_MADE = re.compile(r">\s*\(\)")
_MAP_BODY = re.compile(r"\s*\{\s*\{?")
_SPACE = re.compile(r"\s*")
_SCRIPT_ARRAY = re.compile(r"\[([^\]\n]*)\]|new\s+Array\(([^)\n]*)\)")
_SCRIPT_ROWS = re.compile(r"(\[|new\s+Array\()\s*\[")
_ROWS_END = {"[": re.compile(r"\]\s*\]"), "n": re.compile(r"\]\s*\)")}
_NEXT_ROW = re.compile(r"\]\s*,\s*\[")
_ROW = re.compile(r"\[([^\]]*)")
_SCRIPT_OBJECT = re.compile(r"\{([^}\n]*)\}")


def convert(text: str, named: str, items: str | None, language: Language) -> Any:
    """The value of a parameter of type `named`, a list of `items`; or the text itself."""
    if len(text) > LONGEST:
        return text
    return _java(text, named, items) if language == "java" else _script(text, named, items)


def _java(text: str, named: str, items: str | None = None) -> Any:
    if named in ("byte", "short", "integer"):
        return _number(int, text, _INTEGER)
    if named == "long":
        return _number(int, text, _INTEGER, "lL")
    if named == "float":
        return _number(float, text, _DOUBLE, "fF")
    if named == "double":
        return _number(float, text, _DOUBLE)
    if named == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if named == "ArrayList":
        return _java_list(text, items)
    if named == "Array":
        found = _ARRAY.search(text)
        if found is None:
            return text
        return _java_items([item for item in found[1].split(",") if item.strip()], items)
    return _java_map(text) if named == "HashMap" else text


def _number(made: type, text: str, written: re.Pattern[str], suffixes: str = "") -> Any:
    """A number written so, with one of the suffixes if there are any; otherwise the text."""
    body = text.removesuffix("\n")
    if suffixes:
        if not body.endswith(tuple(suffixes)):
            return text
        body = body[:-1]
    if not written.fullmatch(body):
        return text
    try:
        return made(body)
    except ValueError:  # more digits than Python reads
        return text


def _any_number(text: str) -> Any:
    """An integer or a decimal as Python reads them, or the text."""
    for made in (int, float):
        try:
            return made(text)
        except ValueError:
            continue
    return text


def _java_list(text: str, items: str | None) -> Any:
    starts = [found.end() for found in _LIST.finditer(text)]
    opening = "Arrays.asList("
    for start in starts:
        if text.startswith(opening, start):
            start += len(opening)
            end = text.find("))", start + 1)
            if end >= 0 and "\n" not in text[start:end]:
                return _java_items(text[start:end].split(","), items, unquoted=True)
    for start in starts:
        body = _LIST_BODY.match(text, start)
        end = -1 if body is None else text.find("}}", body.end() + 1)
        if body is not None and end >= 0:
            return _java_items(_added(text[body.end() : end]), items, unquoted=True)
    return [] if any(text.startswith(")", start) for start in starts) else text


def _added(body: str) -> list[str]:
    """What stands in each `add(…)`, up to the first bracket that closes."""
    found, at = [], body.find("add(")
    while at >= 0:
        start, end = at + 4, body.find(")", at + 5)
        if end < 0:
            break
        whole = "\n" not in body[start:end]
        if whole:
            found.append(body[start:end])
        at = body.find("add(", end + 1 if whole else start)
    return found


def _java_items(parts: list[str], items: str | None, *, unquoted: bool = False) -> list[Any]:
    parts = [part.strip() for part in parts]
    if unquoted and items in ("char", "String"):
        return [part[1:-1] for part in parts]
    return [_java(part, items or "any") for part in parts]


def _java_map(text: str) -> Any:
    found = _MAP.search(text)
    made = None if found is None else _MAP_MADE.search(text, found.end())
    if made is None:
        return text
    while made is not None:
        opened = _MAP_BODY.match(text, made.end())
        if opened is not None:
            end = text.find("}", opened.end())
            return {} if end < 0 else _put(text[opened.end() : end])
        made = _MAP_MADE.search(text, made.end())
    return {}


def _put(body: str) -> dict[str, Any]:
    """What stands in each `put("key", value)`; no key and no value goes over a line's end."""
    entries: dict[str, Any] = {}
    at = body.find('put("')
    while at >= 0:
        key = at + len('put("')
        comma = body.find('",', key)
        if comma < 0:
            break
        start = comma + 2 + len(_SPACE.match(body, comma + 2)[0])  # type: ignore[index]
        end = body.find(")", start)
        if end < 0:
            break
        whole = "\n" not in body[key:comma] and "\n" not in body[start:end]
        if whole:
            entries[body[key:comma]] = _java_untyped(body[start:end].strip())
        at = body.find('put("', end + 1 if whole else key)
    return entries


def _java_untyped(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    for named in ("long", "float"):
        if (value := _java(text, named)) is not text:
            return value
    return _any_number(text)


def _script(text: str, named: str, items: str | None = None) -> Any:
    if named == "String":
        return text[1:-1] if _quoted(text) else text
    if named == "integer":
        return _number(int, text, _INTEGER)
    if named == "Bigint":
        return _number(int, text, _INTEGER, "n")
    if named == "float":
        return _number(float, text, _DECIMAL)
    if named == "Boolean":
        return {"true": True, "false": False}.get(text, text)
    if named == "array":
        return _script_array(text.strip(), items)
    return _script_object(text.strip()) if named == "dict" else text


def _quoted(text: str) -> bool:
    return any(text.startswith(mark) and text.endswith(mark) for mark in "\"'")


def _script_array(code: str, items: str | None) -> Any:
    if (rows := _script_rows(code)) is not None:
        return rows
    found = _SCRIPT_ARRAY.match(code)
    if found is None:
        return code
    content = (found[2] if found[1] is None else found[1]).strip()
    parts = [part.strip() for part in content.split(",")] if content else []
    return [_script_untyped(part) if items is None else _script(part, items) for part in parts]


def _script_rows(code: str) -> list[list[Any]] | None:
    """An array of arrays; lines may end only between these. None where it is none."""
    opened = _SCRIPT_ROWS.match(code)
    end = None if opened is None else _ROWS_END[code[0]].search(code, opened.end())
    if opened is None or end is None:
        return None
    inside = code[opened.end() : end.start()]
    if "\n" in _NEXT_ROW.sub("],[", inside):
        return None
    first, _, rest = inside.partition("]")
    rows = [first, *_ROW.findall(rest)]
    return [[_script_untyped(item.strip()) for item in row.split(",")] for row in rows]


def _script_object(code: str) -> Any:
    """Pairs of a flat object. A comma ends a value only where another key follows it."""
    found = _SCRIPT_OBJECT.match(code)
    if found is None:
        return code
    content, at, pairs = found[1], 0, {}
    while (colon := content.find(":", at + 1)) >= 0:
        if content[at] == ":":
            at += 1
            continue
        end = content.find(",", colon)
        while end >= 0:
            key = content.find(":", end + 2)
            comma = content.find(",", end + 1)
            if key >= 0 and not 0 <= comma < key:
                break
            end = comma
        value = content[colon + 1 : end if end >= 0 else None].strip()
        name = content[at:colon].strip().strip("'\"")
        if value.startswith("[") and value.endswith("]"):
            pairs[name] = _script_array(value, None)
        else:
            pairs[name] = _script_untyped(value.strip("'\""))
        if end < 0:
            break
        at = end + 1
    return pairs


def _script_untyped(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    return text[1:-1] if _quoted(text) else _any_number(text)
