"""A-Mem (Xu et al., NeurIPS 2025): note → neighbours → evolution, turn by turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from pydantic import BaseModel, Field

from baselines.amem.notes import Note, NoteText, evolve, expand, notes_of
from baselines.amem.replies import Analysis, Evolution, Keywords
from memsys.dialogue import Query, Session
from memsys.encoders.protocol import Vectors
from memsys.llm.fitting import render_to_fit
from memsys.llm.structured import Structured, ask_json
from memsys.retrieval.ranking import descending, largest
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
    sessions_by_first_hit,
)

_PACKAGE = "baselines.amem"
Shape = TypeVar("Shape", bound=BaseModel)
Positive = Annotated[int, Field(ge=1)]


class AMemBuild(Settings):
    """Settings that change the memory."""

    neighbours: Positive = 5  # notes that the evolution call sees; authors' code
    rebuild_every: Positive = 100  # evolutions between two rebuilds of the index; authors' code
    refresh_neighbours: bool = False  # authors' code: a changed neighbour keeps its old vector
    note_text: NoteText = "paper"  # order of the embedded text; official: context before keywords
    retries: int = Field(0, ge=0)  # of a malformed reply; authors' memory_layer.py
    max_tokens: int = 1000  # authors' code
    temperature: float = 0.0  # MGRetrieval: 0 throughout; the authors' code has 0.7


class AMemAsk(Settings):
    """Settings of recall."""

    top_k: Positive = 10  # paper §4.2; values tuned per question category cannot be used
    retries: int = Field(0, ge=0)  # of a malformed reply; authors' memory_layer.py
    max_tokens: int = 1000  # of the keyword call; authors' code
    temperature: float = 0.0  # MGRetrieval: 0 throughout; the authors' code has 0.7


class AMem(MemorySystem[AMemBuild, AMemAsk]):
    """Agentic notes. Two calls of the main model a turn (one for the first), two a question.

    Units are notes, one a turn; `fields` hold keywords, context, tags and links (unit ids).
    """

    session_ranking: ClassVar[str | None] = (
        "sessions of the hits by cosine, each with its linked notes, then of other notes by cosine"
    )

    def __init__(self, build: AMemBuild, ask: AMemAsk, tools: Tools) -> None:
        """Keep settings and tools."""
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses."""
        return frozenset({"main", "encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Add one note a turn, in order; each may change its neighbours."""
        memory = memory or Memory()
        encoder = self.tools.encoder
        notes = notes_of(memory.units)
        rows = list(memory.array("vectors", encoder.dimension))
        evolutions = memory.state.get("evolutions", 0)
        new = [Note.of(turn, session) for session in sessions for turn in session.turns]
        if new:
            # a turn's analysis depends on the turn alone, so all of them may be asked for at once
            await asyncio.gather(*(self._analyse(note) for note in new))
            contents = await encoder.encode([note.content for note in new])
            for note, content in zip(new, contents, strict=True):
                changed, evolved = await self._insert(notes, rows, note, content)
                notes.append(note)
                rows.append((await self._embed([note]))[0])
                if self.build.refresh_neighbours and changed:
                    fresh = await self._embed([notes[i] for i in changed])
                    for i, row in zip(changed, fresh, strict=True):
                        rows[i] = row
                evolutions += evolved
                if evolved and evolutions % self.build.rebuild_every == 0:
                    rows = list(await self._embed(notes))
        ids = [note.turn for note in notes]
        return Memory(
            units=tuple(note.unit(ids) for note in notes),
            sessions=(*memory.sessions, *(session.id for session in sessions)),
            arrays={"vectors": _matrix(rows, encoder.dimension)},
            state={"evolutions": evolutions},
        )

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Search with the question's keywords; show the hits, each with its linked notes."""
        keywords = await self._keywords(query)
        order: list[int] = []
        if memory.units:
            asked = await self.tools.encoder.encode([keywords], kind="query")
            order = [
                int(i)
                for i in descending(similarities(memory.array("vectors"), asked, "cosine")[0])
            ]
        notes = notes_of(memory.units)
        hits, others = order[: self.ask.top_k], order[self.ask.top_k :]
        shown = expand(hits, [note.links for note in notes], self.ask.top_k)
        # links carry no score: all scores are reciprocal ranks
        ranked = enumerate(dict.fromkeys([*shown, *others]), start=1)
        ranking = tuple(Ranked(memory.units[i].id, 1 / rank) for rank, i in ranked)
        context = "\n\n".join(notes[i].shown() for i in shown)
        trace = {"keywords": keywords, "shown": [notes[i].turn for i in shown]}
        return Recall(ranking, context, sessions_by_first_hit(memory, ranking), trace)

    async def _insert(
        self, notes: Sequence[Note], rows: Sequence[Vectors], note: Note, content: Vectors
    ) -> tuple[list[int], bool]:
        """Let the new note and its neighbours evolve; return who changed, and whether any did.

        The first note has no neighbours, hence no call.
        """
        if not notes:
            return [], False
        scores = similarities(_matrix(rows, len(content)), content[None], "cosine")[0]
        neighbours = [int(i) for i in largest(scores, self.build.neighbours)]
        listed = "\n\n".join(f"Index: {i}\n{notes[i].shown()}" for i in neighbours)
        values = {"note": note.shown(), "neighbours": listed}
        reply = await self._ask("evolution", Evolution, self.build, cut="neighbours", **values)
        if reply.value is None:
            return [], False
        return evolve(notes, note, neighbours, reply.value), reply.value.should_evolve

    async def _analyse(self, note: Note) -> None:
        """Fill in keywords, context and tags; a malformed reply leaves them empty (`General`)."""
        reply = await self._ask("note", Analysis, self.build, cut="content", content=note.content)
        if reply.value is not None:
            note.keywords, note.tags = reply.value.keywords, reply.value.tags
            note.context = reply.value.context or note.context

    async def _keywords(self, query: Query) -> str:
        """Return the search string; a malformed reply is used as it stands (authors' code)."""
        reply = await self._ask("query", Keywords, self.ask, cut="question", question=query.text)
        found = reply.value.keywords if reply.value is not None else reply.text.strip()
        return found or query.text

    async def _ask(
        self, name: str, shape: type[Shape], how: AMemBuild | AMemAsk, *, cut: str, **values: str
    ) -> Structured[Shape]:
        messages = render_to_fit(
            self.tools.chat,
            self.tools.prompts.get(_PACKAGE, name),
            cut=cut,
            role="main",
            max_tokens=how.max_tokens,
            event=f"amem.{name}",
            **values,
        )
        return await ask_json(
            self.tools.chat,
            messages,
            shape,
            role="main",
            max_tokens=how.max_tokens,
            event=f"amem.{name}",
            temperature=how.temperature,
            retries=how.retries,
        )

    async def _embed(self, notes: Sequence[Note]) -> Vectors:
        texts = [note.embedded_text(self.build.note_text) for note in notes]
        return await self.tools.encoder.encode(texts)


def _matrix(rows: Sequence[Any], width: int) -> Vectors:
    return np.array(rows, np.float32).reshape(len(rows), width)
