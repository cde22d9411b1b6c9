"""MemR3: generate → route → {retrieve, reflect, answer} over dense chunks of the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from baselines.memr3.chunking import cut_blocks, flatten
from baselines.memr3.controller import ACTIONS, Action, State, Step, forced, route
from baselines.memr3.settings import MemR3Ask, MemR3Build
from memsys.concurrency import compute
from memsys.dialogue import Query, Session
from memsys.encoders.protocol import Vectors
from memsys.errors import ChatFailure
from memsys.llm import ledger
from memsys.llm.fitting import render_to_fit
from memsys.llm.structured import ask_json
from memsys.mgretrieval.rewriting import rewrite
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

_PACKAGE = "baselines.memr3"


class MemR3(MemorySystem[MemR3Build, MemR3Ask]):
    """A controller over plain dense retrieval; units are chunks of the flattened conversation.

    Between 1 and `n_max` `generate` calls a question, then one answer call.
    """

    shared_prompts: ClassVar[tuple[str, ...]] = ("memsys.mgretrieval",)  # for answer rewriting only
    session_ranking: ClassVar[str | None] = (
        "sessions of the chunks in the order shown, then of unshown chunks by cosine"
    )

    def __init__(self, build: MemR3Build, ask: MemR3Ask, tools: Tools) -> None:
        """Keep settings and tools."""
        super().__init__(build, ask, tools)

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses; a missing reranker is allowed and named in the trace."""
        if stage == "remember":
            return frozenset({"encoder"})
        needs: set[Need] = {"encoder", "main"}
        if self.ask.rerank:
            needs.add("reranker")
        return frozenset(needs)

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Flatten, cut and embed; chunks that new sessions leave untouched keep their vectors."""
        memory = memory or Memory()
        lines = [*memory.state.get("lines", []), *flatten(sessions)]
        encoder = self.tools.encoder
        units = await compute(cut_blocks, lines, self.build.chunk_size, encoder)
        old = [unit.text for unit in memory.units]
        same = next(
            (i for i, unit in enumerate(units) if i >= len(old) or unit.text != old[i]), len(units)
        )
        vectors = memory.array("vectors", encoder.dimension)[:same]
        if same < len(units):
            new = await encoder.encode([unit.text for unit in units[same:]])
            vectors = np.concatenate([vectors, new])
        return Memory(
            units=tuple(units),
            sessions=(*memory.sessions, *(session.id for session in sessions)),
            arrays={"vectors": vectors},
            state={"lines": lines},
        )

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Run the loop until it answers; the context is the evidence and the draft answer."""
        ask, count = self.ask, len(memory.units)
        state = State()
        steps: list[dict[str, Any]] = []
        retrievals = [await self._retrieve(memory, query, state)]
        while True:
            allowed = forced(state, count, ask)
            step = await self._generate(memory, query, state, allowed)
            state.iteration += 1
            action = route(state, step.decision, count, ask)
            steps.append(_trace(step, action))
            if action == "answer":
                state.draft = step.detailed_answer
                break
            if action == "reflect":
                state.reasoning, state.streak = step.reasoning, state.streak + 1
            else:
                state.refinement, state.streak = step.retrieval_query, 0
                retrievals.append(await self._retrieve(memory, query, state))
        ranking = await self._ranking(memory, query, state)
        trace = {
            "retrievals": retrievals,
            "steps": steps,
            "evidence": list(state.evidence),
            "gaps": state.gaps,
            "draft": state.draft,
            "reranker": self._reranking() or "no reranker",
        }
        return Recall(ranking, _context(state), sessions_by_first_hit(memory, ranking), trace)

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Recall, then one call on evidence and draft; the raw snippets are not shown to it."""
        recall = await self.recall(memory, query)
        if self.ask.answer_style == "harness":
            text = await self.tools.answerer.answer(recall.context, query)
        else:
            text = await self._official_answer(recall, query)
        if self.ask.rewrite:
            style, evidence = self.ask.rewrite_style, recall.trace["evidence"]
            text = await rewrite(self.tools, query, text, evidence, style, system="memr3")
        trace = {"answer_style": self.ask.answer_style, "rewritten": self.ask.rewrite}
        return Answer(text, recall, trace, rounds=len(recall.trace["steps"]))

    def _reranking(self) -> str:
        return "cross-encoder" if self.ask.rerank and self.tools.reranker is not None else ""

    async def _retrieve(self, memory: Memory, query: Query, state: State) -> dict[str, Any]:
        """Show the best chunks not shown before; S is replaced, X grows."""
        text = f"{query.text}. {state.refinement}" if state.refinement else query.text
        left = np.setdiff1d(np.arange(len(memory.units)), np.array(state.shown, int))
        state.snippets = []
        if left.size:
            scores = await self._cosine(memory, text)
            order = left[descending(scores[left])]
            best = order[: max(self.ask.top_k, self.ask.candidate_k)]
            if self._reranking() and self.tools.reranker is not None:
                chunks = [memory.units[i].text for i in best]
                rescored = await self.tools.reranker.score(text, chunks)
                best = best[descending(np.array(rescored))]
            state.snippets = [int(i) for i in best[: self.ask.top_k]]
        state.shown = state.shown + state.snippets
        shown = [memory.units[i].id for i in state.snippets]
        return {"query": text, "shown": shown, "mask": len(state.shown)}

    async def _cosine(self, memory: Memory, text: str) -> Vectors:
        vectors = memory.array("vectors", self.tools.encoder.dimension)
        question = await self.tools.encoder.encode([text], kind="query")
        scores: Vectors = similarities(vectors, question, "cosine")[0]
        return scores

    async def _generate(
        self, memory: Memory, query: Query, state: State, only: Action | None
    ) -> Step:
        """Ask for the next E, G and action; a malformed reply keeps E and G and reflects."""
        chat, ask = self.tools.chat, self.ask
        snippets = "\n\n".join(memory.units[i].text for i in state.snippets)
        # the memories that this step reads: the chunks shown and the evidence so far
        read = "\n".join([snippets, *state.evidence]).strip()
        ledger.count("context_tokens", chat.count_tokens(read, "main") if read else 0)
        messages = render_to_fit(
            chat,
            self.tools.prompts.get(_PACKAGE, "generate"),
            cut="snippets",
            role="main",
            max_tokens=ask.max_tokens,
            event="memr3.generate",
            snippets=snippets or "(nothing new)",
            question=query.text,
            question_date=query.date_text,
            evidence=_bullets(state.evidence) or "(none yet)",
            gaps=state.gaps or "(not known yet)",
            reasoning=state.reasoning or "(none)",
            last_query=state.refinement or "(the question itself)",
            actions=only or ", ".join(ACTIONS),
        )
        reply = await ask_json(
            chat,
            messages,
            Step,
            role="main",
            max_tokens=ask.max_tokens,
            event="memr3.generate",
            temperature=ask.temperature,
            retries=ask.retries,
        )
        if reply.value is None:
            return Step(evidence=state.evidence, gaps=state.gaps, decision="reflect")
        state.evidence, state.gaps = reply.value.evidence, reply.value.gaps
        return reply.value

    async def _ranking(self, memory: Memory, query: Query, state: State) -> tuple[Ranked, ...]:
        """Rank chunks as shown, the others by cosine to q; scores are reciprocal ranks."""
        if not memory.units:
            return ()
        scores = await self._cosine(memory, query.text)
        order = [*state.shown, *(int(i) for i in descending(scores))]
        unique = dict.fromkeys(order)
        return tuple(Ranked(memory.units[i].id, 1 / (r + 1)) for r, i in enumerate(unique))

    async def _official_answer(self, recall: Recall, query: Query) -> str:
        """Answer in the authors' manner: step by step; an empty reply is asked for once more."""
        messages = render_to_fit(
            self.tools.chat,
            self.tools.prompts.get(_PACKAGE, "answer"),
            cut="evidence",
            role="main",
            max_tokens=self.ask.max_tokens,
            event="memr3.answer",
            evidence=_bullets(recall.trace["evidence"]) or "(none found)",
            draft=recall.trace["draft"] or "(none)",
            question=query.text,
            question_date=query.date_text,
        )
        for attempt in range(2):
            reply = await self.tools.chat.reply(
                messages,
                role="main",
                max_tokens=self.ask.max_tokens,
                temperature=self.ask.temperature,
                attempt=attempt,
            )
            if reply.text.strip():
                return reply.text.strip()
            ledger.count("memr3.answer:empty")
        raise ChatFailure("MemR3's answer call came back empty twice.")


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _context(state: State) -> str:
    parts = []
    if state.evidence:
        parts.append(f"Evidence:\n{_bullets(state.evidence)}")
    if state.draft:
        parts.append(f"Draft answer: {state.draft}")
    return "\n\n".join(parts)


def _trace(step: Step, action: Action) -> dict[str, Any]:
    return {
        "decision": step.decision,
        "action": action,
        "evidence": len(step.evidence),
        "gaps": step.gaps,
        "retrieval_query": step.retrieval_query,
        "reasoning": step.reasoning,
    }
