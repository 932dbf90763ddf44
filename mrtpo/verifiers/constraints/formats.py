"""IFEval's constraints on form: bullets, sections, titles, marks, beginnings and ends."""

from __future__ import annotations

import functools
import json
import re

from mrtpo.verifiers.constraints.kinds import WHOLE, WORD, Kind, Span, Spans
from mrtpo.verifiers.constraints.text import lines, occurrences

# One of these sentences is asked for.
CHOICES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
FENCES = ("```json", "```Json", "```JSON", "```")

# A star that opens a line and is not doubled; what it is followed by may be on the next line.
_STAR_BULLET = re.compile(r"^[^\S\n]*\*[^*].*$", re.MULTILINE)
_DASH_BULLET = re.compile(r"^[^\S\n]*-.*$", re.MULTILINE)
_STARRED = re.compile(r"\*[^\n*]*\*")
_DOUBLE_STARRED = re.compile(r"\*\*[^\n*]*\*\*")
_SIX_STARS = re.compile(r"\*{6}")
_POSTSCRIPTS = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}


def _bullet_spans(response: str, num_bullets: int) -> list[Span]:
    return sorted(occurrences(_STAR_BULLET, response) + occurrences(_DASH_BULLET, response))


def _bullets(response: str, num_bullets: int) -> bool:
    found = (_STAR_BULLET.findall(response), _DASH_BULLET.findall(response))
    return sum(map(len, found)) == num_bullets


def _bullets_beyond(response: str, num_bullets: int) -> Spans:
    return _bullet_spans(response, num_bullets)[num_bullets:]


def _highlights(response: str, num_highlights: int) -> bool:
    # **this** holds an empty *…* twice and itself once.
    single = sum(bool(text.strip("*").strip()) for text in _STARRED.findall(response))
    double = sum(bool(text[2:-2].strip()) for text in _DOUBLE_STARRED.findall(response))
    return single + double >= num_highlights


def _highlight_spans(response: str, num_highlights: int) -> Spans:
    found = occurrences(_DOUBLE_STARRED, response) + occurrences(_STARRED, response)
    return sorted({(a, b) for a, b in found if response[a:b].strip("*").strip()})


@functools.lru_cache(maxsize=256)
def _section_mark(splitter: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(splitter)}\s?\d+")


def _sections(response: str, section_spliter: str, num_sections: int) -> bool:
    return len(_section_mark(section_spliter).findall(response)) >= num_sections


def _section_marks(response: str, section_spliter: str, num_sections: int) -> Spans:
    return occurrences(_section_mark(section_spliter), response)


def _json(response: str) -> bool:
    text = response.strip()
    for fence in FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except ValueError:
        return False
    return True


def _title_spans(response: str) -> list[Span]:
    """From the first << of a line to its last >>, where there is more than angles between."""
    found = []
    for start, end in lines(response):
        first, last = response.find("<<", start, end), response.rfind(">>", start, end)
        if first >= 0 and last > first + 2:
            title = response[first : last + 2]
            if title.lstrip("<").rstrip(">").strip():
                found.append((first, last + 2))
    return found


def _title(response: str) -> bool:
    return bool(_title_spans(response))


def _placeholder_spans(response: str, num_placeholders: int) -> list[Span]:
    found = []
    for start, end in lines(response):
        opening = response.find("[", start, end)
        while opening >= 0 and (closing := response.find("]", opening, end)) >= 0:
            found.append((opening, closing + 1))
            opening = response.find("[", closing + 1, end)
    return found


def _placeholders(response: str, num_placeholders: int) -> bool:
    return len(_placeholder_spans(response, num_placeholders)) >= num_placeholders


@functools.lru_cache(maxsize=256)
def _postscript_mark(marker: str) -> re.Pattern[str]:
    return re.compile(_POSTSCRIPTS.get(marker) or re.escape(marker.lower()))


def _postscript(response: str, postscript_marker: str) -> bool:
    return bool(_postscript_mark(postscript_marker).search(response.lower()))


def _postscript_spans(response: str, postscript_marker: str) -> Spans:
    lower = response.lower()
    found = occurrences(_postscript_mark(postscript_marker), lower)
    return [(found[-1][0], len(response))] if found and len(lower) == len(response) else None


