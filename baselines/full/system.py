"""Full History (MemGAS §3.1) and FULL (MGRetrieval §A.3): no memory system at all.

One class serves both rows; they differ in `window`. Neither has official code.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pydantic import Field

from baselines.full.history import Render, Window, block, latest, stored
from memsys.concurrency import compute
from memsys.dialogue import Query, Session
from memsys.errors import ContextOverflow
from memsys.llm import ledger
from memsys.mgretrieval.rewriting import RewriteStyle, rewrite
from memsys.settings import Settings
from memsys.system import Answer, Memory, MemorySystem, Need, Recall, Stage, Tools, Unit

SHRINKS = 5  # retries after "context length exceeded", each with 5 % less history


class Reserve(Settings):
    """Tokens of the window kept free of history."""

    answer: int = Field(default=4000, ge=0)  # MemGAS's most answer tokens
    prompt: int = Field(default=1000, ge=0)  # as LongMemEval's script


class FullHistoryBuild(Settings):
    """Nothing changes the memory: sessions are stored as they are."""


class FullHistoryAsk(Settings):
    """What changes the context and the answer."""

    window: int | None = Field(default=128_000, ge=1)  # MemGAS §3.1; None: the model's limit (FULL)
    reserve: Reserve = Reserve()
    render: Render = "text"  # ours; json is the likeliest source of MGRetrieval's token ratio
    rewrite: bool = False  # ours: control row of MGRetrieval's answer rewriting
    rewrite_style: RewriteStyle = "locomo"


class FullHistory(MemorySystem[FullHistoryBuild, FullHistoryAsk]):
    """The latest sessions that fit the window, in time order, as context.

    Memory: one unit a session (none for a session without turns), stored as data so that every
    rendering can be made of it. Nothing is ranked.
    """

    version = 1
    shared_prompts = ("memsys.mgretrieval",)  # for answer rewriting only

    def __init__(self, build: FullHistoryBuild, ask: FullHistoryAsk, tools: Tools) -> None:
        super().__init__(build, ask, tools)
        self._tokens = lru_cache(maxsize=2048)(lambda text: tools.chat.count_tokens(text, "main"))

    def needs(self, stage: Stage) -> frozenset[Need]:
        """Only answering needs a model; recalling counts the main model's tokens."""
        return frozenset() if stage == "remember" else frozenset({"main"})

    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Append sessions."""
        before = memory or Memory()
        units = [
            Unit(
                id=session.id,
                text=block(session.id, stored(session), "text"),
                turns=tuple(turn.id for turn in session.turns),
                sessions=(session.id,),
                fields=stored(session),
            )
            for session in sessions
            if session.turns
        ]
        names = (*before.sessions, *(session.id for session in sessions))
        return Memory(units=(*before.units, *units), sessions=names)

    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Return the latest part of the history that fits; no ranking."""
        return _recall(memory, await self._window(memory, self._budget(query)))

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Ask the shared answer prompt; on "context length exceeded" shrink the history and retry.

        Raises `ContextOverflow` if the fifth retry overflows too.
        """
        budget = self._budget(query)
        shrinks = 0
        while True:
            window = await self._window(memory, budget)
            try:
                text = await self.tools.answerer.answer(window.text, query, keep="end")
                break
            except ContextOverflow:
                if shrinks == SHRINKS:
                    raise
            shrinks += 1
            ledger.count("full.context_shrunk")
            budget = int(min(budget, window.tokens) * 0.95)
        recall = _recall(memory, window)
        if self.ask.rewrite:
            text = await rewrite(
                self.tools, query, text, [window.text], self.ask.rewrite_style, system="full"
            )
        return Answer(text, recall, {"shrinks": shrinks, "rewritten": self.ask.rewrite})

    def _budget(self, query: Query) -> int:
        """B: what the model can take beside the prompt, and no more than the window allows."""
        free = self.tools.answerer.budget(query)
        if self.ask.window is None:
            return free
        return min(free, self.ask.window - self.ask.reserve.answer - self.ask.reserve.prompt)

    async def _window(self, memory: Memory, budget: int) -> Window:
        blocks = [block(unit.id, unit.fields, self.ask.render) for unit in memory.units]
        window = await compute(latest, blocks, budget, self._tokens, self._keep_end)
        ledger.count("full.sessions_dropped", window.first)
        ledger.count("full.newest_session_cut", int(window.cut))
        return window

    def _keep_end(self, text: str, tokens: int) -> str:
        return self.tools.chat.cut(text, tokens, "main", keep="end")


def _recall(memory: Memory, window: Window) -> Recall:
    kept = [unit.id for unit in memory.units[window.first :]]
    trace = {
        "sessions_kept": kept,
        "sessions_dropped": window.first,
        "newest_session_cut": window.cut,
        "history_tokens": window.tokens,
    }
    return Recall((), window.text, None, trace)
