"""A server behind a proxy, and one behind TLS whose authority the user names."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from memsys.errors import ChatFailure, UserError
from memsys.llm.chat import Message, Request
from memsys.llm.endpoint import Endpoint

ASKED = Request((Message("user", "hello"),), 8)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
REPLY = json.dumps(
    {
        "model": "m",
        "choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


class Server:
    """Answers whatever it is asked with one reply; keeps the first lines of what it was asked."""

    def __init__(self, secured: ssl.SSLContext | None = None) -> None:
        self.asked: list[str] = []
        self._secured = secured

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._secured)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.decode().splitlines()[0])
        writer.write(HEAD % len(REPLY) + REPLY)
        await writer.drain()
        writer.close()


@pytest.fixture(autouse=True)
def no_other_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "no_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def answer(url: str) -> str:
    chat = Endpoint("m", base_url=url, max_retries=0, timeout_s=5.0)
    try:
        return (await chat.complete(ASKED)).text
    finally:
        await chat.close()


async def test_the_proxy_that_the_environment_names_is_used(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    async with Server() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "localhost")
        assert await answer("http://models.example.org/v1") == "yes"
    assert proxy.asked == ["POST http://models.example.org/v1/chat/completions HTTP/1.1"]


async def test_a_server_that_needs_no_proxy_is_asked_itself(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with Server() as server:
        assert await answer(f"http://127.0.0.1:{server.port}/v1") == "yes"
    assert server.asked == ["POST /v1/chat/completions HTTP/1.1"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")
async def test_tls_trusts_whom_the_user_trusts_and_nobody_else(tmp_path: Path, monkeypatch):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-keyout", key, "-out", certificate,
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.load_cert_chain(certificate, key)
    async with Server(secured) as server:
        url = f"https://127.0.0.1:{server.port}/v1"
        with pytest.raises(ChatFailure, match="the connection broke"):
            await answer(url)
        assert server.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await answer(url) == "yes"


async def test_certificates_that_cannot_be_read_are_named_and_not_tried_again(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with pytest.raises(UserError, match="SSL_CERT_FILE"):
        await answer("https://127.0.0.1:9/v1")
