"""How the runs of one command share the machine: several at a time, or one alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Gate:
    """Lets `parallel` runs go on together, never two on one place, and one alone when it asks.

    A time that is measured while other runs go on is no response time, so whoever asks to be
    alone waits until all others, those still waiting included, are through.
    """

    def __init__(self, parallel: int) -> None:
        """Let at most `parallel` runs go on together."""
        self._places = asyncio.Semaphore(parallel)
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._changed = asyncio.Condition()
        self._together = 0
        self._alone = False

    @asynccontextmanager
    async def together(self, place: Hashable) -> AsyncIterator[None]:
        """Work beside others, but on `place` only when nobody else does."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._together += 1
        try:
            async with self._locks.setdefault(place, asyncio.Lock()), self._places:
                yield
        finally:
            async with self._changed:
                self._together -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Work while nobody else does; several who ask take turns."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._together and not self._alone)
            self._alone = True
        try:
            yield
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()
