"""No memory at all: what the main model answers from its own knowledge and the question alone.

A control row of ours. Whatever a memory system scores above it, it owes to its memory; on
questions that can be guessed, that may be little.
"""

from __future__ import annotations

from collections.abc import Sequence

from memsys.dialogue import Query, Session
from memsys.settings import Settings
from memsys.system import Memory, MemorySystem, Need, Recall, Stage, Tools


class NoMemoryBuild(Settings):
    """Nothing is remembered, so nothing changes a memory."""


class NoMemoryAsk(Settings):
    """Nothing is recalled, so nothing changes what is asked."""


class NoMemory(MemorySystem[NoMemoryBuild, NoMemoryAsk]):
    """Answers with the shared answer prompt and an empty context: one call of the main model.

    Memory: no units; the ids of the sessions seen, as every memory has them. Nothing is ranked.
    """

    version = 1

    def __init__(self, build: NoMemoryBuild, ask: NoMemoryAsk, tools: Tools) -> None:
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Only answering needs a model."""
        return frozenset({"main"} if stage == "answer" else set())

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Forget the sessions, but for their ids."""
        before = memory or Memory()
        return Memory(sessions=(*before.sessions, *(session.id for session in sessions)))

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Recall nothing."""
        return Recall((), "")
