"""One chat call with a plain-text reply: fitted to the model's window, retried when empty."""

from __future__ import annotations

from memsys.llm import ledger
from memsys.llm.chat import ChatModel, Messages
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
    messages = fitted(chat, prompt, cut=cut, max_tokens=max_tokens, event=event, **values)
    for attempt in range(retries + 1):
        if attempt:
            ledger.count(f"{event}:retried")
        reply = await chat.reply(messages, role="main", max_tokens=max_tokens, attempt=attempt)
        if text := reply.text.strip():
            return text
    ledger.count(f"{event}:fallback")
    return ""


def fitted(
    chat: ChatModel, prompt: Prompt, *, cut: str, max_tokens: int, event: str, **values: str
) -> Messages:
    """Render `prompt`, the end of the value named `cut` cut off until prompt and reply fit.

    Counts the tokens lost as `event:cut_tokens`.
    """
    room = chat.context_window("main") - chat.completion_limit("main", max_tokens)
    messages = prompt.render(**values)
    over = chat.message_tokens(messages) - room
    tokens = kept = chat.count_tokens(values[cut]) if over > 0 else 0
    while over > 0 and kept > 0:
        kept = max(0, kept - over)  # a cut text may tokenise a little longer than it was counted
        messages = prompt.render(**{**values, cut: chat.cut(values[cut], kept)})
        over = chat.message_tokens(messages) - room
    ledger.count(f"{event}:cut_tokens", tokens - kept)
    return messages
