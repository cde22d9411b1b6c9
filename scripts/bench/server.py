"""A chat server that answers after a fixed delay, fast enough to never be what is measured.

    python scripts/bench/server.py --delay 0.2

Prints its base URL. `GET /stats` returns how many calls it answered, the most at once, and the
seconds from the first call's arrival to the last answer; `GET /reset` starts the count anew.
Replies fit any schema with string fields of the question's kind: `{"answer": "yes"}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

_REPLY = json.dumps(
    {
        "id": "bench",
        "object": "chat.completion",
        "created": 0,
        "model": "bench",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": '{"answer": "yes"}'},
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105},
    }
).encode()
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_MODELS = json.dumps({"object": "list", "data": [{"id": "bench", "object": "model"}]}).encode()


class _Server(asyncio.Protocol):
    """One connection; requests on it come one after another."""

    delay = 0.2
    answered = at_once = most = 0
    first: float | None = None
    last = 0.0

    def __init__(self) -> None:
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, found, rest = self.data.partition(b"\r\n\r\n")
        if not found:
            return
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if len(rest) < length:
            return
        self.data = rest[length:]
        path = head.split(b" ", 2)[1]
        if path.endswith(b"/chat/completions"):
            cls = type(self)
            cls.first = cls.first or time.perf_counter()
            cls.at_once += 1
            cls.most = max(cls.most, cls.at_once)
            asyncio.get_running_loop().call_later(cls.delay, self._answer)
        elif path.endswith(b"/stats"):
            self._send(self._stats())
        elif path.endswith(b"/reset"):
            cls = type(self)
            cls.answered = cls.most = 0
            cls.first = None
            self._send(b"{}")
        else:
            self._send(_MODELS)

    def _answer(self) -> None:
        cls = type(self)
        cls.at_once -= 1
        cls.answered += 1
        cls.last = time.perf_counter()
        self._send(_REPLY)

    def _stats(self) -> bytes:
        cls = type(self)
        seconds = cls.last - (cls.first or cls.last)
        found = {"answered": cls.answered, "most_at_once": cls.most, "seconds": seconds}
        return json.dumps(found).encode()

    def _send(self, body: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(_HEAD % len(body) + body)  # type: ignore[attr-defined]


async def serve(delay: float) -> None:
    """Serve until killed."""
    _Server.delay = delay
    server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0, backlog=512)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--delay", type=float, default=0.2, help="seconds an answer takes")
    asyncio.run(serve(parser.parse_args().delay))
