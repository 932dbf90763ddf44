"""ToolRL's rewards (arXiv 2504.13958): format of 0 or 1, correctness in [−3, 3].

A reference and a response are text in these layouts; what the reference has, the response must
have (`layout`):

    calls:     <think>…</think>\\n<tool_call>\\n{call}\\n…\\n</tool_call>
    text:      <think>…</think>\\n<response>…</response>
    both:      <think>…</think>\\n<tool_call>\\n{call}\\n…\\n</tool_call>\\n<response>…</response>
    thought:   <think>…</think>

A call is one line of JSON, `{"name": …, "parameters": {…}}`. Equal calls in equal order give the
maximum. Else, with truth calls t, names N and predicted names M,

    score = J(N, M) + Σ_t max_p [J(keys t, keys p) + #{k: t[k] = p[k]}]
    most  = 1 + Σ_t (1 + #keys t)
    correctness = 6 · score / most − 3

J is the Jaccard index with counts; p runs over the predicted calls of t's name that no earlier t
took. Calls that cannot be read give −3; a reference without calls gives 0.

docs/tools.md lists where this differs from the published code: values are typed (true is not 1),
a thought may mention a tag, every tag of the layout stands once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from mrtpo.tasks.tools.schema import Call

Layout = Literal["calls", "text", "both", "thought"]
Variant = Literal["fine", "refined", "intermediate", "coarse"]

TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>")
WORDS = 512  # words of a thought that has the whole length reward
_THOUGHT = r"<think>.*?</think>"
_CALLS = r"\n<tool_call>\n.*?\n</tool_call>"
_TEXT = r"\n<response>.*?</response>"
_LAYOUTS: dict[Layout, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "calls": (re.compile(_THOUGHT + _CALLS, re.DOTALL), TAGS[:4]),
    "text": (re.compile(_THOUGHT + _TEXT, re.DOTALL), (*TAGS[:2], *TAGS[4:])),
    "both": (re.compile(_THOUGHT + _CALLS + _TEXT, re.DOTALL), TAGS),
    "thought": (re.compile(_THOUGHT, re.DOTALL), TAGS[:2]),
}
_AFTER_THOUGHT = re.compile(r"</think>\s*(?=<tool_call>|<response>)")


def layout(reference: str) -> Layout:
    """The layout that a reference has, and so asks for; tags in its thought do not count."""
    rest = reference[body_start(reference) :]
    calls, text = "<tool_call>" in rest, "<response>" in rest
    return ("both" if text else "calls") if calls else ("text" if text else "thought")


def layout_tags(name: Layout) -> tuple[str, ...]:
    """The tags of a layout, in order."""
    return _LAYOUTS[name][1]


def format_ok(response: str, reference: str) -> bool:
    """Whether the whole response, trimmed, has the reference's layout, with each tag of it once."""
    pattern, tags = _LAYOUTS[layout(reference)]
    # Counted first: with each tag there once the search is linear.
    counted = all(response.count(tag) == 1 for tag in tags)
    return counted and pattern.fullmatch(response.strip()) is not None


def body_start(text: str) -> int:
    """Where the thought ends: at the `</think>` that another part follows, else at the first."""
    if found := _AFTER_THOUGHT.search(text):
        return found.end()
    at = text.find("</think>")
    return 0 if at < 0 else at + len("</think>")


def calls_span(text: str) -> tuple[int, int] | None:
    """Characters between <tool_call> and </tool_call>; None if there are no such tags.

    The first pair after the thought counts, or the first of all if the thought has no end.
    """
    for start in (body_start(text), 0):
        opened = text.find("<tool_call>", start)
        if opened >= 0:
            first = opened + len("<tool_call>")
            last = text.find("</tool_call>", first)
            if last >= 0:
                return first, last
    return None


def parse_calls(text: str) -> list[Call] | None:
    """The calls of a response; None where a line is no call: an object with a text `name` and an
    object `parameters`.
    """
    calls = []
    for value in _values(text) or [None]:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return None
        if not isinstance(value.get("parameters"), dict):
            return None
        calls.append(Call(value["name"], value["parameters"]))
    return calls


def reference_calls(reference: str) -> list[Call]:
    """The calls of a reference; empty where it has none.

    Lines of prose are left out, and a call without parameters has none. Raises ValueError where
    nothing between the tags is a call.
    """
    if layout(reference) not in ("calls", "both"):
        return []
    span = calls_span(reference)
    if span is None:
        raise ValueError("the reference does not close <tool_call>")
    calls = []
    for line in reference[slice(*span)].strip().split("\n"):
        value = _json(line)
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            given = value.get("parameters", {})
            if not isinstance(given, dict):
                raise ValueError(f"the reference calls {value['name']} with {given!r}")
            calls.append(Call(value["name"], given))
    if not calls:
        raise ValueError("the reference has <tool_call> and no line that is a call")
    return calls


