"""Tasks by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mrtpo.config import Settings
from mrtpo.tasks.base import Part, Prepared, Task, Verdict

__all__ = ["Part", "Prepared", "Task", "Verdict", "get_task"]


def get_task(settings: Settings, folder: Path) -> Task:
    """The task that `settings.task` names, with its prompts and databases below `folder`."""
    from mrtpo.tasks.instruct import Instruct
    from mrtpo.tasks.text2sql import TextToSQL
    from mrtpo.tasks.tools import Tools

    tasks: dict[str, Callable[[Settings, Path], Task]] = {
        "text2sql": TextToSQL, "tools": Tools, "instruct": Instruct,
    }  # fmt: skip
    return tasks[settings.task](settings, folder)
