"""The calendar of a conversation: what was said on each day, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from memsys.dialogue import Session, format_date
from memsys.rendering import dated_text, exchanges, plain_line
from memsys.system import Memory, Unit


@dataclass
class Day:
    """One calendar day (or one undated session), its exchanges and the two daily texts."""

    key: str  # ISO date, or the session's id where it has no date
    date: str  # ISO date, or empty
    label: str  # the date as prompts show it, or empty
    sessions: list[str] = field(default_factory=list)
    summary: str = ""
    personality: str = ""
    exchanges: list[Unit] = field(default_factory=list)

    def add(self, session: Session) -> None:
        """Add a session's exchanges: two consecutive turns by different speakers."""
        self.sessions.append(session.id)
        for number, span in enumerate(exchanges(session)):
            text = dated_text([plain_line(turn) for turn in span.turns], self.label)
            fields = {"kind": "exchange", "day": self.key, "date": self.date}
            unit_id = f"{session.id}-exchange-{number}"
            self.exchanges.append(Unit(unit_id, text, span.turn_ids, (session.id,), fields))

    def dialogue(self) -> str:
        """Return all that was said on this day, without the date."""
        return "\n".join(body(unit.text, self.label) for unit in self.exchanges)

    def units(self) -> list[Unit]:
        """Return the day's documents: its exchanges, then its summary unless that is empty."""
        if not self.summary:
            return self.exchanges
        text = dated_text([f"Summary of the day: {self.summary}"], self.label)
        fields = {"kind": "summary", "day": self.key, "date": self.date}
        # a summary earns its sessions, but no turn
        return [
            *self.exchanges,
            Unit(f"summary-{self.key}", text, (), tuple(self.sessions), fields),
        ]

    def plain(self) -> dict[str, Any]:
        """Return the day without its exchanges, which are units, as JSON values."""
        return {k: v for k, v in asdict(self).items() if k != "exchanges"}


def body(text: str, label: str) -> str:
    """Return a document's text without the date that it begins with."""
    return text.removeprefix(f"[{label}]\n") if label else text


def days_of(memory: Memory) -> dict[str, Day]:
    """Return the remembered days by key, in time order."""
    stored: Iterable[Mapping[str, Any]] = memory.state.get("days", [])
    days = {d["key"]: Day(**{**d, "sessions": list(d["sessions"])}) for d in stored}
    for unit in memory.units:
        if unit.fields["kind"] == "exchange":
            days[unit.fields["day"]].exchanges.append(unit)
    return days


def add_sessions(days: dict[str, Day], sessions: Sequence[Session]) -> list[Day]:
    """Enter sessions into the calendar and return the days that gained something."""
    changed: dict[str, Day] = {}
    for session in sessions:
        if not session.turns:
            continue
        date = session.date.date().isoformat() if session.date else ""
        key = date or session.id
        day = days.setdefault(key, Day(key, date, format_date(session.date, "day")))
        day.add(session)
        changed[key] = day
    return list(changed.values())


def dated_lines(days: Iterable[Day], name: str) -> str:
    """Return the daily texts called `name` that are not empty, each under its date."""
    texts = ((day.label, getattr(day, name)) for day in days)
    return "\n\n".join(dated_text([text], label) for label, text in texts if text)
