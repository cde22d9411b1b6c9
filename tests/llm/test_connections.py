"""Connections: as many as calls in flight, used again, none shared between event loops."""

from __future__ import annotations

import asyncio

import openai
import pytest

from memsys.llm.connections import Connections

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


async def post(connections: Connections, body: dict[str, int]) -> object:
    return await connections.client().post("/x", cast_to=object, body=body)


class Server:
    """Answers every request after a moment and counts connections."""

    def __init__(self) -> None:
        self.connections = 0
        self.heads: list[bytes] = []

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            self.heads.append(head)
            lines = head.lower().split(b"\r\n")
            length = next((int(x[15:]) for x in lines if x.startswith(b"content-length:")), 0)
            body = await reader.readexactly(length)
            await asyncio.sleep(0.01)
            writer.write(HEAD % len(body) + body)


async def test_there_are_as_many_connections_as_calls_in_flight_and_they_are_used_again() -> None:
    async with Server() as server:
        made = Connections(server.url, lambda: "secret", 5.0)
        for i in range(5):
            assert await post(made, {"i": i}) == {"i": i}
        assert server.connections == 1
        for _ in range(3):
            answers = await asyncio.gather(*(post(made, {"i": i}) for i in range(8)))
            assert answers == [{"i": i} for i in range(8)]
        assert server.connections == 8
        await made.close()


async def test_a_call_carries_the_key_and_the_account(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "some-org")
    async with Server() as server:
        made = Connections(server.url, lambda: "secret", 5.0)
        await post(made, {})
        await made.close()
    head = server.heads[0].lower()
    assert head.startswith(b"post /v1/x ")
    assert b"authorization: bearer secret" in head and b"openai-organization: some-org" in head


async def test_a_cancelled_call_leaves_a_client_that_works() -> None:
    async with Server() as server:
        made = Connections(server.url, lambda: "secret", 5.0)
        call = asyncio.create_task(post(made, {"i": 1}))
        await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await post(made, {"i": 2}) == {"i": 2}
        await made.close()


def test_another_event_loop_opens_connections_of_its_own() -> None:
    made: list[Connections] = []

    async def once() -> int:
        async with Server() as server:
            made[:] = made or [Connections(server.url, lambda: "secret", 5.0)]
            made[0]._url = server.url
            await post(made[0], {})
            return server.connections

    assert [asyncio.run(once()), asyncio.run(once())] == [1, 1]


async def test_nobody_there_is_a_connection_error() -> None:
    made = Connections("http://127.0.0.1:9/v1", lambda: "none", 5.0)
    with pytest.raises(openai.APIConnectionError):
        await post(made, {})
    await made.close()
