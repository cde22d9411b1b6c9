from __future__ import annotations

import asyncio
import json
import time

import pytest
from openai_server import OpenAIServer, content_hash

from memsys.errors import (
    ChatFailure,
    ChatRefused,
    ContextOverflow,
    EndpointRefused,
    UserError,
)
from memsys.llm.chat import Message, Request
from memsys.llm.endpoint import Endpoint

SCHEMA = {
    "type": "object",
    "properties": {
        "keywords": {"type": "array", "items": {"type": "string"}, "title": "Keywords"},
        "sure": {"type": "boolean", "default": False},
    },
    "required": ["keywords"],
}


def ask(text: str = "hello", **more: object) -> Request:
    return Request((Message("user", text),), **{"max_tokens": 16, **more})  # type: ignore[arg-type]


def endpoint(server: OpenAIServer, **more: object) -> Endpoint:
    settings = {"base_url": server.base_url, "backoff_s": 0.001, "timeout_s": 5.0, **more}
    return Endpoint("test-model", **settings)  # type: ignore[arg-type]


async def test_a_reply_carries_text_usage_finish_and_the_model_that_answered():
    async with OpenAIServer(script=lambda body: "one two three") as server:
        chat = endpoint(server)
        reply = await chat.complete(ask("four words in here"))
        await chat.close()
    assert reply.text == "one two three"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (4, 3)
    assert not reply.usage.estimated
    assert reply.finish == "stop"
    assert reply.model == "test-model fp_test"
    assert reply.latency > 0


