"""Progress of long work: a bar in the terminal, and lines in `$MRTPO_EVENTS` for who watches.

Each event is one JSON line: `{"stage", "step", "total", "metrics": {name: number},
"seconds": {phase: number}}`. The file is appended to and flushed line by line, so that a reader may
follow it while the stage runs.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tqdm import tqdm


class Progress:
    """One stage's progress. `step` is absolute, so a resumed run starts its bar where it was."""

    def __init__(self, stage: str, total: int, start: int = 0, unit: str = "step") -> None:
        self.stage, self.total = stage, total
        self.bar = tqdm(total=total, initial=start, desc=stage, unit=unit, dynamic_ncols=True)
        target = os.environ.get("MRTPO_EVENTS")
        self.file: Any = None
        if target:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            self.file = open(target, "a", encoding="utf-8")  # noqa: SIM115 - closed in __exit__

    def update(
        self,
        step: int,
        metrics: dict[str, float] | None = None,
        seconds: dict[str, float] | None = None,
        show: dict[str, float] | None = None,
    ) -> None:
        """Say that `step` steps are done; `show` is what the bar prints beside the count."""
        self.bar.update(step - self.bar.n)
        if show:
            self.bar.set_postfix({key: f"{value:.3g}" for key, value in show.items()})
        if self.file:
            event = {"stage": self.stage, "step": step, "total": self.total,
                     "metrics": metrics or {}, "seconds": seconds or {}}  # fmt: skip
            self.file.write(json.dumps(event) + "\n")
            self.file.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()
        if self.file:
            self.file.close()


class NoProgress:
    """Takes the calls of `Progress` and shows nothing: for processes other than the first."""

    def __init__(self, stage: str, total: int, start: int = 0, unit: str = "step") -> None: ...
    def update(self, *_: object, **__: object) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def __enter__(self) -> NoProgress:
        return self