def correctness(
    response: str, reference: str, variant: Variant = "fine", largest: float = 3.0
) -> float:
    """How far a response's calls are those of the reference, from −`largest` to `largest`.

    `refined`: names and keys count only if all are equal, in order. `intermediate`: a call counts
    only if it is equal as a whole. `coarse`: only all calls together. Raises ValueError on a
    reference whose calls cannot be read; never on a response.
    """
    truth = reference_calls(reference)
    if not truth:
        return 0.0
    predicted = _values(response)
    share = None if predicted is None else _share(truth, predicted, variant)
    return -largest if share is None else 2 * largest * share - largest


def _share(truth: Sequence[Call], predicted: Sequence[Any], variant: Variant) -> float | None:
    """Score as a share of the most there is; None where something that is needed is no call."""
    wanted = [call_object(call) for call in truth]
    if same(wanted, list(predicted)):
        return 1.0
    if variant == "coarse":
        return 0.0
    names = []
    for value in predicted:
        if not isinstance(value, dict) or "name" not in value:
            return None
        if isinstance(value["name"], dict | list):
            return None
        names.append(value["name"])
    score = overlap([call.name for call in truth], names, strict=variant == "refined")
    most = 1.0
    free = list(range(len(predicted)))
    for call, whole in zip(truth, wanted, strict=True):
        most += 1.0 if variant == "intermediate" else 1.0 + len(call.arguments)
        best, taken = 0.0, None
        for i in free:
            if not (isinstance(names[i], str) and names[i] == call.name):
                continue
            if variant == "intermediate":
                value = float(same(whole, predicted[i]))
            elif isinstance(predicted[i].get("parameters"), dict):
                value = agreement(call.arguments, predicted[i]["parameters"], variant)
            else:
                return None
            if value > best:
                best, taken = value, i
        if taken is not None:
            free.remove(taken)
            score += best
    return score / most


def agreement(wanted: dict[str, Any], given: dict[str, Any], variant: Variant = "fine") -> float:
    """Overlap of the keys, and the number of wanted values that are there and equal."""
    equal = sum(1.0 for key, value in wanted.items() if key in given and same(value, given[key]))
    return overlap(list(wanted), list(given), strict=variant == "refined") + equal


def overlap(first: Sequence[Any], second: Sequence[Any], strict: bool = False) -> float:
    """Jaccard index with counts; two empty lists are equal. `strict`: 1 if equal in order, or 0."""
    if list(first) == list(second):
        return 1.0
    if strict or not first or not second:
        return 0.0
    common = (Counter(first) & Counter(second)).total()
    return common / (len(first) + len(second) - common)


def length(response: str) -> float:
    """ToolRL's optional third reward: words of the thought over 512, to two digits, at most 1."""
    if "<think>" not in response or "</think>" not in response:
        return 0.0
    thought = response.split("<think>")[-1].split("</think>")[0]
    return min(1.0, round(len(thought.split()) / WORDS, 2))


def same(first: Any, second: Any) -> bool:
    """Equality of JSON values: types count ("1", 1 and true differ), 1 and 1.0 are one number, NaN
    is equal to itself. Values may be nested to any depth.
    """
    waiting = [(first, second)]
    while waiting:
        a, b = waiting.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            waiting += [(a[key], b[key]) for key in a]
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            waiting += zip(a, b, strict=True)
        elif isinstance(a, bool) or isinstance(b, bool):
            if a is not b:
                return False
        elif a != b and not (a != a and b != b):
            return False
    return True


def call_object(call: Call) -> dict[str, Any]:
    """A call as the JSON object that stands in a line."""
    return {"name": call.name, "parameters": call.arguments}


def call_lines(calls: Sequence[Call]) -> str:
    """Calls as lines of JSON, without tags."""
    return "\n".join(json.dumps(call_object(call), ensure_ascii=False) for call in calls)


class _NoJson:
    """A line that is not JSON."""


def _json(line: str) -> Any:
    # ValueError also where a number has more digits than Python converts.
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return _NoJson


def _values(text: str) -> list[Any] | None:
    """What stands in the lines between the tags; None without tags or where a line is no JSON."""
    span = calls_span(text)
    if span is None:
        return None
    values = [_json(line) for line in text[slice(*span)].strip().split("\n")]
    return None if any(value is _NoJson for value in values) else values
