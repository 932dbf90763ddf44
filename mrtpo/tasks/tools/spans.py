"""Where things stand in a response: its parts, and the characters that each reward is about.

Both work on malformed responses. `response_parts` gives tags, think, names, keys, values and
response text, for figures. `responsible_spans` is what the method `oracle` gives credit to:

    format       the tags; if malformed, the first character that deviates from the layout, tags
                 that the layout has no place for, and what stands around it
    correctness  the tags of calls, names, keys and values; if a call is wrong, the name, the key or
                 the value that differs, the end of a call that lacks an argument, the end of the
                 calls if one is missing; where the tags are missing, so that nothing is read as a
                 call, their place

A thought decides what follows it. Of an answer in text in place of calls, or the reverse, both
rewards are about the whole thought too; and correctness about the tools that it names, where they
are called, or about the place behind them where another should have been named.

Correctness is a grade: of two responses with faults one may be above its group's mean. What it is
then praised for is all that is right in it, not its fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mrtpo.tasks.base import Part
from mrtpo.tasks.tools.rewards import (
    TAGS,
    Layout,
    agreement,
    body_start,
    calls_span,
    format_ok,
    layout,
    layout_tags,
    overlap,
    parse_calls,
    reference_calls,
    same,
)
from mrtpo.tasks.tools.schema import Call

Span = tuple[int, int]
_TAG = re.compile("|".join(map(re.escape, TAGS)))
_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_LITERALS: dict[Layout, tuple[str, ...]] = {
    "calls": ("<think>", "</think>\n<tool_call>\n", "\n</tool_call>"),
    "text": ("<think>", "</think>\n<response>", "</response>"),
    "both": ("<think>", "</think>\n<tool_call>\n", "\n</tool_call>\n<response>", "</response>"),
    "thought": ("<think>", "</think>"),
}
"""What a layout has between its free parts."""


@dataclass
class Written:
    """Where a call's name, keys and values stand; `end` is its last character."""

    end: int
    name: Span | None = None
    keys: dict[str, Span] = field(default_factory=dict)
    values: dict[str, Span] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)


def response_parts(response: str) -> list[Part]:
    """Parts in order: tags, think, names, keys, values, response. Punctuation belongs to none."""
    parts = [Part("tags", *match.span()) for match in _TAG.finditer(response)]
    starts = [part.start for part in parts] + [len(response)]

    def until_tag(name: str, opening: str, start: int) -> None:
        at = response.find(opening, start)
        if at >= 0:
            first = at + len(opening)
            last = next(s for s in starts if s >= first)
            parts.append(Part(name, first, last))

    begin = body_start(response)
    until_tag("think", "<think>", 0)
    region = calls_region(response)
    if region is not None:
        parts += [part for call in written_calls(response, *region) for part in call.parts]
    until_tag("response", "<response>", begin if region is None else region[1])
    return _disjoint(parts)


def _disjoint(parts: list[Part]) -> list[Part]:
    kept: list[Part] = []
    for part in sorted(parts, key=lambda p: (p.start, p.end)):
        if part.start < part.end and (not kept or part.start >= kept[-1].end):
            kept.append(part)
    return kept


def calls_region(response: str) -> Span | None:
    """Where calls stand: between their tags, else after an opening one or from the first line of
    JSON on, to the next tag or the end. None if there is nothing of the kind."""
    if (span := calls_span(response)) is not None:
        return span
    begin = body_start(response)
    opened = response.find("<tool_call>", begin)
    first = opened + len("<tool_call>") if opened >= 0 else response.find('{"', begin)
    if first < 0:
        return None
    after = _TAG.search(response, first)
    return first, after.start() if after else len(response)


def written_calls(response: str, start: int, end: int) -> list[Written]:
    """The calls of a region, a line each; lines without a brace are none."""
    found = []
    for line in re.finditer(r"[^\n]+", response[start:end]):
        if "{" in line.group():
            found.append(_written(response, start + line.start(), start + line.end()))
    return found


