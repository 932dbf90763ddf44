"""Responses of a checkpoint to a benchmark's questions, as a file that a killed run goes on with.

`<out>.responses.jsonl`: first `{"made_by": {...}}` (model, prompts, sampling), then one line for
each response, `{"question", "sample", "response", "finished"}`; `sample` null is the greedy one.
What a row samples depends on seed, question and sample alone (`generate`), so an interrupted run
ends in the same file, up to the order of lines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrtpo.generate import generate
from mrtpo.policy import Policy
from mrtpo.progress import Progress
from mrtpo.records import Prompt


@dataclass(frozen=True)
class Response:
    question: int
    sample: int | None
    text: str
    finished: bool


def respond(
    policy: Policy,
    prompts: Sequence[tuple[int, Prompt]],
    file: Path,
    *,
    made_by: dict[str, Any],
    samples: int,
    temperature: float,
    max_new_tokens: int,
    batch_size: int,
    seed: int,
) -> list[Response]:
    """A greedy response to each (question, prompt), and `samples` at `temperature`, in order.

    Goes on with `file` where it was made by the same, and raises ValueError where it was not.
    `made_by` is joined by the prompts' digest and the arguments that change a response.
    """
    text = json.dumps([[q, [[m.role, m.content] for m in p.messages]] for q, p in prompts])
    made_by = {
        **made_by, "prompts": hashlib.sha256(text.encode()).hexdigest()[:16], "seed": seed,
        "temperature": temperature, "max_new_tokens": max_new_tokens,
    }  # fmt: skip
    found = _started(file, made_by)
    wanted = [None, *range(samples)]
    missing = [(q, p) for q, p in prompts if any((q, s) not in found for s in wanted)]
    encoded = {q: policy.prompt_ids(p.messages) for q, p in missing}
    missing.sort(key=lambda item: (len(encoded[item[0]]), item[0]))
    with (
        open(file, "a", encoding="utf-8") as out,
        Progress("answer", len(prompts), start=len(prompts) - len(missing), unit="question") as bar,
    ):
        for start in range(0, len(missing), batch_size):
            batch = [(str(q), encoded[q]) for q, _ in missing[start : start + batch_size]]
            for count, heat in ((1, 0.0), (samples, temperature)):
                if not count:
                    continue
                for made in generate(
                    policy, batch, samples=count, temperature=heat,
                    max_new_tokens=max_new_tokens, seed=seed, step=0,
                ):  # fmt: skip
                    sample = made.sample if heat else None
                    response = Response(int(made.prompt_id), sample, made.text, made.finished)
                    if (response.question, sample) not in found:
                        found[response.question, sample] = response
                        out.write(json.dumps(_row(response)) + "\n")
            out.flush()
            bar.update(len(prompts) - len(missing) + start + len(batch))
    return [found[q, s] for q, _ in prompts for s in wanted]


def _row(response: Response) -> dict[str, Any]:
    return {"question": response.question, "sample": response.sample,
            "response": response.text, "finished": response.finished}  # fmt: skip


def _started(file: Path, made_by: dict[str, Any]) -> dict[tuple[int, int | None], Response]:
    """Responses that are in the file already; a line that was cut by a kill is taken out."""
    file.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"made_by": made_by}) + "\n"
    if not file.is_file() or not file.stat().st_size:
        file.write_text(header, encoding="utf-8")
        return {}
    text = file.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole or header, encoding="utf-8")
    lines = [json.loads(line) for line in whole.splitlines()]
    if lines and lines[0] != {"made_by": made_by}:
        before = lines[0].get("made_by", {})
        names = [k for k in made_by if before.get(k) != made_by[k]]
        raise ValueError(
            f"{file}: holds responses made otherwise ({', '.join(names)} differ); "
            "remove it, or choose another --out"
        )
    return {
        (row["question"], row["sample"]): Response(
            row["question"], row["sample"], row["response"], row["finished"]
        )
        for row in lines[1:]
    }
