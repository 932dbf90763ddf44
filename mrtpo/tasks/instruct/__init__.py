"""Instruction following: prompts with verifiable constraints."""

from mrtpo.tasks.instruct.task import Instruct

__all__ = ["Instruct"]
