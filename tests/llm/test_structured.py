"""Reading structured replies leniently, and counting what was not clean."""

from __future__ import annotations

import pytest
from doubles import ScriptedChat
from pydantic import BaseModel

from memsys.llm import ledger
from memsys.llm.chat import Message, Messages
from memsys.llm.structured import ask_json, read_json


class Found(BaseModel):
    keywords: list[str]


ASK = Messages.of([Message("user", "keywords?")], "t/keywords@0")


@pytest.mark.parametrize(
    ("text", "value", "clean"),
    [
        ('{"keywords": ["a"]}', ["a"], True),
        (' {"keywords": []}\n', [], True),
        ('```json\n{"keywords": ["a"]}\n```', ["a"], False),
        ('Sure! Here: {"keywords": ["a", "b"]} Hope it helps.', ["a", "b"], False),
        ('{"keywords": ["a", "b', ["a", "b"], False),
        ('{"note": 1} {"keywords": ["last"]}', ["last"], False),
        ('{"words": ["a"]}', None, False),
        ("", None, False),
        ("关键词:猫", None, False),
        ("[1, 2]", None, False),
        ('{"keywords": "a"}', None, False),
    ],
)
def test_reading(text: str, value: list[str] | None, clean: bool) -> None:
    found, was_clean = read_json(text, Found)
    assert (found.keywords if found else None) == value
    assert was_clean is clean


async def test_a_malformed_reply_is_asked_again_as_a_new_attempt() -> None:
    chat = ScriptedChat(lambda r, role, p: "nonsense" if r.attempt == 0 else '{"keywords": ["x"]}')
    with ledger.scope("build") as account:
        found = await ask_json(chat, ASK, Found, role="auxiliary", max_tokens=8, event="kw")
    assert found.value == Found(keywords=["x"])
    assert [request.attempt for _, _, request in chat.calls] == [0, 1]
    assert dict(account.counts) == {"kw:retried": 1}
    assert len(account.calls) == 2


async def test_after_all_attempts_there_is_no_value_and_a_counted_fallback() -> None:
    chat = ScriptedChat(lambda r, role, p: "nonsense")
    with ledger.scope("build") as account:
        found = await ask_json(chat, ASK, Found, role="main", max_tokens=8, event="kw")
    assert found.value is None
    assert found.text == "nonsense"
    assert dict(account.counts) == {"kw:retried": 1, "kw:fallback": 1}


async def test_a_repaired_reply_is_counted() -> None:
    chat = ScriptedChat(lambda r, role, p: '```{"keywords": ["x"]}```')
    with ledger.scope("build") as account:
        await ask_json(chat, ASK, Found, role="main", max_tokens=8, event="kw")
    assert dict(account.counts) == {"kw:repaired": 1}