async def test_the_body_holds_what_the_request_and_the_settings_say():
    async with OpenAIServer() as server:
        chat = endpoint(server, seed=7, extra_body={"top_k": 3}, max_completion_tokens=10)
        await chat.complete(ask(attempt=1, sample=2, temperature=0.5, schema=SCHEMA))
        body = server.bodies[-1]
        await chat.close()
    assert body["seed"] == 10 and body["top_k"] == 3
    assert body["max_tokens"] == 10 and body["temperature"] == 0.5
    form = body["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["required"] == ["keywords", "sure"]
    assert form["schema"]["additionalProperties"] is False


async def test_a_schema_is_sent_as_the_server_takes_it():
    async with OpenAIServer() as server:
        plain = endpoint(server, json_schema="none", limit_field="max_completion_tokens")
        await plain.complete(ask(schema=SCHEMA))
        assert "response_format" not in server.bodies[-1]
        assert server.bodies[-1]["max_completion_tokens"] == 16
        loose = endpoint(server, json_schema="json_object")
        await loose.complete(ask(schema=SCHEMA))
        assert server.bodies[-1]["response_format"] == {"type": "json_object"}
        strict = endpoint(server)
        reply = await strict.complete(ask(schema=SCHEMA))
        for chat in (plain, loose, strict):
            await chat.close()
    assert set(json.loads(reply.text)) == {"keywords", "sure"}
    assert (plain.enforces_schema, loose.enforces_schema, strict.enforces_schema) == (
        False, False, True,
    )  # fmt: skip


@pytest.mark.parametrize("fault", ["429", "500", "503", "reset", "truncated", "empty", "model"])
async def test_a_passing_fault_is_retried(fault):
    async with OpenAIServer(faults={fault: 1.0}) as server:
        chat = endpoint(server, max_retries=6)
        call = asyncio.create_task(chat.complete(ask()))
        while server.stats.faults[fault] < 2:
            await asyncio.sleep(0.005)
        server.faults = {}
        assert (await call).text.startswith("reply ")
        await chat.close()


async def test_a_stalled_body_is_retried_after_the_timeout():
    async with OpenAIServer(faults={"slow": 1.0}, stall=30) as server:
        chat = endpoint(server, timeout_s=0.2)
        call = asyncio.create_task(chat.complete(ask()))
        while server.stats.faults["slow"] < 1:
            await asyncio.sleep(0.005)
        server.faults = {}
        began = time.perf_counter()
        assert (await call).text.startswith("reply ")
        assert time.perf_counter() - began < 5
        await chat.close()


@pytest.mark.parametrize("fault", ["500", "reset", "truncated", "empty", "model"])
async def test_a_lasting_fault_ends_as_a_failure_after_all_retries(fault):
    async with OpenAIServer(faults={fault: 1.0}) as server:
        chat = endpoint(server, max_retries=2)
        with pytest.raises(ChatFailure, match="failed 3 times"):
            await chat.complete(ask())
        assert server.stats.requests == 3
        server.faults = {}
        await chat.complete(ask())  # one failed call says nothing about the next
        await chat.close()


REFUSED = ["400", "401", "402", "403", "404", "quota"]


@pytest.mark.parametrize("refusal", REFUSED)
async def test_what_no_retry_mends_stops_every_call_at_once_with_one_message(refusal):
    async with OpenAIServer(refuse=refusal) as server:
        chat = endpoint(server, concurrency=4, backoff_s=5.0)
        began = time.perf_counter()
        calls = (chat.complete(ask(f"question {i}")) for i in range(300))
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert time.perf_counter() - began < 5
        assert all(type(r) is EndpointRefused for r in results)
        assert len({str(r) for r in results}) == 1
        assert server.stats.requests <= 4
        assert "test-model" in str(results[0]) and "To mend" in str(results[0])
        await chat.close()


async def test_a_refusal_ends_the_waiting_of_calls_that_are_backing_off():
    async with OpenAIServer(faults={"500": 1.0}) as server:
        chat = endpoint(server, backoff_s=50.0)
        waiting = asyncio.create_task(chat.complete(ask("first")))
        while server.stats.requests < 1:
            await asyncio.sleep(0.005)
        server.refuse = "401"
        with pytest.raises(EndpointRefused):
            await chat.complete(ask("second"))
        with pytest.raises(EndpointRefused):
            await asyncio.wait_for(waiting, 3)
        await chat.close()


async def test_a_key_that_the_server_repeats_is_shown_nowhere(monkeypatch, caplog):
    key = "very-secret-0123456789"
    monkeypatch.setenv("TEST_KEY", key)
    async with OpenAIServer(refuse="401") as server:
        chat = endpoint(server, api_key_env="TEST_KEY")
        with caplog.at_level("DEBUG"), pytest.raises(EndpointRefused) as caught:
            await chat.complete(ask())
        assert server.headers["authorization"] == f"Bearer {key}"
        await chat.close()
    assert "[key]" in str(caught.value) and "TEST_KEY" in str(caught.value)
    seen = f"{caught.value!r} {caught.value.__cause__!r} {chat.identity} {caplog.text}"
    assert key not in seen
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


async def test_context_overflow_and_content_filter_are_told_apart_and_stop_nothing():
    async with OpenAIServer(refuse="context") as server:
        chat = endpoint(server)
        with pytest.raises(ContextOverflow):
            await chat.complete(ask())
        server.refuse = "filter"
        with pytest.raises(ChatRefused):
            await chat.complete(ask())
        server.refuse, server.finish = "", "content_filter"
        with pytest.raises(ChatRefused):
            await chat.complete(ask())
        server.refuse, server.finish = "too_large", "stop"
        with pytest.raises(ChatFailure):
            await chat.complete(ask())
        assert server.stats.requests == 4
        server.refuse = ""
        await chat.complete(ask())
        await chat.close()


async def test_usage_that_the_server_leaves_out_is_estimated_and_marked():
    async with OpenAIServer(usage=False, script=lambda body: "x" * 9) as server:
        chat = endpoint(server)
        usage = (await chat.complete(ask("y" * 40))).usage
        await chat.close()
    assert usage.estimated
    assert (usage.prompt_tokens, usage.completion_tokens) == (3 + 4 + 10, 3)


async def test_rate_limits_cut_the_calls_in_flight_and_they_grow_back():
    async with OpenAIServer(latency=0.02, capacity=10) as server:
        chat = endpoint(server, concurrency=32, max_retries=50)
        replies = await asyncio.gather(*(chat.complete(ask(f"q{i}")) for i in range(200)))
        assert len(replies) == 200
        causes = [change.cause for change in chat.limit.history]
        assert causes[0] == "start" and causes.count("cut") >= 1
        lowest = min(change.limit for change in chat.limit.history)
        assert lowest <= 16
        server.capacity = None
        cuts = causes.count("cut")
        before = chat.limit.limit
        await asyncio.gather(*(chat.complete(ask(f"more{i}")) for i in range(200)))
        assert chat.limit.limit > before
        assert [c.cause for c in chat.limit.history].count("cut") == cuts
        await chat.close()


async def test_errors_that_are_no_rate_limit_do_not_cut():
    async with OpenAIServer(faults={"500": 0.3, "reset": 0.2}) as server:
        chat = endpoint(server, concurrency=16, max_retries=30)
        await asyncio.gather(*(chat.complete(ask(f"q{i}")) for i in range(100)))
        assert chat.limit.limit == 16
        await chat.close()


async def test_retry_after_silences_every_call():
    async with OpenAIServer(faults={"429": 1.0}, retry_after=0.4) as server:
        chat = endpoint(server)
        first = asyncio.create_task(chat.complete(ask("first")))
        while server.stats.faults["429"] < 1:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        server.faults = {}
        began = time.perf_counter()
        await chat.complete(ask("second"))
        assert time.perf_counter() - began > 0.3
        await first
        await chat.close()


async def test_requests_a_minute_are_never_exceeded():
    async with OpenAIServer(window=0.5) as server:
        chat = endpoint(server, requests_per_minute=6000)  # 50 in half a second
        chat._traffic.gate.paces[
            0
        ].credit = 0.0  # a credit for minutes would be most of this window
        await asyncio.gather(*(chat.complete(ask(f"q{i}")) for i in range(120)))
        assert 10 <= server.stats.most_per_window <= 55
        await chat.close()


async def test_tokens_a_minute_are_kept_and_unused_ones_given_back():
    async with OpenAIServer(script=lambda body: "ok") as server:
        # each call books 108 tokens, 1.09 s at 6,000 a minute, and uses 2 of them
        chat = endpoint(server, tokens_per_minute=6000)
        began = time.perf_counter()
        for i in range(4):
            await chat.complete(ask(f"q{i}", max_tokens=100))
        assert time.perf_counter() - began < 3
        assert chat._traffic.spend.wait() < 0.5
        await chat.close()
        # booked at once, they cannot be given back before the next one's turn
        many = endpoint(server, tokens_per_minute=60_000)
        many._traffic.spend.credit = 0.0
        server.latency = 1.0
        began = time.perf_counter()
        calls = [many.complete(ask(f"p{i}", max_tokens=100)) for i in range(6)]
        await asyncio.gather(*calls)
        assert time.perf_counter() - began > 1.5
        await many.close()


async def test_twenty_per_cent_of_mixed_faults_lose_nothing():
    kinds = ["429", "500", "503", "reset", "truncated", "empty", "model"]
    async with OpenAIServer(faults=dict.fromkeys(kinds, 0.2 / 7)) as server:
        chat = endpoint(server)
        replies = await asyncio.gather(*(chat.complete(ask(f"q{i}")) for i in range(300)))
        assert sum(server.stats.faults.values()) > 30
        assert set(server.stats.answered_by_content.values()) == {1}
        wanted = [f"reply {content_hash(body)}" for body in server.bodies]
        assert {r.text for r in replies} == set(wanted)
        await chat.close()


async def test_check_finds_the_model_or_says_what_is_wrong():
    async with OpenAIServer(key="the-right-key-123") as server:
        wrong = endpoint(server)
        with pytest.raises(EndpointRefused, match="OPENAI_API_KEY"):
            await wrong.check()
        await wrong.close()
    async with OpenAIServer() as server:
        chat = endpoint(server)
        await chat.check()
        assert server.stats.requests == 0
        server.refuse = "404"
        other = Endpoint("test-modle", base_url=server.base_url)
        with pytest.raises(EndpointRefused, match="Did you mean 'test-model'"):
            await other.check()
        await chat.close()
        await other.close()


async def test_check_tells_an_absent_server_within_five_seconds():
    chat = Endpoint("test-model", base_url="http://127.0.0.1:9/v1")
    began = time.perf_counter()
    with pytest.raises(UserError, match=r"No server answers at http://127\.0\.0\.1:9/v1"):
        await chat.check()
    assert time.perf_counter() - began < 5
    await chat.close()


async def test_a_server_that_is_gone_is_given_up_after_a_few_calls():
    chat = Endpoint("test-model", base_url="http://127.0.0.1:9/v1", max_retries=0)
    errors = [type(e) for e in [await _error(chat) for _ in range(7)]]
    assert errors == [ChatFailure] * 4 + [EndpointRefused] * 3
    await chat.close()


async def _error(chat: Endpoint) -> Exception:
    with pytest.raises((ChatFailure, EndpointRefused)) as caught:
        await chat.complete(ask())
    return caught.value


async def test_a_missing_key_is_named_and_an_env_file_serves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOME_KEY", raising=False)
    chat = Endpoint("m", base_url="https://api.example.invalid/v1", api_key_env="SOME_KEY")
    with pytest.raises(UserError, match="SOME_KEY"):
        await chat.complete(ask())
    (tmp_path / ".env").write_text("SOME_KEY=from-the-file\n")
    async with OpenAIServer(key="from-the-file") as server:
        chat = endpoint(server, api_key_env="SOME_KEY")
        assert (await chat.complete(ask())).text
        await chat.close()


def test_identity_holds_what_changes_a_reply_and_nothing_of_this_machine():
    one = Endpoint("m", base_url="http://localhost:8000/v1", concurrency=1, timeout_s=1)
    two = Endpoint("m", base_url="http://127.0.0.1:9000/v1", concurrency=9, max_retries=1)
    assert one.identity == two.identity
    for change in ({"extra_body": {"a": 1}}, {"variant": "awq"}, {"seed": 1}):
        assert Endpoint("m", base_url="http://localhost:8000/v1", **change).identity != one.identity
    json.dumps(one.identity)


def test_tokens_are_estimated_without_a_tokenizer_and_a_missing_one_is_named(monkeypatch):
    assert Endpoint("m").count_tokens("abcdefghi") == 3
    with pytest.raises(UserError, match=r"no-such-encoding.*tokenizer=null"):
        Endpoint("m", tokenizer="no-such-encoding").count_tokens("a")


async def test_an_endpoint_that_always_names_another_model_is_told_once():
    async with OpenAIServer(model="test-model-large") as server:
        chat = endpoint(server, concurrency=2)
        calls = (chat.complete(ask(f"q{i}")) for i in range(50))
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(r) for r in results} == {EndpointRefused}
        assert len({str(r) for r in results}) == 1
        assert "'test-model-large'" in str(results[0]) and "served_as" in str(results[0])
        assert server.stats.requests <= 6
        meant = endpoint(server, served_as="test-model-large")
        assert (await meant.complete(ask())).model == "test-model-large fp_test"
        for one in (chat, meant):
            await one.close()


