"""BM25 over session texts: a lexical control that neither paper has; no encoder, no chat model."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from memsys.concurrency import compute
from memsys.dialogue import Query, Session
from memsys.memgas.context import Excerpt, history
from memsys.memgas.filter import filter_and_answer
from memsys.memgas.metadata import PROMPTS
from memsys.memgas.settings import Filter
from memsys.rendering import session_text
from memsys.retrieval.bm25 import Bm25Index
from memsys.retrieval.ranking import descending
from memsys.settings import Settings
from memsys.system import Answer, Memory, MemorySystem, Need, Ranked, Recall, Stage, Unit


class Bm25Build(Settings):
    """What changes the memory."""

    k1: float = Field(default=1.5, ge=0)  # Lucene's form of Okapi BM25, bm25s's default
    b: float = Field(default=0.75, ge=0, le=1)  # likewise
    first_pieces: int | None = Field(default=None, ge=1)  # ours: all of a session's text


class Bm25Ask(Settings):
    """What changes recall and answers only."""

    top_k: int = Field(default=3, ge=1)  # MemGAS §3.1, as its retrievers
    filter: Filter = Filter(enabled=False)  # ours: the control "any retriever + filter"


class Bm25(MemorySystem[Bm25Build, Bm25Ask]):
    """Lexical search over whole sessions, or over as much of them as an encoder would read.

    Memory: one unit a session, `"{session_id}-session"`; `bm25_*` arrays and the vocabulary hold
    the word scores. New sessions change every word's document frequency, so remembering indexes
    the whole memory anew.
    """

    version = 1
    shared_prompts = (PROMPTS,)  # for the filter only
    session_ranking = "BM25 score of the session's text"

    def needs(self, stage: Stage) -> frozenset[Need]:
        """The main model to answer; the encoder only to count its word pieces."""
        needs: set[Need] = {"main"} if stage == "answer" else set()
        return frozenset(needs if self.build.first_pieces is None else {*needs, "encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Append the sessions and index all of them."""
        before = memory or Memory()
        fresh = [
            Unit(
                f"{session.id}-session",
                session_text(session),
                tuple(turn.id for turn in session.turns),
                (session.id,),
                {"date": session.date_text},
            )
            for session in sessions
        ]
        units = (*before.units, *fresh)
        texts = [self._read(unit.text) for unit in units]
        index = await compute(Bm25Index.build, texts, self.build.k1, self.build.b)
        names = (*before.sessions, *(session.id for session in sessions))
        return Memory(units, names, index.arrays(), {"vocabulary": list(index.vocabulary)})

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Rank all sessions; the context holds the `top_k` best, in rank order."""
        return (await self.recall_many(memory, [query]))[0]

    async def recall_many(self, memory: Memory, queries: Sequence[Query]) -> list[Recall]:
        """Recall for many queries at once, each exactly as if it were alone."""
        if not memory.sessions:
            return [Recall((), "", ()) for _ in queries]
        return await compute(self._recalls, memory, queries)

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Recall and answer with one call; with the filter switched on, with two."""
        recall = await self.recall(memory, query)
        units = {unit.id: unit for unit in memory.units}
        excerpts = [_excerpt(units[ranked.unit]) for ranked in recall.ranking]
        return await filter_and_answer(self.tools, self.ask.filter, recall, excerpts, query)

    def _read(self, text: str) -> str:
        if self.build.first_pieces is None:
            return text
        blocks = self.tools.encoder.split(text, self.build.first_pieces)
        return text[slice(*blocks[0])] if blocks else ""

    def _recalls(self, memory: Memory, queries: Sequence[Query]) -> list[Recall]:
        index = Bm25Index.load(memory.arrays, memory.state["vocabulary"], len(memory.units))
        return [self._recall(memory, index, query) for query in queries]

    def _recall(self, memory: Memory, index: Bm25Index, query: Query) -> Recall:
        scores = index.scores(query.text)
        order = descending(scores).tolist()
        top = order[: self.ask.top_k]
        ranking = tuple(Ranked(memory.units[i].id, float(scores[i])) for i in top)
        context = history(_excerpt(memory.units[i]) for i in top)
        return Recall(ranking, context, tuple(memory.sessions[i] for i in order))


def _excerpt(unit: Unit) -> Excerpt:
    return Excerpt(str(unit.fields["date"]), unit.text)
