"""Connections that fail in each way they can: what is billed and what reached nobody."""

from __future__ import annotations

import asyncio

import pytest

from memsys.llm.endpoint import Endpoint
from memsys.llm.faults import Fault

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
WAYS = {
    "closed without a word": b"",
    "closed within the head": HEAD[:25],
    "half a body": HEAD + b'content-length: 400\r\n\r\n{"choices": [',
    "half a chunk": HEAD + b'transfer-encoding: chunked\r\n\r\nff\r\n{"choices": [',
    "no HTTP": b"220 mail.example.org ESMTP\r\n",
}


async def fault_of(answer: bytes | None) -> Fault:
    """Return the fault of a call to a server that says `answer` and closes, or nothing (`None`)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await asyncio.sleep(1.0)
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fault = await tried(f"http://127.0.0.1:{port}/v1")
    server.close()
    return fault


async def tried(url: str) -> Fault:
    chat = Endpoint("m", base_url=url, timeout_s=0.3)
    outcome = await chat._try({"model": "m"})
    await chat.close()
    assert isinstance(outcome, Fault) and outcome.kind == "again"
    return outcome


@pytest.mark.parametrize("way", ["half a body", "half a chunk"])
async def test_an_answer_that_breaks_off_was_worked_on(way):
    fault = await fault_of(WAYS[way])
    assert fault.billed and not fault.unreachable
    assert fault.text == "the connection broke within the answer"


@pytest.mark.parametrize("way", ["closed without a word", "closed within the head", "no HTTP"])
async def test_without_an_answer_nobody_was_reached(way):
    fault = await fault_of(WAYS[way])
    assert fault.unreachable and not fault.billed
    assert fault.text.startswith("the connection broke (")


async def test_a_refused_connection_is_no_time_out():
    fault = await tried("http://127.0.0.1:9/v1")
    assert fault.unreachable and not fault.billed
    assert fault.text == "the connection broke (ConnectionRefusedError)"


async def test_a_host_that_does_not_exist_was_not_reached(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    fault = await tried("http://no-such-host.invalid/v1")
    assert fault.unreachable and not fault.billed


async def test_silence_is_a_time_out_and_may_be_billed():
    fault = await fault_of(None)
    assert fault.billed and not fault.unreachable
    assert fault.text == "no complete answer within 0.3 s"
