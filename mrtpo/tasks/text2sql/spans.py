"""Which characters of a response each reward is about: known, for the method `oracle` and to score
attribution by.

format: the tags and fences; where the format is wrong also the place of the fault: text that stands
outside of the parts, a tag too many, what stands where a tag is missing.

executability: the names in the query; where it does not run the names that the database does not
know, else the place that the engine complains about, else the whole query.

execution: the decisions of the query; where the result is wrong, the lexemes that differ from the
reference's, whatever their case, blanks, quotes and aliases. What is missing was decided where
something else was written instead: at the lexeme that follows, or at the end.

Without a query the last two are about all of the answer. Spans are half-open; one that reaches past
the last character means the end token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from mrtpo.tasks.text2sql.lexemes import (
    SCAFFOLD,
    Lexeme,
    Names,
    Roles,
    lexemes,
    qualifier,
    qualifies,
    roles,
)
from mrtpo.tasks.text2sql.prompts import FENCES, TAGS, format_ok, sql_span

Span = tuple[int, int]

_MARKS = (TAGS[0], TAGS[1], TAGS[2], FENCES[0], FENCES[1], TAGS[3])
_MARK = re.compile("|".join(map(re.escape, (*TAGS, *FENCES))))
_LUMP = re.compile(r"```sql|```|</?\w+>|\w+|[^\w\s]+")
_UNKNOWN = re.compile(r"(?:no such (?:column|table)|ambiguous column name): (.+)")
_NEAR = re.compile(r'near "(.+?)"|unrecognized token: "(.+)"|no such function: (.+)', re.DOTALL)
_MOST_LEXEMES = 2000  # a difference of longer texts is not worth its time


def response_spans(
    response: str, reference: str, names: Names, executable: bool | None, right: bool | None,
    detail: str = "",
) -> dict[str, list[Span]]:  # fmt: skip
    """Spans by reward. `names`: columns by table; `executable`, `right` and `detail` are what the
    verifier found. What it could not decide counts as wrong. Never raises."""
    start, end = sql_span(response)
    found = lexemes(response, start, end)
    spans = {"format": format_spans(response)}
    if not found or len(found) > _MOST_LEXEMES:
        region = answer_region(response)
        return spans | {"executability": [region], "execution": [region]}
    known = roles(found, names)
    if executable:
        runs = [_span(found[i]) for i in known.names]
    else:
        runs = fault_spans(found, known, names, detail)
    if right:
        chosen = decision_spans(response[start:end], names, start)
    else:
        after = _after(response, found[-1].end)
        chosen = differing_spans(found, known, lexemes(reference), names, after)
    whole = [(start, end)]
    return spans | {"executability": _joined(runs) or whole, "execution": _joined(chosen) or whole}


def format_spans(response: str) -> list[Span]:
    """Tags and fences, and where the format is wrong the places of its faults."""
    spans = [match.span() for match in _MARK.finditer(response)]
    if not format_ok(response):
        spans += format_faults(response)
    return _joined(spans) or [(0, max(1, len(response)))]


def format_faults(response: str) -> list[Span]:
    """The places of what is wrong alone, in a response whose format is."""
    marks = [(match.group(), match.span()) for match in _MARK.finditer(response)]
    return _joined([*_misplaced(response, marks), *_instead(response, marks)])


def _misplaced(response: str, marks: Sequence[tuple[str, Span]]) -> Iterator[Span]:
    """Text that is neither in the think part nor in the fenced block."""
    at, open_ = 0, "start"
    for mark, (start, end) in [*marks, ("", (len(response), len(response)))]:
        if open_ not in ("<think>", "```sql") and mark != "</think>":
            text = response[at:start]
            # A query without its fence is in its place: the fence is what is missing.
            if text.strip() and not (open_ == "<answer>" and "```sql" not in response):
                first = at + len(text) - len(text.lstrip())
                yield first, at + len(text.rstrip())
        at, open_ = end, mark


def _instead(response: str, marks: Sequence[tuple[str, Span]]) -> Iterator[Span]:
    """What stands where a mark is missing: the next word or mark."""
    order = SequenceMatcher(None, _MARKS, [mark for mark, _ in marks], autojunk=False)
    for what, _, _, first, last in order.get_opcodes():
        if what == "delete":
            at = marks[first - 1][1][1] if first else 0
            if first and marks[first - 1][0] in ("<think>", "```sql"):
                # The part's text belongs there; it should have ended where the next mark stands.
                at = marks[first][1][0] if first < len(marks) else len(response.rstrip())
            yield _after(response, at)
        elif what in ("insert", "replace"):
            yield from (place for _, place in marks[first:last])


def answer_region(response: str) -> Span:
    """Where the query should be: the answer, else what follows the think part, else everything."""
    start = max(response.rfind("<answer>") + len("<answer>"), 0)
    if "<answer>" not in response:
        start = response.find("</think>") + len("</think>") if "</think>" in response else 0
    end = response.find("</answer>", start)
    start, end = start, end if end >= 0 else len(response)
    text = response[start:end]
    if not text.strip():
        return _after(response, start)
    return start + len(text) - len(text.lstrip()), start + len(text.rstrip())


def fault_spans(found: Sequence[Lexeme], known: Roles, names: Names, detail: str) -> list[Span]:
    """Why a query does not run: unknown names, else what the engine's message is about."""
    spans = [_span(found[i]) for i in _unknown(found, known, names)]
    if spans:
        return spans
    if match := _UNKNOWN.search(detail):
        *_, name = match[1].lower().split(".")
        return [_span(found[i]) for i in known.names if found[i].name == name]
    if match := _NEAR.search(detail):
        text = next(filter(None, match.groups())).lower()
        at = [i for i, lexeme in enumerate(found) if lexeme.lower.startswith(text)]
        return [(found[max(0, i - 1)].start, found[i].end) for i in at]
    if "incomplete" in detail:
        return [(found[-1].start, found[-1].end + 1)]
    return []


