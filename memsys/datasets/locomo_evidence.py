"""LoCoMo's evidence ids: the repair rule and MemGAS's reading of them.

Ten of the 1,986 lists are malformed (joined, truncated, zero-padded, duplicate or pointing at no
turn) and four are empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

_ID = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A question's gold turns and sessions, and whether it counts in retrieval measures."""

    turns: tuple[str, ...]
    sessions: tuple[str, ...]
    counts: bool


def repaired(raw: Sequence[str], turn_ids: Collection[str]) -> Evidence:
    """Find every id in the strings, keep those that exist, drop duplicates.

    A question left without any is excluded from retrieval measures.
    """
    found = (f"D{int(s)}:{int(t)}" for text in raw for s, t in _ID.findall(text))
    turns = _unique(turn for turn in found if turn in turn_ids)
    sessions = _unique(f"session_{turn[1:].split(':')[0]}" for turn in turns)
    return Evidence(turns, sessions, bool(turns))


def memgas(raw: Sequence[str]) -> Evidence:
    """Read the ids as MemGAS's code does, faults included (DATASETS, "MemGAS compatibility").

    The turn number is what stands between the first two colons, and a string without an integer
    there is skipped; the session is what stands before the first colon. Ids that exist nowhere
    stay gold, and a question with an empty gold set still counts.
    """
    turns: list[str] = []
    sessions: list[str] = []
    for text in raw:
        head, _, rest = text.partition(":")
        number = rest.split(":")[0]
        try:
            turn = int(number)
        except ValueError:
            continue
        turns.append(f"{head}:{turn}")
        sessions.append(f"session_{head[1:]}")
    return Evidence(_unique(turns), _unique(sessions), True)


def _unique(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))
