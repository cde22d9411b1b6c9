"""Roles, stored replies, the ledger, and cutting to a number of tokens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fakes import FakeBackend

from memsys.errors import ChatFailure
from memsys.llm import ledger
from memsys.llm.chat import Message, Messages, Reply, Request, Usage
from memsys.llm.replies import StoredReplies, reply_key
from memsys.llm.roles import RoleChat


@pytest.fixture(autouse=True)
def clean():
    FakeBackend.requests.clear()
    FakeBackend.failing.clear()


def ask(text: str) -> Messages:
    return Messages.of([Message("user", text)], "t/p@1")


def chat(tmp_path: Path, **backends) -> RoleChat:
    return RoleChat(backends or {"main": FakeBackend()}, StoredReplies(tmp_path))


async def test_a_call_is_made_once_over_roles_processes_and_time(tmp_path) -> None:
    shared = FakeBackend()
    first = chat(tmp_path, main=shared, auxiliary=shared)
    one = await first.reply(ask("hello"), role="main", max_tokens=8)
    two = await first.reply(ask("hello"), role="auxiliary", max_tokens=8)
    later = await chat(tmp_path).reply(ask("hello"), role="main", max_tokens=8)
    assert (one.cached, two.cached, later.cached) == (False, True, True)
    assert one.text == two.text == later.text
    assert later.usage == one.usage
    assert len(FakeBackend.requests) == 1


async def test_identical_calls_in_flight_are_made_once(tmp_path) -> None:
    slow = chat(tmp_path, main=FakeBackend(delay=0.02))
    replies = await asyncio.gather(
        *(slow.reply(ask("same"), role="main", max_tokens=8) for _ in range(5))
    )
    assert len(FakeBackend.requests) == 1
    assert sorted(r.cached for r in replies) == [False, True, True, True, True]


async def test_a_failure_reaches_all_who_wait_and_is_not_stored(tmp_path) -> None:
    FakeBackend.failing.add("bad")
    slow = chat(tmp_path, main=FakeBackend(delay=0.02))
    results = await asyncio.gather(
        *(slow.reply(ask("bad"), role="main", max_tokens=8) for _ in range(3)),
        return_exceptions=True,
    )
    assert [type(r) for r in results] == [ChatFailure] * 3
    FakeBackend.failing.clear()
    assert (await slow.reply(ask("bad"), role="main", max_tokens=8)).cached is False


@pytest.mark.parametrize(
    "change",
    [
        {"messages": (Message("system", "hello"),)},
        {"max_tokens": 9},
        {"temperature": 0.5},
        {"schema": {"type": "object"}},
        {"attempt": 1},
        {"sample": 1},
    ],
)
def test_whatever_can_change_a_reply_changes_its_key(change) -> None:
    base = {"messages": (Message("user", "hello"),), "max_tokens": 8}
    one, other = Request(**base), Request(**{**base, **change})
    assert reply_key(FakeBackend(), one) != reply_key(FakeBackend(), other)
    assert reply_key(FakeBackend("a"), one) != reply_key(FakeBackend("b"), one)


def test_what_cannot_change_a_reply_is_no_part_of_its_key() -> None:
    request = Request((Message("user", "hello"),), 8)
    assert reply_key(FakeBackend(delay=0), request) == reply_key(FakeBackend(delay=1), request)


class Thinker(FakeBackend):
    async def complete(self, request: Request) -> Reply:
        return Reply(request.messages[0].content, Usage(1, 1), 0.0, model="thinker")


@pytest.mark.parametrize(
    ("raw", "text", "stripped"),
    [
        ("<think>hm</think>\n\nParis", "Paris", 1),
        ("  <think>a\nb</think>Paris", "Paris", 1),
        ("<think>never ends", "", 1),
        ("Paris", "Paris", 0),
        ("He said <think>x</think> aloud", "He said <think>x</think> aloud", 0),
    ],
)
async def test_thinking_is_stripped_from_every_role_and_counted(
    tmp_path, raw: str, text: str, stripped: int
) -> None:
    model = chat(tmp_path, judge=Thinker())
    with ledger.scope("judge") as account:
        reply = await model.reply(ask(raw), role="judge", max_tokens=8)
    assert reply.text == text
    assert account.counts["think_stripped"] == stripped


async def test_calls_are_entered_on_the_account_that_is_open_where_they_happen(tmp_path) -> None:
    model = chat(tmp_path)

    async def question(text: str) -> ledger.Account:
        with ledger.scope("question") as account:
            await asyncio.gather(
                *(model.reply(ask(f"{text} {i}"), role="main", max_tokens=8) for i in range(3))
            )
        return account

    one, two = await asyncio.gather(question("a"), question("b"))
    assert len(one.calls) == len(two.calls) == 3
    assert {call.prompt for call in one.calls} == {"t/p@1"}
    assert one.calls[0].plain()["phase"] == "question"


async def test_schema_calls_say_whether_their_reply_is_valid(tmp_path) -> None:
    model = chat(tmp_path, main=Thinker())
    schema = {"type": "object", "required": ["a"]}
    with ledger.scope("question") as account:
        for text in ('{"a": 1}', '{"b": 1}', "prose"):
            await model.reply(ask(text), role="main", max_tokens=8, schema=schema)
    assert [call.valid for call in account.calls] == [True, False, False]


def test_cutting_keeps_whole_words_of_the_asked_end(tmp_path) -> None:
    model = chat(tmp_path)
    text = "one two  three\nfour five"
    assert model.cut(text, 9) == text
    assert model.cut(text, 2) == "one two"
    assert model.cut(text, 2, keep="end") == "four five"
    assert model.cut(text, 3, keep="end") == "three\nfour five"
    assert model.cut(text, 0) == ""
