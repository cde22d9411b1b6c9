"""SeCom (Pan et al., ICLR 2025): segment each session, compress the keys, retrieve segments."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from baselines.secom.compression import CompressorName, compressor
from baselines.secom.segmentation import segment
from baselines.vectors import grown
from memsys.concurrency import compute
from memsys.dialogue import Query, Session
from memsys.rendering import dated_text, pair_text, turn_pairs
from memsys.retrieval.bm25 import Bm25Index
from memsys.retrieval.ranking import descending
from memsys.settings import Settings
from memsys.system import Memory, MemorySystem, Need, Ranked, Recall, Stage, Tools, Unit


class SeComBuild(Settings):
    """Settings that change the memory."""

    segment_max_tokens: int = 1024  # secom.py
    temperature: float = 0.0  # MemGAS §3.1 (code: 0.7)
    fallback_block: int = Field(default=3, ge=1)  # exchanges; secom.py
    rubric: str = ""  # SeCom's reflection, which it does not use on LoCoMo and Long-MT-Bench+
    compressor: CompressorName = "llmlingua2"
    compressor_model: str = "microsoft/llmlingua-2-xlm-roberta-large-meetingbank"  # mpnet.yaml
    compression_rate: float = Field(default=0.75, gt=0, le=1)  # SeCom §3 (code: 0.9)


class SeComAsk(Settings):
    """Settings of recall and answering."""

    retriever: Literal["encoder", "bm25"] = "encoder"  # SeCom §3 uses both
    top_k: int = 3  # segments; MemGAS §3.1
    context: Literal["segments", "sessions"] = "segments"
    context_order: Literal["rank", "time"] = "rank"  # code and MemGAS (SeCom's text: time)
    session_score: Literal["max", "mean"] = "max"  # over a session's segments; ours


class SeCom(MemorySystem[SeComBuild, SeComAsk]):
    """Topical segments, found by the vectors of their compressed exchanges.

    Units are segments: their text is the original, the field `key` what is embedded.
    """

    session_ranking: ClassVar[str | None] = "best score of a session's segments (ours)"

    def __init__(self, build: SeComBuild, ask: SeComAsk, tools: Tools) -> None:
        """Keep settings and tools; the compressor is loaded at its first use."""
        super().__init__(build, ask, tools)
        self._compressor = compressor(build.compressor, build.compressor_model)

    def check(self) -> None:
        """Raise `UserError` if the compressor's package is missing."""
        self._compressor.check()

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses."""
        chat: frozenset[Need] = frozenset() if stage == "recall" else frozenset({"main"})
        dense = stage == "remember" or self.ask.retriever == "encoder"
        return chat | frozenset({"encoder"} if dense else set())

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Cut each session into segments and embed their compressed keys."""
        self.check()  # before any call is paid for
        memory = memory or Memory()
        made = await asyncio.gather(*(self._segments(session) for session in sessions))
        new = [unit for of_session in made for unit in of_session]
        bank = [*memory.units, *new]
        # a compressor that weighs words over the whole bank changes the old keys too
        fresh = bank if self._compressor.bank_wide else new
        keyed = await self._with_keys(fresh)
        units = (*bank[: len(bank) - len(keyed)], *keyed)
        kept = Memory() if self._compressor.bank_wide else memory
        keys = [str(unit.fields["key"]) for unit in keyed]
        return Memory(
            units,
            (*memory.sessions, *(session.id for session in sessions)),
            await grown(kept, keys, self.tools.encoder),
            {"compression": self._achieved(units)},
        )

    async def _segments(self, session: Session) -> list[Unit]:
        """Return the session's segments, without keys yet."""
        spans = turn_pairs(session)
        if not spans:
            return []
        lengths = await segment(
            self.tools,
            [pair_text(span) for span in spans],
            rubric=self.build.rubric,
            fallback_block=self.build.fallback_block,
            max_tokens=self.build.segment_max_tokens,
            temperature=self.build.temperature,
        )
        ends = np.cumsum(lengths)
        units = []
        for k, (length, end) in enumerate(zip(lengths, ends, strict=True)):
            part = spans[end - length : end]
            fields = {
                "date": session.date_text,
                "exchanges": [pair_text(span) for span in part],
                "tags": list(dict.fromkeys(f"[{t.speaker}]:" for s in part for t in s.turns)),
            }
            turns = tuple(turn_id for span in part for turn_id in span.turn_ids)
            text = "\n".join(fields["exchanges"])
            units.append(Unit(f"{session.id}#segment{k}", text, turns, (session.id,), fields))
        return units

    async def _with_keys(self, units: Sequence[Unit]) -> list[Unit]:
        """Add to each segment its key: its exchanges, each compressed by itself."""
        exchanges = [text for unit in units for text in unit.fields["exchanges"]]
        tags = list(dict.fromkeys(tag for unit in units for tag in unit.fields["tags"]))
        short = iter(
            await compute(
                self._compressor.compress, exchanges, self.build.compression_rate, sorted(tags)
            )
        )
        keyed = []
        for unit in units:
            key = "\n".join(next(short) for _ in unit.fields["exchanges"])
            fields = {**unit.fields, "key": key}
            keyed.append(Unit(unit.id, unit.text, unit.turns, unit.sessions, fields))
        return keyed

    def _achieved(self, units: Sequence[Unit]) -> Mapping[str, Any]:
        """Say which compressor ran and how many words it kept."""
        words = sum(len(unit.text.split()) for unit in units)
        kept = sum(len(str(unit.fields["key"]).split()) for unit in units)
        return {
            "compressor": self.build.compressor,
            "rate": self.build.compression_rate,
            "achieved_rate": kept / words if words else 1.0,
        }

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Rank segments by the query's similarity with their keys, sessions by their segments."""
        if not memory.units:
            return Recall((), "", memory.sessions)
        scores = await self._scores(memory, query)
        order = descending(scores)
        sessions = self._ranked_sessions(memory, scores)
        best = order[: self.ask.top_k]
        return Recall(
            tuple(Ranked(memory.units[i].id, float(scores[i])) for i in best),
            self._context(memory, [int(i) for i in best], sessions),
            sessions,
        )

    async def _scores(self, memory: Memory, query: Query) -> NDArray[Any]:
        if self.ask.retriever == "bm25":
            keys = [str(unit.fields["key"]) for unit in memory.units]
            return (await compute(Bm25Index.build, keys)).scores(query.text)
        question = (await self.tools.encoder.encode([query.text], kind="query"))[0]
        return np.asarray(memory.array("vectors") @ question)

    def _ranked_sessions(self, memory: Memory, scores: NDArray[Any]) -> tuple[str, ...]:
        of_session: dict[str, list[float]] = {name: [] for name in memory.sessions}
        for unit, score in zip(memory.units, scores, strict=True):
            of_session[unit.sessions[0]].append(float(score))
        combine = max if self.ask.session_score == "max" else np.mean
        # a session without turns has no segment and comes last
        totals = [combine(found) if found else -np.inf for found in of_session.values()]
        return tuple(memory.sessions[i] for i in descending(np.array(totals)))

    def _context(self, memory: Memory, best: Sequence[int], sessions: Sequence[str]) -> str:
        """Return the segments, or the best sessions whole, each under its date."""
        in_time = self.ask.context_order == "time"
        if self.ask.context == "segments":
            shown = [[memory.units[i]] for i in (sorted(best) if in_time else best)]
        else:
            names = list(sessions[: self.ask.top_k])
            if in_time:
                names.sort(key=memory.sessions.index)
            shown = [[u for u in memory.units if u.sessions[0] == name] for name in names]
        blocks = [
            dated_text([unit.text for unit in units], str(units[0].fields["date"]))
            for units in shown
            if units
        ]
        return "\n\n".join(blocks)
