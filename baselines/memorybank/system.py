"""MemoryBank (Zhong et al., AAAI 2024): the dense (FAISS) path of the authors' code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from baselines.memorybank.days import Day, add_sessions, body, dated_lines, days_of
from baselines.memorybank.forgetting import Rule, retained, strength_and_age
from memsys.dialogue import Query, Session
from memsys.encoders.protocol import Vectors
from memsys.llm import ledger
from memsys.llm.fitting import render_to_fit
from memsys.retrieval.ranking import descending
from memsys.retrieval.vector_index import similarities
from memsys.settings import Settings
from memsys.system import (
    Memory,
    MemorySystem,
    Need,
    Ranked,
    Recall,
    Stage,
    Tools,
    Unit,
    sessions_by_first_hit,
)

_PACKAGE = "baselines.memorybank"


class MemoryBankBuild(Settings):
    """Settings that change the memory."""

    max_tokens: int = 400  # of a summary or an analysis; authors' code
    temperature: float = 0.0  # MGRetrieval: 0 throughout; the authors' code has 0.7


class MemoryBankAsk(Settings):
    """Settings of recall."""

    top_k: int = Field(2, ge=1)  # sys_args.py, memory_search_top_k
    glue_chars: int = 200  # neighbours of a hit are glued on below this length; model_config.py
    # sys_args.py, enable_forget_mechanism; official: the inverted curve. YAML's bare off is False
    forgetting: Annotated[Rule, BeforeValidator(lambda v: "off" if v is False else v)] = "off"
    seed: int = 0  # of the draws that decide what is forgotten; the authors' are unseeded
    include_overall_history: bool = False  # the authors' templates have no slot for it


class MemoryBank(MemorySystem[MemoryBankBuild, MemoryBankAsk]):
    """Exchanges and daily summaries as documents; a global portrait in every prompt.

    Two calls a day and two a build. A day that gains a session, and the two global texts, are
    written anew, so that remembering in parts ends in the same memory (for more calls).
    """

    session_ranking: ClassVar[str | None] = (
        "sessions of the documents by cosine; a daily summary stands for its day's sessions"
    )

    def __init__(self, build: MemoryBankBuild, ask: MemoryBankAsk, tools: Tools) -> None:
        """Keep settings and tools."""
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses."""
        return frozenset({"encoder"} if stage == "recall" else {"main", "encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Enter `sessions` into the calendar, then write the texts of the days that changed."""
        memory = memory or Memory()
        days = days_of(memory)
        user = memory.state.get("user") or _user(sessions)
        state: dict[str, Any] = {**memory.state, "user": user}
        changed = add_sessions(days, sessions)
        if changed:
            await asyncio.gather(*(self._describe(day, user) for day in changed))
            summaries = dated_lines(days.values(), "summary")
            analyses = dated_lines(days.values(), "personality")
            state["overall_history"], state["portrait"] = await asyncio.gather(
                self._write("overall_history", user=user, text=summaries),
                self._write("overall_portrait", user=user, text=analyses),
            )
        state["days"] = [day.plain() for day in days.values()]
        units = tuple(unit for day in days.values() for unit in day.units())
        return Memory(
            units=units,
            sessions=(*memory.sessions, *(session.id for session in sessions)),
            arrays={"vectors": await self._vectors(memory, units)},
            state=state,
        )

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Rank the documents that are not forgotten by cosine; show the best in time order."""
        kept = self._kept(memory, query)
        scores = np.zeros(0, np.float32)
        if kept:
            vectors = memory.array("vectors")[kept]
            question = await self.tools.encoder.encode([query.text], kind="query")
            scores = similarities(vectors, question, "cosine")[0]
        order = [int(i) for i in descending(scores)]
        documents = [memory.units[i] for i in kept]
        ranking = tuple(Ranked(documents[i].id, float(scores[i])) for i in order)
        hits = order[: self.ask.top_k]
        shown = glue(documents, hits, self.ask.glue_chars)
        trace = {
            "hits": [documents[i].id for i in hits],
            "glued": [documents[i].id for i in shown if i not in hits],
            "forgotten": len(memory.units) - len(kept),
        }
        context = self._context(memory, [documents[i] for i in shown])
        return Recall(ranking, context, sessions_by_first_hit(memory, ranking), trace)

    def reinforced(self, memory: Memory, recall: Recall, today: date) -> Memory:
        """Return `memory` after its hits were recalled `today`: S grows by 1, t restarts.

        For a memory in use between conversations; a benchmark's questions never change it.
        """
        recalls = dict(memory.state.get("recalls", {}))
        hits = set(recall.trace["hits"])
        for unit in memory.units:
            if unit.id in hits:
                strength, _ = strength_and_age(unit, recalls, today)
                recalls[unit.id] = [strength + 1, today.isoformat()]
        return replace(memory, state={**memory.state, "recalls": recalls})

    async def _describe(self, day: Day, user: str) -> None:
        day.summary, day.personality = await asyncio.gather(
            self._write("day_summary", user=user, text=day.dialogue()),
            self._write("day_personality", user=user, text=day.dialogue()),
        )

    async def _write(self, name: str, *, user: str, text: str) -> str:
        """Make one call; what does not fit is cut from the start; an empty reply stays empty."""
        limit = self.build.max_tokens
        messages = render_to_fit(
            self.tools.chat,
            self.tools.prompts.get(_PACKAGE, name),
            cut="text",
            role="main",
            max_tokens=limit,
            event=f"memorybank.{name}",
            keep="end",
            user=user,
            text=text,
        )
        reply = await self.tools.chat.reply(
            messages, role="main", max_tokens=limit, temperature=self.build.temperature
        )
        written = reply.text.strip()
        if not written:
            ledger.count(f"memorybank.{name}:empty")
        return written

    async def _vectors(self, memory: Memory, units: Sequence[Unit]) -> Vectors:
        """Embed the documents; those whose text is unchanged keep their vectors."""
        encoder = self.tools.encoder
        old = {u.text: v for u, v in zip(memory.units, memory.array("vectors"), strict=True)}
        new = list(dict.fromkeys(unit.text for unit in units if unit.text not in old))
        if new:
            old |= dict(zip(new, await encoder.encode(new), strict=True))
        rows = [old[unit.text] for unit in units]
        return np.array(rows, np.float32).reshape(len(units), encoder.dimension)

    def _kept(self, memory: Memory, query: Query) -> list[int]:
        dates = [day["date"] for day in memory.state.get("days", []) if day["date"]]
        last = date.fromisoformat(max(dates)) if dates else None
        today = query.date.date() if query.date else last
        recalls = memory.state.get("recalls", {})
        return retained(memory.units, recalls, today, self.ask.forgetting, self.ask.seed)

    def _context(self, memory: Memory, shown: Sequence[Unit]) -> str:
        """Portrait, then the memories of each day under its date."""
        parts = []
        if portrait := memory.state.get("portrait"):
            parts.append(f"About {memory.state['user']}: {portrait}")
        if self.ask.include_overall_history and (history := memory.state.get("overall_history")):
            parts.append(f"What has happened so far: {history}")
        for day in memory.state.get("days", []):
            texts = [body(u.text, day["label"]) for u in shown if u.fields["day"] == day["key"]]
            if texts:
                parts.append("\n".join([f"[{day['label']}]" if day["label"] else "", *texts]))
        return "\n\n".join(part.strip() for part in parts)


def glue(documents: Sequence[Unit], hits: Sequence[int], limit: int) -> list[int]:
    """Return the hits and the neighbours glued on to them, in time order.

    From each hit outwards, the neighbours at distance 1, 2, … of the same day join as long as the
    text stays within `limit` characters; the first that does not ends it.
    """
    shown = set(hits)
    for hit in hits:
        length = len(documents[hit].text)
        around = (i for d in range(1, len(documents)) for i in (hit + d, hit - d))
        for i in around:
            if (
                0 <= i < len(documents)
                and documents[i].fields["day"] == documents[hit].fields["day"]
            ):
                length += len(documents[i].text)
                if length > limit:
                    break
                shown.add(i)
    return sorted(shown)


def _user(sessions: Sequence[Session]) -> str:
    """Name whom the bank portrays: the user of an assistant, else speaker A, else who begins."""
    for session in sessions:
        for turn in session.turns:
            if turn.role != "assistant":
                return turn.speaker if turn.role else session.speaker_a or turn.speaker
    return ""
