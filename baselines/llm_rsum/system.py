"""LLM-Rsum (Wang et al., arXiv 2308.15022): M_i = LLM(instruction, M_{i-1}, S_i).

The original answers from the last memory and retrieves nothing. For MemGAS's retrieval rows every
state M_i stands for its session, embedded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from baselines.llm_rsum.states import (
    EMPTY,
    new_sentences,
    read_state,
    sentences,
    session_lines,
    speaker_names,
)
from baselines.vectors import grown
from memsys.dialogue import Query, Session
from memsys.llm import ledger
from memsys.llm.fitting import render_to_fit
from memsys.rendering import dated_text
from memsys.retrieval.ranking import descending
from memsys.settings import Settings
from memsys.system import Memory, MemorySystem, Need, Ranked, Recall, Stage, Tools, Unit


class LlmRsumBuild(Settings):
    """Settings that change the memory."""

    max_sentences: int = 20  # the authors' data loaders
    max_tokens: int = 1000  # ample for 20 sentences; the authors' code sets no limit
    temperature: float = 0.0  # config.py, `summ_temp`
    show_dates: bool = True  # ours: the original's corpora have no dates
    rank_text: Literal["memory_state", "delta"] = "memory_state"  # what stands for a session


class LlmRsumAsk(Settings):
    """Settings of recall and answering."""

    context: Literal["top_k_memories", "final_memory"] = "top_k_memories"  # final: the original
    top_k: int = 3  # MemGAS §3.1


class LlmRsum(MemorySystem[LlmRsumBuild, LlmRsumAsk]):
    """Recursive summarising; one sequential call a session.

    Units are the states M_1 … M_n, one a session, with their token counts and new sentences.
    """

    session_ranking: ClassVar[str | None] = "dot product of the question with each session's state"

    def __init__(self, build: LlmRsumBuild, ask: LlmRsumAsk, tools: Tools) -> None:
        """Keep settings and tools."""
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses."""
        if stage == "recall":
            return frozenset({"encoder"})
        return frozenset({"main", "encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Fold `sessions` into the memory, in order; states depend on all that came before."""
        memory = memory or Memory()
        previous = memory.units[-1].text if memory.units else ""
        units: list[Unit] = []
        for session in sessions:
            state = await self._update(previous, session)
            fields = {
                "date": session.date_text,
                "tokens": self.tools.chat.count_tokens(state),
                "delta": new_sentences(state, previous),
            }
            turns = tuple(turn.id for turn in session.turns)
            units.append(Unit(f"state-{session.id}", state, turns, (session.id,), fields))
            previous = state
        by_state = self.build.rank_text == "memory_state"
        texts = [u.text if by_state else str(u.fields["delta"]) for u in units]
        return Memory(
            (*memory.units, *units),
            (*memory.sessions, *(session.id for session in sessions)),
            await grown(memory, texts, self.tools.encoder),
        )

    async def _update(self, previous: str, session: Session) -> str:
        """Return M_i; an empty reply keeps M_{i-1}."""
        if not session.turns:
            return previous
        messages = render_to_fit(
            self.tools.chat,
            self.tools.prompts.get("baselines.llm_rsum", "update"),
            cut="session",
            role="main",
            max_tokens=self.build.max_tokens,
            event="llm_rsum.update",
            speakers=speaker_names(session),
            memory=previous or EMPTY,
            session=session_lines(session, self.build.show_dates),
            sentences=str(self.build.max_sentences),
        )
        reply = await self.tools.chat.reply(
            messages,
            role="main",
            max_tokens=self.build.max_tokens,
            temperature=self.build.temperature,
        )
        state = read_state(reply.text)
        if not state:
            ledger.count("llm_rsum.empty_state")
            return previous
        if len(sentences(state)) > self.build.max_sentences:
            ledger.count("llm_rsum.long_state")
        return state

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Rank the states by ⟨E(q), E(M_i)⟩; the context is the best states, or the last one."""
        if not memory.units:
            return Recall((), "", ())
        question = (await self.tools.encoder.encode([query.text], kind="query"))[0]
        scores = memory.array("vectors") @ question
        order = descending(scores)
        best = order[: self.ask.top_k]
        if self.ask.context == "final_memory":
            context = memory.units[-1].text
        else:
            units = (memory.units[i] for i in best)
            context = "\n\n".join(dated_text([u.text], u.fields["date"]) for u in units)
        return Recall(
            tuple(Ranked(memory.units[i].id, float(scores[i])) for i in best),
            context,
            tuple(memory.units[i].sessions[0] for i in order),
        )
