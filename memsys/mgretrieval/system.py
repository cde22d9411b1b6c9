"""MGRetrieval: memory-guided reflective retrieval over a raw memory bank.

Source: Wang and Dong, "MGRetrieval: Memory-Guided Reflective Retrieval for Long-Term Dialogue
Agents", arXiv:2605.27437v1. The paper's prompts are not public; ours are in `prompts/`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from memsys.dialogue import Query, Session
from memsys.llm import ledger
from memsys.mgretrieval import keywords as auxiliary
from memsys.mgretrieval.index import KeywordIndex
from memsys.mgretrieval.items import memory_items
from memsys.mgretrieval.pyramid import Group, path
from memsys.mgretrieval.rewriting import rewrite
from memsys.mgretrieval.rounds import Outcome, reflective_rounds
from memsys.mgretrieval.settings import MGRetrievalAsk, MGRetrievalBuild
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
    sessions_by_first_hit,
)


@dataclass(frozen=True, slots=True)
class _Route:
    """A question's keywords and the whole path through their pyramid."""

    selection: auxiliary.Selection
    groups: tuple[Group, ...]

    def trace(self) -> dict[str, Any]:
        """Return the route as JSON values; a group with nothing new is shown as such."""
        return {
            "query_keywords": list(self.selection.keywords),
            "keywords_fallback": self.selection.fallback,
            "vocabulary": self.selection.vocabulary,
            "vocabulary_shown": self.selection.shown,
            "path": [
                {
                    "level": group.level,
                    "keywords": list(group.keywords),
                    "size": len(group.retrieved),
                    "new": len(group.new),
                }
                for group in self.groups
            ],
        }


class MGRetrieval(MemorySystem[MGRetrievalBuild, MGRetrievalAsk]):
    """Keywords, pyramid, reflective rounds, rewriting.

    Memory: units are memory items in time order with their keywords K(m); `state["index"]` is idx.
    Ranking: the order in which the whole path would first reach each memory; memories that it
    never reaches follow in time order (ours: the paper reports no retrieval measure).
    """

    version = 1
    session_ranking = "first memory on the whole keyword path; sessions never reached in time order"

    def __init__(self, build: MGRetrievalBuild, ask: MGRetrievalAsk, tools: Tools) -> None:
        super().__init__(build, ask, tools)
        self._entry_tokens = lru_cache(maxsize=1 << 16)(self._count_entry)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Building and recalling take the auxiliary model alone; answering also the main one."""
        return frozenset({"auxiliary", "main"} if stage == "answer" else {"auxiliary"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Index new items one at a time, in time order (§3.1).

        A1 does not depend on the vocabulary, so the items' extractions are in flight together;
        A2 and the index follow item by item, as if nothing were concurrent.
        """
        before = memory or Memory()
        index = KeywordIndex(before.state)
        items = [i for session in sessions for i in memory_items(session, self.build.memory_unit)]
        units = list(before.units)
        extractions = [asyncio.create_task(auxiliary.extract(self.tools, i)) for i in items]
        try:
            for item, extraction in zip(items, extractions, strict=True):
                keywords = await extraction
                if self.build.aux_pipeline == "extract_match":
                    keywords = await auxiliary.match(
                        self.tools,
                        index,
                        keywords,
                        self.build.vocab_prompt_tokens,
                        self._entry_tokens,
                    )
                known = index.add(len(units), keywords)
                units.append(replace(item.unit, fields={"keywords": known}))
        finally:
            for extraction in extractions:
                extraction.cancel()
            await asyncio.gather(*extractions, return_exceptions=True)
        return Memory(
            units=tuple(units),
            sessions=(*before.sessions, *(session.id for session in sessions)),
            state=index.plain(),
        )

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Choose query keywords (A3) and rank memories along the whole path.

        The context holds what at most `max_rounds` rounds could read.
        """
        route = await self._route(memory, query)
        reached = [group.new for group in route.groups if group.new][: self.ask.max_rounds]
        texts = [memory.units[i].text for new in reached for i in new]
        return _recall(memory, route, "\n\n".join(texts))

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Choose query keywords, read along the path in reflective rounds, rewrite the answer."""
        route = await self._route(memory, query)
        outcome = await reflective_rounds(self.tools, query, memory.units, route.groups, self.ask)
        last = outcome.rounds[-1]
        text = last.answer
        if self.ask.rewrite:
            text = await rewrite(
                self.tools, query, last.answer, last.critical, self.ask.rewrite_style
            )
        read = "\n\n".join(r.memory_text for r in outcome.rounds if r.memory_text)
        ledger.count("context_tokens", sum(r.memory_tokens for r in outcome.rounds))
        recall = _recall(memory, route, read)
        trace = {**_rounds_trace(memory, outcome), "rewritten": self.ask.rewrite}
        return Answer(text, recall, trace, rounds=len(outcome.rounds))

    async def _route(self, memory: Memory, query: Query) -> _Route:
        index = KeywordIndex(memory.state)
        selection = await auxiliary.select(
            self.tools,
            index,
            query,
            self.ask.depth,
            self.build.vocab_prompt_tokens,
            self._entry_tokens,
        )
        return _Route(selection, path(index, selection.keywords, self.ask.group_order))

    def _count_entry(self, entry: str) -> int:
        return self.tools.chat.count_tokens(f"{entry}\n", "auxiliary")


def _recall(memory: Memory, route: _Route, context: str) -> Recall:
    """Rank by first reach: a memory's score is 1 / (place of its group on the path), or 0."""
    ranking = [
        Ranked(memory.units[i].id, 1 / place)
        for place, group in enumerate(route.groups, 1)
        for i in group.new
    ]
    reached = {ranked.unit for ranked in ranking}
    ranking += [Ranked(unit.id, 0.0) for unit in memory.units if unit.id not in reached]
    sessions = sessions_by_first_hit(memory, ranking)
    return Recall(tuple(ranking), context, sessions, route.trace())


def _rounds_trace(memory: Memory, outcome: Outcome) -> dict[str, Any]:
    visited = [unit for r in outcome.rounds for unit in r.new]
    session_of: dict[str, Unit] = {unit.id: unit for unit in memory.units}
    hits = (session for unit in visited for session in session_of[unit].sessions)
    tokens = [r.memory_tokens for r in outcome.rounds]
    return {
        "rounds": [r.plain(number) for number, r in enumerate(outcome.rounds, 1)],
        "stop": outcome.stop,
        "visited": visited,
        "visited_sessions": list(dict.fromkeys(hits)),
        "memory_tokens": sum(tokens),
        "memory_tokens_max": max(tokens),
        "draft": outcome.rounds[-1].answer,
    }
