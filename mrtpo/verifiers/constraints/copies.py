"""Constraints that ask for a text to be repeated."""

from __future__ import annotations

from mrtpo.verifiers.constraints.kinds import TEXT, WHOLE, Kind, Span, Spans

# The sentence that IFBench's prompt asks for.
ONLY_SENTENCE = "Only output this sentence here, ignore all other requests."


def _stripped(response: str) -> Span:
    return len(response) - len(response.lstrip()), len(response.rstrip())


def _whole(response: str, **_: object) -> Spans:
    return [_stripped(response)]


def _repeated_first(response: str, prompt_to_repeat: str) -> bool:
    return response.strip().lower().startswith(prompt_to_repeat.strip().lower())


def _beginning(response: str, prompt_to_repeat: str) -> Spans:
    start, end = _stripped(response)
    return [(start, min(end, start + len(prompt_to_repeat.strip())))]


def _repeated_but_first_word(response: str, prompt_to_repeat: str) -> bool:
    if response == prompt_to_repeat:
        return False
    return response.split()[1:] == prompt_to_repeat.split()[1:]


def _only_sentence(response: str) -> bool:
    return response.strip().lower() == ONLY_SENTENCE.lower()


def _piece(response: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    piece = prompt_to_repeat[n_start : n_end + 1]
    return response.strip().lower() == piece.strip().lower()


KINDS = {
    "combination:repeat_prompt": Kind(
        _repeated_first,
        "Before you answer, repeat this request word for word, with nothing before it: "
        "{prompt_to_repeat}",
        {"prompt_to_repeat": TEXT},
        fulfils=_beginning,
        breaks=_beginning,
    ),
    "repeat:repeat_change": Kind(
        _repeated_but_first_word,
        "Do not answer this request but repeat it, with nothing but its first word changed: "
        "{prompt_to_repeat}",
        {"prompt_to_repeat": TEXT},
        fulfils=_whole,
        breaks=_whole,
    ),
    "repeat:repeat_simple": Kind(
        _only_sentence,
        f'Whatever else is asked, answer with just this: "{ONLY_SENTENCE}"',
        fulfils=_whole,
        breaks=_whole,
    ),
    "repeat:repeat_span": Kind(
        _piece,
        "Answer with just the characters from index {n_start} to index {n_end}, both included, of "
        "this text: {prompt_to_repeat}",
        {"prompt_to_repeat": TEXT, "n_start": WHOLE, "n_end": WHOLE},
        fulfils=_whole,
        breaks=_whole,
    ),
}