def _written(text: str, start: int, end: int) -> Written:
    lexemes = [match.span() for match in _LEXEME.finditer(text, start, end)]
    call = Written(end=lexemes[-1][1] - 1)
    depth, outer, inner = 0, "", ""
    for at, (first, last) in enumerate(lexemes):
        lexeme = text[first:last]
        follows = lexemes[at + 1][0] if at + 1 < len(lexemes) else -1
        is_key = lexeme[0] == '"' and follows >= 0 and text[follows] == ":"
        within = outer == "parameters" and depth >= 2
        if within and not (is_key and depth == 2) and (lexeme not in ":,}" or depth > 2):
            before = call.values.get(inner, (first, last))
            if inner:
                call.values[inner] = (before[0], last)
        if lexeme in "{[":
            depth += 1
        elif lexeme in "}]":
            depth -= 1
        elif is_key and depth == 1:
            outer, inner = _string(lexeme), ""
        elif is_key and depth == 2 and within:
            inner = _string(lexeme)
            call.keys[inner] = _inside(first, last)
            call.values.pop(inner, None)
            call.parts.append(Part("keys", *call.keys[inner]))
        elif lexeme[0] not in ":,":
            shown = _inside(first, last) if lexeme[0] == '"' else (first, last)
            if depth == 1 and outer == "name" and call.name is None:
                call.name = shown
                call.parts.append(Part("names", *shown))
            elif within:
                call.parts.append(Part("values", *shown))
    return call


def _string(lexeme: str) -> str:
    try:
        return str(json.loads(lexeme))
    except ValueError:
        return lexeme.strip('"')


def _inside(first: int, last: int) -> Span:
    """Without the quotes, unless nothing is between them."""
    return (first + 1, last - 1) if last - first > 2 else (first, last)


def responsible_spans(
    response: str, reference: str, praised: Collection[str] = ()
) -> dict[str, list[Span]]:
    """Characters that format and correctness are about. A position at the text's end stands for
    the token that ends the response. Correctness has none where the reference has no calls; what is
    right, where it is in `praised`."""
    spans = {"format": format_spans(response, reference)}
    if truth := reference_calls(reference):
        spans["correctness"] = correctness_spans(response, truth, "correctness" in praised)
    return spans


def thought_span(response: str) -> Span | None:
    """The thought without its tags and the space around it; None if there is none."""
    opened = response.find("<think>")
    if opened < 0:
        return None
    first = opened + len("<think>")
    after = _TAG.search(response, first)
    last = after.start() if after else len(response)
    text = response[first:last]
    start = first + len(text) - len(text.lstrip())
    return (start, start + len(text.strip())) if text.strip() else None


def named_in_thought(response: str, names: Collection[str]) -> list[Span]:
    """Where the thought names tools."""
    span = thought_span(response)
    if span is None or not names:
        return []
    any_name = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    found = re.compile(rf"(?<!\w)(?:{any_name})(?!\w)").finditer(response, *span)
    return [match.span() for match in found]


def format_spans(response: str, reference: str) -> list[Span]:
    name = layout(reference)
    if format_ok(response, reference):
        return [m.span() for m in _TAG.finditer(response) if m.group() in layout_tags(name)]
    wanted = layout_tags(name)
    spans: list[Span] = []
    called = calls_region(response) is not None
    if (name == "text" and called) or (name == "calls" and not called):
        spans += filter(None, [thought_span(response)])
    seen: set[str] = set()
    for match in _TAG.finditer(response):
        if match.group() not in wanted or match.group() in seen:
            spans.append(match.span())
        seen.add(match.group())
    at = deviation(response, name)
    if at is not None and not any(s <= at < e for s, e in spans):
        tag = _TAG.match(response, at)
        spans.append(tag.span() if tag else (at, at + 1))
    return sorted(spans)


def deviation(response: str, name: Layout) -> int | None:
    """The first character that does not fit the layout; the text's length if something is missing
    at its end, None if all fits."""
    position = len(response) - len(response.lstrip())
    end = len(response.rstrip())
    for n, literal in enumerate(_LITERALS[name]):
        tag = literal.strip().split("\n")[0]
        found = position if n == 0 else response.find(tag, position)
        if found < 0:  # another tag in its place, or the end
            other = _TAG.search(response, position)
            return other.start() if other else len(response)
        begin = found - (literal.startswith("\n"))
        for offset, character in enumerate(literal):
            if begin + offset >= end:
                return len(response)
            if response[begin + offset] != character:
                return begin + offset
        position = begin + len(literal)
    return None if position == end else position


def correctness_spans(response: str, truth: Sequence[Call], praised: bool = False) -> list[Span]:
    """As the module says: what is wrong; what is right, if nothing is wrong or it is `praised`."""
    wrong = fault_spans(response, truth)
    if wrong and not praised:
        return wrong
    right = [span for span in decision_spans(response) if span not in wrong]
    return right or wrong


