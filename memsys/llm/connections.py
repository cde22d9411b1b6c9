"""The client of one server: a connection for every call in flight, kept open for the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from memsys.errors import UserError

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Connections:
    """Opens the openai client when it is first asked for, once for each event loop."""

    def __init__(self, url: str, key: Callable[[], str], timeout: float) -> None:
        """Nothing is contacted; `key` is asked when the client is made, `timeout` is in seconds."""
        self._url, self._key, self._timeout = url, key, timeout
        self._made: tuple[asyncio.AbstractEventLoop, AsyncOpenAI] | None = None

    def client(self) -> AsyncOpenAI:
        """Return the client of the running event loop: connections belong to the loop they are of.

        The client of another loop is let go; its connections ended with its loop. Raises
        `UserError` without a key, or where the user's own certificates cannot be read.
        """
        loop = asyncio.get_running_loop()
        if self._made is None or self._made[0] is not loop:
            self._made = loop, self._opened()
        return self._made[1]

    async def close(self) -> None:
        """Close the connections."""
        made, self._made = self._made, None
        if made is not None and made[0] is asyncio.get_running_loop():
            await made[1].close()

    def _opened(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAioHttpClient

        try:
            # the client's default transport walks all its connections twice for every call
            transport = DefaultAioHttpClient()
        except OSError as error:
            raise UserError(
                f"The certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error}"
            ) from error
        return AsyncOpenAI(
            api_key=self._key(),
            base_url=self._url,
            max_retries=0,  # ours know the limits of all calls, the client's only of one
            timeout=self._timeout,
            http_client=transport,
        )
