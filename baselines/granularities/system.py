"""Retrieval at one granularity: the controls of MemGAS, and plain dense retrieval.

The rows differ only in which text stands for a session in the index (MemGAS §3.2, Table 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.granularities.pieces import Pieces, pieces_of, session_scores, session_spans
from baselines.granularities.settings import PARTS, SHOWN, GranularityAsk, GranularityBuild
from memsys.concurrency import compute
from memsys.dialogue import Query, Session
from memsys.encoders.protocol import Vectors
from memsys.errors import UserError
from memsys.memgas.context import Excerpt, history
from memsys.memgas.filter import filter_and_answer
from memsys.memgas.metadata import PROMPTS, Metadata, describe
from memsys.rendering import pair_text, session_text
from memsys.retrieval.ranking import descending
from memsys.retrieval.vector_index import similarities
from memsys.system import Answer, Memory, MemorySystem, Need, Ranked, Recall, Stage, Tools, Unit


class Granularity(MemorySystem[GranularityBuild, GranularityAsk]):
    """One granularity, exact search by inner product.

    Memory: one unit a session, `"{session_id}-{granularity}"`, whose text is what stands in the
    index; at turn granularity also one a turn pair, `"{session_id}-turn_{j}"`. `pieces` (P, d) are
    the vectors of the sessions' pieces (turn pairs, windows, or the one text), `counts` (n,) how
    many pieces each session has.
    """

    version = 1
    shared_prompts = (PROMPTS,)
    session_ranking = "similarity of the text that stands for the session"

    def __init__(self, build: GranularityBuild, ask: GranularityAsk, tools: Tools) -> None:
        """Raises `UserError` if `show` asks for something that this row's memory lacks."""
        super().__init__(build, ask, tools)
        self._show = ask.show or SHOWN[build.granularity]
        offered = {"session", *(part.removesuffix("s") for part in PARTS[build.granularity])}
        if build.granularity == "turn":
            offered.add("pair")
        if build.granularity == "combination":
            offered.add("all")
        if self._show not in offered:
            raise UserError(
                f"A memory of granularity '{build.granularity}' cannot show '{self._show}'; "
                f"it can show: {', '.join(sorted(offered))}."
            )
        self._by_pair = build.granularity == "turn" and ask.turn.unit == "pair"
        self._shows_pairs = self._by_pair or self._show == "pair"

    def needs(self, stage: Stage) -> frozenset[Need]:
        """An encoder throughout; the main model for metadata and to answer."""
        describes = bool(PARTS[self.build.granularity]) and self.build.metadata == "llm"
        calls = stage == "answer" or (stage == "remember" and describes)
        return frozenset({"encoder", "main"} if calls else {"encoder"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Describe new sessions where the row needs it, and embed their pieces in one call."""
        before = memory or Memory()
        if not sessions:
            return before
        build, encoder = self.build, self.tools.encoder
        metadata = await describe(
            sessions,
            self.tools,
            source=build.metadata,
            calls=build.metadata_calls,
            max_tokens=build.metadata_max_tokens,
            parts=PARTS[build.granularity],
        )
        made = [pieces_of(s, m, build, encoder) for s, m in zip(sessions, metadata, strict=True)]
        fresh = await encoder.encode([t for p in made for t in p.embedded], kind="passage")
        counts = np.array([len(p.embedded) for p in made], np.int64)
        old_counts = before.arrays.get("counts", counts[:0])
        arrays = {
            "pieces": np.concatenate([before.array("pieces", encoder.dimension), fresh]),
            "counts": np.concatenate([old_counts, counts]),
        }
        units = [
            u for trio in zip(sessions, metadata, made, strict=True) for u in self._units(*trio)
        ]
        names = [session.id for session in sessions]
        return Memory((*before.units, *units), (*before.sessions, *names), arrays)

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Rank all sessions; the context holds the `top_k` best, in rank order."""
        return (await self.recall_many(memory, [query]))[0]

    async def recall_many(self, memory: Memory, queries: Sequence[Query]) -> list[Recall]:
        """Recall for many queries at once, each exactly as if it were alone."""
        if not memory.sessions:
            return [Recall((), "", ()) for _ in queries]
        vectors = await self.tools.encoder.encode([q.text for q in queries], kind="query")
        return await compute(self._recalls, memory, vectors)

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Recall and answer with one call; with the filter switched on, with two."""
        recall = await self.recall(memory, query)
        units = {unit.id: unit for unit in memory.units}
        excerpts = [self._excerpt(units[ranked.unit]) for ranked in recall.ranking]
        return await filter_and_answer(self.tools, self.ask.filter, recall, excerpts, query)

    def _units(self, session: Session, about: Metadata, made: Pieces) -> Iterable[Unit]:
        kind, date, of = self.build.granularity, session.date_text, (session.id,)
        fields = {"date": date, "summary": about.summary, "keywords": about.keywords}
        whole = session_text(session)
        if whole != made.text:
            fields["session"] = whole
        yield Unit(f"{session.id}-{kind}", made.text, _turn_ids(session), of, fields)
        for j, pair in enumerate(made.pairs):
            text = pair_text(pair)
            yield Unit(f"{session.id}-turn_{j}", text, pair.turn_ids, of, {"date": date})

    def _recalls(self, memory: Memory, queries: Vectors) -> list[Recall]:
        pieces, counts = memory.array("pieces"), memory.arrays["counts"]
        how = self.ask.similarity
        scores = session_scores(pieces, counts, queries, pooling=self._pooling, similarity=how)
        by_piece = similarities(pieces, queries, how) if self._shows_pairs else scores
        return [self._recall(memory, *row) for row in zip(scores, by_piece, strict=True)]

    @property
    def _pooling(self) -> str:
        if self.build.granularity == "turn":
            return self.ask.turn.score
        return "max" if self.build.long_text == "chunk_max" else "mean"

    def _recall(self, memory: Memory, scores: NDArray[Any], by_piece: NDArray[Any]) -> Recall:
        """Rank sessions by `scores` (n,), or turn pairs by `by_piece` (P,)."""
        k = self.ask.top_k
        of_sessions = [unit for unit in memory.units if "summary" in unit.fields]
        pairs = [unit for unit in memory.units if "summary" not in unit.fields]
        if self._by_pair:
            order = descending(by_piece).tolist()
            top = [(pairs[j], float(by_piece[j])) for j in order[:k]]
            hits = [pairs[j].sessions[0] for j in order]
            sessions = tuple(dict.fromkeys([*hits, *memory.sessions]))
        else:
            order = descending(scores).tolist()
            top = [(of_sessions[i], float(scores[i])) for i in order[:k]]
            sessions = tuple(memory.sessions[i] for i in order)
            if self._shows_pairs:
                spans = session_spans(memory.arrays["counts"].tolist())
                top = [
                    (pairs[a + int(by_piece[a:b].argmax())], score) if b > a else (unit, score)
                    for (unit, score), (a, b) in zip(top, (spans[i] for i in order), strict=False)
                ]
        ranking = tuple(Ranked(unit.id, score) for unit, score in top)
        return Recall(ranking, history(self._excerpt(unit) for unit, _ in top), sessions)

    def _excerpt(self, unit: Unit) -> Excerpt:
        date = str(unit.fields["date"])
        if "summary" not in unit.fields:
            return Excerpt(date, unit.text)
        summary, keywords = str(unit.fields["summary"]), str(unit.fields["keywords"])
        session = str(unit.fields.get("session", unit.text))
        shown = {
            "session": session,
            "pair": session,  # a session without pairs shows what it has
            "summary": summary,
            "keyword": keywords,
            "all": "\n".join(filter(None, (summary, keywords, session))),
        }[self._show]
        return Excerpt(date, shown, summary, keywords)


def _turn_ids(session: Session) -> tuple[str, ...]:
    return tuple(turn.id for turn in session.turns)
