"""An OpenAI-compatible chat server for tests, with scripted replies, faults and latency.

In a test: `async with OpenAIServer(faults={"429": 0.1}) as server: server.base_url`.
As a process: `python tests/support/openai_server.py --port 0 --faults 500=0.05,reset=0.05`; the
first line that it prints is its base URL, and `GET /stats` returns `Stats` as JSON.

Faults: `429` (with Retry-After), `500`, `503`, `reset` (the connection breaks), `slow` (the body
stalls), `truncated` (half a JSON body), `empty` (no choices), `model` (another model's name).
Which request meets which fault is fixed by the seed, its content and how often it was asked, so
that a retry meets its own luck. `refuse` answers every chat request with one error. `mark` makes
the fingerprint of each reply the hash of its request, by which stored replies can be told apart.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Script = Callable[[dict[str, Any]], str]

REFUSALS: dict[str, tuple[int, dict[str, Any]]] = {
    "400": (400, {"message": "Unrecognized request argument", "type": "invalid_request_error"}),
    "401": (401, {"message": "Incorrect API key provided: {key}", "code": "invalid_api_key"}),
    "402": (402, {"message": "Insufficient Balance", "type": "unknown_error"}),
    "403": (403, {"message": "Project has no access to this model"}),
    "404": (404, {"message": "The model does not exist", "code": "model_not_found"}),
    "quota": (
        429,
        {"message": "You exceeded your current quota", "code": "insufficient_quota"},
    ),
    "too_large": (429, {"message": "Request too large for this model: TPM limit 30000"}),
    "context": (
        400,
        {
            "message": "This model's maximum context length is 8192 tokens",
            "code": "context_length_exceeded",
        },
    ),
    "filter": (400, {"message": "The response was filtered", "code": "content_filter"}),
}


@dataclass
class Stats:
    """What the server saw of chat requests."""

    requests: int = 0
    answered: int = 0
    most_at_once: int = 0
    by_content: Counter[str] = field(default_factory=Counter)  # times asked, per content hash
    answered_by_content: Counter[str] = field(default_factory=Counter)
    untaken: Counter[str] = field(default_factory=Counter)  # answered, but the client hung up
    faults: Counter[str] = field(default_factory=Counter)
    tokens: int = 0  # of good answers
    billed: int = 0  # of all that was written, answers of no use included
    now: int = 0  # chat requests that are being answered
    most_per_window: int = 0  # requests within any `window` seconds

    def plain(self) -> dict[str, Any]:
        return {k: dict(v) if isinstance(v, Counter) else v for k, v in vars(self).items()}


class OpenAIServer:
    """The server; `stats` may be read at any time, and every setting changed between requests."""

    def __init__(
        self,
        *,
        script: Script | None = None,
        faults: Mapping[str, float] | None = None,
        refuse: str = "",
        latency: float = 0.0,
        model: str = "test-model",
        key: str = "",
        fingerprint: str = "fp_test",
        seed: int = 0,
        retry_after: float = 0.02,
        stall: float = 3.0,
        capacity: int | None = None,
        window: float = 60.0,
        usage: bool = True,
        mark: bool = False,
        finish: str = "stop",
        port: int = 0,
    ) -> None:
        self.script = script or scripted
        self.faults, self.refuse, self.latency = dict(faults or {}), refuse, latency
        self.model, self.key, self.fingerprint, self.seed = model, key, fingerprint, seed
        self.retry_after, self.stall, self.capacity = retry_after, stall, capacity
        self.window, self.usage, self.finish, self.port = window, usage, finish, port
        self.mark = mark
        self.stats = Stats()
        self.bodies: deque[dict[str, Any]] = deque(maxlen=1000)
        self.headers: dict[str, str] = {}
        self._times: deque[float] = deque()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._last: dict[asyncio.StreamWriter, tuple[float, str]] = {}  # time and hash of answers

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> OpenAIServer:
        self._server = await asyncio.start_server(
            self._connection, "127.0.0.1", self.port, limit=1 << 24, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    async def __aenter__(self) -> OpenAIServer:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(writer)
            answered, content = self._last.pop(writer, (0.0, ""))
            if time.monotonic() < answered + 1.0:
                self.stats.untaken[content] += 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if path == "/stats":
            return await _send(writer, 200, self.stats.plain())
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return await self._refusal(writer, "401", headers)
        if path == "/v1/models":
            return await _send(writer, 200, {"object": "list", "data": [{"id": self.model}]})
        if method != "POST" or path != "/v1/chat/completions":
            return await _send(writer, 404, {"error": {"message": f"no route {path}"}})
        self.headers = headers
        self.stats.now += 1
        try:
            return await self._chat(writer, json.loads(body), headers)
        finally:
            self.stats.now -= 1

    async def _chat(
        self, writer: asyncio.StreamWriter, body: dict[str, Any], headers: dict[str, str]
    ) -> bool:
        content = content_hash(body)
        self._saw(body, content)
        fault = self._fault(content, self.stats.by_content[content])
        if self.capacity is not None and self.stats.now > self.capacity:
            fault = "429"
        if self.refuse:
            return await self._refusal(writer, self.refuse, headers)
        if fault in ("429", "500", "503"):
            self.stats.faults[fault] += 1
            wait = {"Retry-After": f"{self.retry_after:g}"} if fault == "429" else {}
            error = {"error": {"message": f"injected {fault}", "type": "server_error"}}
            return await _send(writer, int(fault), error, wait)
        if self.latency:
            await asyncio.sleep(self.latency)
        if fault == "reset":
            self.stats.faults[fault] += 1
            writer.transport.abort()
            return False
        reply = self._reply(body, fault)
        self.stats.billed += reply.get("usage", {}).get("total_tokens", 0)
        if self.mark:
            reply["system_fingerprint"] = content
        if fault:
            self.stats.faults[fault] += 1
        if fault in ("slow", "truncated"):
            return await self._broken(writer, reply, fault)
        if fault in ("", "filter"):
            self.stats.answered += 1
            self.stats.answered_by_content[content] += 1
            self._last[writer] = time.monotonic(), content
            self.stats.tokens += reply.get("usage", {}).get("total_tokens", 0)
        return await _send(writer, 200, reply)

    def _saw(self, body: dict[str, Any], content: str) -> None:
        self.bodies.append(body)
        self.stats.requests += 1
        self.stats.by_content[content] += 1
        self.stats.most_at_once = max(self.stats.most_at_once, self.stats.now)
        now = time.monotonic()
        self._times.append(now)
        while self._times[0] <= now - self.window:
            self._times.popleft()
        self.stats.most_per_window = max(self.stats.most_per_window, len(self._times))

    def _fault(self, content: str, time_asked: int) -> str:
        luck = _share(f"{self.seed}:{content}:{time_asked}")
        for fault, share in self.faults.items():
            if luck < share:
                return fault
            luck -= share
        return ""

    def _reply(self, body: dict[str, Any], fault: str) -> dict[str, Any]:
        text = self.script(body)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": self.finish,
        }
        prompt = sum(len(str(m.get("content", "")).split()) for m in body["messages"])
        written = len(text.split())
        reply: dict[str, Any] = {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 0,
            "model": "another-model" if fault == "model" else self.model,
            "system_fingerprint": self.fingerprint,
            "choices": [] if fault == "empty" else [choice],
        }
        if self.usage:
            reply["usage"] = {
                "prompt_tokens": prompt,
                "completion_tokens": written,
                "total_tokens": prompt + written,
            }
        return reply

    async def _broken(
        self, writer: asyncio.StreamWriter, reply: dict[str, Any], fault: str
    ) -> bool:
        data = json.dumps(reply).encode()
        if fault == "truncated":
            return await _send(writer, 200, data[: len(data) // 2])
        writer.write(_head(200, len(data)) + data[: len(data) // 2])
        await writer.drain()
        await asyncio.sleep(self.stall)
        writer.write(data[len(data) // 2 :])
        await writer.drain()
        return True

    async def _refusal(
        self, writer: asyncio.StreamWriter, name: str, headers: dict[str, str]
    ) -> bool:
        status, error = REFUSALS[name]
        key = headers.get("authorization", "").removeprefix("Bearer ")
        told = {k: str(v).replace("{key}", key) for k, v in error.items()}
        return await _send(writer, status, {"error": told})


def content_hash(body: Mapping[str, Any]) -> str:
    """The identity of a chat request's content: messages, schema, sampling settings."""
    kept = {k: v for k, v in body.items() if k not in ("stream", "user")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def scripted(body: dict[str, Any]) -> str:
    """A reply that depends on nothing but the request: JSON where a schema is given."""
    seed = content_hash(body)
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        return json.dumps(example(form["json_schema"]["schema"], seed))
    if form.get("type") == "json_object":
        return json.dumps({"answer": f"reply {seed}"})
    return f"reply {seed}"


def example(schema: Mapping[str, Any], seed: str, root: Mapping[str, Any] | None = None) -> Any:
    """A value of a JSON schema, chosen by `seed`."""
    root = schema if root is None else root
    pick = int(hashlib.sha256(seed.encode()).hexdigest()[:8], 16)
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], seed, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][pick % len(schema["enum"])]
    if "anyOf" in schema:
        return example(schema["anyOf"][pick % len(schema["anyOf"])], seed, root)
    kind = schema.get("type", "object")
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: example(part, f"{seed}.{name}", root) for name, part in parts.items()}
    if kind == "array":
        count = max(schema.get("minItems", 1), 1 + pick % 3)
        count = min(count, schema.get("maxItems", count))
        return [example(schema["items"], f"{seed}[{i}]", root) for i in range(count)]
    if kind == "boolean":
        return pick % 2 == 0
    if kind in ("integer", "number"):
        low = schema.get("minimum", 0)
        return low + pick % (schema.get("maximum", low + 9) - low + 1)
    return None if kind == "null" else f"word{pick % 1000}"


