"""The chat calls that write the memory, each with its fallback."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pydantic import BaseModel

from baselines.memoryos.pages import Page
from baselines.memoryos.replies import Facts, Persona, Theme, Themes, read_flag, read_keywords
from baselines.memoryos.settings import MemoryOSAsk, MemoryOSBuild
from memsys.llm import ledger
from memsys.llm.fitting import render_to_fit
from memsys.llm.structured import ask_json
from memsys.system import Tools

PACKAGE = "baselines.memoryos"
CONTINUITY_TOKENS = 10  # eval/
Shape = TypeVar("Shape", bound=BaseModel)


class Writer:
    """Makes MemoryOS's calls of the main model under the settings of one phase."""

    def __init__(self, tools: Tools, how: MemoryOSBuild | MemoryOSAsk) -> None:
        self.tools = tools
        self.how = how

    async def continues(self, previous: Page, page: Page) -> bool:
        """Whether `page` goes on where `previous` ended; an unreadable reply means no."""
        reply = await self._text(
            "continuity", CONTINUITY_TOKENS, cut="previous", previous=previous.text, page=page.text
        )
        flag = read_flag(reply)
        if flag is None:
            ledger.count("memoryos.continuity:fallback")
        return bool(flag)

    async def chain_summary(self, old: str, page: Page, tokens: int) -> str:
        """Return the running summary of a chain after `page`; an empty reply keeps the old one."""
        summary = await self._text("chain", tokens, cut="page", summary=old, page=page.text)
        if not summary:
            ledger.count("memoryos.chain:fallback")
        return summary or old

    async def themes(self, text: str, build: MemoryOSBuild) -> list[Theme]:
        """Split a page's text into at most two themes.

        A reply that stays unreadable makes one theme of the whole text, so that no page is lost.
        """
        found = await self._json("themes", Themes, build.retries, cut="text", text=text)
        themes = [theme for theme in found.themes if theme.content][:2] if found else []
        if found and not themes:
            ledger.count("memoryos.themes:empty")
        return themes or [Theme(content=text)]

    async def keywords(self, text: str) -> list[str]:
        """Return at most three keywords of a text."""
        return read_keywords(
            await self._text("keywords", self.how.max_tokens, cut="text", text=text)
        )

    async def persona(
        self, pages: str, user: str, assistant: str, build: MemoryOSBuild
    ) -> tuple[Persona, Facts]:
        """Return the user's profile and facts, and the other side's; empty where unreadable."""
        names = {"user": user or "the user", "assistant": assistant or "the other speaker"}
        persona, facts = await asyncio.gather(
            self._json("persona", Persona, build.retries, cut="pages", pages=pages, **names),
            self._json("assistant_facts", Facts, build.retries, cut="pages", pages=pages, **names),
        )
        return persona or Persona(profile="", facts=[]), facts or Facts(facts=[])

    async def merge_profiles(self, old: str, new: str) -> str:
        """Return one profile made of two; an empty reply puts one after the other."""
        merged = await self._text("merge", self.how.max_tokens, cut="old", old=old, new=new)
        if not merged:
            ledger.count("memoryos.merge:fallback")
        return merged or f"{old}\n{new}"

    async def official_answer(self, context: str, question: str, question_date: str) -> str:
        """Answer in the authors' manner: extremely short, with fixed forms for dates."""
        return await self._text(
            "answer",
            self.how.max_tokens,
            cut="context",
            context=context,
            question=question,
            question_date=question_date,
        )

    async def _text(self, name: str, tokens: int, *, cut: str, **values: str) -> str:
        messages = render_to_fit(
            self.tools.chat,
            self.tools.prompts.get(PACKAGE, name),
            cut=cut,
            role="main",
            max_tokens=tokens,
            event=f"memoryos.{name}",
            **values,
        )
        reply = await self.tools.chat.reply(
            messages, role="main", max_tokens=tokens, temperature=self.how.temperature
        )
        return reply.text.strip()

    async def _json(
        self, name: str, shape: type[Shape], retries: int, *, cut: str, **values: str
    ) -> Shape | None:
        messages = render_to_fit(
            self.tools.chat,
            self.tools.prompts.get(PACKAGE, name),
            cut=cut,
            role="main",
            max_tokens=self.how.max_tokens,
            event=f"memoryos.{name}",
            **values,
        )
        reply = await ask_json(
            self.tools.chat,
            messages,
            shape,
            role="main",
            max_tokens=self.how.max_tokens,
            event=f"memoryos.{name}",
            temperature=self.how.temperature,
            retries=retries,
        )
        return reply.value
