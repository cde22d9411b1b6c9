"""The forgetting curve: how likely a memory is kept t days after its last recall.

The clock is the conversation's (the question's date, or the last session's), and whether a memory
is kept hangs on one seeded draw per memory: what is forgotten once stays forgotten.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal

from memsys.system import Unit

Rule = Literal["off", "paper", "official"]
Recalls = Mapping[str, Any]
"""Unit id → `[strength, ISO date of the last recall]`, for units recalled at least once."""


def retention(days: float, strength: int, rule: Rule) -> float:
    """Return the probability of keeping a memory, in 0…1.

    `paper`: R = exp(-t / S). `official` mimics the authors' code, whose operator precedence makes
    it exp(-t · S / 5): there a stronger memory fades *faster*. `off`: 1.
    """
    if rule == "off":
        return 1.0
    return math.exp(-days / strength if rule == "paper" else -days * strength / 5)


def draw(unit: Unit, seed: int) -> float:
    """Return the unit's own uniform number in [0, 1), which order and batching cannot change."""
    digest = hashlib.sha256(f"{seed}\n{unit.id}\n{unit.text}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def strength_and_age(unit: Unit, recalls: Recalls, today: date | None) -> tuple[int, int]:
    """Return S (1 when first stored) and t in days; t is 0 where a date is missing."""
    strength, last = recalls.get(unit.id, (1, unit.fields["date"]))
    if today is None or not last:
        return strength, 0
    return strength, max(0, (today - date.fromisoformat(last)).days)


def retained(
    units: Sequence[Unit], recalls: Recalls, today: date | None, rule: Rule, seed: int
) -> list[int]:
    """Return the indices of the kept units.

    A daily summary goes when the last exchange of its day goes (authors' code), not by a draw.
    """
    if rule == "off":
        return list(range(len(units)))
    alive: set[str] = set()  # days of which something is left
    kept: set[int] = set()
    for i, unit in enumerate(units):
        if unit.fields["kind"] == "exchange":
            strength, age = strength_and_age(unit, recalls, today)
            if draw(unit, seed) < retention(age, strength, rule):
                kept.add(i)
                alive.add(unit.fields["day"])
    summaries = (i for i, u in enumerate(units) if u.fields["kind"] == "summary")
    kept.update(i for i in summaries if units[i].fields["day"] in alive)
    return sorted(kept)
