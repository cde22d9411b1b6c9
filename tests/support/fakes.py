"""A tiny memory system and chat back end for tests of the engine, named by `_target_`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from memsys.dialogue import Query, Session
from memsys.errors import ChatFailure
from memsys.llm.chat import Message, Messages, Reply, Request, Usage
from memsys.rendering import session_text
from memsys.settings import Settings
from memsys.system import (
    Answer,
    Memory,
    MemorySystem,
    Need,
    Ranked,
    Recall,
    Stage,
    Unit,
    sessions_by_first_hit,
)


class FakeBackend:
    """Replies with a hash of the request; fails where a prompt holds one of `fail_on`."""

    requests: ClassVar[list[Request]] = []
    failing: ClassVar[set[str]] = set()

    def __init__(self, name: str = "fake", window: int = 8192, delay: float = 0.0) -> None:
        self.name = name
        self.context_window = window
        self.delay = delay
        self.enforces_schema = False
        self.max_completion_tokens = None
        self.concurrency = 8

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"model": self.name}

    async def complete(self, request: Request) -> Reply:
        FakeBackend.requests.append(request)
        await asyncio.sleep(self.delay)
        content = request.messages[-1].content
        if any(word in content for word in FakeBackend.failing):
            raise ChatFailure("the endpoint gave up")
        text = hashlib.sha256(content.encode()).hexdigest()[:8]
        return Reply(text, Usage(self.message_tokens(request.messages), 1), 0.01, model=self.name)

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def message_tokens(self, messages: Sequence[Message]) -> int:
        return sum(self.count_tokens(m.content) for m in messages)

    async def check(self) -> None: ...

    async def close(self) -> None: ...


class NotebookBuild(Settings):
    """What changes the memory."""

    style: str = "short"


class NotebookAsk(Settings):
    """What changes the asking."""

    top_k: int = 2


class Notebook(MemorySystem[NotebookBuild, NotebookAsk]):
    """Takes a note of each session with one call; recalls by shared words."""

    version = 1
    session_ranking = "shared words"
    queries: ClassVar[list[Query]] = []

    def needs(self, stage: Stage) -> frozenset[Need]:
        return frozenset() if stage == "recall" else frozenset({"main"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        memory = memory or Memory()
        units = list(memory.units)
        for session in sessions:
            prompt = f"{self.build.style} note of {session.id}: {session_text(session)}"
            messages = Messages.of([Message("user", prompt)], "notebook/note@0")
            note = await self.tools.chat.reply(messages, role="main", max_tokens=16)
            text = session_text(session)
            units.append(Unit(session.id, text, (), (session.id,), {"note": note.text}))
        return Memory(tuple(units), (*memory.sessions, *(s.id for s in sessions)))

    async def recall(self, memory: Memory, query: Query) -> Recall:
        Notebook.queries.append(query)
        words = set(query.text.lower().split())
        scores = [len(words & set(u.text.lower().split())) for u in memory.units]
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        ranking = tuple(Ranked(memory.units[i].id, float(scores[i])) for i in order)
        shown = "\n".join(memory.units[i].text for i in order[: self.ask.top_k])
        return Recall(ranking, shown, sessions_by_first_hit(memory, ranking))

    async def answer(self, memory: Memory, query: Query) -> Answer:
        recall = await self.recall(memory, query)
        return Answer(await self.tools.answerer.answer(recall.context, query), recall, {"k": 1})
