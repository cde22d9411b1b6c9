"""HippoRAG 2 (Gutiérrez et al., ICML 2025) with whole sessions as passages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from baselines.hipporag2.extraction import Triple, extract, recognise
from baselines.hipporag2.graph import (
    build_edges,
    min_max,
    phrase_seeds,
    phrases_of,
    rank_nodes,
    synonym_pairs,
    unit_rows,
)
from baselines.vectors import grown
from memsys.concurrency import compute
from memsys.dialogue import Query, Session
from memsys.llm import ledger
from memsys.rendering import dated_text, session_text
from memsys.retrieval.ranking import descending
from memsys.settings import Settings
from memsys.system import Memory, MemorySystem, Need, Ranked, Recall, Stage, Tools, Unit


class HippoRag2Build(Settings):
    """Settings that change the memory."""

    max_tokens: int = 2048  # of the entity and the triple call; HippoRAG.py
    temperature: float = 0.0  # HippoRAG.py
    synonym_threshold: float = 0.8  # config_utils.py
    synonyms_looked_at: int = Field(default=2047, ge=1)  # config_utils.py
    synonyms_kept: int = Field(default=101, ge=0)  # HippoRAG.py: "more than 100 already kept"
    edge_mode: Literal["official", "merged"] = "official"  # parallel edges twice, as in the code


class HippoRag2Ask(Settings):
    """Settings of recall and answering."""

    linking_top_k: int = Field(default=5, ge=1)  # triples to the filter, phrases; config_utils.py
    filter: bool = True  # recognition memory; HippoRAG 2 §3
    filter_max_tokens: int = 512  # the code's filter
    temperature: float = 0.0
    seed_rule: Literal["last", "mean"] = "last"  # 2.0.0a3, which MemGAS ran | 2.0.0a4 and later
    passage_weight: float = Field(default=0.05, ge=0)  # config_utils.py
    damping: float = Field(default=0.5, ge=0, lt=1)  # chance to follow an edge; config_utils.py
    top_k: int = 3  # passages read; MemGAS §3.1 (code: 5)


class HippoRag2(MemorySystem[HippoRag2Build, HippoRag2Ask]):
    """A knowledge graph of phrases and sessions.

    Units are the sessions, with their entities and triples. Arrays hold the vectors of passages,
    phrases and triples, and the graph; the state holds the phrases and the distinct triples.
    """

    session_ranking: ClassVar[str | None] = "Personalized PageRank of the sessions, as published"

    def __init__(self, build: HippoRag2Build, ask: HippoRag2Ask, tools: Tools) -> None:
        """Keep settings and tools."""
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses."""
        without_chat = stage == "recall" and not self.ask.filter
        return frozenset({"encoder"} if without_chat else {"main", "encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Extract triples from each session; the graph only grows, its synonyms are found anew."""
        memory = memory or Memory()
        new = await asyncio.gather(*(self._passage(session) for session in sessions))
        units = (*memory.units, *new)
        passages = [_triples(unit) for unit in units]
        everything = [triple for triples in passages for triple in triples]
        phrases = phrases_of(everything)
        triples = list(dict.fromkeys(everything))
        encoder = self.tools.encoder
        # phrases and triples come in order of appearance, so what is new stands at the end
        known = memory.state.get("phrases", []), memory.state.get("triples", [])
        arrays = await grown(memory, [unit.text for unit in new], encoder, "passages")
        for name, texts in (
            ("phrases", phrases[len(known[0]) :]),
            ("triples", [str(triple) for triple in triples[len(known[1]) :]]),
        ):
            arrays = await grown(Memory(arrays=arrays), texts, encoder, name)
        edges, weights = await compute(
            self._graph, passages, phrases, Memory(arrays=arrays).array("phrases")
        )
        return Memory(
            units,
            (*memory.sessions, *(session.id for session in sessions)),
            {**arrays, "edges": edges, "weights": weights},
            {
                "phrases": phrases,
                "triples": [list(triple) for triple in triples],
                "passages_with": _passages_with(passages, phrases),
            },
        )

    async def _passage(self, session: Session) -> Unit:
        text = session_text(session)
        entities: list[str] = []
        triples: list[Triple] = []
        if session.turns:
            entities, triples = await extract(
                self.tools,
                text,
                max_tokens=self.build.max_tokens,
                temperature=self.build.temperature,
            )
        fields = {
            "date": session.date_text,
            "entities": entities,
            "triples": [list(triple) for triple in triples],
        }
        turns = tuple(turn.id for turn in session.turns)
        return Unit(session.id, text, turns, (session.id,), fields)

    def _graph(
        self, passages: Sequence[Sequence[Triple]], phrases: Sequence[str], vectors: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        build = self.build
        synonyms = synonym_pairs(
            phrases,
            vectors,
            build.synonym_threshold,
            build.synonyms_looked_at,
            build.synonyms_kept,
        )
        return build_edges(passages, phrases, synonyms, build.edge_mode)

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Rank sessions by PageRank from the recognised triples; by cosine if there are none."""
        if not memory.units:
            return Recall((), "", ())
        question = unit_rows(await self.tools.encoder.encode([query.text], kind="query"))[0]
        dense = min_max(unit_rows(memory.array("passages")) @ question)
        candidates, kept = await self._recognised(memory, query, question)
        seeds = phrase_seeds(
            kept,
            memory.state["phrases"],
            memory.state["passages_with"],
            self.ask.seed_rule,
            self.ask.linking_top_k,
        )
        everything = np.concatenate([seeds, self.ask.passage_weight * dense])
        if kept and everything.any():
            pi = await compute(
                rank_nodes,
                memory.arrays["edges"],
                memory.arrays["weights"],
                everything,
                self.ask.damping,
            )
            scores = pi[len(seeds) :]
        else:
            ledger.count("hipporag2.dense_fallback")
            scores = dense
        order = descending(scores)
        best = [memory.units[i] for i in order[: self.ask.top_k]]
        return Recall(
            tuple(Ranked(memory.units[i].id, float(scores[i])) for i in order[: self.ask.top_k]),
            "\n\n".join(dated_text([u.text], str(u.fields["date"])) for u in best),
            tuple(memory.units[i].id for i in order),
            {
                "candidates": [list(triple) for triple, _ in candidates],
                "kept": [list(triple) for triple, _ in kept],
                "dense": not kept,
            },
        )

    async def _recognised(
        self, memory: Memory, query: Query, question: NDArray[Any]
    ) -> tuple[list[tuple[Triple, float]], list[tuple[Triple, float]]]:
        """Return the best triples with their scores a_t, and those that the filter keeps."""
        triples = [_triple(row) for row in memory.state["triples"]]
        if not triples:
            return [], []
        scores = min_max(unit_rows(memory.array("triples")) @ question)
        best = descending(scores)[: self.ask.linking_top_k]
        candidates = [(triples[i], float(scores[i])) for i in best]
        if not self.ask.filter:
            return candidates, candidates
        chosen = await recognise(
            self.tools,
            query.text,
            [triple for triple, _ in candidates],
            max_tokens=self.ask.filter_max_tokens,
            temperature=self.ask.temperature,
        )
        return candidates, [candidates[i] for i in chosen]


def _triple(row: Sequence[str]) -> Triple:
    subject, relation, object_ = row
    return subject, relation, object_


def _triples(unit: Unit) -> list[Triple]:
    return [_triple(row) for row in unit.fields["triples"]]


def _passages_with(passages: Sequence[Sequence[Triple]], phrases: Sequence[str]) -> list[int]:
    """Return |P(x)|: in how many passages' triples each phrase occurs."""
    counts = dict.fromkeys(phrases, 0)
    for triples in passages:
        for phrase in phrases_of(triples):
            counts[phrase] += 1
    return list(counts.values())
