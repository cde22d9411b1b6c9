import json
from datetime import datetime

import pytest
from doubles import tools

from memsys.dialogue import Session, SessionNotes, Turn
from memsys.errors import UserError
from memsys.llm import ledger
from memsys.memgas.metadata import BOTH, Metadata, describe

TURNS = (Turn("1", "Ann", "I bought a boat."), Turn("2", "Bob", "Where?"), Turn("3", "Ann", "Oslo"))
WITH_BOT = (Turn("4", "user", "Hi", role="user"), Turn("5", "bot", "Hello", role="assistant"))
SESSIONS = [Session("s1", TURNS, datetime(2023, 5, 8, 13, 56)), Session("s2", WITH_BOT)]
GOOD = {"memgas/summary": " A boat. ", "memgas/keywords": "\nboat; Oslo\n"}


def script(replies):
    def reply(request, role, prompt):
        found = replies[prompt]
        return found[request.attempt] if isinstance(found, list) else found

    return reply


async def described(replies, sessions=SESSIONS, calls=2, window=128_000, **options):
    lent = tools(script(replies), window=window)
    options = {"source": "llm", "max_tokens": 500, "parts": BOTH} | options
    with ledger.scope("build") as account:
        found = await describe(sessions, lent, calls=calls, **options)
    return found, lent.chat, account.counts


async def test_two_calls_a_session() -> None:
    found, chat, counts = await described(GOOD)
    assert found == [Metadata("A boat.", "boat; Oslo")] * 2
    assert sorted(chat.prompts()) == ["memgas/keywords"] * 2 + ["memgas/summary"] * 2
    assert not counts
    for _, role, request in chat.calls:
        assert (role, request.temperature, request.max_tokens) == ("main", 0, 500)


async def test_the_prompt_shows_pairs_apart_and_says_who_talks() -> None:
    _, chat, _ = await described(GOOD)
    texts = [r.messages[-1].content for p, _, r in chat.calls if p == "memgas/summary"]
    assert "[Ann]: I bought a boat.\n[Bob]: Where?\n\n[Ann]: Oslo" in texts[0]
    assert "two people" in texts[0] and "a user and an assistant" in texts[1]


@pytest.mark.parametrize(("part", "prompt"), [("summary", "summary"), ("keywords", "keywords")])
async def test_only_the_parts_asked_for(part, prompt) -> None:
    found, chat, _ = await described(GOOD, parts=frozenset({part}))
    assert chat.prompts() == [f"memgas/{prompt}"] * 2
    assert bool(found[0].summary) != bool(found[0].keywords)
    found, chat, _ = await described({}, parts=frozenset())
    assert found == [Metadata()] * 2 and not chat.calls


async def test_empty_replies_are_retried_once() -> None:
    replies = {"memgas/summary": ["  ", "Late."], "memgas/keywords": ["", "boat"]}
    found, chat, counts = await described(replies, SESSIONS[:1])
    assert found == [Metadata("Late.", "boat")] and len(chat.calls) == 4
    assert counts == {"memgas.summary:retried": 1, "memgas.keywords:retried": 1}


async def test_empty_twice_falls_back() -> None:
    replies = {"memgas/summary": ["", "\n"], "memgas/keywords": ["", ""]}
    long = Session("s", tuple(Turn(str(i), "Ann", f"word{i}") for i in range(900)))
    found, _, counts = await described(replies, [long])
    assert found[0].keywords == ""
    assert len(found[0].summary.split()) == 512 and found[0].summary.startswith("[Ann]: word0")
    assert counts["memgas.summary:fallback"] == counts["memgas.keywords:fallback"] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"summary": "A boat.", "keywords": ["boat", " Oslo ", ""]}',
        '```json\n{"summary": "A boat.", "keywords": ["boat", "Oslo"]}\n```',
        'Sure! {"summary": "A boat.", "keywords": ["boat", "Oslo"]} Done.',
        '{"summary": "A boat.", "keywords": ["boat", "Oslo"',
    ],
)
async def test_one_merged_call(text) -> None:
    found, chat, _ = await described({"memgas/metadata": text}, calls=1)
    assert found == [Metadata("A boat.", "boat; Oslo")] * 2
    assert chat.prompts() == ["memgas/metadata"] * 2
    assert chat.calls[0][2].schema["required"] == ["summary", "keywords"]


@pytest.mark.parametrize(
    "text", ["", "no idea", "[]", '{"overview": "x"}', '{"summary": "", "keywords": []}', "ボート"]
)
async def test_a_merged_reply_that_cannot_be_read(text) -> None:
    found, chat, counts = await described({"memgas/metadata": text}, SESSIONS[:1], calls=1)
    assert found[0].keywords == "" and found[0].summary.startswith("[Ann]: I bought")
    assert len(chat.calls) == 2
    assert counts == {"memgas.metadata:retried": 1, "memgas.metadata:fallback": 1}


async def test_a_merged_reply_in_another_language_is_data() -> None:
    text = json.dumps({"summary": "ボート。", "keywords": ["オスロ"]}, ensure_ascii=False)
    found, _, _ = await described({"memgas/metadata": text}, SESSIONS[:1], calls=1)
    assert found == [Metadata("ボート。", "オスロ")]


@pytest.mark.parametrize("calls", [1, 2])
async def test_a_session_without_turns_costs_no_call(calls) -> None:
    found, chat, _ = await described(GOOD, [Session("s", ())], calls)
    assert found == [Metadata()] and not chat.calls


async def test_a_session_longer_than_the_window_is_cut_and_counted() -> None:
    long = Session("s", tuple(Turn(str(i), "Ann", f"word{i}") for i in range(900)))
    _, chat, counts = await described(GOOD, [long], window=1000)
    for _, _, request in chat.calls:
        assert chat.message_tokens(request.messages) <= 500
        assert "word0" in request.messages[-1].content
    assert counts["memgas.summary:cut_tokens"] > 1000


async def test_the_benchmarks_own_notes() -> None:
    noted = Session("s", TURNS, notes=SessionNotes("A boat.", "boat; oslo"))
    found, chat, _ = await described({}, [noted], source="dataset")
    assert found == [Metadata("A boat.", "boat; oslo")] and not chat.calls
    found, _, _ = await described({}, [noted], source="dataset", parts=frozenset({"summary"}))
    assert found == [Metadata("A boat.", "")]
    with pytest.raises(UserError, match=r"metadata=dataset.*'s1'"):
        await described({}, source="dataset")
