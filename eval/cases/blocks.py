"""A trace as blocks to draw, by the shape of its values alone: no system is known here.

A mapping of numbers is a set of bars (MemGAS's weights and entropies), a list of objects is a
sequence of steps (MGRetrieval's path and rounds, MemR3's routes), a list of short values is a row
of chips (seeds, keywords, visited memories), a long text is a paragraph, and what is left are
facts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONG = 48
"""A text of more characters gets a line of its own."""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Bars:
    """Numbers that belong together, by name."""

    title: str
    values: Mapping[str, float]

    def lengths(self) -> list[float]:
        """Return each bar's length, between 0 and 1 for the largest finite value and beyond."""
        finite = [abs(value) for value in self.values.values() if math.isfinite(value)]
        most = max(finite, default=0.0) or 1.0
        return [min(abs(value) / most, 1.0) for value in self.values.values()]


@dataclass(frozen=True, slots=True)
class Chips:
    """Short values in order; `marked` ones lead to the evidence."""

    title: str
    values: tuple[str, ...]
    marked: frozenset[str]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: short facts on one line, long texts below, each under its name."""

    facts: tuple[str, ...]
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """What happened, one step after another."""

    title: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Single values by name."""

    title: str
    values: Mapping[str, str]


Block = Text | Bars | Chips | Steps | Facts


def trace_blocks(trace: Mapping[str, Any], hit: Callable[[str], bool]) -> list[Block]:
    """Return the blocks of a trace in its own order, single facts first; `hit` marks unit ids."""
    facts = {words(k): plain(v) for k, v in trace.items() if _is_fact(v)}
    blocks: list[Block] = [Facts("settings and counts", facts)] if facts else []
    return blocks + [_block(words(k), v, hit) for k, v in trace.items() if not _is_fact(v)]


def _is_fact(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONG
    return not value if isinstance(value, Sequence | Mapping) else True


def _block(title: str, value: Any, hit: Callable[[str], bool]) -> Block:
    if isinstance(value, str):
        return Text(title, value)
    if isinstance(value, Mapping):
        if all(_is_number(v) for v in value.values()):
            return Bars(title, {str(k): float(v) for k, v in value.items()})
        return Steps(title, (_step(value),))
    if all(isinstance(v, Mapping) for v in value):
        return Steps(title, tuple(_step(v) for v in value))
    if any(isinstance(v, Mapping | list | tuple) for v in value):
        return Steps(title, tuple(Step((plain(v),), ()) for v in value))
    texts = tuple(plain(v) for v in value)
    if max(len(text) for text in texts) > LONG:
        return Steps(title, tuple(Step((text,), ()) for text in texts))
    return Chips(title, texts, frozenset(text for text in texts if hit(text)))


def _step(value: Mapping[str, Any]) -> Step:
    shown = {words(str(k)): plain(v) for k, v in value.items()}
    return Step(
        tuple(f"{name} {text}" for name, text in shown.items() if len(text) <= LONG),
        tuple((name, text) for name, text in shown.items() if len(text) > LONG),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Return a text without control characters, which terminals obey and XML cannot hold."""
    return _HIDDEN.sub("\ufffd", text)


def words(key: str) -> str:
    """Return a key as words."""
    return key.replace("_", " ")


def plain(value: Any) -> str:
    """Return a JSON value as a person would write it."""
    if value is None or value in ("", [], {}):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{words(str(k))} {plain(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(plain(v) for v in value)
    return str(value)