def fault_spans(response: str, truth: Sequence[Call]) -> list[Span]:
    """What is wrong with the calls of a response; nothing if they are right."""
    region = calls_span(response)
    if region is None:
        thought = thought_span(response) if calls_region(response) is None else None
        return [thought, untagged(response)] if thought else [untagged(response)]
    if region[0] == region[1]:
        return [(region[1], region[1] + 1)]
    given = parse_calls(response)
    written = written_calls(response, *region)
    if given is None or len(given) != len(written):
        return unreadable_lines(response, *region) or [region]
    pairs = matched(truth, given)
    spans: list[Span] = []
    for call, i in zip(truth, pairs, strict=True):
        if i is not None:
            spans += _differences(call, given[i], written[i])
    spans += [w.name or (w.end, w.end + 1) for i, w in enumerate(written) if i not in pairs]
    wanted, names = {call.name for call in truth}, {call.name for call in given}
    spans += named_in_thought(response, names - wanted)
    if len(given) < len(truth):
        spans.append((region[1], region[1] + 1))
        named = named_in_thought(response, wanted)
        if named and wanted - {response[start:end] for start, end in named}:
            spans.append((named[-1][1], named[-1][1] + 1))
    return sorted(set(spans))


def decision_spans(response: str) -> list[Span]:
    """The tags of calls that stand, names, keys and values, and the names in the thought, in
    order."""
    begin, region = body_start(response), calls_region(response)
    spans = [m.span() for m in re.finditer("</?tool_call>", response) if m.start() >= begin]
    names = set()
    for call in written_calls(response, *region) if region else ():
        own = (call.name, *call.keys.values(), *call.values.values())
        spans += [span for span in own if span is not None]
        if call.name:
            names.add(response[slice(*call.name)])
    return sorted({*spans, *named_in_thought(response, names)})


def untagged(response: str) -> Span:
    """Where a response without calls between tags should have had the first that it lacks: at the
    calls that stand without it, behind those that are not closed, else at the tag of an answer in
    text, else at the end."""
    region = calls_region(response)
    if region is not None:
        if "<tool_call>" in response[: region[0]]:
            return region[1], region[1] + 1
        return region[0], region[0] + 1
    at = response.find("<response>", body_start(response))
    return (at, at + len("<response>")) if at >= 0 else (len(response), len(response) + 1)


def unreadable_lines(response: str, start: int, end: int) -> list[Span]:
    """The lines of a region that are no calls."""
    lines = re.finditer(r"[^\n]+", response[start:end])
    return [
        (start + line.start(), start + line.end())
        for line in lines
        if parse_calls(f"<tool_call>\n{line.group()}\n</tool_call>") is None
    ]


def _differences(wanted: Call, given: Call, written: Written) -> list[Span]:
    spans = []
    for key in given.arguments:
        if key not in wanted.arguments:
            spans.append(written.keys[key])
        elif not same(wanted.arguments[key], given.arguments[key]):
            spans.append(written.values[key])
    if wanted.arguments.keys() - given.arguments.keys():
        spans.append((written.end - 1, written.end + 1))
    return spans


def matched(truth: Sequence[Call], given: Sequence[Call]) -> list[int | None]:
    """For each truth call the given one that it is compared with, as the reward pairs them."""
    free = list(range(len(given)))
    pairs: list[int | None] = []
    for call in truth:
        scores = {
            i: agreement(call.arguments, given[i].arguments)
            for i in free
            if given[i].name == call.name
        }
        best = max(scores, key=lambda i: (scores[i], -i)) if scores else None
        if best is not None:
            free.remove(best)
        pairs.append(best)
    return pairs


def difference(response: str, reference: str) -> str:
    """What is wrong with a response's calls, in a few words; '' if nothing is."""
    truth = reference_calls(reference)
    if not truth:
        return ""
    given = parse_calls(response)
    if given is None:
        return "no tool calls" if calls_span(response) is None else "calls that are not JSON"
    if overlap([c.name for c in truth], [c.name for c in given]) < 1:
        names = ", ".join(c.name for c in given)
        return f"calls {names} instead of {', '.join(c.name for c in truth)}"
    for call, i in zip(truth, matched(truth, given), strict=True):
        assert i is not None  # the names are the same
        own = given[i].arguments
        if lacking := [k for k in call.arguments if k not in own]:
            return f"{call.name} lacks {', '.join(lacking)}"
        if extra := [k for k in own if k not in call.arguments]:
            return f"{call.name} has {', '.join(extra)} too many"
        for key, value in call.arguments.items():
            if not same(value, own[key]):
                return f"{call.name}: {key} is {_short(own[key])} instead of {_short(value)}"
    return ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
