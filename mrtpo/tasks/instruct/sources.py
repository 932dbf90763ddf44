"""Readers of training sets of instruction following; which one a file is, its fields tell.

    if_rlvr    messages, ground_truth, …: IF-RLVR (allenai/IF_multi_constraints_upto5) and the older
               RLVR-IFeval (a function with arguments)
    ifeval     prompt, instruction_id_list, kwargs: IFEval's and IFBench's files
    muldimif   conversations, constraints, constraint_pattern: MulDimIF's train.json and test.json
    recast     winner_prompt, rule_evaluate_dict, …: RECAST-30K
    hir        prompt, criteria, ground_truth: HIR-16K

Confirmed on the files themselves: ifeval and muldimif. if_rlvr follows the data card and
open-instruct's reader, recast its authors' evaluation code, hir what users of the set say of its
rows (ids with arguments, MulDimIF's triples, or code with a judge's questions; code in data is
never run).

What cannot be checked stays in the prompt and is counted (`Samples.unchecked`); a row without
anything to check is dropped and counted by reason. What is malformed raises ValueError naming file,
row and field.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mrtpo.records import Message
from mrtpo.tasks.instruct.listing import listed, without_list
from mrtpo.tasks.instruct.muldimif import Row, read_muldimif
from mrtpo.tasks.instruct.translate import of_function, of_recast
from mrtpo.tasks.rows import Values, bad_field, field_text, read_rows
from mrtpo.verifiers.constraints import Constraint, ConstraintError, constraint
from mrtpo.verifiers.muldimif import kind_of

MOST_LITERAL = 20_000  # characters of a Python literal that is read

Make = Callable[[], Constraint]


@dataclass(frozen=True)
class Checked:
    """A constraint, and the text by which the prompt states it: "" if that cannot be told."""

    constraint: Constraint
    stated: str = ""


@dataclass(frozen=True)
class Sample:
    """A prompt with its constraints. The last message is the user's.

    `bare` is its text without any constraint; None where they cannot be told apart. `row` counts
    the file's rows from 0.
    """

    id: str
    messages: tuple[Message, ...]
    constraints: tuple[Checked, ...]
    bare: str | None = None
    level: str = ""
    file: str = ""
    row: int = 0


@dataclass
class Samples:
    """What files hold. `dropped` and `unchecked` count rows and constraints by reason."""

    form: str
    samples: list[Sample] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    unchecked: Counter[str] = field(default_factory=Counter)

    def take(self, file: Path, row: int, read: Callable[[], Sample]) -> None:
        """Keep what `read` makes of a row, or count why it is of no use."""
        try:
            self.samples.append(replace(read(), file=str(file), row=row))
        except Useless as reason:
            self.dropped[str(reason)] += 1

    def needed(self, files: Sequence[Path]) -> Samples:
        """Itself. Raises ValueError naming the files where no row is of use."""
        if not self.samples:
            counts = ", ".join(f"{reason}: {n}" for reason, n in self.dropped.most_common(5))
            raise ValueError(f"{', '.join(map(str, files))}: no row is of use ({counts})")
        return self


class Useless(Exception):
    """A row that nothing can be learnt from; the reason is counted."""


def read_samples(files: Sequence[Path], form: str | None = None) -> Samples:
    """The samples of files of one form; without `form`, of that of the first file.

    Raises ValueError naming file, row and field at what is malformed, at rows of another form, and
    where no row is of use.
    """
    found = Samples(form or form_of(files[0]))
    for file in files:
        if (other := form_of(file)) != found.form:
            raise ValueError(f"{file}: its rows are of the form {other}, not {found.form}")
        for row, read in _each(file, found.form, found):
            found.take(file, row, read)
    return found.needed(files)


def form_of(file: Path) -> str:
    """Raises ValueError naming the fields that are there, where no form has them."""
    if form := known_form(file):
        return form
    _, first = next(iter(read_rows(file)))
    known = "; ".join(f"{form}: {', '.join(sorted(n))}" for form, (n, _) in _FORMS.items())
    raise ValueError(f"{file}: row 0 (from 0): fields {', '.join(first)} are of no known form "
                     f"({known})")  # fmt: skip


def known_form(file: Path) -> str | None:
    """The form whose fields the first row has, if there is one."""
    _, first = next(iter(read_rows(file)))
    return next((form for form, (needed, _) in _FORMS.items() if needed <= set(first)), None)


def _each(file: Path, form: str, into: Samples) -> Iterator[tuple[int, Callable[[], Sample]]]:
    if form == "muldimif":
        for number, row in enumerate(read_muldimif(file)):
            yield number, partial(_muldimif, row, into)
        return
    reader = _FORMS[form][1]
    for number, values in read_rows(file):
        yield number, partial(reader, file, number, values, into)


def _checked(given: Sequence[tuple[Make, str]], into: Samples) -> list[Checked]:
    """The constraints that can be checked; the others are counted by reason."""
    found: list[Checked] = []
    for make, stated in given:
        try:
            made = Checked(make(), stated)
        except ConstraintError as error:
            into.unchecked[str(error)[:100]] += 1
            continue
        if any(made.constraint == other.constraint for other in found):
            into.unchecked["the same once more"] += 1
        else:
            found.append(made)
    if not found:
        raise Useless("nothing that can be checked")
    return found


def messages_of(file: Path, row: int, values: Values, name: str) -> tuple[Message, ...]:
    given = values.get(name)
    if not isinstance(given, list):
        raise bad_field(file, row, name, "expected a list of messages")
    found = []
    for place, message in enumerate(given):
        if not isinstance(message, dict) or not all(
            isinstance(message.get(key), str) for key in ("role", "content")
        ):
            raise bad_field(file, row, f"{name}[{place}]", "expected a role and a content")
        found.append(Message(message["role"], message["content"]))
    while found and found[-1].role != "user":
        found.pop()
    if not found or not found[-1].content.strip():
        raise Useless("no message of the user")
    return tuple(found)


def _stated(text: str, prompt: str) -> str:
    """The text, if it stands in the prompt once."""
    return text if text and prompt.count(text) == 1 else ""


def _if_rlvr(file: Path, row: int, values: Values, into: Samples) -> Sample:
    messages = messages_of(file, row, values, "messages")
    prompt = messages[-1].content
    truth = values.get("ground_truth")
    if isinstance(truth, list) and truth:
        truth = truth[0]
    rule = _literal(file, row, truth) if isinstance(truth, str) else truth
    text = field_text(file, row, values, "constraint", optional=True)
    if isinstance(rule, dict) and "func_name" in rule:
        made: list[Make] = [partial(of_function, str(rule["func_name"]), rule)]
    else:
        made = _makers(file, row, rule)
    alone = _stated(text, prompt) if len(made) == 1 else ""
    bare = None
    if (
        text
        and prompt.strip() != text
        and (prompt.strip().endswith(text) or prompt.strip().startswith(text))
    ):
        bare = prompt.strip().removesuffix(text).removeprefix(text).strip() or None
    return Sample(
        field_text(file, row, values, "key", optional=True) or str(row),
        messages, tuple(_checked([(make, alone) for make in made], into)), bare,
    )  # fmt: skip


def _literal(file: Path, row: int, text: str) -> Any:
    """The first item of a Python literal list, or JSON; that item may be JSON again."""
    if len(text) > MOST_LITERAL:
        raise Useless(f"ground_truth of more than {MOST_LITERAL} characters")
    found: Any = text
    for _ in range(3):
        if isinstance(found, list) and found:
            found = found[0]
        if not isinstance(found, str):
            return found
        found = _parsed(file, row, found)
    return found[0] if isinstance(found, list) and found else found


def _parsed(file: Path, row: int, text: str) -> Any:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise bad_field(file, row, "ground_truth", f"neither JSON nor a Python literal: {text!r:.60}")


def _makers(file: Path, row: int, rule: Any, name: str = "ground_truth") -> list[Make]:
    """Of ids and as many arguments; `instruction_id` is IF-RLVR's name, the other the rest's."""
    if not isinstance(rule, dict):
        raise bad_field(file, row, name, f"expected an object, found {type(rule).__name__}")
    ids = rule.get("instruction_id", rule.get("instruction_id_list"))
    arguments = rule.get("kwargs")
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise bad_field(file, row, f"{name}.instruction_id", "expected a list of texts")
    if not isinstance(arguments, list) or len(arguments) != len(ids):
        raise bad_field(file, row, f"{name}.kwargs", "expected a list, one for each constraint")
    for place, given in enumerate(arguments):
        if given is not None and not isinstance(given, dict):
            raise bad_field(file, row, f"{name}.kwargs[{place}]", "expected an object or null")
    return [partial(constraint, id, given) for id, given in zip(ids, arguments, strict=True)]


def _ifeval(file: Path, row: int, values: Values, into: Samples) -> Sample:
    prompt = field_text(file, row, values, "prompt")
    given = [(make, "") for make in _makers(file, row, values, "row")]
    key = values.get("key", row)
    return Sample(str(key), (Message("user", prompt),), tuple(_checked(given, into)))


def _muldimif(row: Row, into: Samples) -> Sample:
    lines = [c.text for c in row.constraints]
    found = without_list(row.prompt, lines)
    bare, stated = found if found else (None, [_stated(text, row.prompt) for text in lines])
    given = [
        (partial(_own_text, c.category, c.subcategory, c.text), text)
        for c, text in zip(row.constraints, stated, strict=True)
    ]
    checked = _checked(given, into)
    return Sample(row.id, row.messages, tuple(checked), bare, row.level)


def _own_text(category: Any, subcategory: Any, text: Any) -> Constraint:
    kind = kind_of(str(category), str(subcategory))
    if kind is None:
        raise ConstraintError(f"unknown kind {category!r}, {subcategory!r}")
    return constraint(f"muldimif:{kind.checker}", {"text": text})


def _recast(file: Path, row: int, values: Values, into: Samples) -> Sample:
    prompt = field_text(file, row, values, "winner_prompt")
    rules = values.get("rule_evaluate_dict")
    if not isinstance(rules, dict):
        raise bad_field(file, row, "rule_evaluate_dict", "expected an object")
    texts = values.get("added_constraint_from_rule")
    judged = values.get("added_constraint_from_LLM")
    if isinstance(judged, dict):
        into.unchecked["asks for a judge"] += sum(
            len(of) for of in judged.values() if isinstance(of, list)
        )
    given: list[tuple[Make, str]] = []
    for name, rule in rules.items():
        if not isinstance(rule, dict) or not isinstance(rule.get("func_input"), list):
            raise bad_field(file, row, f"rule_evaluate_dict.{name}", "expected func and func_input")
        stated = _recast_text(name, texts, prompt)
        try:
            constraints = of_recast(str(rule.get("func")), rule["func_input"])
        except ConstraintError as error:
            into.unchecked[str(error)[:100]] += 1
            continue
        alone = stated if len(constraints) == 1 else ""
        given += [(partial(constraint, c.id, c.arguments), alone) for c in constraints]
    id = values.get("id", row)
    return Sample(str(id), (Message("user", prompt),), tuple(_checked(given, into)))


_RECAST_TEXTS = {
    "word_length": "Length", "sentence_length": "Length", "keyword": "Keyword",
    "start_with": "Strat_With", "end_with": "End_With", "all_upper": "All_Upper",
    "all_lower": "All_lower", "no_commas": "No_Commas",
}  # fmt: skip


def _recast_text(rule: str, texts: Any, prompt: str) -> str:
    """The text of a rule: its category's only one, of lengths the one on words or sentences."""
    of = texts.get(_RECAST_TEXTS.get(rule, "")) if isinstance(texts, dict) else None
    found = [text for text in of or [] if isinstance(text, str)]
    if rule.endswith("_length"):
        found = [text for text in found if rule.partition("_")[0] in text.lower()]
    return _stated(found[0], prompt) if len(found) == 1 else ""


