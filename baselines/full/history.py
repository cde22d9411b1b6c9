"""Rendering a history and choosing the latest part of it that fits a budget. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memsys.dialogue import Session, Turn
from memsys.rendering import dated_text, plain_line

Render = Literal["text", "stamped", "json"]
"""`text`: a dated header, then the turns; `stamped`: the date on every turn; `json`: a dump."""

SEPARATOR = "\n\n"


def stored(session: Session) -> dict[str, Any]:
    """Return a session as JSON values, from which every rendering can be made."""
    turns = [
        {"id": turn.id, "speaker": turn.speaker, "text": turn.text}
        | ({"caption": turn.caption} if turn.caption else {})
        for turn in session.turns
    ]
    return {"date": session.date_text, "turns": turns}


def block(session_id: str, fields: Mapping[str, Any], render: Render) -> str:
    """Return one session's block of the history."""
    date = fields["date"]
    if render == "json":
        return json.dumps({"session": session_id, **fields}, ensure_ascii=False)
    lines = [plain_line(Turn(**turn)) for turn in fields["turns"]]
    if render == "stamped" and date:
        return "\n".join(f"[{date}] {line}" for line in lines)
    return dated_text(lines, date)


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a history that fits: its first block's position, its text and length.

    `cut` says whether the newest block alone was too long and lost its beginning.
    """

    first: int
    text: str
    tokens: int
    cut: bool = False


def latest(
    blocks: Sequence[str],
    budget: int,
    count: Callable[[str], int],
    keep_end: Callable[[str, int], str],
) -> Window:
    """Drop whole sessions from the oldest end until the rest fits `budget` tokens.

    If the newest session alone is too long, its beginning is cut. The text is in time order.
    """
    if not blocks:
        return Window(0, "", 0)
    first = len(blocks)
    tokens = 0
    while first > 0:
        size = count(blocks[first - 1] + (SEPARATOR if first < len(blocks) else ""))
        if tokens + size > budget:
            break
        tokens += size
        first -= 1
    if first == len(blocks):
        text = keep_end(blocks[-1], max(budget, 0))
        return Window(len(blocks) - 1, text, count(text), cut=True)
    return Window(first, SEPARATOR.join(blocks[first:]), tokens)