def _choice(response: str) -> bool:
    return any(choice in response for choice in CHOICES)


def _choice_spans(response: str) -> Spans:
    return [
        (response.find(choice), response.find(choice) + len(choice))
        for choice in CHOICES
        if choice in response
    ]


def _two_responses(response: str) -> bool:
    pieces = [piece.strip() for piece in response.split("*" * 6)]
    if not all(pieces[1:-1]):
        return False
    present = [piece for piece in pieces if piece]
    return len(present) == 2 and present[0] != present[1]


def _star_spans(response: str) -> Spans:
    return occurrences(_SIX_STARS, response)


def _ends_with(response: str, end_phrase: str) -> bool:
    return response.strip().strip('"').lower().endswith(end_phrase.lower())


def _end(response: str, end_phrase: str) -> Spans:
    """The phrase, or what stands in its place."""
    end = len(response.rstrip().rstrip('"'))
    return [(max(0, end - len(end_phrase)), end)]


def _quoted(response: str) -> bool:
    text = response.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _outermost(response: str) -> list[Span]:
    start = len(response) - len(response.lstrip())
    end = len(response.rstrip())
    return [(start, start + 1), (end - 1, end)] if end > start + 1 else [(start, end)]


def _not_quotes(response: str) -> Spans:
    return [(a, b) for a, b in _outermost(response) if response[a:b] != '"']


def _no_comma(response: str) -> bool:
    return "," not in response


def _commas(response: str) -> Spans:
    return [(i, i + 1) for i, character in enumerate(response) if character == ","]


KINDS = {
    "detectable_format:number_bullet_lists": Kind(
        _bullets,
        'Write exactly {num_bullets} bullet points, each on a line that begins with "* ".',
        {"num_bullets": WHOLE},
        fulfils=_bullet_spans,
        breaks=_bullets_beyond,
    ),
    "detectable_format:number_highlighted_sections": Kind(
        _highlights,
        "Highlight at least {num_highlights} parts of the answer in Markdown, *like this*.",
        {"num_highlights": WHOLE},
        fulfils=_highlight_spans,
    ),
    "detectable_format:multiple_sections": Kind(
        _sections,
        "Divide the answer into {num_sections} sections and begin each with its number: "
        "{section_spliter} 1, {section_spliter} 2, and so on.",
        {"section_spliter": WORD, "num_sections": WHOLE},
        fulfils=_section_marks,
    ),
    "detectable_format:json_format": Kind(
        _json,
        "The whole answer must be one JSON value; a Markdown code fence around it is fine.",
    ),
    "detectable_format:title": Kind(
        _title,
        "Give the answer a title, in double angle brackets: <<title>>",
        fulfils=_title_spans,
    ),
    "detectable_format:constrained_response": Kind(
        _choice,
        f"Answer with one of these sentences: {' '.join(CHOICES)}",
        fulfils=_choice_spans,
    ),
    "detectable_content:number_placeholders": Kind(
        _placeholders,
        "Use at least {num_placeholders} placeholders in square brackets, such as [name].",
        {"num_placeholders": WHOLE},
        fulfils=_placeholder_spans,
    ),
    "detectable_content:postscript": Kind(
        _postscript,
        "Add a postscript at the end that begins with {postscript_marker}",
        {"postscript_marker": WORD},
        fulfils=_postscript_spans,
    ),
    "combination:two_responses": Kind(
        _two_responses,
        "Give two different answers, with six asterisks between them: ******",
        fulfils=_star_spans,
        breaks=_star_spans,
    ),
    "startend:end_checker": Kind(
        _ends_with,
        'The answer must end with exactly these words and nothing after them: "{end_phrase}"',
        {"end_phrase": WORD},
        fulfils=_end,
        breaks=_end,
    ),
    "startend:quotation": Kind(
        _quoted,
        "Put the whole answer in double quotation marks.",
        fulfils=_outermost,
        breaks=_not_quotes,
    ),
    "punctuation:no_comma": Kind(
        _no_comma,
        "Use no comma anywhere.",
        breaks=_commas,
    ),
}