async def test_a_dated_snapshot_may_answer_and_is_recorded():
    async with OpenAIServer(model="test-model-2024-07-18") as server:
        chat = endpoint(server)
        assert (await chat.complete(ask())).model == "test-model-2024-07-18 fp_test"
        await chat.close()


async def test_two_endpoints_of_one_model_keep_its_rate_together():
    async with OpenAIServer(window=0.5) as server:
        pair = [endpoint(server, requests_per_minute=6000, seed=s) for s in (None, 1)]
        pair[0]._traffic.gate.paces[0].credit = 0.0
        calls = [chat.complete(ask(f"q{i}")) for i in range(60) for chat in pair]
        await asyncio.gather(*calls)
        assert 10 <= server.stats.most_per_window <= 55
        other = endpoint(server, requests_per_minute=None)
        assert other.limit is not pair[0].limit
        for chat in (*pair, other):
            await chat.close()


async def test_silence_holds_for_those_who_wait_at_the_pace_already():
    async with OpenAIServer(retry_after=1.5) as server:
        chat = endpoint(server, requests_per_minute=120)  # one each half second
        await chat.complete(ask("first"))
        server.faults = {"429": 1.0}
        calls = [asyncio.create_task(chat.complete(ask(f"q{i}"))) for i in range(3)]
        while server.stats.requests < 2:
            await asyncio.sleep(0.001)
        server.faults = {}
        await asyncio.sleep(1.3)
        assert server.stats.requests <= 3  # one may have been on its way
        await asyncio.gather(*calls)
        await chat.close()


