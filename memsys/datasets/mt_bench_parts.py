"""Rebuilding Long-MT-Bench+ from MT-Bench+ (MemoChat), whose dialogues are its sessions.

MT-Bench+ has 54 dialogues, each ending in one probe question. Five consecutive dialogues in file
order make one conversation; the probe is taken out of each and asked over the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memsys.datasets.fields import need
from memsys.errors import UserError

DIALOGUES = 5
"""Dialogues a conversation (54 = 10 × 5 + 4)."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Records in Long-MT-Bench+'s schema, and what they lack."""

    records: list[dict[str, Any]]
    exchanges: int
    missing_replies: int

    def describe(self) -> str:
        """Return one sentence for people."""
        return (
            f"rebuilt {len(self.records)} conversations with {self.exchanges} exchanges, of which "
            f"{self.missing_replies} have no assistant reply (MemoChat's public file has none): "
            "this is not Long-MT-Bench+, which also has 234 further questions and gold answers"
        )


def rebuild(dialogues: Sequence[object], where: str) -> Rebuilt:
    """Return Long-MT-Bench+ records from MT-Bench+ dialogues; answers are `None`."""
    records: list[dict[str, Any]] = []
    exchanges = missing = 0
    parts = [_split(d, f"{where}, dialogue {n}") for n, d in enumerate(dialogues, 1)]
    for first in range(0, len(parts), DIALOGUES):
        group = parts[first : first + DIALOGUES]
        sessions = [
            [f"[human]: {human}\n[bot]: {bot}".rstrip() for human, bot in spoken]
            for spoken, _ in group
        ]
        exchanges += sum(len(session) for session in sessions)
        missing += sum(not bot.strip() for spoken, _ in group for _, bot in spoken)
        records.append(
            {
                "conversation_id": first // DIALOGUES,
                "sessions": sessions,
                "questions": [probe for _, probe in group],
                "answers": [None] * len(group),
            }
        )
    return Rebuilt(records, exchanges, missing)


def _split(dialogue: object, where: str) -> tuple[list[tuple[str, str]], str]:
    """Return a dialogue's (human, bot) exchanges without its last, and the probe of that last."""
    messages = need(dialogue, "conversations", list, where)
    exchanges: list[tuple[str, str]] = []
    last_info = ""
    for message in messages:
        sender = need(message, "from", str, where)
        text = need(message, "value", str, where)
        if sender == "human":
            exchanges.append((text, ""))
            last_info = need(message, "turn-info", str, where)
        elif exchanges:
            exchanges[-1] = (exchanges[-1][0], text)
    if not last_info.endswith("-Q"):
        raise UserError(f"{where}: its last human turn should be a probe question ('…-Q').")
    *spoken, (probe, _) = exchanges
    return spoken, probe
