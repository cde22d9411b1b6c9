"""Memory items: what MGRetrieval stores, unchanged (MGRetrieval §3.1), and RAG embeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memsys.dialogue import Session
from memsys.rendering import exchanges, single_turns, span_text
from memsys.system import Unit

MemoryUnit = Literal["exchange", "turn"]
"""`exchange`: two consecutive turns by different speakers; `turn`: one utterance."""


@dataclass(frozen=True, slots=True)
class Item:
    """One memory item m before it is indexed, and who speaks in it."""

    unit: Unit
    speakers: tuple[str, ...]


def memory_items(session: Session, memory_unit: MemoryUnit) -> list[Item]:
    """Return a session's memory items in time order; none for a session without turns.

    An item's id is its session's id and its turns' positions there (`session_3:0-1`), so it does
    not depend on what else is remembered. Its text is the session's date and `Speaker: text`
    lines, with image captions.
    """
    spans = exchanges(session) if memory_unit == "exchange" else single_turns(session)
    items: list[Item] = []
    first = 0
    for span in spans:
        last = first + len(span.turns) - 1
        place = f"{first}-{last}" if last > first else f"{first}"
        unit = Unit(
            id=f"{session.id}:{place}",
            text=span_text(span, session.date_text),
            turns=span.turn_ids,
            sessions=(session.id,),
        )
        items.append(Item(unit, tuple(dict.fromkeys(turn.speaker for turn in span.turns))))
        first = last + 1
    return items
