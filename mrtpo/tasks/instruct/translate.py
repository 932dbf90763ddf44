"""Rules of other training sets as our kinds.

RLVR-IFeval names a function (`func_name`) with arguments, RECAST-30K one with a list of positional
arguments of which the first is a response (`rule_evaluate_dict`). Each becomes a kind of the same
meaning; where words or sentences are counted, ours are counted our way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mrtpo.verifiers.constraints import Constraint, ConstraintError, constraint

Given = Mapping[str, Any]


def of_function(name: str, given: Given) -> Constraint:
    """RLVR-IFeval's rule as a constraint. Raises ConstraintError where there is none."""
    if name not in _FUNCTIONS:
        raise ConstraintError(f"unknown function {name!r}")
    return _made(name, lambda: _FUNCTIONS[name](given))


def of_recast(name: str, inputs: Sequence[Any]) -> list[Constraint]:
    """RECAST's rule as constraints: one, or one for each of its keywords.

    Raises ConstraintError where there is none.
    """
    if name == "evaluate_keyword" and len(inputs) > 1 and isinstance(inputs[1], dict):
        counts = inputs[1].items()
        return [_made(name, lambda t=t, n=n: _exactly(t, n)) for t, n in counts]  # type: ignore[misc]
    if name not in _RECAST:
        raise ConstraintError(f"unknown function {name!r}")
    return [_made(name, lambda: _RECAST[name](inputs))]


def _made(name: str, make: Callable[[], Constraint]) -> Constraint:
    try:
        return make()
    except ConstraintError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ConstraintError(f"{name}: arguments that it does not take: {error}") from error


def _related(id: str, count: str, given: Given, relation: str = "relation") -> Constraint:
    """At least, or at most: a threshold of ours is "at least" or "less than"."""
    n, quantifier = int(given["N"]), given["quantifier"]
    if quantifier not in ("at least", "at most"):
        raise ConstraintError(f"unknown quantifier {quantifier!r}")
    least = quantifier == "at least"
    return constraint(
        id, {count: n if least else n + 1, relation: "at least" if least else "less than"}
    )


def _words(given: Given) -> Constraint:
    n = int(given["N"])
    if given["quantifier"] != "around":
        return _related("length_constraints:number_words", "num_words", given)
    room = max(round(n * 0.1), 1)
    return constraint("count:word_count_range", {"min_words": n - room, "max_words": n + room})


def _sentences(given: Given) -> Constraint:
    n = int(given["N"])
    if given["quantifier"] != "around":
        return _related("length_constraints:number_sentences", "num_sentences", given)
    return constraint(
        "exact:sentence_range", {"min_sentences": max(n - 1, 0), "max_sentences": n + 1}
    )


def _capital_words(given: Given) -> Constraint:
    return _related(
        "change_case:capital_word_frequency", "capital_frequency", given, "capital_relation"
    )


def _renamed(id: str, **names: str) -> Callable[[Given], Constraint]:
    """The kind whose arguments are called otherwise."""
    return lambda given: constraint(id, {ours: given[theirs] for ours, theirs in names.items()})


_FUNCTIONS: dict[str, Callable[[Given], Constraint]] = {
    "verify_keywords": _renamed("keywords:existence", keywords="keyword_list"),
    "verify_keyword_frequency": _renamed("exact:word_frequency", keyword="word", frequency="N"),
    "validate_forbidden_words": _renamed("exact:no_text", forbidden_words="forbidden_words"),
    "verify_letter_frequency": _renamed("exact:text_frequency", text="letter", frequency="N"),
    "validate_response_language": _renamed("language:response_language", language="language"),
    "verify_paragraph_count": _renamed("length_constraints:number_paragraphs", num_paragraphs="N"),
    "validate_word_constraint": _words,
    "verify_sentence_constraint": _sentences,
    "validate_paragraphs": _renamed(
        "length_constraints:nth_paragraph_first_word",
        num_paragraphs="N", nth_paragraph="i", first_word="first_word",
    ),
    "verify_postscript": _renamed(
        "detectable_content:postscript", postscript_marker="postscript_marker"
    ),
    "validate_placeholders": _renamed(
        "detectable_content:number_placeholders", num_placeholders="N"
    ),
    "verify_bullet_points": _renamed("detectable_format:number_bullet_lists", num_bullets="N"),
    "validate_title": _renamed("detectable_format:title"),
    "validate_highlighted_sections": _renamed(
        "detectable_format:number_highlighted_sections", num_highlights="N"
    ),
    "validate_sections": _renamed(
        "detectable_format:multiple_sections", num_sections="N", section_spliter="section_splitter"
    ),
    "validate_json_format": _renamed("detectable_format:json_format"),
    "validate_repeat_prompt": _renamed(
        "combination:repeat_prompt", prompt_to_repeat="original_prompt"
    ),
    "validate_two_responses": _renamed("combination:two_responses"),
    "validate_uppercase": _renamed("change_case:english_capital"),
    "validate_lowercase": _renamed("change_case:english_lowercase"),
    "validate_frequency_capital_words": _capital_words,
    "validate_end": _renamed("startend:end_checker", end_phrase="end_phrase"),
    "validate_quotation": _renamed("startend:quotation"),
    "validate_no_commas": _renamed("punctuation:no_comma"),
}  # fmt: skip


def _exactly(text: Any, count: Any) -> Constraint:
    return constraint("exact:text_frequency", {"text": text, "frequency": int(count)})


def _recast_words(inputs: Sequence[Any]) -> Constraint:
    """Inputs: the range, about how many, the most, and which of these three it is."""
    _, between, around, most, form = inputs
    if form == 1:
        return constraint(
            "length_constraints:number_words", {"num_words": most + 1, "relation": "less than"}
        )
    low, high = (int(around * 0.8), int(around * 1.2)) if form == 0 else between
    return constraint("count:word_count_range", {"min_words": low, "max_words": high})


def _recast_sentences(inputs: Sequence[Any]) -> Constraint:
    """Inputs: the form (exactly, about, at most, between), the number, the range."""
    _, form, target, between = inputs
    forms = {0: (target, target), 1: (target, target), 2: (0, target)}
    low, high = forms.get(form, between)
    room = 2 if form in (1, 2) else 0  # theirs: two more will do, and two fewer of "about"
    low = max(low - room, 0) if form == 1 else low
    return constraint("exact:sentence_range", {"min_sentences": low, "max_sentences": high + room})


_RECAST: dict[str, Callable[[Sequence[Any]], Constraint]] = {
    "evaluate_word_length": _recast_words,
    "evaluate_sentence_length": _recast_sentences,
    "evaluate_keyword": lambda inputs: _exactly(inputs[1], inputs[2]),
    "evaluate_start_with": lambda inputs: constraint("exact:first_word", {"word": inputs[1]}),
    "evaluate_end_with": lambda inputs: constraint("exact:last_word", {"word": inputs[1]}),
    "check_english_uppercase": lambda _: constraint("change_case:english_capital"),
    "check_english_lowercase": lambda _: constraint("change_case:english_lowercase"),
    "contains_no_punctuation": lambda _: constraint("punctuation:no_comma"),
}
