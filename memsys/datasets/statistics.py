"""What MemGAS's Table 5 counts: conversations, sessions, queries, tokens, dates and gold."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from memsys.datasets.cut import Sample
from memsys.datasets.sharing import Sharing
from memsys.datasets.tokens import Counter
from memsys.rendering import session_text


@dataclass(slots=True)
class Statistics:
    """Counts over a benchmark, gathered one conversation at a time.

    `tokens` holds a total for each named tokenizer, over the sessions' text as MemGAS lays it out:
    `[speaker]: text`, a caption on a line of its own.
    """

    conversations: int = 0
    sessions: int = 0
    turns: int = 0
    captions: int = 0
    questions: int = 0
    dated_sessions: int = 0
    with_evidence: int = 0
    with_reference: int = 0
    with_assistant: bool = False
    categories: Tally[str] = field(default_factory=Tally)
    tokens: dict[str, int] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)

    def per_conversation(self, total: int) -> float:
        """Return an average over conversations, 0 where there are none."""
        return total / self.conversations if self.conversations else 0.0

    def add(self, sample: Sample, counters: Mapping[str, Counter]) -> None:
        """Count one conversation and its questions."""
        sessions = sample.conversation.sessions
        turns = [turn for session in sessions for turn in session.turns]
        self.conversations += 1
        self.sessions += len(sessions)
        self.turns += len(turns)
        self.captions += sum(turn.caption is not None for turn in turns)
        self.questions += len(sample.questions)
        self.dated_sessions += sum(session.date is not None for session in sessions)
        self.with_evidence += sum(q.has_evidence for q in sample.questions)
        self.with_reference += sum(q.reference is not None for q in sample.questions)
        self.with_assistant |= any(session.with_assistant for session in sessions)
        self.categories.update(q.category for q in sample.questions)
        self.sharing.add(sessions)
        texts = [session_text(session) for session in sessions] if counters else []
        for name, count in counters.items():
            self.tokens[name] = self.tokens.get(name, 0) + sum(count(text) for text in texts)


def collect(samples: Iterable[Sample], counters: Mapping[str, Counter] | None = None) -> Statistics:
    """Return the statistics of all samples, streaming."""
    statistics = Statistics()
    for sample in samples:
        statistics.add(sample, counters or {})
    return statistics
