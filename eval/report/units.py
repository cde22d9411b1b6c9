"""What recalled memories say, and whether they hold a question's evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from eval.records import Record
from memsys.stores.memories import MemoryStore
from memsys.system import Unit

SHOWN = 20
"""How many recalled memories of each system are listed; hits further down are listed too."""
UNIT_TEXT = 900
"""How many characters of a memory's text are kept."""

TURN_HIT, SESSION_HIT, NO_HIT = 2, 1, 0


class Memories:
    """Units by memory key; a memory that is not at hand is known to be absent.

    Only a memory's `units.jsonl` is read: for showing what was recalled, neither its arrays nor
    its checksum matter.
    """

    def __init__(self, stores: Sequence[Path]) -> None:
        """Look for memories in these stores' `memories` folders."""
        self._stores = [MemoryStore(folder / "memories") for folder in stores]

    def units(self, key: str | None) -> dict[str, Unit] | None:
        """Return a memory's units by id, or `None` if it is not at hand."""
        for store in self._stores if key else ():
            path = store.path(str(key)) / "units.jsonl"
            try:
                lines = path.read_text(encoding="utf-8").split("\n")[:-1]
                return {unit.id: unit for unit in map(_unit, lines)}
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None


def _unit(line: str) -> Unit:
    raw = orjson.loads(line)
    return Unit(raw["id"], raw["text"], tuple(raw["turns"]), tuple(raw["sessions"]))


@dataclass
class Pool:
    """The texts of one conversation's memories, each kept once."""

    texts: list[str] = field(default_factory=list)
    _at: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> int:
        """Return the place of a text, cut to what the report shows."""
        kept = shortened(text, UNIT_TEXT)
        if kept not in self._at:
            self._at[kept] = len(self.texts)
            self.texts.append(kept)
        return self._at[kept]


def shortened(text: str, limit: int) -> str:
    """Cut a text and say how much is missing."""
    more = len(text) - limit
    return text if more <= 0 else f"{text[:limit]} … ({more:,} more characters)"


def hit(unit: Unit, turns: frozenset[str], sessions: frozenset[str]) -> int:
    """Return whether a unit holds an evidence turn, or at least comes from an evidence session."""
    if turns and not turns.isdisjoint(unit.turns):
        return TURN_HIT
    return SESSION_HIT if sessions and not sessions.isdisjoint(unit.sessions) else NO_HIT


def recalled(record: Record, units: Mapping[str, Unit] | None) -> dict[str, Any]:
    """Return a record's recalled memories: `shown` ones, and hits `below` them with their rank.

    Each is `[rank, unit, score, hit]`; `hit` is `None` where the memory is not at hand.
    """
    turns, sessions = frozenset(record["evidence_turns"]), frozenset(record["evidence_sessions"])
    shown: list[list[Any]] = []
    below: list[list[Any]] = []
    for rank, (name, score) in enumerate(record["recalled"], 1):
        unit = None if units is None else units.get(name)
        found = None if unit is None else hit(unit, turns, sessions)
        if rank <= SHOWN:
            shown.append([rank, name, _digits(score), found])
        elif found:
            below.append([rank, name, _digits(score), found])
    return {"shown": shown, "below": below, "total": len(record["recalled"])}


def ranked_sessions(record: Record) -> list[list[Any]] | None:
    """Return `[rank, session, gold]`: the first sessions, and every gold one further down."""
    ranked = record["ranked_sessions"]
    if ranked is None:
        return None
    gold = set(record["evidence_sessions"])
    return [
        [rank, name, int(name in gold)]
        for rank, name in enumerate(ranked, 1)
        if rank <= SHOWN or name in gold
    ]


def mentioned(value: Any, known: Mapping[str, Unit]) -> Iterator[str]:
    """Yield the unit ids that a trace names, wherever they stand in it."""
    if isinstance(value, str):
        if value in known:
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from mentioned(inner, known)
    elif isinstance(value, list):
        for inner in value:
            yield from mentioned(inner, known)


def _digits(score: Any) -> Any:
    return float(f"{score:.4g}") if isinstance(score, int | float) else score
