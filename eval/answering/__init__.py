"""The shared answer prompt: one for every system in a table."""

from eval.answering.answerer import PromptAnswerer

__all__ = ["PromptAnswerer"]
