"""What a kind of constraint is: its checker, its sentence, its typed arguments, its spans.

A kind's functions take the response and the typed arguments by name. `check` gives whether the
response follows the constraint. `fulfils` gives the spans by which a passing response follows it,
`breaks` those by which a failing one does not; both may give None or nothing where that cannot be
told (what is absent has no place), and are absent where it never can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Span = tuple[int, int]
Spans = Sequence[Span] | None

RELATIONS = ("at least", "less than")
MOST_CHARACTERS = 100_000  # of a response; a longer one is refused unread

# The languages that langdetect knows, by its codes.
LANGUAGES = {
    "af": "Afrikaans", "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan",
    "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "kn": "Kannada", "ko": "Korean",
    "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam", "mr": "Marathi",
    "ne": "Nepali", "nl": "Dutch", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "so": "Somali", "sq": "Albanian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil",
    "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian",
    "ur": "Urdu", "vi": "Vietnamese", "zh-cn": "Simplified Chinese",
    "zh-tw": "Traditional Chinese",
}  # fmt: skip


class ConstraintError(ValueError):
    """An unknown kind, or arguments that are not those of the kind."""


@dataclass(frozen=True)
class Argument:
    """`typed` turns a value of a data file into that of the checker; None if it is not `what`.

    `shown` turns the typed value into that of the sentence.
    """

    what: str
    typed: Callable[[Any], Any]
    shown: Callable[[Any], str] = str


@dataclass(frozen=True)
class Kind:
    """`sentence` is a format string over the arguments; `needs` names packages of NLTK data."""

    check: Callable[..., bool]
    sentence: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    fulfils: Callable[..., Spans] | None = None
    breaks: Callable[..., Spans] | None = None
    needs: tuple[str, ...] = ()


def _whole(value: Any, least: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if float(value).is_integer() and value >= least else None


def _percentage(value: Any) -> float | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100
    return float(value) if right else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _word(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...] | None:
    right = isinstance(value, list | tuple) and value and all(map(_text, value))
    return tuple(value) if right else None


def _letter(value: Any) -> str | None:
    letter = _word(value)
    return letter.lower() if letter and len(letter) == 1 else None


def _among(values: Sequence[str] | Mapping[str, str]) -> Callable[[Any], str | None]:
    return lambda value: value if isinstance(value, str) and value in values else None


WHOLE = Argument("a whole number, 0 or more", lambda value: _whole(value, 0))
POSITIVE = Argument("a whole number, 1 or more", lambda value: _whole(value, 1))
PERCENTAGE = Argument("a number between 0 and 100", _percentage, "{:g}".format)
TEXT = Argument("a text that is not blank", _text)
WORD = Argument("a text that is not blank", _word)
TEXTS = Argument(
    "a list of texts, none blank, at least one",
    _texts,
    lambda texts: ", ".join(f'"{text}"' for text in texts),
)
LETTER = Argument("a single character", _letter)
RELATION = Argument(" or ".join(f'"{name}"' for name in RELATIONS), _among(RELATIONS))
LANGUAGE = Argument(
    "a language code that langdetect knows, as en, de, zh-cn",
    _among(LANGUAGES),
    lambda code: LANGUAGES[code],
)


def typed_arguments(id: str, kind: Kind, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The checker's arguments from those of a data file, nulls left out.

    Raises ConstraintError naming the argument that is missing, unknown or not what it must be.
    """
    values = {name: value for name, value in (given or {}).items() if value is not None}
    for name in values:
        if name not in kind.arguments:
            known = ", ".join(kind.arguments) or "none"
            raise ConstraintError(f"{id} has no argument {name!r} (it has {known})")
    typed = {}
    for name, argument in kind.arguments.items():
        if name not in values:
            raise ConstraintError(f"{id} needs the argument {name!r}: {argument.what}")
        typed[name] = argument.typed(values[name])
        if typed[name] is None:
            shown = f"{values[name]!r:.60}"
            raise ConstraintError(f"{id}: the argument {name!r} must be {argument.what}: {shown}")
    return typed


def related(count: int, relation: str, threshold: int) -> bool:
    """Whether a count is at least, or less than, a threshold."""
    return count < threshold if relation == "less than" else count >= threshold


def merged(found: Iterable[Span]) -> list[Span]:
    """Spans in order and apart, empty ones left out."""
    spans: list[Span] = []
    for start, end in sorted(found):
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        elif end > start:
            spans.append((start, end))
    return spans
