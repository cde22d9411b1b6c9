"""The conversation as one text, cut into blocks of word pieces with no regard for turn borders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memsys.dialogue import Session
from memsys.encoders.protocol import Encoder
from memsys.rendering import plain_line
from memsys.system import Unit

Line = list[str]
"""`[text, turn id, session id]`: one turn as the flattened conversation shows it."""


def flatten(sessions: Iterable[Session]) -> list[Line]:
    """Return one line a turn, `timestamp | Speaker: text`, with the ids it came from.

    Undated sessions have no timestamp; line breaks inside a turn become spaces.
    """
    lines = []
    for session in sessions:
        stamp = f"{session.date_text} | " if session.date_text else ""
        for turn in session.turns:
            text = " ".join(plain_line(turn).splitlines())
            lines.append([stamp + text, turn.id, session.id])
    return lines


def cut_blocks(lines: Sequence[Line], size: int, encoder: Encoder) -> list[Unit]:
    """Cut the text of `lines` into consecutive blocks of at most `size` word pieces.

    A block's turns and sessions are those whose lines it overlaps, if only by a word.
    `size=-1` makes one block of everything.
    """
    text = "\n".join(line for line, _, _ in lines)
    if not text.strip():
        return []
    spans = [(0, len(text))] if size == -1 else encoder.split(text, size)
    starts: list[int] = []
    at = 0
    for line, _, _ in lines:
        starts.append(at)
        at += len(line) + 1
    units: list[Unit] = []
    for number, (start, end) in enumerate(spans):
        inside = [
            line
            for begin, line in zip(starts, lines, strict=True)
            if begin < end and start < begin + len(line[0])
        ]
        turns = tuple(turn for _, turn, _ in inside)
        sessions = tuple(dict.fromkeys(session for _, _, session in inside))
        units.append(Unit(f"chunk-{number}", text[start:end], turns, sessions))
    return units
