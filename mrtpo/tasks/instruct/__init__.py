"""Instruction following: prompts with verifiable constraints."""