def _share(text: str) -> float:
    return int(hashlib.sha256(text.encode()).hexdigest()[:13], 16) / 16**13


def _head(status: int, length: int, extra: Mapping[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", "Content-Type: application/json"]
    lines += [f"Content-Length: {length}", *(f"{k}: {v}" for k, v in (extra or {}).items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: Any,
    extra: Mapping[str, str] | None = None,
) -> bool:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    writer.write(_head(status, len(data), extra) + data)
    await writer.drain()
    return True


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--faults", default="", help="429=0.05,reset=0.02,…")
    parser.add_argument("--refuse", default="", choices=["", *REFUSALS])
    parser.add_argument("--model", default="test-model")
    parser.add_argument("--key", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stall", type=float, default=3.0)
    parser.add_argument("--capacity", type=int, help="429 beyond this many at once")
    parser.add_argument("--mark", action="store_true", help="a fingerprint for each request")
    parser.add_argument("--retry-after", type=float, default=0.02, help="seconds, with a 429")
    parser.add_argument("--window", type=float, default=60.0, help="seconds, for most_per_window")
    given = vars(parser.parse_args())
    shares = (part.split("=") for part in given.pop("faults").split(",") if part)
    faults = {name: float(share) for name, share in shares}
    async with OpenAIServer(faults=faults, **given) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
