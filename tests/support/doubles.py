"""Stand-ins for models, for tests only: nothing made with them ever reaches a table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from memsys.dialogue import Query
from memsys.encoders.protocol import Kind, Vectors
from memsys.llm import ledger
from memsys.llm.chat import Message, Messages, Reply, Request, Role, Usage
from memsys.llm.prompts import Prompts
from memsys.system import Tools

Script = Callable[[Request, Role, str], str]
"""From a request, its role and its prompt's name (`folder/name`) to the reply's text."""


class ScriptedChat:
    """A chat model whose replies are scripted; it notes every call in `calls`."""

    def __init__(self, script: Script, window: int = 128_000) -> None:
        self.script = script
        self.window = window
        self.calls: list[tuple[str, Role, Request]] = []

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
        request = Request(tuple(messages), max_tokens, temperature, schema, attempt, sample)
        prompt = messages.prompt.split("@")[0]
        self.calls.append((prompt, role, request))
        text = self.script(request, role, prompt)
        usage = Usage(self.message_tokens(messages), self.count_tokens(text))
        account = ledger.current()
        if account is not None:
            account.calls.append(
                ledger.Call(
                    role, account.phase, "scripted", messages.prompt, usage.prompt_tokens,
                    usage.completion_tokens, False, False, 0.0, schema is not None,
                )
            )  # fmt: skip
        return Reply(text, usage, 0.0, model="scripted")

    def prompts(self) -> list[str]:
        """The names of the prompts called so far, in order."""
        return [prompt for prompt, _, _ in self.calls]

    def enforces_schema(self, role: Role) -> bool:
        return False

    def context_window(self, role: Role) -> int:
        return self.window

    def completion_limit(self, role: Role, wanted: int) -> int:
        return wanted

    def count_tokens(self, text: str, role: Role = "main") -> int:
        return len(text.split())

    def message_tokens(self, messages: Sequence[Message], role: Role = "main") -> int:
        return sum(self.count_tokens(m.content) for m in messages)

    def cut(self, text: str, tokens: int, role: Role = "main", keep: str = "start") -> str:
        words = list(re.finditer(r"\S+", text))
        if len(words) <= tokens:
            return text
        if tokens <= 0:
            return ""
        return (
            text[: words[tokens - 1].end()] if keep == "start" else text[words[-tokens].start() :]
        )


def word_spans(text: str, words: int) -> list[tuple[int, int]]:
    """Return the character spans of consecutive blocks of so many words."""
    found = list(re.finditer(r"\S+", text))
    blocks = [found[i : i + words] for i in range(0, len(found), words)]
    return [(block[0].start(), block[-1].end()) for block in blocks]


class HashEncoder:
    """A deterministic encoder without weights: every word has a fixed random vector."""

    def __init__(self, dimension: int = 32) -> None:
        self.dimension = dimension
        self.texts: list[str] = []

    def _word(self, word: str) -> Vectors:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(self.dimension).astype(np.float32)

    async def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        self.texts.extend(texts)
        rows = []
        for text in texts:
            words = re.findall(r"\w+", text.lower()) or [""]
            vector = np.mean([self._word(w) for w in words], axis=0)
            rows.append(vector / np.linalg.norm(vector))
        return np.array(rows, np.float32).reshape(-1, self.dimension)

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        return [len(t.split()) + 2 for t in texts]

    def split(self, text: str, tokens: int) -> list[tuple[int, int]]:
        return word_spans(text, tokens)


class TableEncoder(HashEncoder):
    """An encoder that knows the vector of each text in advance."""

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        super().__init__(len(next(iter(table.values()))))
        self.table = table

    async def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        return np.array([self.table[t] for t in texts], np.float32).reshape(-1, self.dimension)


class PlainAnswerer:
    """Answers with one scripted call under the prompt name `answer`."""

    def __init__(self, chat: ScriptedChat) -> None:
        self.chat = chat

    async def answer(self, context: str, query: Query, *, keep: str = "start") -> str:
        messages = Messages.of([Message("user", f"{context}\n\n{query.text}")], "protocol/answer@0")
        return (await self.chat.reply(messages, role="main", max_tokens=64)).text.strip()

    def budget(self, query: Query) -> int:
        return self.chat.window - 64


def tools(script: Script | None = None, encoder: Any = None, window: int = 128_000) -> Tools:
    """Return tools made of doubles; the scripted chat is `tools.chat`."""
    chat = ScriptedChat(script or (lambda request, role, prompt: ""), window)
    return Tools(chat, encoder or HashEncoder(), Prompts(), PlainAnswerer(chat))
