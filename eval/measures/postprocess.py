"""What published scripts do to an answer before they score it (`none` needs no code)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# SeCom means to strip these labels; `str.strip` strips the characters of each instead
_LABELS = ("\nDialogs:", "\n[bot]:", "\nAssistant:", "\nReview:", "\n", "[bot]:")
_NEXT_TURN = ("\n[human]:", "\nQuestion:", "\nQ:")


def secom_strip(answer: str | None) -> str:
    """Post-process an answer as SeCom's and MemGAS's scripts do, their slip included.

    Characters of the labels go from both ends (`Paris` → `Par`, `no` → nothing), and the text
    ends where a next turn begins. It changes scores: use it for MemGAS's columns only.
    """
    text = answer or ""
    for label in _LABELS:
        text = text.strip(label)
    for mark in _NEXT_TURN:
        text = text.partition(mark)[0]
    return text


POSTPROCESS: Final[dict[str, Callable[[str], str]]] = {"secom": secom_strip}
