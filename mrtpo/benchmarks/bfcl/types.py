"""Type names of BFCL's function documents, by language, and the Python types they stand for.

A value has a type when its class is exactly that one, so True is no integer. Java and JavaScript
values come as source text and are converted first (`values`). Names follow `bfcl-eval`; Java's Set,
Hashtable, Queue and Stack are left out, as the official checker cannot convert them and no file
has them.
"""

from __future__ import annotations

from typing import Literal

Language = Literal["python", "java", "javascript"]

TYPES: dict[Language, dict[str, type]] = {
    "python": {
        "string": str, "integer": int, "float": float, "boolean": bool, "array": list,
        "tuple": list, "dict": dict, "any": str,
    },
    "java": {
        "byte": int, "short": int, "integer": int, "long": int, "float": float, "double": float,
        "boolean": bool, "char": str, "String": str, "any": str, "Array": list,
        "ArrayList": list, "HashMap": dict,
    },
    "javascript": {
        "integer": int, "Bigint": int, "float": float, "Boolean": bool, "String": str,
        "any": str, "array": list, "dict": dict,
    },
}  # fmt: skip
"""`any` is text: that is how the answers give an object whose type is left open."""


def item_type(language: Language, schema: dict[str, object]) -> str | None:
    """The name of the type of a list's items, or None where the parameter is no list."""
    items = schema.get("items")
    if TYPES[language][str(schema["type"])] is not list or not isinstance(items, dict):
        return None
    return str(items["type"])


def schema_fault(language: Language, schema: object) -> str:
    """What the checker cannot use in a parameter's schema, or ''."""
    if not isinstance(schema, dict):
        return "expected an object"
    known = TYPES[language]
    if schema.get("type") not in known:
        return f"type: {schema.get('type')!r} is none of {', '.join(known)}"
    if known[schema["type"]] is not list:
        return ""
    items = schema.get("items")
    if not isinstance(items, dict) or items.get("type") not in known:
        return "items.type: a list needs the type of its items"
    return ""
