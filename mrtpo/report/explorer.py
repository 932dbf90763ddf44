"""The credit explorer: one HTML file in which every response's credit can be looked at.

It needs no network and no other file. Its script is the page's only one, by the digest in its
content security policy, and draws one response at a time from the data in the page:

    pieces, parts, rewards, filed   strings, each once; elsewhere their places in these lists
    prompts                         id, question, reference, about, messages
    responses                       p prompt, s sample, t tokens (uint32), q parts (uint8), rewards
    a reward of a response          n name, f filed under, v value, st status, d detail, i what its
                                    verifier checks, a advantage, why it was not replayed; where it
                                    was: top share of the largest token, part with most distance,
                                    x log-probability with, without, distance, weight (float16)

Numbers of tokens are base64 of little-endian arrays.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from mrtpo.report.credit import Row, filed, heading
from mrtpo.report.page import render, write_page
from mrtpo.report.source import Attributed, Question
from mrtpo.report.text import present

PER_TOKEN = ("logprob_with", "logprob_without", "distance", "weight")


def write_explorer(path: Path, found: Attributed, most: int) -> Path:
    """Write the page of the first `most` responses. Raises ValueError where there are none."""
    data, left_out = explorer_data(found, most)
    facts = {**found.facts, **({"left out": f"{left_out} responses"} if left_out else {})}
    script = _template("explorer.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = render(
        "explorer.html.j2",
        title=found.title,
        facts=list(facts.items()),
        style=Markup(_template("explorer.css")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        data=Markup(_embedded(data)),
    )
    return write_page(path, page)


def explorer_data(source: Attributed, most: int) -> tuple[dict[str, Any], int]:
    """What the page holds (see above), and how many responses it leaves out."""
    responses = source.responses()
    if not responses:
        raise ValueError("no attribution rows: nothing to explore")
    kept = responses[:most]
    pieces, parts, names, labels, asked = (_Places() for _ in range(5))
    found = [
        {
            "p": asked.place(own[0]["prompt_id"]),
            "s": own[0]["sample"],
            "t": _packed([pieces.place(piece) for piece in own[0]["tokens"]], "<u4"),
            "q": _packed([parts.place(part) for part in own[0]["parts"]], "u1"),
            "rewards": [_reward(row, parts, names, labels) for row in own],
        }
        for own in kept
    ]
    prompts = []
    for prompt_id in asked.names:
        about = source.questions.get(prompt_id, Question(""))
        prompts.append(
            {
                "id": prompt_id, "question": about.question, "reference": about.reference,
                "about": about.about, "messages": about.messages,
            }
        )  # fmt: skip
    data = {
        "pieces": pieces.names, "parts": parts.names, "rewards": names.names,
        "filed": labels.names, "prompts": prompts, "responses": found,
    }  # fmt: skip
    return data, len(responses) - len(kept)


def _reward(row: Row, parts: _Places, names: _Places, labels: _Places) -> dict[str, Any]:
    made: dict[str, Any] = {
        "n": names.place(heading(row)), "f": labels.place(filed(row)), "v": present(row["value"]),
        "st": row.get("status") or "ok", "d": row.get("detail") or "",
        "a": round(row["advantage"], 5), "why": row["reason"] if row["skipped"] else "",
        "i": row.get("information") or "",
    }  # fmt: skip
    if row["skipped"]:
        return made
    distance = np.asarray(row["distance"], np.float64)
    held = np.bincount([parts.place(part) for part in row["parts"]], distance)
    if total := distance.sum():
        made |= {"top": round(float(distance.max() / total), 4), "part": int(held.argmax())}
    else:
        made |= {"top": 0.0, "part": None}
    return made | {"x": _packed([row[name] for name in PER_TOKEN], "<f2")}


class _Places:
    """Strings in order of first appearance, and the place of each."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        return list(self._at)

    def place(self, name: str) -> int:
        return self._at.setdefault(name, len(self._at))


def _packed(values: Sequence[Any], kind: str) -> str:
    with np.errstate(over="ignore"):  # an infinite log-probability stays one
        return base64.b64encode(np.asarray(values).astype(kind).tobytes()).decode()


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever a model wrote."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _template(name: str) -> str:
    return files("mrtpo.report").joinpath("templates", name).read_text(encoding="utf-8")
