"""Clients of one server: as many as calls are in flight, each with a connection of its own.

An HTTP pool looks at each of its connections twice for every call: shared by a hundred calls in
flight, that costs more than the calls themselves.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Clients:
    """Lends a client to each call and takes it back; the one used last goes first."""

    def __init__(self, url: str, key: Callable[[], str], timeout: float) -> None:
        """Nothing is contacted; `key` is asked when a client is made, `timeout` is in seconds."""
        self._url, self._key, self._timeout = url, key, timeout
        self._free: list[AsyncOpenAI] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def lent(self) -> Iterator[AsyncOpenAI]:
        """Hold a client for one call."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._free = loop, []  # connections belong to the loop that opened them
        client = self._free.pop() if self._free else self._made()
        try:
            yield client
        finally:
            if self._loop is loop:
                self._free.append(client)

    async def close(self) -> None:
        """Close the connections."""
        free, self._free = self._free, []
        for client in free:
            await client.close()

    def _made(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        return AsyncOpenAI(
            api_key=self._key(),
            base_url=self._url,
            max_retries=0,  # ours know the limits of all calls, the client's only of one
            timeout=self._timeout,
            http_client=DefaultAsyncHttpxClient(verify=_trusted()),
        )


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that the client trusts anyway, read once: it takes a tenth of a second."""
    from openai import DefaultAsyncHttpxClient

    library = DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]  # httpx or httpx2
    context: ssl.SSLContext = import_module(library).create_ssl_context()
    return context
