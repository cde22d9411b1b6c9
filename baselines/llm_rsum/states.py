"""The texts of recursive summarising: a session as the prompt shows it, a state as it is kept."""

from __future__ import annotations

import re

from memsys.dialogue import Session
from memsys.rendering import dated_text, plain_line

EMPTY = "Empty"  # how a prompt shows that nothing is remembered yet (the authors' marker)
_LABEL = re.compile(r"updated memory\s*:", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def session_lines(session: Session, dated: bool) -> str:
    """Return the session's turns, one a line, under its date if `dated`."""
    lines = [plain_line(turn) for turn in session.turns]
    return dated_text(lines, session.date_text if dated else "")


def speaker_names(session: Session) -> str:
    """Name the session's speakers: `Ann and Ben`."""
    names = list(dict.fromkeys(turn.speaker for turn in session.turns))
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def read_state(reply: str) -> str:
    """Return a reply as one line of memory text; empty if it says nothing.

    Line breaks go; if the reply repeats the field's label, only what follows the label stays.
    """
    text = " ".join(_LABEL.split(reply)[-1].split())
    return "" if text.strip(".\"' ").casefold() == EMPTY.casefold() else text


def sentences(text: str) -> list[str]:
    """Split memory text after `.`, `!` or `?`."""
    return [part for part in _SENTENCE_END.split(text.strip()) if part]


def new_sentences(state: str, previous: str) -> str:
    """Return the sentences of `state` that `previous` does not have."""
    old = {sentence.casefold() for sentence in sentences(previous)}
    return " ".join(s for s in sentences(state) if s.casefold() not in old)
