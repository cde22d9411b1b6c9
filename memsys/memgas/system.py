"""MemGAS as a memory system.

Xu et al., "Towards Multi-Granularity Memory Association and Selection for Long-Term
Conversational Agents", arXiv 2505.19549. Section and equation numbers are its first version's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memsys.concurrency import compute
from memsys.dialogue import Query, Session
from memsys.encoders.protocol import Vectors
from memsys.memgas.context import Excerpt, history
from memsys.memgas.filter import filter_and_answer
from memsys.memgas.graph import new_edges
from memsys.memgas.metadata import describe
from memsys.memgas.nodes import GRANULARITIES, G, embed, interleave, pooled_maxima, units_of
from memsys.memgas.propagation import propagate, rank, seeds, session_masses
from memsys.memgas.router import entropies, node_scores, weights
from memsys.memgas.settings import MemGASAsk, MemGASBuild
from memsys.retrieval.vector_index import similarities
from memsys.system import Answer, Memory, MemorySystem, Need, Ranked, Recall, Stage, Tools


class MemGAS(MemorySystem[MemGASBuild, MemGASAsk]):
    """Multi-granularity association and selection.

    Memory: four units a session (`"{session_id}-{granularity}"`), one (n, d) array of vectors a
    granularity, `edges` (m, 2) over the 4n nodes.
    """

    version = 1
    session_ranking = "PageRank mass summed over the session's four nodes"

    def __init__(self, build: MemGASBuild, ask: MemGASAsk, tools: Tools) -> None:
        """Keep the settings of both phases and the tools of the run."""
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """An encoder throughout; the main model for metadata, filter and answer."""
        if stage == "remember":
            return frozenset({"encoder", "main"} if self.build.metadata == "llm" else {"encoder"})
        return frozenset({"encoder"} if stage == "recall" else {"encoder", "main"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Describe, embed and associate new sessions (§2.2).

        Two chat calls a session (one if merged), one encoder call, and for each new node one
        mixture over its most similar older nodes.
        """
        before = memory or Memory()
        if not sessions:
            return before
        metadata = await describe(
            sessions,
            self.tools,
            source=self.build.metadata,
            calls=self.build.metadata_calls,
            max_tokens=self.build.metadata_max_tokens,
        )
        fresh = await embed(sessions, metadata, self.tools.encoder)
        if self.build.turn_node == "mean":
            del fresh["pairs"], fresh["pair_counts"]
        arrays = {name: _grown(before, name, rows) for name, rows in fresh.items()}
        edges = await compute(
            new_edges,
            interleave([arrays[g] for g in GRANULARITIES]),
            len(before.sessions),
            self.build.association,
            self.build.similarity,
        )
        arrays["edges"] = _grown(before, "edges", edges)
        units = [u for pair in zip(sessions, metadata, strict=True) for u in units_of(*pair)]
        names = [session.id for session in sessions]
        return Memory((*before.units, *units), (*before.sessions, *names), arrays)

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Route, seed and propagate (§2.3, §2.4); the context is unfiltered."""
        return (await self.recall_many(memory, [query]))[0]

    async def recall_many(self, memory: Memory, queries: Sequence[Query]) -> list[Recall]:
        """Recall for many queries at once, each exactly as if it were alone."""
        if not memory.sessions:
            return [Recall((), "", ()) for _ in queries]
        vectors = await self.tools.encoder.encode([q.text for q in queries], kind="query")
        return await compute(self._recalls, memory, vectors)

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Recall, filter the top sessions with one call, answer with another (§2.4)."""
        recall = await self.recall(memory, query)
        units = {unit.id: unit for unit in memory.units}
        excerpts = [
            Excerpt(
                str(units[ranked.unit].fields["date"]),
                units[ranked.unit].text,
                units[f"{units[ranked.unit].sessions[0]}-summary"].text,
                units[f"{units[ranked.unit].sessions[0]}-keyword"].text,
            )
            for ranked in recall.ranking
        ]
        return await filter_and_answer(self.tools, self.ask.filter, recall, excerpts, query)

    def _recalls(self, memory: Memory, queries: Vectors) -> list[Recall]:
        ask = self.ask
        sims = self._similarities(memory, queries)
        uncertainty = [entropies(s, ask.lambda_) for s in sims]
        weighed = [weights(h, ask.router.formula) for h in uncertainty]
        scores = [node_scores(s, w) for s, w in zip(sims, weighed, strict=True)]
        eq5 = [s.sum(axis=1) for s in scores]
        if ask.propagation == "eq5":
            seeded = np.zeros((len(scores), G * len(memory.sessions)))
            masses = np.stack(eq5)
            orders = [rank(np.zeros_like(e), e) for e in eq5]
        else:
            seeded = np.stack([seeds(s.reshape(-1), ask.alpha) for s in scores])
            edges = memory.arrays["edges"]
            masses = session_masses(propagate(seeded, edges, ask.propagation, ask.damping))
            orders = [rank(m, e) for m, e in zip(masses, eq5, strict=True)]
        recalls = []
        for i, order in enumerate(orders):
            trace = {
                "propagation": ask.propagation,
                "entropies": dict(zip(GRANULARITIES, uncertainty[i].tolist(), strict=True)),
                "weights": dict(zip(GRANULARITIES, weighed[i].tolist(), strict=True)),
                "seeds": [memory.units[node].id for node in np.flatnonzero(seeded[i])],
                "edges": len(memory.arrays["edges"]),
            }
            recalls.append(self._recall(memory, order.tolist(), masses[i].tolist(), trace))
        return recalls

    def _similarities(self, memory: Memory, queries: Vectors) -> NDArray[np.float64]:
        """Return sim(q, M_i^g) of every query, session and granularity, (q, n, 4)."""
        arrays, how = memory.arrays, self.build.similarity
        by_granularity = [similarities(arrays[g], queries, how) for g in GRANULARITIES]
        if self.build.turn_node == "max":
            pairs = similarities(arrays["pairs"], queries, how)
            best = [pooled_maxima(row, arrays["pair_counts"]) for row in pairs]
            by_granularity[GRANULARITIES.index("turn")] = np.array(best, np.float32)
        return np.stack(by_granularity, axis=-1).astype(np.float64)

    def _recall(
        self, memory: Memory, order: list[int], masses: list[float], trace: dict[str, Any]
    ) -> Recall:
        """Show the top sessions in rank order, not re-sorted by date."""
        top = [memory.units[G * i] for i in order[: self.ask.top_k]]
        ranking = [Ranked(u.id, masses[i]) for u, i in zip(top, order, strict=False)]
        context = history(Excerpt(str(u.fields["date"]), u.text) for u in top)
        sessions = tuple(memory.sessions[i] for i in order)
        return Recall(tuple(ranking), context, sessions, trace)


def _grown(memory: Memory, name: str, rows: NDArray[Any]) -> NDArray[Any]:
    old = memory.arrays.get(name)
    return rows if old is None else np.concatenate([old, rows])
