"""Answers a query from a context with one call of the main model."""

from __future__ import annotations

from memsys.dialogue import Query
from memsys.llm import ledger
from memsys.llm.chat import ChatModel, Messages
from memsys.llm.prompts import Prompt

_MARGIN = 16  # tokens that joining two texts may add beyond their separate counts


class PromptAnswerer:
    """Implements `memsys.system.Answerer` with one template and one completion limit."""

    def __init__(self, chat: ChatModel, prompt: Prompt, max_tokens: int) -> None:
        """Answer with `prompt`, at most `max_tokens` tokens long."""
        self._chat = chat
        self._prompt = prompt
        self._max_tokens = max_tokens

    async def answer(self, context: str, query: Query, *, keep: str = "start") -> str:
        """Answer `query` from `context`; see `memsys.system.Answerer`."""
        budget = self.budget(query)
        whole = size = self._chat.count_tokens(context)
        if size > budget:
            context = self._chat.cut(context, budget, keep=keep)
            size = self._chat.count_tokens(context)
        messages = self._render(context, query)
        reply = await self._chat.reply(messages, role="main", max_tokens=self._max_tokens)
        ledger.count("context_tokens", size)
        ledger.count("context_tokens_cut", whole - size)
        if not reply.text.strip():
            ledger.count("empty_answer")
        return reply.text.strip()

    def budget(self, query: Query) -> int:
        """Return how many tokens of context fit beside the fixed prompt and the completion."""
        fixed = self._chat.message_tokens(self._render("", query))
        completion = self._chat.completion_limit("main", self._max_tokens)
        return self._chat.context_window("main") - fixed - completion - _MARGIN

    def _render(self, context: str, query: Query) -> Messages:
        return self._prompt.render(
            context=context, question=query.text, question_date=query.date_text
        )