@pytest.mark.parametrize(
    "url",
    ["https://user:pw@host.org/v1", "https://host.org/v1?api-key=abc", "host.org/v1", "ftp://h/v1"],
)
def test_an_address_that_holds_a_key_or_is_none_is_refused(url):
    with pytest.raises(UserError, match="base_url") as caught:
        Endpoint("m", base_url=url)
    assert "pw" not in str(caught.value) and "abc" not in str(caught.value)


@pytest.mark.parametrize("name", ["sk-proj-0123456789", "gsk0123456789abcdefgh", "", "A B"])
def test_a_key_in_the_place_of_its_variables_name_is_refused_unseen(name):
    with pytest.raises(UserError, match="api_key_env") as caught:
        Endpoint("m", base_url="https://host.org/v1", api_key_env=name)
    assert not name or name not in str(caught.value)
    Endpoint("m", base_url="https://host.org/v1", api_key_env="MY_OWN_KEY_2")


@pytest.mark.parametrize("key", ["kéy-0123456789", "key 0123456789", "key\n0123456789"])
async def test_a_key_that_cannot_be_sent_is_refused_unseen(key, monkeypatch):
    monkeypatch.setenv("ODD_KEY", key)
    chat = Endpoint("m", base_url="http://127.0.0.1:9/v1", api_key_env="ODD_KEY")
    with pytest.raises(UserError, match="ODD_KEY") as caught:
        await chat.complete(ask())
    assert key not in str(caught.value)


async def test_roles_on_different_endpoints_keep_their_own_limits_and_refusals():
    async with OpenAIServer() as main, OpenAIServer(refuse="402", model="judge-model") as judge:
        one = endpoint(main, concurrency=4)
        two = Endpoint("judge-model", base_url=judge.base_url, concurrency=2)
        with pytest.raises(EndpointRefused, match="judge-model"):
            await two.complete(ask())
        assert (await one.complete(ask())).text.startswith("reply ")
        assert one.limit is not two.limit
        await one.close()
        await two.close()
