"""Tool calling: format and correctness of calls, as ToolRL defines them."""

from mrtpo.tasks.tools.task import Tools

__all__ = ["Tools"]
