"""Tasks by name."""

from __future__ import annotations

from pathlib import Path

from mrtpo.config import Settings
from mrtpo.tasks.base import Part, Prepared, Task, Verdict

__all__ = ["Part", "Prepared", "Task", "Verdict", "get_task"]


def get_task(settings: Settings, folder: Path) -> Task:
    """The task that `settings.task` names, with its prompts and databases below `folder`."""
    from mrtpo.tasks.text2sql import TextToSQL

    return {"text2sql": TextToSQL}[settings.task](settings, folder)
