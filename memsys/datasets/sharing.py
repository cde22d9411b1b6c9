"""How much content the conversations of a benchmark share.

LongMemEval's haystacks are drawn from one pool of filler sessions. All stores are addressed by
content, so a session that recurs word for word is summarised and embedded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from memsys.datasets.cut import Sample
from memsys.dialogue import Session


def content_key(session: Session) -> int:
    """Return a number that names a session's content: speakers, texts and captions.

    Ids and dates are not part of it: the same session occurs under several of both. It is valid
    within this process only, and 64 bits are ample for a tally.
    """
    return hash(tuple([(turn.speaker, turn.text, turn.caption) for turn in session.turns]))


@dataclass(slots=True)
class Sharing:
    """A tally of sessions and characters, all and distinct, as conversations stream by."""

    sessions: int = 0
    characters: int = 0
    distinct_sessions: int = 0
    distinct_characters: int = 0
    _seen: set[int] = field(default_factory=set)

    def add(self, sessions: Iterable[Session]) -> None:
        """Count one conversation's sessions."""
        for session in sessions:
            size = sum([len(turn.text) for turn in session.turns])
            self.sessions += 1
            self.characters += size
            key = content_key(session)
            if key not in self._seen:
                self._seen.add(key)
                self.distinct_sessions += 1
                self.distinct_characters += size

    def watch(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Pass samples through, counting them."""
        for sample in samples:
            self.add(sample.conversation.sessions)
            yield sample

    @property
    def saved(self) -> float:
        """The share of characters that need not be processed again, 0 to 1."""
        return 1 - self.distinct_characters / self.characters if self.characters else 0.0

    def describe(self) -> str:
        """Return one sentence for people."""
        return (
            f"{self.sessions:,} sessions, {self.distinct_sessions:,} distinct by content: "
            f"{self.saved:.1%} of the text is shared and is processed once"
        )
