"""How turns become text, and the two ways in which the papers pair them.

MemGAS pairs turns by *position*: (0, 1), (2, 3), … whoever speaks. MGRetrieval's memory item is an
*exchange*: two consecutive turns by different speakers. Both keep to one session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memsys.dialogue import Session, Turn

RENDERING_VERSION = 1
"""Raised whenever the text of any form below changes."""


@dataclass(frozen=True, slots=True)
class Span:
    """Some consecutive turns of one session."""

    session: str
    turns: tuple[Turn, ...]

    @property
    def turn_ids(self) -> tuple[str, ...]:
        """The ids of the span's turns, in order."""
        return tuple(turn.id for turn in self.turns)


def plain_line(turn: Turn) -> str:
    """Return `Speaker: text [image: caption]`."""
    caption = f" [image: {turn.caption}]" if turn.caption else ""
    return f"{turn.speaker}: {turn.text}{caption}"


def tagged_lines(turn: Turn) -> str:
    """Return MemGAS's form, `[Speaker]: text`, with the caption on a line of its own.

    The label is the official code's: its length alone moves Recall@3 by a point, since most
    sessions are longer than an encoder's window.
    """
    caption = f"\nThe image caption: {turn.caption}" if turn.caption else ""
    return f"[{turn.speaker}]: {turn.text}{caption}"


def turn_pairs(session: Session) -> list[Span]:
    """Pair the turns by position; an odd last turn stands alone (MemGAS, official code)."""
    turns = session.turns
    return [Span(session.id, turns[i : i + 2]) for i in range(0, len(turns), 2)]


def exchanges(session: Session) -> list[Span]:
    """Pair each turn with the next if the speaker changes, else leave it alone (MGRetrieval)."""
    spans: list[Span] = []
    turns = session.turns
    i = 0
    while i < len(turns):
        paired = i + 1 < len(turns) and turns[i + 1].speaker != turns[i].speaker
        spans.append(Span(session.id, turns[i : i + 2] if paired else turns[i : i + 1]))
        i += len(spans[-1].turns)
    return spans


def single_turns(session: Session) -> list[Span]:
    """Return every turn as a span of its own."""
    return [Span(session.id, (turn,)) for turn in session.turns]


def pair_text(span: Span) -> str:
    """Return a turn pair as MemGAS embeds it: tagged turns joined by a newline."""
    return "\n".join(tagged_lines(turn) for turn in span.turns)


def session_text(session: Session, separator: str = "\n") -> str:
    """Return a session as MemGAS embeds it: its turn pairs joined by `separator`."""
    return separator.join(pair_text(span) for span in turn_pairs(session))


def dated_text(lines: Sequence[str], date_text: str) -> str:
    """Return lines under their date, or the bare lines where there is no date."""
    return "\n".join([f"[{date_text}]", *lines] if date_text else lines)


def span_text(span: Span, date_text: str) -> str:
    """Return an exchange or turn as memory text: its date, then `Speaker: text` lines."""
    return dated_text([plain_line(turn) for turn in span.turns], date_text)
