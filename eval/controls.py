"""Controls: yardsticks that are shown what no memory system may see, a question's evidence.

This is the only door to it. `query_for` makes a `ShownQuestion` for a `Control` and for nothing
else, decided by the class and never by a name; `memsys` and `baselines` cannot import `eval`
(tests/structure), so no system of theirs can become one. Every record of a control says so in its
trace, and a table may show one as a row of ours only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from memsys.datasets.base import Sample
from memsys.dialogue import Query, Question, Session
from memsys.rendering import dated_text, session_text
from memsys.settings import Settings
from memsys.system import Memory, MemorySystem, Need, Ranked, Recall, Stage, Tools, Unit

B = TypeVar("B", bound=Settings)
A = TypeVar("A", bound=Settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQuestion(Query):
    """A query with the whole question behind it; the engine makes it for controls alone."""

    question: Question


class Control(MemorySystem[B, A]):
    """A yardstick that recalls by looking at the evidence; never a system under test."""

    @abstractmethod
    async def recall_evidence(self, memory: Memory, question: Question) -> Recall:
        """Return what the control shows for a question, whose evidence it may see."""

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Recall with the evidence at hand; the trace says that it was (`control`)."""
        if not isinstance(query, ShownQuestion):
            raise TypeError("A control can only be asked by the engine, which shows it evidence.")
        recall = await self.recall_evidence(memory, query.question)
        return replace(recall, trace={**recall.trace, "control": type(self).__name__})


def query_for(system: MemorySystem[Any, Any], question: Question) -> Query:
    """Return what `system` may know of a question: text and date, and for a control all of it."""
    if isinstance(system, Control):
        return ShownQuestion(question.text, question.date, question=question)
    return question.query()


def asked_of(system: MemorySystem[Any, Any], sample: Sample) -> Sample:
    """Return the sample without the questions whose evidence a control could not be shown.

    A memory system is asked all of them.
    """
    if not isinstance(system, Control):
        return sample
    held = {session.id for session in sample.conversation.sessions}
    asked = (q for q in sample.questions if q.has_evidence and held & {*q.evidence_sessions})
    return replace(sample, questions=tuple(asked))


class OracleBuild(Settings):
    """Nothing changes the memory: sessions are kept as they are."""


class OracleAsk(Settings):
    """Nothing changes what is shown: all evidence sessions, in time order."""


class Oracle(Control[OracleBuild, OracleAsk]):
    """Answers from exactly the sessions that hold the evidence: perfect retrieval of sessions.

    What a memory system could score with the same answer prompt if it only retrieved; the rest of
    its errors are the answering model's. Memory: one unit a session.
    """

    version = 1
    session_ranking = (
        "the evidence sessions, which it is shown, then the others; both in time order"
    )

    def __init__(self, build: OracleBuild, ask: OracleAsk, tools: Tools) -> None:
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Only answering needs a model."""
        return frozenset({"main"} if stage == "answer" else set())

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Append the sessions."""
        before = memory or Memory()
        units = (
            Unit(
                session.id,
                dated_text([session_text(session)], session.date_text),
                tuple(turn.id for turn in session.turns),
                (session.id,),
            )
            for session in sessions
        )
        names = (*before.sessions, *(session.id for session in sessions))
        return Memory((*before.units, *units), names)

    async def recall_evidence(self, memory: Memory, question: Question) -> Recall:
        """Show the evidence sessions, in time order."""
        gold = {*question.evidence_sessions}
        shown = [unit for unit in memory.units if unit.id in gold]
        rest = [unit.id for unit in memory.units if unit.id not in gold]
        ranking = tuple(Ranked(unit.id, 1.0) for unit in shown)
        context = "\n\n".join(unit.text for unit in shown)
        return Recall(ranking, context, (*(unit.id for unit in shown), *rest))
