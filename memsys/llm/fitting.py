"""Fitting a long text into a prompt: what is over the model's window is cut and counted."""

from __future__ import annotations

from memsys.llm import ledger
from memsys.llm.chat import ChatModel, Messages, Role
from memsys.llm.prompts import Prompt


def render_to_fit(
    chat: ChatModel,
    prompt: Prompt,
    *,
    cut: str,
    role: Role,
    max_tokens: int,
    event: str,
    keep: str = "start",
    **values: str,
) -> Messages:
    """Render `prompt`, with the value named `cut` shortened until prompt and completion fit.

    The value keeps its `start` or its `end`; the tokens lost are counted as `event:cut_tokens`.
    """
    messages = prompt.render(**values)
    room = chat.context_window(role) - chat.completion_limit(role, max_tokens)
    over = chat.message_tokens(messages, role) - room
    if over <= 0:
        return messages
    whole = kept = chat.count_tokens(values[cut], role)
    text = values[cut]
    # a cut text may tokenise a little longer than it was counted, hence the loop
    while over > 0 and kept > 0:
        kept = max(0, kept - over)
        text = chat.cut(values[cut], kept, role, keep)
        messages = prompt.render(**{**values, cut: text})
        over = chat.message_tokens(messages, role) - room
    ledger.count(f"{event}:cut_tokens", whole - chat.count_tokens(text, role))
    return messages
