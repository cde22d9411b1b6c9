"""The chat model that systems see: roles on top of back ends, replies stored, calls entered.

Each role is played by one back end; two roles may share one. A `<think>` block is stripped from
every reply, whatever its role, and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memsys.errors import MemsysError
from memsys.llm import ledger
from memsys.llm.chat import Backend, Message, Messages, Reply, Request, Role
from memsys.llm.replies import StoredReplies

_THINK = re.compile(r"^\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


class RoleChat:
    """Dispatches calls to the back end of their role; implements `ChatModel`."""

    def __init__(self, backends: Mapping[Role, Backend], replies: StoredReplies | None) -> None:
        """Use `backends`; `replies=None` turns the reply store off (timing)."""
        self.backends = backends
        self.replies = replies

    async def reply(
        self,
        messages: Messages,
        *,
        role: Role,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        attempt: int = 0,
        sample: int = 0,
    ) -> Reply:
        """Answer `messages` with the model that plays `role`, and enter the call."""
        backend = self._backend(role)
        limit = self.completion_limit(role, max_tokens)
        request = Request(tuple(messages), limit, temperature, schema, attempt, sample)
        if self.replies is None:
            reply = await backend.complete(request)
        else:
            reply = await self.replies.complete(backend, request)
        text, blocks = _THINK.subn("", reply.text, count=1)
        if blocks:
            ledger.count("think_stripped")
            reply = replace(reply, text=text)
        self._enter(messages, role, backend, reply, schema)
        return reply

    def enforces_schema(self, role: Role) -> bool:
        """Whether this role's model returns JSON that is valid by construction."""
        return self._backend(role).enforces_schema

    def context_window(self, role: Role) -> int:
        """Tokens of prompt and completion together of this role's model."""
        return self._backend(role).context_window

    def completion_limit(self, role: Role, wanted: int) -> int:
        """`wanted` completion tokens, or fewer where the model's own cap is lower."""
        cap = self._backend(role).max_completion_tokens
        return wanted if cap is None else min(wanted, cap)

    def count_tokens(self, text: str, role: Role = "main") -> int:
        """Return how many tokens `text` has for this role's model."""
        return self._backend(role).count_tokens(text)

    def message_tokens(self, messages: Sequence[Message], role: Role = "main") -> int:
        """Return how many tokens `messages` have for this role's model."""
        return self._backend(role).message_tokens(messages)

    def cut(self, text: str, tokens: int, role: Role = "main", keep: str = "start") -> str:
        """Return `text` cut to at most `tokens` tokens, keeping its `start` or its `end`.

        Cuts at a space where there is one, by bisection on whole words, so that any tokenizer
        serves; the count of each candidate is exact.
        """
        if tokens <= 0:
            return ""
        if self.count_tokens(text, role) <= tokens:
            return text
        ends = [m.end() for m in re.finditer(r"\S+", text)]
        starts = [m.start() for m in re.finditer(r"\S+", text)]
        low, high = 0, len(ends)  # `low` words fit, `high` words do not
        while high - low > 1:
            middle = (low + high) // 2
            part = text[: ends[middle - 1]] if keep == "start" else text[starts[-middle] :]
            low, high = (middle, high) if self.count_tokens(part, role) <= tokens else (low, middle)
        if low == 0:
            return ""
        return text[: ends[low - 1]] if keep == "start" else text[starts[-low] :]

    def _backend(self, role: Role) -> Backend:
        try:
            return self.backends[role]
        except KeyError:
            raise MemsysError(
                f"A system called the {role} model without asking for it in `needs`."
            ) from None

    def _enter(
        self,
        messages: Messages,
        role: Role,
        backend: Backend,
        reply: Reply,
        schema: Mapping[str, Any] | None,
    ) -> None:
        account = ledger.current()
        if account is None:
            return
        call = ledger.Call(
            role=role,
            phase=account.phase,
            model=reply.model or backend.name,
            prompt=messages.prompt,
            prompt_tokens=reply.usage.prompt_tokens,
            completion_tokens=reply.usage.completion_tokens,
            estimated=reply.usage.estimated,
            cached=reply.cached,
            seconds=reply.latency,
            schema=schema is not None,
            valid=None if schema is None else _valid(reply.text, schema),
            reply=reply.key,
        )
        account.calls.append(call)


def _valid(text: str, schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator

    try:
        return bool(Draft202012Validator(schema).is_valid(json.loads(text)))
    except ValueError:
        return False