def _unknown(found: Sequence[Lexeme], known: Roles, names: Names) -> Iterator[int]:
    """Names that are no table, column or alias; and both parts of `t.c` where t has no c."""
    columns = {column.lower() for own in names.values() for column in own} | {"rowid", "oid"}
    tables = {table.lower() for table in names}
    aliases = {found[i].name for i in known.defined}
    for i in known.names:
        name, at = found[i].name, qualifier(found, i)
        if qualifies(found, i) or found[max(0, i - 1)].lower in ("from", "join"):
            if name not in tables and name not in aliases:
                yield i
        elif name not in columns and name not in aliases and name not in tables:
            yield i
        elif at is not None and found[at].name in known.tables:
            own = {column.lower() for column in names[known.tables[found[at].name]]}
            if name not in own and name not in ("rowid", "oid"):
                yield from (at, i)


def decision_spans(sql: str, names: Names, offset: int) -> list[Span]:
    """The lexemes that are decisions: names, operators, literals, functions, and the keywords that
    a query can do without; no brackets, commas, aliases or SELECT and FROM."""
    found = lexemes(sql)
    given = roles(found, names).defined
    return [
        (lexeme.start + offset, lexeme.end + offset)
        for i, lexeme in enumerate(found)
        if lexeme.kind != "mark" and lexeme.lower not in SCAFFOLD and i not in given
    ]


def differing_spans(
    found: Sequence[Lexeme], known: Roles, reference: Sequence[Lexeme], names: Names, after: Span
) -> list[Span]:
    """Lexemes that the reference has not, and those (or `after`, the end) that stand where it has
    something that the query has not."""
    theirs = roles(reference, names)
    bare = not (_qualified(found, known) and _qualified(reference, theirs))
    mine, own = _keys(found, known, bare)
    wanted, _ = _keys(reference, theirs, bare)
    spans = []
    matcher = SequenceMatcher(None, mine, wanted, autojunk=False)
    for what, first, last, _, _ in matcher.get_opcodes():
        if what == "delete" or what == "replace":
            spans += [_span(found[own[k]]) for k in range(first, last)]
        elif what == "insert":
            spans.append(_span(found[own[first]]) if first < len(own) else after)
    return spans


def _qualified(found: Sequence[Lexeme], known: Roles) -> bool:
    return any(qualifies(found, i) for i in known.names)


def _keys(found: Sequence[Lexeme], known: Roles, bare: bool) -> tuple[list[str], list[int]]:
    """What to compare lexemes by, and the index of each. Aliases read as their tables, and are
    left out where they are given; `bare`: so are the tables before columns."""
    keys, own = [], []
    used = set(known.names)
    for i, lexeme in enumerate(found):
        word = lexeme.lower
        if word in ("as", "inner", "asc", ";") or i in known.defined:
            continue
        if bare and ((i in used and qualifies(found, i)) or (word == "." and i and i - 1 in used)):
            continue
        if i in used:
            word = known.tables.get(lexeme.name, lexeme.name).lower()
        elif lexeme.kind in ("string", "quoted"):
            word = "'" + lexeme.text.strip("'\"")
        keys.append({"<>": "!=", "==": "="}.get(word, word))
        own.append(i)
    return keys, own


def _span(lexeme: Lexeme) -> Span:
    return lexeme.start, lexeme.end


def _after(response: str, at: int) -> Span:
    """The next word, mark or tag from `at` on, with the blanks before it, else the end token."""
    match = _LUMP.search(response, at)
    return (at, match.end()) if match else (at, len(response) + 1)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Sorted, without empty and repeated ones."""
    return sorted({span for span in spans if span[0] < span[1]})
