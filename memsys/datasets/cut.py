"""Cuts of a benchmark for quick runs: fewer conversations, sessions or questions, or one alone.

A cut keeps only questions whose whole evidence lies in what is left, is the same on every machine,
and is never a benchmark: whatever is measured on it says which cut it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from memsys.dialogue import Conversation, Question


@dataclass(frozen=True, slots=True)
class Sample:
    """One conversation of a benchmark and its questions."""

    conversation: Conversation
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """How much of a benchmark is left; `None` means all."""

    max_conversations: int | None = None
    max_sessions: int | None = None
    limit: int | None = None
    conversation: str | None = None
    question: str | None = None

    def describe(self) -> str | None:
        """Return e.g. `first 2 conversations, first 6 sessions, at most 20 questions`."""
        parts = [
            self.conversation and f"conversation {self.conversation}",
            self.question and f"question {self.question}",
            self.max_conversations and f"first {self.max_conversations} conversations",
            self.max_sessions and f"first {self.max_sessions} sessions of each",
            self.limit and f"at most {self.limit} questions",
        ]
        return ", ".join(part for part in parts if part) or None

    def apply(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """Yield what is left, conversation by conversation.

        `limit` is filled from the first conversation on, or shared out evenly where
        `max_conversations` says how many there are. A conversation left without a question is
        left out, so that no memory is built for nothing.
        """
        if self.describe() is None:
            yield from samples
            return
        samples = self._named(samples)
        left = self.limit
        for number, sample in enumerate(islice(samples, self.max_conversations)):
            sample = first_sessions(sample, self.max_sessions)
            if left is not None:
                share = left
                if self.max_conversations is not None:
                    share = -(-left // (self.max_conversations - number))
                sample = replace(sample, questions=round_robin(sample.questions, share))
                left -= len(sample.questions)
            if sample.questions:
                yield sample
            if left == 0:
                return

    def _named(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """Keep the conversation and the question that are named, by their ids."""
        for sample in samples:
            if self.conversation not in (None, sample.conversation.id):
                continue
            if self.question is not None:
                chosen = tuple(q for q in sample.questions if q.id == self.question)
                sample = replace(sample, questions=chosen)
            yield sample


def first_sessions(sample: Sample, count: int | None) -> Sample:
    """Keep the first sessions, and the questions whose evidence lies wholly inside.

    A question that lost its evidence (a faulty label) is left out too. Where a benchmark marks no
    evidence at all, which questions can be answered is not known and all are kept.
    """
    if count is None:
        return sample
    conversation = replace(sample.conversation, sessions=sample.conversation.sessions[:count])
    inside = {session.id for session in conversation.sessions}
    questions = sample.questions
    if any(q.evidence_sessions for q in questions):
        questions = tuple(
            q for q in questions if q.evidence_sessions and inside.issuperset(q.evidence_sessions)
        )
    return Sample(conversation, questions)


def round_robin(questions: tuple[Question, ...], count: int) -> tuple[Question, ...]:
    """Take at most `count` questions, one of each category in turn, and keep their order."""
    by_category: dict[str, list[Question]] = {}
    for question in questions:
        by_category.setdefault(question.category, []).append(question)
    rounds = [
        (position, category, question)
        for category, members in by_category.items()
        for position, question in enumerate(members)
    ]
    chosen = sorted(rounds, key=lambda item: item[:2])[:count]
    return tuple(sorted((question for *_, question in chosen), key=lambda q: q.index))
