from datetime import datetime

import numpy as np
from doubles import tools
from methodconfig import check_method_config

from baselines.bm25 import Bm25, Bm25Ask, Bm25Build
from memsys.dialogue import Query, Session, Turn

TEXTS = ["I sold the boat", "A cello in Oslo", "rain and rain again", "A cello, a boat, a cello"]
SESSIONS = [
    Session(f"s{i}", (Turn(f"D{i}:1", "Ann", text),), datetime(2023, 5, 1 + i, 9, 0))
    for i, text in enumerate(TEXTS)
]


def script(request, role, prompt):
    return "kept" if prompt == "memgas/filter" else "answer"


def bm25(lent=None, **ask):
    return Bm25(Bm25Build(), Bm25Ask.model_validate(ask), lent or tools(script))


async def test_ranks_sessions_by_their_words() -> None:
    system = bm25(top_k=2)
    memory = await system.remember(None, SESSIONS)
    recall = await system.recall(memory, Query("Whose cello?"))
    assert recall.sessions == ("s3", "s1", "s0", "s2")  # no hit: in time order
    assert [r.unit for r in recall.ranking] == ["s3-session", "s1-session"]
    assert recall.context == (
        "Session Date: 4 May 2023, 9:00 am\n[Ann]: A cello, a boat, a cello\n\n"
        "Session Date: 2 May 2023, 9:00 am\n[Ann]: A cello in Oslo"
    )


async def test_growing_equals_building_at_once() -> None:
    system = bm25()
    grown = None
    for session in SESSIONS:
        grown = await system.remember(grown, [session])
    at_once = await system.remember(None, SESSIONS)
    assert grown.units == at_once.units and grown.state == at_once.state
    for name, array in at_once.arrays.items():
        np.testing.assert_array_equal(grown.arrays[name], array)
    queries = [Query("boat"), Query("rain"), Query("")]
    for query, recall in zip(queries, await system.recall_many(at_once, queries)):
        assert await system.recall(grown, query) == recall


async def test_reads_no_more_of_a_session_than_the_encoder() -> None:
    short = Bm25(Bm25Build(first_pieces=3), Bm25Ask(), tools(script))
    assert short.needs("retrieve") == {"encoder"}
    memory = await short.remember(None, SESSIONS)
    assert sorted(memory.state["vocabulary"]) != sorted(
        (await bm25().remember(None, SESSIONS)).state["vocabulary"]
    )
    assert "oslo" not in memory.state["vocabulary"]  # the last word of "[Ann]: A cello in Oslo"
    assert memory.units[1].text.endswith("A cello in Oslo")  # the context still holds all of it


async def test_calls_and_needs() -> None:
    lent = tools(script)
    system = bm25(lent)
    memory = await system.remember(None, SESSIONS)
    assert not lent.chat.calls and not system.needs("retrieve")
    assert (await system.answer(memory, Query("boat"))).text == "answer"
    assert lent.chat.prompts() == ["protocol/answer"]
    answer = await bm25(lent, filter={"enabled": True}).answer(memory, Query("boat"))
    assert lent.chat.prompts()[1:] == ["memgas/filter", "protocol/answer"]
    assert answer.recall.context.endswith("\nkept")
    assert system.needs("remember") == system.needs("recall") == frozenset()
    assert system.needs("answer") == {"main"}


async def test_tiny_memories() -> None:
    system = bm25()
    assert (await system.recall(await system.remember(None, []), Query("x"))).sessions == ()
    memory = await system.remember(None, [Session("s", ())])
    assert (await system.recall(memory, Query("x"))).sessions == ("s",)


def test_config() -> None:
    check_method_config("bm25", Bm25Build, Bm25Ask)
