"""MPC's prompted modules: clarifier, memory processor and summariser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from memsys.dialogue import Query
from memsys.llm import ledger
from memsys.llm.fitting import render_to_fit
from memsys.llm.structured import ask_json
from memsys.system import Tools

PACKAGE = "baselines.mpc"
END = "#"  # the marker that ends a clarified question


class Processed(BaseModel):
    """What the memory processor returns: why, which memories help, and one statement."""

    model_config = ConfigDict(json_schema_extra={"required": ["reasoning", "useful", "memory"]})

    reasoning: str = ""
    useful: list[int] = []
    memory: str

    @field_validator("useful", mode="before")
    @classmethod
    def _numbers_only(cls, value: Any) -> list[int]:
        """Keep what can be read as numbers: the statement must not be lost for the rest."""
        items = value if isinstance(value, list) else [value]
        digits = (str(item).strip(" .#") for item in items)
        return [int(d) for d in digits if d.isascii() and d.isdigit() and len(d) < 10]


class Facts(BaseModel):
    """What the summariser returns."""

    facts: list[str]


async def clarify(
    tools: Tools, query: Query, speakers: Sequence[str], *, max_tokens: int, temperature: float
) -> str:
    """Return q', the question as a self-contained one in the third person; q if that fails."""
    messages = render_to_fit(
        tools.chat,
        tools.prompts.get(PACKAGE, "clarify"),
        cut="question",
        role="main",
        max_tokens=max_tokens,
        event="mpc.clarify",
        speakers=" and ".join(speakers),
        date=f"Date: {query.date_text}" if query.date else "",
        question=query.text,
    )
    reply = await tools.chat.reply(
        messages, role="main", max_tokens=max_tokens, temperature=temperature
    )
    # the authors' code drops the last character where the marker is missing; we cut at it only
    clarified = " ".join(reply.text.split(END, 1)[0].split())
    if not clarified:
        ledger.count("mpc.clarify:fallback")
    return clarified or query.text


async def process(
    tools: Tools, question: str, memories: Sequence[str], *, max_tokens: int, temperature: float
) -> Processed | None:
    """Reason over the numbered `memories`; `None` if no statement can be read."""
    numbered = "\n\n".join(f"{i}. {text}" for i, text in enumerate(memories, 1))
    messages = render_to_fit(
        tools.chat,
        tools.prompts.get(PACKAGE, "process"),
        cut="memories",
        role="main",
        max_tokens=max_tokens,
        event="mpc.process",
        memories=numbered,
        question=question,
    )
    reply = await ask_json(
        tools.chat,
        messages,
        Processed,
        role="main",
        max_tokens=max_tokens,
        temperature=temperature,
        event="mpc.process",
    )
    if reply.value is None or not reply.value.memory.strip():
        return None
    useful = [n for n in dict.fromkeys(reply.value.useful) if 1 <= n <= len(memories)]
    ledger.count("mpc.process:no_such_memory", len(reply.value.useful) - len(useful))
    return reply.value.model_copy(
        update={"useful": useful, "memory": " ".join(reply.value.memory.split())}
    )


async def summarise(
    tools: Tools, exchanges: str, *, max_tokens: int, temperature: float
) -> list[str]:
    """Return the facts of some exchanges; a bullet list is read too, anything else holds none."""
    messages = render_to_fit(
        tools.chat,
        tools.prompts.get(PACKAGE, "summarise"),
        cut="exchanges",
        role="main",
        max_tokens=max_tokens,
        event="mpc.summarise",
        exchanges=exchanges,
    )
    reply = await ask_json(
        tools.chat,
        messages,
        Facts,
        role="main",
        max_tokens=max_tokens,
        temperature=temperature,
        event="mpc.summarise",
        retries=0,
    )
    found = reply.value.facts if reply.value else bullets(reply.text)
    if not found and reply.value is None:
        ledger.count("mpc.summarise:lost")
    return [fact for fact in (" ".join(text.split()) for text in found) if fact]


def bullets(text: str) -> list[str]:
    """Return the lines of `text` that begin with a dash, without it."""
    lines = (line.strip() for line in text.splitlines())
    return [line.lstrip("-–• ").strip() for line in lines if line.startswith(("-", "–", "•"))]
