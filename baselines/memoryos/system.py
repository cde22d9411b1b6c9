"""MemoryOS (Kang et al., EMNLP 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from baselines.memoryos.building import Builder
from baselines.memoryos.pages import Page, Pager, meet
from baselines.memoryos.settings import MemoryOSAsk, MemoryOSBuild
from baselines.memoryos.store import Stores, matrix
from baselines.memoryos.writing import Writer
from memsys.dialogue import Query, Session
from memsys.encoders.protocol import Vectors
from memsys.retrieval.ranking import descending
from memsys.retrieval.vector_index import similarities
from memsys.system import (
    Answer,
    Memory,
    MemorySystem,
    Need,
    Ranked,
    Recall,
    Stage,
    Tools,
    sessions_by_first_hit,
)


class MemoryOS(MemorySystem[MemoryOSBuild, MemoryOSAsk]):
    """Short-term, mid-term and long-term store. Units are the pages that are still in a store.

    Per evicted page three calls (continuity, not for the first; chain summary; themes), and two or
    three whenever a segment gets hot. Under `pairing: official` with a queue that empties at once,
    a session opened by a reply can only overwrite the reply before it if both come in one call.
    """

    session_ranking: ClassVar[str | None] = (
        "sessions of the retrieved pages by cosine, then of the remaining pages by cosine"
    )

    def __init__(self, build: MemoryOSBuild, ask: MemoryOSAsk, tools: Tools) -> None:
        """Keep settings and tools."""
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses."""
        if stage == "recall" and not self.ask.query_keywords:
            return frozenset({"encoder"})
        return frozenset({"main", "encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Make pages of `sessions` and move them through the stores, in order."""
        memory = memory or Memory()
        stores, encoder = Stores.of(memory), self.tools.encoder
        builder = Builder(stores, self.build, Writer(self.tools, self.build), encoder)
        # official pairing looks across sessions, ours does not
        parts = [sessions] if self.build.pairing == "official" else [[s] for s in sessions]
        for part in parts:
            for page in self._pages(stores, part):
                await builder.arrive(page)
        stores.prune()
        units = tuple(page.unit() for page in stores.pages.values())
        return Memory(
            units=units,
            sessions=(*memory.sessions, *(session.id for session in sessions)),
            arrays={
                **stores.arrays(encoder.dimension),
                "pages": await self._page_vectors(memory, list(stores.pages.values())),
            },
            state=stores.state(),
        )

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Read all three stores: recent pages, the best segments' best pages, persona and facts."""
        ask, stores = self.ask, Stores.of(memory)
        vector = (await self.tools.encoder.encode([query.text], kind="query"))[0]
        keywords = await Writer(self.tools, ask).keywords(query.text) if ask.query_keywords else []
        f = stores.similarity(vector, keywords, ask.overlap)
        chosen = [int(i) for i in descending(f)[: ask.top_m] if self._passes(f[i])]
        cosine = similarities(memory.array("pages", len(vector)), vector[None], "cosine")[0]
        place = {unit.id: i for i, unit in enumerate(memory.units)}
        candidates = sorted(place[page] for i in chosen for page in stores.segments[i].pages)
        pool = list(dict.fromkeys(candidates)) if ask.deduplicate else candidates
        pool = [i for i in pool if self._passes(cosine[i])]
        retrieved = [pool[j] for j in descending(cosine[pool])[: ask.top_k]]
        # two lists by cosine, one after the other: scores are reciprocal ranks
        order = dict.fromkeys([*retrieved, *(int(i) for i in descending(cosine))])
        ranking = tuple(Ranked(memory.units[i].id, 1 / rank) for rank, i in enumerate(order, 1))
        facts = {
            "user": self._facts(stores, "user", vector, ask.user_facts),
            "assistant": self._facts(stores, "assistant", vector, ask.assistant_facts),
        }
        trace = {
            "segments": chosen,
            "retrieved": [memory.units[i].id for i in retrieved],
            "recent": list(stores.stm),
            "duplicates": len(candidates) - len(set(candidates)),
            "facts": {side: len(found) for side, found in facts.items()},
            "keywords": keywords,
        }
        pages = [stores.pages[memory.units[i].id] for i in sorted(retrieved)]
        context = _context(stores, pages, facts)
        return Recall(ranking, context, sessions_by_first_hit(memory, ranking), trace)

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Recall, then one call of the shared answer prompt, or of the authors'."""
        if self.ask.answer_prompt == "common":
            return await super().answer(memory, query)
        recall = await self.recall(memory, query)
        writer = Writer(self.tools, self.ask)
        text = await writer.official_answer(recall.context, query.text, query.date_text)
        return Answer(text, recall)

    def _pages(self, stores: Stores, sessions: Sequence[Session]) -> list[Page]:
        stores.user, stores.assistant = meet(sessions, stores.user, stores.assistant)
        pager = Pager(stores.user, stores.made)
        if self.build.pairing == "safe":
            pages = [page for session in sessions for page in pager.pages(session)]
        else:
            last = stores.pages.pop(stores.stm.pop()) if stores.stm else None
            pages = pager.official_pages(sessions, last)
        stores.made = pager.made
        return pages

    async def _page_vectors(self, memory: Memory, pages: Sequence[Page]) -> Vectors:
        """Embed the pages' texts, without their times; known texts keep their vectors."""
        encoder = self.tools.encoder
        rows = memory.array("pages", encoder.dimension)
        known = {
            (unit.fields["user"], unit.fields["reply"]): row
            for unit, row in zip(memory.units, rows, strict=True)
        }
        keys = [(page.user, page.reply) for page in pages]
        new = {key: page.text for key, page in zip(keys, pages, strict=True) if key not in known}
        if new:
            known |= dict(zip(new, await encoder.encode(list(new.values())), strict=True))
        return matrix([known[key] for key in keys], encoder.dimension)

    def _passes(self, score: np.floating[Any]) -> bool:
        return self.ask.threshold is None or bool(score >= self.ask.threshold)

    def _facts(self, stores: Stores, side: str, vector: Vectors, limit: int | None) -> list[str]:
        """Return the facts of one side that are nearest to the question, best first."""
        rows = matrix(stores.vectors[side], len(vector))
        scores = similarities(rows, vector[None], "cosine")[0]
        return [
            stores.facts[side][i] for i in descending(scores)[:limit] if self._passes(scores[i])
        ]


def _context(stores: Stores, pages: Sequence[Page], facts: dict[str, list[str]]) -> str:
    """Persona and facts, retrieved pages in time order with their chains, recent pages."""
    parts = []
    if stores.profile:
        parts.append(f"Profile of {stores.user}:\n{stores.profile}")
    for side, name in (("user", stores.user), ("assistant", stores.assistant)):
        if facts[side]:
            parts.append("\n".join([f"Known about {name}:", *(f"- {f}" for f in facts[side])]))
    if pages:
        parts.append("\n\n".join(["Earlier conversation:", *(_shown(stores, p) for p in pages)]))
    if stores.stm:
        recent = (stores.pages[p].unit().text for p in stores.stm)
        parts.append("\n\n".join(["Recent conversation:", *recent]))
    return "\n\n".join(parts)


def _shown(stores: Stores, page: Page) -> str:
    chain = stores.chains[page.chain] if page.chain >= 0 else ""
    return "\n".join(filter(None, [page.unit().text, f"(In short: {chain})" if chain else ""]))
