"""IFBench's constraints on form: nesting, quotes, lines, lists, templates, title case."""

from __future__ import annotations

import re
import string
from collections import deque
from itertools import pairwise

from mrtpo.verifiers.constraints.kinds import TEXT, Kind, Span, Spans
from mrtpo.verifiers.constraints.text import (
    ENDS,
    lines,
    occurrences,
    sentences,
    token_spans,
    tokens,
    without_punctuation,
)

BRACKETS = {")": "(", "]": "[", "}": "{"}
DEPTH = 5
QUOTE_DEPTH = 3
TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")
MARKS = ".,!?;:"

_LETTER_OPTIONS = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")
_MARK = re.compile(rf"[{re.escape(MARKS)}]")
_STAR_LINE = re.compile(r"^[^\S\n]*\*.*$", re.MULTILINE)
_BULLET_MARKS = re.compile(r"[*-]")
_TEMPLATE = re.compile("|".join(map(re.escape, TEMPLATE)))


def _nested_spans(response: str) -> list[Span]:
    """The first brackets that are deep enough, from the outermost on, once one of them closes.

    A closing bracket that does not fit discards all that are open.
    """
    opened: list[int] = []
    deep = False
    for i, character in enumerate(response):
        if character in "([{":
            opened.append(i)
            deep = deep or len(opened) >= DEPTH
        elif character in BRACKETS:
            if opened and response[opened[-1]] == BRACKETS[character]:
                if deep:
                    return [(opened[0], i + 1)]
                opened.pop()
            else:
                opened, deep = [], False
    return []


def _nested(response: str) -> bool:
    return bool(_nested_spans(response))


def _nested_quote_spans(response: str) -> list[Span]:
    """The first quotes that are deep enough and closed down to the outermost of three."""
    opened: list[int] = []
    deepest = 0
    for i, character in enumerate(response):
        if opened and character == response[opened[-1]]:
            start = opened.pop()
            if deepest - len(opened) >= QUOTE_DEPTH:
                return [(start, i + 1)]
        elif character in "\"'":
            opened.append(i)
            deepest = max(deepest, len(opened))
    return []


def _nested_quotes(response: str) -> bool:
    return bool(_nested_quote_spans(response))


def _options(options: str) -> list[str]:
    separator = next((mark for mark in ("/", "or") if mark in options), ",")
    return [option.strip() for option in options.split(separator)]


def _one_option(response: str, options: str) -> bool:
    if _LETTER_OPTIONS.match(options):  # a), b), c): to the letter
        return response in _options(options)
    answer = response.strip(ENDS).lower()
    return any(option.strip(ENDS).lower() == answer for option in _options(options))


def _whole(response: str, options: str) -> Spans:
    return [(0, len(response))]


def _word_per_line(response: str) -> bool:
    text = without_punctuation(response).strip()
    return sum(line != "" for line in text.split("\n")) == len(text.split())


def _shared_lines(response: str) -> Spans:
    """The lines of more than one word."""
    return [
        (a, b) for a, b in lines(response) if len(without_punctuation(response[a:b]).split()) > 1
    ]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _stairs(response: str) -> list[str]:
    """The lines that the original compares.

    It takes blank lines out of the list that it walks along, so that the line after each one taken
    out is not looked at, and the one taken out is the first that equals it.
    """
    every = response.split("\n")
    kept: dict[int, str] = {}
    blank: dict[str, deque[int]] = {}
    skip = False
    for i, line in enumerate(every):
        kept[i] = line
        if line.strip():
            skip = False
            continue
        places = blank.setdefault(line, deque())
        places.append(i)
        if skip:
            skip = False
        else:
            del kept[places.popleft()]
            skip = True
    return list(kept.values())


def _rising(response: str) -> bool:
    steps = [_indent(line) for line in _stairs(response)]
    return all(a < b for a, b in pairwise(steps))


def _not_rising(response: str) -> Spans:
    """The indents of the lines that do not stand further in than the one before."""
    found, last = [], -1
    for start, end in lines(response):
        line = response[start:end]
        if not line.strip():
            continue
        indent = _indent(line)
        if indent <= last:
            found.append((start, start + max(indent, 1)))
        last = indent
    return found


def _indents(response: str) -> Spans:
    spans = [(a, a + _indent(response[a:b])) for a, b in lines(response) if response[a:b].strip()]
    return [(a, b) for a, b in spans if b > a]


def _explained(response: str) -> bool:
    text = response.replace("“", '"').replace("”", '"').replace("'\"'", "")
    text = "".join(text.split())
    if '""' in text:
        return False
    ends = string.digits + string.punctuation.replace('"', "")
    return not text.strip(ends).endswith('"')


def _unexplained(response: str) -> Spans:
    """Quotation marks that follow each other, or the last one where nothing comes after it."""
    marks = [i for i, character in enumerate(response) if character in '"“”']
    found = [(a, b + 1) for a, b in pairwise(marks) if not response[a + 1 : b].strip()]
    return found or [(i, i + 1) for i in marks[-1:]]


def _listed(response: str, sep: str) -> bool:
    return response.count(sep) >= 2


def _separators(response: str, sep: str) -> Spans:
    return occurrences(re.compile(re.escape(sep)), response)


def _thesis_span(response: str) -> Span | None:
    """From the opening tag to the closing one. <i> comes before <em>, wherever they stand."""
    start = next((i for tag in ("<i>", "<em>") if (i := response.find(tag)) >= 0), -1)
    if start < 0:
        return None
    end = next((i for tag in ("</i>", "</em>") if (i := response.find(tag, start)) >= 0), -1)
    return (start, end) if end >= 0 else None


