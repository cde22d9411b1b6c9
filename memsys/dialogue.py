"""The dialogue vocabulary: turns, sessions, conversations and questions.

A *turn* is one utterance, a *session* a dated list of turns, a *conversation* the sessions of one
benchmark sample in time order. A *question* holds everything that a benchmark says about it; a
memory system only ever receives its *query*, which has no category, reference or evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip  # a fixed table: strftime("%B") would follow the machine's locale


def format_date(date: datetime | None, precision: Literal["minute", "day"] = "minute") -> str:
    """Return `8 May 2023, 1:56 pm` (or `8 May 2023`), and an empty string for an absent date."""
    if date is None:
        return ""
    day = f"{date.day} {MONTHS[date.month - 1]} {date.year}"
    if precision == "day":
        return day
    return f"{day}, {date.hour % 12 or 12}:{date.minute:02d} {'am' if date.hour < 12 else 'pm'}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance.

    `id` is unique within its conversation; `caption` describes an image shared with the turn;
    `role` is set in dialogues between a user and an assistant only.
    """

    id: str
    speaker: str
    text: str
    caption: str | None = None
    role: Literal["user", "assistant"] | None = None


@dataclass(frozen=True, slots=True)
class SessionNotes:
    """A benchmark's own annotation of a session, which a system under test must not see.

    Loaders attach it only under `metadata=dataset`; rows made with it are labelled
    "annotation metadata" and never stand in a paper's column.
    """

    summary: str
    keywords: str


@dataclass(frozen=True, slots=True)
class Session:
    """A dated list of turns; `date` has no time zone, and is `None` where the benchmark has none.

    `speaker_a` is whom the benchmark names first of two speakers, where it does: systems made for
    a user and an assistant take that speaker for the user.
    """

    id: str
    turns: tuple[Turn, ...]
    date: datetime | None = None
    date_precision: Literal["minute", "day"] = "minute"
    notes: SessionNotes | None = None
    speaker_a: str | None = None

    @property
    def date_text(self) -> str:
        """The session's date as prompts show it; empty where there is none."""
        return format_date(self.date, self.date_precision)

    @property
    def with_assistant(self) -> bool:
        """Whether this is a dialogue between a user and an assistant (else between two users)."""
        return any(turn.role is not None for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The sessions of one benchmark sample in time order."""

    id: str
    sessions: tuple[Session, ...]

    @property
    def speakers(self) -> tuple[str, ...]:
        """The speakers in order of first appearance."""
        return tuple(dict.fromkeys(t.speaker for s in self.sessions for t in s.turns))

    def turn(self, turn_id: str) -> Turn:
        """Return the turn with this id, or raise `KeyError`."""
        for session in self.sessions:
            for turn in session.turns:
                if turn.id == turn_id:
                    return turn
        raise KeyError(turn_id)


@dataclass(frozen=True, slots=True)
class Query:
    """What a memory system may know of a question."""

    text: str
    date: datetime | None = None

    @property
    def date_text(self) -> str:
        """The question's date as prompts show it; empty where there is none."""
        return format_date(self.date)


@dataclass(frozen=True, slots=True)
class Question:
    """Everything a benchmark says about one question.

    `index` is the question's position in its conversation: records are keyed by conversation and
    index, never by text, because LoCoMo repeats some questions. `reference` is the gold answer
    under the protocol in force (`None` where the benchmark has none), `trap` the misleading answer
    of an adversarial question. `evidence_sessions` may be empty; `has_evidence` says whether the
    question counts in retrieval measures at all.
    """

    conversation: str
    index: int
    id: str
    text: str
    category: str
    date: datetime | None = None
    reference: str | None = None
    trap: str | None = None
    evidence_turns: tuple[str, ...] = ()
    evidence_sessions: tuple[str, ...] = ()
    has_evidence: bool = True
    abstention: bool = False
    adversarial: bool = False
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        """What identifies the question within its benchmark."""
        return self.conversation, self.index

    def query(self) -> Query:
        """Return the view that a memory system is given."""
        return Query(text=self.text, date=self.date)
