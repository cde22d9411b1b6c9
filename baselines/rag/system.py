"""RAG (MGRetrieval §A.3): one dense search over the raw memories, one answer call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from baselines.vectors import grown
from memsys.concurrency import compute
from memsys.dialogue import Query, Session
from memsys.encoders.protocol import Vectors
from memsys.mgretrieval.items import MemoryUnit, memory_items
from memsys.mgretrieval.rewriting import RewriteStyle, rewrite
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
    sessions_by_first_hit,
)


class RAGBuild(Settings):
    """What changes the memory."""

    memory_unit: MemoryUnit = "exchange"  # as MGRetrieval in the same table; inferred


class RAGAsk(Settings):
    """What changes recall and answers only."""

    top_k: int = Field(default=20, ge=1)  # §A.3
    context_order: Literal["time", "similarity"] = "time"  # ours
    rewrite: bool = False  # ours: control row of MGRetrieval's answer rewriting
    rewrite_style: RewriteStyle = "locomo"


class RAG(MemorySystem[RAGBuild, RAGAsk]):
    """Dense retrieval by exact inner product.

    Memory: units are memory items in time order, `arrays["vectors"]` their vectors of shape
    (n, d). Ranking: all units by similarity, ties in time order.
    """

    version = 1
    shared_prompts = ("memsys.mgretrieval",)  # for answer rewriting only
    session_ranking = "most similar memory of the session"

    def needs(self, stage: Stage) -> frozenset[Need]:
        """An encoder throughout; the main model to answer."""
        return frozenset({"encoder", "main"} if stage == "answer" else {"encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Embed and append the sessions' items."""
        before = memory or Memory()
        names = (*before.sessions, *(session.id for session in sessions))
        units = [
            item.unit
            for session in sessions
            for item in memory_items(session, self.build.memory_unit)
        ]
        arrays = await grown(before, [unit.text for unit in units], self.tools.encoder)
        return Memory((*before.units, *units), names, arrays)

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Rank all units; the context holds the `top_k` best."""
        encoded = await self.tools.encoder.encode([query.text], kind="query")
        vectors = memory.array("vectors", self.tools.encoder.dimension)
        scores = await compute(inner_products, vectors, encoded[0])
        order = descending(scores).tolist()
        ranking = tuple(Ranked(memory.units[i].id, float(scores[i])) for i in order)
        best = order[: self.ask.top_k]
        shown = sorted(best) if self.ask.context_order == "time" else best
        context = "\n\n".join(memory.units[i].text for i in shown)
        trace = {"shown": [memory.units[i].id for i in shown]}
        return Recall(ranking, context, sessions_by_first_hit(memory, ranking), trace)

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Ask the shared answer prompt once, then rewrite if that is on."""
        recall = await self.recall(memory, query)
        text = await self.tools.answerer.answer(recall.context, query)
        if self.ask.rewrite:
            text = await rewrite(
                self.tools, query, text, [recall.context], self.ask.rewrite_style, system="rag"
            )
        return Answer(text, recall, {"rewritten": self.ask.rewrite})


def inner_products(vectors: Vectors, query: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return e_q · e_i for every row, shape (n,).

    Summed row by row, so that equal rows have equal scores whatever stands around them: a BLAS
    product may round the rows of one block differently, and ties would not be ties.
    """
    products: NDArray[np.float64] = vectors.astype(np.float64) * query.astype(np.float64)
    scores: NDArray[np.float64] = products.sum(axis=1)
    return scores
