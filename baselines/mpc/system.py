"""MPC (Lee et al., Findings of ACL 2023): clarify, retrieve, process, answer.

`memory: sessions` is the MemGAS row: the pool is the sessions themselves and only the query is
rewritten. `memory: facts` is the original: a summariser adds one-sentence facts to the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from baselines.mpc.modules import clarify, process, summarise
from baselines.vectors import grown
from memsys.dialogue import Query, Session
from memsys.rendering import Span, dated_text, exchanges, plain_line, session_text
from memsys.retrieval.ranking import descending
from memsys.settings import Settings
from memsys.system import (
    Answer,
    Memory,
    MemorySystem,
    Need,
    Ranked,
    Recall,
    Stage,
    Tools,
    Unit,
)


class MpcBuild(Settings):
    """Settings that change the memory."""

    memory: Literal["sessions", "facts"] = "sessions"  # MemGAS's reading | original
    summarise_every: int = 3  # exchanges; the shipped configurations (utils.py alone: 6)
    summary_max_tokens: int = 512  # row (code: 128)
    temperature: float = 0.0  # MemGAS §3.1 (code: 0.3)


class MpcAsk(Settings):
    """Settings of recall and answering."""

    clarifier: bool = True
    clarifier_max_tokens: int = 64  # row (code: 32)
    memory_processor: bool = True  # chain of thought (`remove_cot: false`)
    processor_max_tokens: int = 512  # row (code: 196 and 32 for a second call)
    context: Literal["memories", "statement"] = "memories"  # statement alone: the original
    top_k: int = 3  # MemGAS §3.1 (code: 5)
    temperature: float = 0.0  # MemGAS §3.1 (code: 0.3)


class Mpc(MemorySystem[MpcBuild, MpcAsk]):
    """A chatbot of prompted modules.

    `recall` clarifies the question and searches the pool; `answer` also reasons over what was
    found and puts the condensed statement in front of it.
    """

    session_ranking: ClassVar[str | None] = (
        "dot product of the clarified question with each session, or with its best fact"
    )

    def __init__(self, build: MpcBuild, ask: MpcAsk, tools: Tools) -> None:
        """Keep settings and tools."""
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses."""
        chat = {
            "remember": self.build.memory == "facts",
            "recall": self.ask.clarifier,
            "answer": True,
        }[stage]
        return frozenset({"main", "encoder"} if chat else {"encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Add the sessions, or the facts in them, to the pool; nothing is merged or forgotten."""
        memory = memory or Memory()
        if self.build.memory == "sessions":
            units = [_session_unit(session) for session in sessions]
        else:
            made = await asyncio.gather(*(self._facts(session) for session in sessions))
            units = [unit for of_session in made for unit in of_session]
        speakers = [t.speaker for session in sessions for t in session.turns]
        return Memory(
            (*memory.units, *units),
            (*memory.sessions, *(session.id for session in sessions)),
            await grown(memory, [unit.text for unit in units], self.tools.encoder),
            {"speakers": list(dict.fromkeys([*memory.state.get("speakers", []), *speakers]))},
        )

    async def _facts(self, session: Session) -> list[Unit]:
        """Summarise disjoint windows of exchanges; the rest is flushed at the session's end."""
        spans = exchanges(session)
        size = self.build.summarise_every
        windows = [spans[i : i + size] for i in range(0, len(spans), size)]
        found = await asyncio.gather(*(self._summarise(window) for window in windows))
        units: list[Unit] = []
        for window, facts in zip(windows, found, strict=True):
            turns = tuple(turn_id for span in window for turn_id in span.turn_ids)
            for fact in facts:
                name = f"{session.id}#fact{len(units)}"
                units.append(Unit(name, fact, turns, (session.id,), {"date": session.date_text}))
        return units

    async def _summarise(self, window: Sequence[Span]) -> list[str]:
        return await summarise(
            self.tools,
            "\n".join(plain_line(turn) for span in window for turn in span.turns),
            max_tokens=self.build.summary_max_tokens,
            temperature=self.build.temperature,
        )

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Clarify the question and rank the pool by ⟨E(q'), E(m)⟩."""
        if not memory.units:
            return Recall((), "", memory.sessions)
        question = query.text
        if self.ask.clarifier:
            question = await clarify(
                self.tools,
                query,
                memory.state["speakers"],
                max_tokens=self.ask.clarifier_max_tokens,
                temperature=self.ask.temperature,
            )
        vector = (await self.tools.encoder.encode([question], kind="query"))[0]
        scores = memory.array("vectors") @ vector
        order = descending(scores)
        hits = [memory.units[i].sessions[0] for i in order]
        best = order[: self.ask.top_k]
        return Recall(
            tuple(Ranked(memory.units[i].id, float(scores[i])) for i in best),
            "\n\n".join(_shown(memory.units[i]) for i in best),
            # the first hit of a session is its best fact; sessions without facts come last
            tuple(dict.fromkeys([*hits, *memory.sessions])),
            {"clarified": question},
        )

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Recall, condense the memories into one statement, and answer with the shared prompt."""
        recall = await self.recall(memory, query)
        if self.ask.memory_processor and recall.ranking:
            recall = await self._processed(memory, recall)
        text = await self.tools.answerer.answer(recall.context, query)
        return Answer(text, recall, recall.trace)

    async def _processed(self, memory: Memory, recall: Recall) -> Recall:
        """Put the condensed statement in front of the memories, or in their place."""
        by_id = {unit.id: unit for unit in memory.units}
        processed = await process(
            self.tools,
            str(recall.trace["clarified"]),
            [_shown(by_id[ranked.unit]) for ranked in recall.ranking],
            max_tokens=self.ask.processor_max_tokens,
            temperature=self.ask.temperature,
        )
        if processed is None:
            return recall
        statement = processed.memory
        only = self.ask.context == "statement"
        return replace(
            recall,
            context=statement if only else f"{statement}\n\n{recall.context}",
            trace={**recall.trace, **processed.model_dump()},
        )


def _session_unit(session: Session) -> Unit:
    turns = tuple(turn.id for turn in session.turns)
    text = session_text(session)
    return Unit(session.id, text, turns, (session.id,), {"date": session.date_text})


def _shown(unit: Unit) -> str:
    """Return a memory under its date, as the processor and the answerer read it."""
    return dated_text([unit.text], str(unit.fields["date"]))
