"""Attribution rows to look at, with what their prompts ask, from where the stages wrote them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrtpo import paths
from mrtpo.config import Settings
from mrtpo.records import Prompt, read_prompts, read_rows
from mrtpo.report.credit import Row, examples
from mrtpo.runs import model_name

TASKS = {
    "text2sql": "text-to-SQL", "tools": "tool calls", "instruct": "instruction following",
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """What a response answers: `about` in a few words, `messages` as (role, text)."""

    question: str
    reference: str = ""
    about: str = ""
    messages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Attributed:
    """Attribution rows (`mrtpo.report.credit`), and by prompt id what was asked."""

    rows: Sequence[Row]
    questions: dict[str, Question]
    settings: Settings

    @property
    def title(self) -> str:
        return f"Credit explorer: {TASKS[self.settings.task]}"

    @property
    def facts(self) -> dict[str, str]:
        own = self.settings.replay
        return {
            "model": model_name(self.settings),
            "distance": own.distance,
            "floor": f"{own.floor:g}",
            "weights": own.normalise,
        }

    def responses(self) -> list[list[Row]]:
        """The rows of each response, in the order of the file."""
        found: dict[tuple[str, int], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row["prompt_id"], row["sample"]), []).append(row)
        return list(found.values())


def read_attribution(settings: Settings, root: Path = Path()) -> Attributed:
    """What the stage `attribute` wrote below `root`. Raises FileNotFoundError where it did not."""
    return attributed(read_rows(root / paths.ATTRIBUTION), settings, root)


def attributed(rows: Sequence[Row], settings: Settings, root: Path) -> Attributed:
    """Rows with the questions of the prompts below `root`, and their information where the rows
    have none."""
    prompts = prompts_of(root, {row["prompt_id"] for row in rows})
    told = {prompt.id: _information(prompt, settings) for prompt in prompts}
    rows = [
        {"information": told.get(row["prompt_id"], {}).get(row["reward"], ""), **row}
        for row in rows
    ]
    return Attributed(rows, {prompt.id: question(prompt) for prompt in prompts}, settings)


def prompts_of(root: Path, wanted: Collection[str]) -> list[Prompt]:
    """The prompts of all splits below `root` whose ids are wanted."""
    files: Iterable[Path] = sorted((root / paths.PROMPTS).glob("*.parquet")) if wanted else ()
    return [prompt for file in files for prompt in read_prompts(file) if prompt.id in wanted]


def question(prompt: Prompt) -> Question:
    payload: dict[str, Any] = json.loads(prompt.payload or "{}")
    last = prompt.messages[-1].content
    asked = payload.get("question") or last.rpartition("Question: ")[2].partition("\n\n")[0]
    about = " · ".join(filter(None, (prompt.kind, prompt.difficulty, prompt.source)))
    messages = tuple((m.role, m.content) for m in prompt.messages)
    return Question(asked, prompt.reference, about, messages)


def _information(prompt: Prompt, settings: Settings) -> dict[str, str]:
    """By reward, the variant that the replay left out."""
    found: dict[str, str] = {}
    for entry in prompt.information:
        if settings.replay.variants.get(entry.reward, entry.variant) == entry.variant:
            found.setdefault(entry.reward, entry.text)
    return found


def pick(found: Attributed, prompt: str | None, sample: int | None) -> list[Row]:
    """The rows of one response; the one most worth a look where neither is given. Raises ValueError
    that names the prompts that there are."""
    if prompt is None and sample is None and found.rows:
        return examples(found.rows, 1)[0]
    own = found.responses()
    fitting = [
        rows
        for rows in own
        if prompt in (None, rows[0]["prompt_id"]) and sample in (None, rows[0]["sample"])
    ]
    if not fitting:
        known = list(dict.fromkeys(rows[0]["prompt_id"] for rows in own))
        more = f" and {len(known) - 20} more" if len(known) > 20 else ""
        asked = "" if sample is None else f" {sample}"
        to = "" if prompt is None else f" to prompt {prompt}"
        raise ValueError(f"no response{asked}{to}; prompts: {', '.join(known[:20])}{more}")
    return fitting[0]
