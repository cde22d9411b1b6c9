"""Multi-granular metadata: each session's summary and keywords (Eq. 1).

MemGAS and the single-granularity baselines call this with the same prompts, so that a session's
metadata is paid for once, in whatever row or haystack it turns up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from memsys.dialogue import Session
from memsys.errors import UserError
from memsys.llm.fitting import render_to_fit
from memsys.llm.prompts import Prompt
from memsys.llm.structured import ask_json
from memsys.memgas.calls import ask_text
from memsys.memgas.settings import MetadataSource
from memsys.rendering import session_text
from memsys.system import Tools

PROMPTS = "memsys.memgas"
FALLBACK_TOKENS = 512
"""How much of a session stands in for a summary that the model did not write."""

Part = Literal["summary", "keywords"]
BOTH: frozenset[Part] = frozenset({"summary", "keywords"})


@dataclass(frozen=True, slots=True)
class Metadata:
    """A session's summary and its keywords, semicolon-separated; empty where not asked for."""

    summary: str = ""
    keywords: str = ""


class MergedReply(BaseModel):
    """The reply of the merged call."""

    summary: str = Field(min_length=1)
    keywords: list[str]


async def describe(
    sessions: Sequence[Session],
    tools: Tools,
    *,
    source: MetadataSource,
    calls: Literal[1, 2],
    max_tokens: int,
    parts: frozenset[Part] = BOTH,
) -> list[Metadata]:
    """Return the metadata of each session, concurrently.

    `calls` says whether summary and keywords come from one merged call or from one each; `parts`
    which of them is needed. A session without turns costs no call. Raises `UserError` if the
    metadata should come from the data set and this benchmark has none.
    """
    if not parts:
        return [Metadata() for _ in sessions]
    if source == "dataset":
        return [_notes(session, parts) for session in sessions]
    one = _merged if calls == 1 else _separate
    return list(await asyncio.gather(*(one(s, tools, max_tokens, parts) for s in sessions)))


def _notes(session: Session, parts: frozenset[Part]) -> Metadata:
    notes = session.notes
    if notes is None:
        raise UserError(
            f"metadata=dataset: session '{session.id}' has no summary of its own in this "
            "benchmark; use metadata=llm."
        )
    return Metadata(
        notes.summary if "summary" in parts else "", notes.keywords if "keywords" in parts else ""
    )


async def _separate(
    session: Session, tools: Tools, max_tokens: int, parts: frozenset[Part]
) -> Metadata:
    async def ask(part: Part) -> str:
        if part not in parts or not session.turns:
            return ""
        return await ask_text(
            tools.chat,
            _prompt(tools, part),
            cut="dialogue",
            max_tokens=max_tokens,
            event=f"memgas.{part}",
            dialogue=_dialogue(session),
            participants=_participants(session),
        )

    summary, keywords = await asyncio.gather(ask("summary"), ask("keywords"))
    if not summary and "summary" in parts:
        summary = _opening(session, tools)
    return Metadata(summary, keywords)


async def _merged(
    session: Session, tools: Tools, max_tokens: int, parts: frozenset[Part]
) -> Metadata:
    if not session.turns:
        return Metadata()
    messages = render_to_fit(
        tools.chat,
        _prompt(tools, "metadata"),
        cut="dialogue",
        role="main",
        max_tokens=max_tokens,
        event="memgas.metadata",
        dialogue=_dialogue(session),
        participants=_participants(session),
    )
    reply = await ask_json(
        tools.chat,
        messages,
        MergedReply,
        role="main",
        max_tokens=max_tokens,
        event="memgas.metadata",
    )
    if reply.value is None:
        return Metadata(_opening(session, tools) if "summary" in parts else "")
    keywords = "; ".join(filter(None, (word.strip() for word in reply.value.keywords)))
    return Metadata(
        reply.value.summary.strip() if "summary" in parts else "",
        keywords if "keywords" in parts else "",
    )


def _prompt(tools: Tools, name: str) -> Prompt:
    return tools.prompts.get(PROMPTS, name)


def _dialogue(session: Session) -> str:
    """As the official code shows a session to the LLM: turn pairs apart by a blank line."""
    return session_text(session, "\n\n")


def _participants(session: Session) -> str:
    return "a user and an assistant" if session.with_assistant else "two people"


def _opening(session: Session, tools: Tools) -> str:
    return tools.chat.cut(session_text(session), FALLBACK_TOKENS)
