"""RAPTOR (Sarthi et al., ICLR 2024) over the sessions of one conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from baselines.raptor.chunks import Chunk, Piece, chunks, join
from baselines.raptor.clustering import Clustering, check
from baselines.raptor.tree import collapsed, cosines, grow, traverse
from memsys.dialogue import Query, Session
from memsys.llm import ledger
from memsys.llm.fitting import render_to_fit
from memsys.rendering import plain_line
from memsys.retrieval.ranking import descending
from memsys.settings import Settings
from memsys.system import Memory, MemorySystem, Need, Ranked, Recall, Stage, Tools, Unit

PACKAGE = "baselines.raptor"


class RaptorBuild(Settings):
    """Settings that change the memory."""

    leaf: Literal["tokens", "session"] = "tokens"  # RAPTOR §3 | how MemGAS's token counts read
    leaf_tokens: int = Field(default=100, ge=1)  # RAPTOR §3, tree_builder.py
    layers: int = Field(default=5, ge=0)  # tree_builder.py
    summary_tokens: int = Field(default=100, ge=1)  # tree_builder.py
    temperature: float = 0.0  # MemGAS §3.1
    reuse_single: bool = False  # keep a lone node's text instead of summarising it; ours
    clustering: Clustering = Clustering()


class RaptorAsk(Settings):
    """Settings of recall and answering."""

    search: Literal["collapsed", "traversal"] = "collapsed"  # RAPTOR §3
    top_k: int | None = 3  # nodes (a layer, in traversal); MemGAS §3.1 (code: 10)
    max_tokens: int | None = None  # collapsed: of all nodes together (RAPTOR §3: 2000, code: 3500)


class Raptor(MemorySystem[RaptorBuild, RaptorAsk]):
    """A tree of summaries, built anew whenever sessions come in (RAPTOR is not incremental).

    The memory's state keeps the lines of all sessions, so that remembering session by session
    ends with the same tree as remembering them at once.
    """

    session_ranking: ClassVar[str | None] = (
        "ours, not in the paper: best cosine of a session's leaves; summaries are not credited"
    )

    def __init__(self, build: RaptorBuild, ask: RaptorAsk, tools: Tools) -> None:
        """Keep settings and tools."""
        super().__init__(build, ask, tools)

    def check(self) -> None:
        """Raise `UserError` if the package of the reducer is missing."""
        check(self.build.clustering.reducer)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses."""
        return frozenset({"encoder"} if stage == "recall" else {"main", "encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Build the tree over the old and the new sessions."""
        self.check()  # before any call is paid for
        memory = memory or Memory()
        if not sessions:
            return memory
        texts = [*memory.state.get("sessions", []), *(_plain(session) for session in sessions)]
        names = (*memory.sessions, *(session.id for session in sessions))
        leaves = self._leaves(texts)
        if not leaves:
            return Memory((), names, {}, {"sessions": texts})
        nodes, vectors = await grow(
            leaves,
            self.tools.encoder,
            self._summarise,
            self.tools.chat.count_tokens,
            self.build.layers,
            self.build.clustering,
        )
        return Memory(tuple(nodes), names, {"vectors": vectors}, {"sessions": texts})

    def _leaves(self, texts: Sequence[Mapping[str, Any]]) -> list[Unit]:
        count = self.tools.chat.count_tokens
        if self.build.leaf == "session":
            made = [_whole(text) for text in texts if text["lines"]]
        else:
            lines = (piece for text in texts for piece in _pieces(text))
            made = chunks(lines, self.build.leaf_tokens, count)
        return [
            Unit(
                f"leaf{i}",
                chunk.text,
                chunk.turns,
                chunk.sessions,
                {"layer": 0, "children": [], "tokens": count(chunk.text)},
            )
            for i, chunk in enumerate(made)
        ]

    async def _summarise(self, texts: Sequence[str]) -> str:
        """Summarise a cluster; an empty reply is asked again, then the text's start stands in."""
        chat, limit = self.tools.chat, self.build.summary_tokens
        if len(texts) == 1 and self.build.reuse_single:
            return texts[0]
        joined = "\n\n".join(texts)
        messages = render_to_fit(
            chat,
            self.tools.prompts.get(PACKAGE, "summarise"),
            cut="texts",
            role="main",
            max_tokens=limit,
            event="raptor.summary",
            texts=joined,
        )
        for attempt in range(2):
            reply = await chat.reply(
                messages,
                role="main",
                max_tokens=limit,
                temperature=self.build.temperature,
                attempt=attempt,
            )
            if reply.text.strip():
                return reply.text.strip()
            ledger.count("raptor.summary:empty")
        ledger.count("raptor.summary:fallback")
        return chat.cut(joined, limit)

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Search the tree; the context is the texts of the nodes found."""
        if not memory.units:
            return Recall((), "", memory.sessions)
        nodes = memory.units
        question = (await self.tools.encoder.encode([query.text], kind="query"))[0]
        scores = cosines(memory.array("vectors"), question)
        if self.ask.search == "traversal":
            taken = traverse(nodes, scores, self.ask.top_k or len(nodes))
        else:
            tokens = [int(unit.fields["tokens"]) for unit in nodes]
            taken = collapsed(scores, tokens, self.ask.top_k, self.ask.max_tokens)
        return Recall(
            tuple(Ranked(nodes[i].id, float(scores[i])) for i in taken),
            "\n\n".join(nodes[i].text for i in taken),
            _by_best_leaf(memory, scores),
            {"layers": [nodes[i].fields["layer"] for i in taken]},
        )


def _by_best_leaf(memory: Memory, scores: np.ndarray[Any, Any]) -> tuple[str, ...]:
    best = dict.fromkeys(memory.sessions, -np.inf)
    for unit, score in zip(memory.units, scores, strict=True):
        if unit.fields["layer"] == 0:
            best.update({name: max(best[name], float(score)) for name in unit.sessions})
    return tuple(memory.sessions[i] for i in descending(np.array(list(best.values()))))


def _plain(session: Session) -> dict[str, Any]:
    """Return what the tree needs of a session, as JSON values."""
    lines = [[turn.id, plain_line(turn)] for turn in session.turns]
    return {"id": session.id, "date": session.date_text, "lines": lines}


def _pieces(text: Mapping[str, Any]) -> Iterator[Piece]:
    """Yield a session's lines, its date line first."""
    if text["date"] and text["lines"]:
        yield Piece(text["date"], text["id"])
    for turn, line in text["lines"]:
        yield Piece(line, text["id"], turn)


def _whole(text: Mapping[str, Any]) -> Chunk:
    chunk = join(list(_pieces(text)))
    return Chunk("\n".join(piece.text for piece in _pieces(text)), chunk.turns, chunk.sessions)
