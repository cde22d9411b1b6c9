"""Stored replies: keyed by all that can change a reply, and asked once however many ask."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_server import OpenAIServer

from memsys.errors import ChatRefused
from memsys.llm.chat import Message, Request
from memsys.llm.endpoint import Endpoint
from memsys.llm.replies import StoredReplies, reply_key

TEXT = st.text(max_size=12)
REQUESTS = st.builds(
    Request,
    messages=st.lists(
        st.builds(Message, st.sampled_from(["system", "user", "assistant"]), TEXT), max_size=3
    ).map(tuple),
    max_tokens=st.integers(1, 3),
    temperature=st.sampled_from([0, 0.0, 0.5, 1]),
    schema=st.sampled_from([None, {"type": "object"}, {"type": "string"}]),
    attempt=st.integers(0, 2),
    sample=st.integers(0, 2),
)
BACKENDS = st.builds(
    lambda model, seed, extra, concurrency, timeout, rpm: Endpoint(
        model, base_url="http://localhost/v1", seed=seed, extra_body=extra,
        concurrency=concurrency, timeout_s=timeout, requests_per_minute=rpm,
    ),
    st.sampled_from(["a", "b"]), st.sampled_from([None, 1]), st.sampled_from([None, {"k": 1}]),
    st.integers(1, 9), st.floats(1, 9), st.sampled_from([None, 60.0]),
)  # fmt: skip


@given(BACKENDS, REQUESTS, BACKENDS, REQUESTS)
def test_two_calls_have_one_key_exactly_if_nothing_that_can_change_a_reply_differs(a, r, b, s):
    same = a.identity == b.identity and r == s
    assert (reply_key(a, r) == reply_key(b, s)) is same


@given(BACKENDS, REQUESTS)
def test_a_key_is_the_same_for_an_equal_request_made_anew(backend, request):
    again = replace(request, messages=tuple(replace(m) for m in request.messages))
    assert reply_key(backend, request) == reply_key(backend, again)


async def test_a_half_emoji_is_stored_as_it_is_used(tmp_path: Path) -> None:
    async with OpenAIServer(script=lambda body: "half \ud83d") as server:
        chat = Endpoint("test-model", base_url=server.base_url)
        ask = Request((Message("user", "also half \ud83d"),), 8)
        fresh = await StoredReplies(tmp_path).complete(chat, ask)
        stored = await StoredReplies(tmp_path).complete(chat, ask)
        await chat.close()
    assert fresh.text == stored.text == "half ?"
    assert server.stats.requests == 1


async def test_a_refusal_by_a_content_filter_is_never_stored(tmp_path: Path) -> None:
    async with OpenAIServer(finish="content_filter") as server:
        chat, replies = Endpoint("test-model", base_url=server.base_url), StoredReplies(tmp_path)
        ask = Request((Message("user", "hello"),), 8)
        with pytest.raises(ChatRefused):
            await replies.complete(chat, ask)
        assert len(replies.store) == 0
        server.finish = "stop"
        assert not (await replies.complete(chat, ask)).cached
        await chat.close()


PROCESS = """
import asyncio, json, sys
from pathlib import Path
from memsys.llm.chat import Message, Request
from memsys.llm.endpoint import Endpoint
from memsys.llm.replies import StoredReplies

async def main():
    chat, replies = Endpoint("test-model", base_url=sys.argv[2]), StoredReplies(Path(sys.argv[1]))
    asks = [Request((Message("user", f"question {i}"),), 8) for i in range(20)]
    print("ready", flush=True)
    sys.stdin.readline()
    found = await asyncio.gather(*(replies.complete(chat, ask) for ask in asks))
    print(json.dumps([[r.text, r.cached] for r in found]), flush=True)
    await chat.close()

asyncio.run(main())
"""


async def test_identical_calls_of_three_processes_are_made_once(tmp_path: Path) -> None:
    async with OpenAIServer(latency=0.3) as server:
        command = [sys.executable, "-c", PROCESS, str(tmp_path), server.base_url]
        processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        for process in processes:
            assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
        ends = [asyncio.to_thread(process.communicate, "go\n", 60) for process in processes]
        outputs = [json.loads(out) for out, _ in await asyncio.gather(*ends)]
    assert server.stats.requests == 20
    texts = [[text for text, _ in output] for output in outputs]
    assert texts[0] == texts[1] == texts[2]
    assert sum(not cached for output in outputs for _, cached in output) == 20