def _thesis(response: str) -> bool:
    # Tags are taken to be as long as <i> and </i>, as in the original.
    span = _thesis_span(response)
    if span is None:
        return False
    start, end = span
    return bool(response[start + 3 : end].strip()) and bool(response[end + 4 :].strip())


def _theses(response: str) -> Spans:
    span = _thesis_span(response)
    return span and [span]


def _sub_bullets(response: str) -> bool:
    # Any star and any hyphen count, wherever they stand; no star passes. As in the original.
    return all("-" in piece for piece in response.split("*")[1:])


def _bullet_marks(response: str) -> Spans:
    return occurrences(_BULLET_MARKS, response)


def _without_sub_bullets(response: str) -> Spans:
    stars = [i for i, character in enumerate(response) if character == "*"]
    ends = [*stars[1:], len(response)]
    return [(a, a + 1) for a, b in zip(stars, ends, strict=False) if "-" not in response[a:b]]


def _sentences_then_bullets(response: str) -> bool:
    # A blank line ends the sentences, and after it, as after the first bullet, every line must be
    # a bullet. As in the original.
    number_of_sentences = number_of_bullets = 0
    prose = True
    for line in response.split("\n"):
        line = line.strip()
        if line.startswith("*"):
            if number_of_sentences < 2:
                return False
            prose = False
            number_of_bullets += 1
        elif prose:
            found = len(sentences(line))
            number_of_sentences += found
            prose = found > 0
        else:
            return False
    return number_of_bullets >= 2


def _star_lines(response: str) -> Spans:
    return occurrences(_STAR_LINE, response)


def _lower_title(word: str) -> bool:
    """A word that title case would begin with a capital, and that is written wrongly."""
    if not word[0].isalpha() or not word[0].islower():
        return False
    rest = word[1:]
    return not rest or rest.isupper() or rest.islower()


def _title_case(response: str) -> bool:
    return not any(map(_lower_title, tokens(response)))


def _lower_titles(response: str) -> Spans:
    spans = token_spans(response)
    return spans and [(a, b) for a, b in spans if _lower_title(response[a:b])]


def _template(response: str) -> bool:
    return all(label in response for label in TEMPLATE)


def _labels(response: str) -> Spans:
    return occurrences(_TEMPLATE, response)


def _no_blanks(response: str) -> bool:
    return not any(map(str.isspace, response))


def _blanks(response: str) -> Spans:
    return [(i, i + 1) for i, character in enumerate(response) if character.isspace()]


def _every_mark(response: str) -> bool:
    """One interrobang is taken out before the single marks are looked for."""
    if not any(mark in response for mark in ("!?", "?!", "‽")):
        return False
    rest = response.replace("?!", "", 1)
    if rest == response:
        rest = response.replace("!?", "", 1)
    return set(MARKS) <= set(rest)


def _marks(response: str) -> Spans:
    return occurrences(_MARK, response)


KINDS = {
    "format:parentheses": Kind(
        _nested,
        f"Nest brackets, such as ( [ {{{{ }}}} ] ), at least {DEPTH} levels deep.",
        fulfils=_nested_spans,
    ),
    "format:quotes": Kind(
        _nested_quotes,
        f"Put quotations into quotations, at least {QUOTE_DEPTH} levels deep, with double and "
        "single quotation marks in turn.",
        fulfils=_nested_quote_spans,
    ),
    "format:options": Kind(
        _one_option,
        "Answer with one of these and nothing else: {options}",
        {"options": TEXT},
        fulfils=_whole,
        breaks=_whole,
    ),
    "format:newline": Kind(
        _word_per_line,
        "Put every word on a line of its own.",
        breaks=_shared_lines,
    ),
    "format:line_indent": Kind(
        _rising,
        "Indent every line further than the line before it, like stairs.",
        fulfils=_indents,
        breaks=_not_rising,
    ),
    "format:quote_unquote": Kind(
        _explained,
        "After every quotation, explain it in words that are not quoted.",
        breaks=_unexplained,
    ),
    "format:list": Kind(
        _listed,
        'Answer with a list whose items begin with "{sep}" instead of bullets.',
        {"sep": TEXT},
        fulfils=_separators,
    ),
    "format:thesis": Kind(
        _thesis,
        "Begin every section with its thesis in italics, written in HTML: <i>thesis</i>",
        fulfils=_theses,
    ),
    "format:sub-bullets": Kind(
        _sub_bullets,
        "Write bullet points marked * and, below each of them, at least one marked -",
        fulfils=_bullet_marks,
        breaks=_without_sub_bullets,
    ),
    "format:no_bullets_bullets": Kind(
        _sentences_then_bullets,
        "Write at least two sentences, then at least two bullet points marked *",
        fulfils=_star_lines,
        needs=("punkt_tab",),
    ),
    "format:title_case": Kind(
        _title_case,
        "Begin Every Important Word With a Capital Letter, as in This Line.",
        breaks=_lower_titles,
        needs=("punkt_tab",),
    ),
    "format:output_template": Kind(
        _template,
        f"Keep to this form: {' '.join(f'{label} …' for label in TEMPLATE)}",
        fulfils=_labels,
    ),
    "format:no_whitespace": Kind(
        _no_blanks,
        "Use no blanks and no line breaks.",
        breaks=_blanks,
    ),
    "count:punctuation": Kind(
        _every_mark,
        "Use each of these marks at least once: . , ! ? ; : and the interrobang ?!",
        fulfils=_marks,
    ),
}
