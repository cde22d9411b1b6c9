"""One chat call with a plain-text reply: fitted to the model's window, retried when empty."""

from __future__ import annotations

from memsys.llm import ledger
from memsys.llm.chat import ChatModel
from memsys.llm.fitting import render_to_fit
from memsys.llm.prompts import Prompt


async def ask_text(
    chat: ChatModel,
    prompt: Prompt,
    *,
    cut: str,
    max_tokens: int,
    event: str,
    retries: int = 1,
    **values: str,
) -> str:
    """Ask the main model at temperature 0 and return its stripped reply, empty if it gave none.

    Counts `event:retried` and `event:fallback` (no attempt gave any text) on the ledger.
    """
    messages = render_to_fit(
        chat, prompt, cut=cut, role="main", max_tokens=max_tokens, event=event, **values
    )
    for attempt in range(retries + 1):
        if attempt:
            ledger.count(f"{event}:retried")
        reply = await chat.reply(messages, role="main", max_tokens=max_tokens, attempt=attempt)
        if text := reply.text.strip():
            return text
    ledger.count(f"{event}:fallback")
    return ""
