"""A text that follows constraints of the composer's palette, found by trying lengths.

The writer knows how each kind is followed; how many words and sentences that takes, and what
checkers make of it, is tried out. So a text that it finds proves that its constraints can be
followed together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from mrtpo.tasks.instruct.palette import word_limits
from mrtpo.verifiers.constraints import Constraint, check

FILLERS = {
    "en": "this is the way in which people see that thing and they think about what it does for "
    "them when they look at it",
    "de": "das ist die Art in der man sich die Sache ansieht und dann denkt man nach was sie uns "
    "bringt wenn wir sie nicht verstehen",
    "es": "esta es la manera en que la gente mira las cosas y luego piensa lo que hacen por ellos "
    "cuando las miran otra vez",
    "fr": "voici comment les gens regardent les choses et ensuite ils pensent que cela leur donne "
    "une autre raison pour les regarder encore",
    "it": "questo è il modo in cui la gente guarda le cose e poi pensa a quello che fanno per loro "
    "quando le guardano ancora",
    "pt": "esta é a maneira como as pessoas olham para as coisas e depois pensam no que elas fazem "
    "quando não as veem mais",
    "nl": "dit is de manier waarop de mensen naar die dingen kijken en dan denken zij na over wat "
    "het voor hen doet als zij het zien",
}


def witness(constraints: Sequence[Constraint]) -> str | None:
    """A response that passes every check; None if none of those tried does."""
    wanted = {c.id: dict(c.arguments) for c in constraints}
    low, high = map(
        int,
        (
            max(word_limits(c.id, c.arguments)[0] for c in constraints),
            min(500, *(word_limits(c.id, c.arguments)[1] for c in constraints)),
        ),
    )
    for sentences in (*range(4, 15), 2, 3, 1):
        for words in (0, *range(max(low - 40, 60), min(low + 160, high), 10)):
            text = _written(wanted, sentences, words)
            if all(check(c.id, c.arguments, text).passed for c in constraints):
                return text
    return None


def _tokens(wanted: dict[str, dict[str, Any]]) -> list[str]:
    """What has to occur somewhere, each in a place of its own."""
    found: list[str] = []
    found += wanted.get("keywords:existence", {}).get("keywords", ())
    if given := wanted.get("keywords:frequency"):
        found += [given["keyword"]] * given["frequency"]
    if given := wanted.get("keywords:word_once"):
        found.append(given["keyword"])
    if given := wanted.get("keywords:letter_frequency"):
        found += ["e" + given["letter"] + "e"] * given["let_frequency"]
    given = wanted.get("change_case:capital_word_frequency", {})
    if given.get("capital_relation") == "at least":
        found += ["WHAT"] * given["capital_frequency"]
    if given := wanted.get("count:numbers"):
        found += ["7"] * given["N"]
    if given := wanted.get("detectable_content:number_placeholders"):
        found += ["[place]"] * given["num_placeholders"]
    if given := wanted.get("detectable_format:number_highlighted_sections"):
        found += ["*that*"] * given["num_highlights"]
    return found


def _filler(wanted: dict[str, dict[str, Any]]) -> Iterator[str]:
    given = wanted.get("language:response_language", {"language": "en"})
    return cycle(FILLERS[given["language"]].split())


def _written(wanted: dict[str, dict[str, Any]], sentences: int, words: int) -> str:
    filler = _filler(wanted)
    body: list[str] = []
    for token in _tokens(wanted):
        body += [next(filler), next(filler), token]
    while len(body) < max(words, 5 * sentences):
        body.append(next(filler))
    body.append(next(filler))
    paragraphs = wanted.get("length_constraints:number_paragraphs", {}).get("num_paragraphs", 1)
    divider = "\n***\n"
    if "paragraphs:paragraphs2" in wanted:
        paragraphs, divider = 2, "\n\n"
    marks = _marks(wanted)
    text = divider.join(
        " ".join(_sentences(part, wanted, marks)) for part in _parts(body, sentences, paragraphs)
    )
    text = "\n".join([*_head(wanted), text])
    text += _tail(wanted)
    if "change_case:english_capital" in wanted:
        text = text.upper()
    elif "change_case:english_lowercase" in wanted:
        text = text.lower()
    return f'"{text}"' if "startend:quotation" in wanted else text


def _parts(body: list[str], sentences: int, paragraphs: int) -> list[list[list[str]]]:
    """The words in sentences, and these in paragraphs."""
    size = -(-len(body) // max(sentences, paragraphs))
    cut = [body[i : i + size] for i in range(0, len(body), size)]
    each = len(cut) // paragraphs
    return [cut[i * each : (i + 1) * each if i < paragraphs - 1 else None] for i in
            range(paragraphs)]  # fmt: skip


def _marks(wanted: dict[str, dict[str, Any]]) -> Iterator[str]:
    if "count:punctuation" in wanted:
        return cycle([".", "!", "?", "?!"])
    if "punctuation:punctuation_dot" not in wanted:
        return cycle(["."])
    return cycle(["?" if "punctuation:punctuation_exclamation" in wanted else "!"])


def _sentences(
    part: list[list[str]], wanted: dict[str, dict[str, Any]], marks: Iterator[str]
) -> list[str]:
    found = []
    for words in part:
        text = " ".join(words)
        if "count:punctuation" in wanted:
            text = text.replace(" ", ", ", 1).replace(" ", "; ", 2).replace("; ", " ", 1)
            text = text[::-1].replace(" ", " :", 1)[::-1]
        found.append(text[0].upper() + text[1:] + next(marks))
    return found


def _head(wanted: dict[str, dict[str, Any]]) -> list[str]:
    lines = []
    if given := wanted.get("first_word:first_word_answer"):
        lines.append(given["first_word"])
    if "startend:quotation" in wanted:
        lines.append(next(_filler(wanted)))  # a bullet behind the mark would be none
    if "detectable_format:title" in wanted:
        lines.append("<<this thing>>")
    if given := wanted.get("detectable_format:multiple_sections"):
        lines += [f"{given['section_spliter']} {i + 1}" for i in range(given["num_sections"])]
    if given := wanted.get("detectable_format:number_bullet_lists"):
        filler = _filler(wanted)
        lines += [f"* {next(filler)} {next(filler)}" for _ in range(given["num_bullets"])]
    return lines


def _tail(wanted: dict[str, dict[str, Any]]) -> str:
    if given := wanted.get("startend:end_checker"):
        return f" {given['end_phrase']}"
    if given := wanted.get("last_word:last_word_answer"):
        return f" {given['last_word']}"
    if given := wanted.get("detectable_content:postscript"):
        return f"\n{given['postscript_marker']} that is it"
    return ""
