"""What happens to a page: queue, chain, themes, segments, and the long-term update."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from baselines.memoryos.pages import Page
from baselines.memoryos.replies import Theme
from baselines.memoryos.scores import is_hot
from baselines.memoryos.settings import MemoryOSBuild
from baselines.memoryos.store import Segment, Stores
from baselines.memoryos.writing import Writer
from memsys.encoders.protocol import Encoder
from memsys.llm import ledger


class Builder:
    """Moves pages through the three stores, one after the other."""

    def __init__(
        self, stores: Stores, build: MemoryOSBuild, writer: Writer, encoder: Encoder
    ) -> None:
        self.stores = stores
        self.build = build
        self.writer = writer
        self.encoder = encoder

    async def arrive(self, page: Page) -> None:
        """Put a page into the short-term queue, and pass on what has no place there any more."""
        stores, limit = self.stores, self.build.stm_length
        stores.now = max(stores.now, page.time)
        stores.pages[page.id] = page
        stores.stm.append(page.id)
        while len(stores.stm) > (limit if self.build.evict == "overflow" else limit - 1):
            await self._evict(stores.pages[stores.stm.popleft()])

    async def _evict(self, page: Page) -> None:
        """Chain the page, find its themes, put it into their segments; then look for heat."""
        if self.build.pairing == "official" and not (page.user and page.reply):
            ledger.count("memoryos.turns_lost")
            return
        # the chain and the themes of a page do not depend on each other
        _, themes = await asyncio.gather(self._chain(page), self._themes(page))
        self.stores.previous = page
        for theme in themes:
            await self._place(page, theme)
        ledger.count("memoryos.segments_dropped", self.stores.make_room(self.build))
        await self._remember_long()

    async def _chain(self, page: Page) -> None:
        """Link the page to the one evicted before it, or begin a new chain; the first asks not."""
        stores, previous = self.stores, self.stores.previous
        if previous is not None and await self.writer.continues(previous, page):
            page.chain = previous.chain
        else:
            stores.chains.append("")
            page.chain = len(stores.chains) - 1
        old = stores.chains[page.chain]
        summary = await self.writer.chain_summary(old, page, self.build.chain_tokens)
        stores.chains[page.chain] = summary

    async def _themes(self, page: Page) -> list[Theme]:
        both = self.build.themes_from == "both"
        return await self.writer.themes(page.text if both else page.user or page.text, self.build)

    async def _place(self, page: Page, theme: Theme) -> None:
        """Join the segment that is nearest by F, or found a new one."""
        vector = (await self.encoder.encode([theme.content]))[0]
        segment = self.stores.choose(vector, theme.keywords, self.build)
        if segment is None:
            keywords = theme.keywords
            if self.build.keyword_calls:
                asked, page.keywords = await asyncio.gather(
                    self.writer.keywords(theme.content), self.writer.keywords(page.text)
                )
                keywords = asked or keywords
            segment = Segment(theme.content, keywords)
            self.stores.segments.append(segment)
            self.stores.vectors["segments"].append(vector)
        self.stores.put(segment, page)

    async def _remember_long(self) -> None:
        """Analyse the hottest segment's new pages if it is hot enough, and let it cool."""
        heats = self.stores.heats(self.build)
        hottest = max(range(len(heats)), key=heats.__getitem__, default=None)
        if hottest is None or not is_hot(heats[hottest], self.build):
            return
        segment = self.stores.segments[hottest]
        new = [self.stores.pages[p] for p in segment.pages if not self.stores.pages[p].analysed]
        if new:
            await self._analyse(new)
        segment.visits = segment.interactions = 0

    async def _analyse(self, pages: Sequence[Page]) -> None:
        stores, limit = self.stores, self.build.facts
        text = "\n\n".join(page.unit().text for page in pages)
        persona, other = await self.writer.persona(text, stores.user, stores.assistant, self.build)
        if persona.profile and stores.profile:
            stores.profile = await self.writer.merge_profiles(stores.profile, persona.profile)
        else:
            stores.profile = persona.profile or stores.profile
        for side, facts in (("user", persona.facts), ("assistant", other.facts)):
            if facts:
                stores.learn(side, facts, await self.encoder.encode(facts), limit)
        for page in pages:
            page.analysed = True