def _hir(file: Path, row: int, values: Values, into: Samples) -> Sample:
    """Criteria that the prompt does not state are listed at its end."""
    prompt = field_text(file, row, values, "prompt")
    criteria, truth = values.get("criteria"), values.get("ground_truth")
    if not isinstance(criteria, list) or not all(isinstance(c, str) for c in criteria):
        raise bad_field(file, row, "criteria", "expected a list of texts")
    if not isinstance(truth, dict):
        raise bad_field(file, row, "ground_truth", "expected an object")
    made: list[Make] = []
    if "constraints" in truth and isinstance(truth["constraints"], list):
        for place, item in enumerate(truth["constraints"]):
            if not isinstance(item, list) or len(item) != 3:
                raise bad_field(file, row, f"ground_truth.constraints[{place}]", "expected three")
            made.append(partial(_own_text, *item))
    elif "kwargs" in truth:
        made = _makers(file, row, truth)
    else:
        into.unchecked["code, or asks for a judge"] += len(criteria)
        raise Useless("nothing that can be checked")
    if len(made) != len(criteria):
        raise bad_field(file, row, "criteria", f"{len(criteria)}, but {len(made)} rules")
    inside = [_stated(text, prompt) for text in criteria]
    bare = None
    if not any(inside) and not any(text in prompt for text in criteria):
        bare = prompt
        prompt, inside = listed(prompt, criteria)
    checked = _checked(list(zip(made, inside, strict=True)), into)
    return Sample(
        str(values.get("id", row)), (Message("user", prompt),), tuple(checked), bare,
    )  # fmt: skip


_FORMS: dict[str, tuple[set[str], Callable[..., Sample]]] = {
    "muldimif": ({"conversations", "constraints", "constraint_pattern"}, _ifeval),
    "if_rlvr": ({"messages", "ground_truth"}, _if_rlvr),
    "recast": ({"winner_prompt", "rule_evaluate_dict"}, _recast),
    "hir": ({"prompt", "criteria", "ground_truth"}, _hir),
    "ifeval": ({"prompt", "instruction_id_list", "kwargs"}, _ifeval),
}
