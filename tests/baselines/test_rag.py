from datetime import datetime

import numpy as np
import pytest
from doubles import HashEncoder, TableEncoder, tools
from hypothesis import given
from hypothesis import strategies as st
from methodconfig import check_method_config

from baselines.rag import RAG, RAGAsk, RAGBuild
from baselines.rag.system import inner_products
from memsys.dialogue import Query, Session, Turn
from memsys.rendering import span_text, turn_pairs

QUERY = Query("Which one?")
VECTORS = [(1.0, 0.0), (0.6, 0.8), (0.0, 1.0), (0.8, 0.6)]
SESSIONS = [
    Session("A", (Turn("1", "Ann", "one"), Turn("2", "Ann", "two")), datetime(2023, 1, 1, 9, 0)),
    Session("B", (Turn("3", "Ann", "three"), Turn("4", "Ann", "four")), datetime(2023, 1, 2, 9, 0)),
]
TEXTS = [f"[{day} January 2023, 9:00 am]\nAnn: {word}"
         for day, word in ((1, "one"), (1, "two"), (2, "three"), (2, "four"))]  # fmt: skip


def rag(lent, unit="turn", **ask) -> RAG:
    return RAG(RAGBuild(memory_unit=unit), RAGAsk(**ask), lent)


def plane(script=None):
    return tools(script, TableEncoder(dict(zip([*TEXTS, QUERY.text], [*VECTORS, (0.8, 0.6)]))))


async def test_worked_example() -> None:
    mg = rag(plane(), top_k=2)
    memory = await mg.remember(None, SESSIONS)
    assert [unit.text for unit in memory.units] == TEXTS
    recall = await mg.recall(memory, QUERY)
    assert [r.unit for r in recall.ranking] == ["B:1", "A:1", "A:0", "B:0"]
    assert [r.score for r in recall.ranking] == pytest.approx([1.00, 0.96, 0.80, 0.60])
    assert recall.sessions == ("B", "A")
    assert recall.context == f"{TEXTS[1]}\n\n{TEXTS[3]}"  # in time order: 2, 4
    assert recall.trace["shown"] == ["A:1", "B:1"]


async def test_similarity_order_is_a_setting_of_asking() -> None:
    lent = plane()
    memory = await rag(lent).remember(None, SESSIONS)
    recall = await rag(lent, top_k=2, context_order="similarity").recall(memory, QUERY)
    assert recall.context == f"{TEXTS[3]}\n\n{TEXTS[1]}"


async def test_one_answer_call_and_the_control_row_with_one_more() -> None:
    def script(request, role, prompt):
        return "a long answer" if prompt == "protocol/answer" else '{"answer": "short"}'

    lent = plane(script)
    memory = await rag(lent).remember(None, SESSIONS)
    assert lent.chat.calls == []
    answer = await rag(lent, top_k=2).answer(memory, QUERY)
    assert answer.text == "a long answer" and lent.chat.prompts() == ["protocol/answer"]
    rewritten = await rag(lent, top_k=2, rewrite=True).answer(memory, QUERY)
    assert rewritten.text == "short"
    assert lent.chat.prompts()[1:] == ["protocol/answer", "mgretrieval/rewrite_locomo"]
    assert TEXTS[1] in lent.chat.calls[-1][2].messages[-1].content
    assert {role for _, role, _ in lent.chat.calls} == {"main"}


async def test_session_by_session_equals_all_at_once() -> None:
    at_once = await rag(tools(), "exchange").remember(None, SESSIONS)
    memory = None
    for session in [*SESSIONS, Session("C", ())]:
        memory = await rag(tools(), "exchange").remember(memory, [session])
    assert memory is not None
    assert (memory.units, memory.sessions) == (at_once.units, ("A", "B", "C"))
    assert np.array_equal(memory.arrays["vectors"], at_once.arrays["vectors"])


async def test_an_exchange_is_one_vector() -> None:
    session = Session(
        "A", (Turn("1", "Ann", "Hi!"), Turn("2", "Ben", "Hello."), Turn("3", "Ben", "So?"))
    )
    encoder = HashEncoder()
    memory = await rag(tools(encoder=encoder), "exchange").remember(None, [session])
    assert [unit.turns for unit in memory.units] == [("1", "2"), ("3",)]
    assert (
        memory.arrays["vectors"].shape == (2, 32) and memory.arrays["vectors"].dtype == np.float32
    )
    assert encoder.texts[0] == span_text(turn_pairs(session)[0], "") == "Ann: Hi!\nBen: Hello."


async def test_equal_units_rank_in_time_order_and_an_empty_memory_is_no_error() -> None:
    same = [Session(f"s{i}", (Turn(f"{i}", "Ann", "the same words"),)) for i in range(40)]
    system = rag(tools(), top_k=3)
    memory = await system.remember(None, same)
    recall = await system.recall(memory, Query("which words"))
    assert [r.unit for r in recall.ranking] == [f"s{i}:0" for i in range(40)]
    empty = await system.remember(None, [])
    assert (await system.recall(empty, QUERY)).ranking == ()


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_equal_rows_have_equal_scores_wherever_they_stand(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 33)).astype(np.float32)
    rows[-1] = rows[0]
    query = rng.standard_normal(33).astype(np.float32)
    scores = inner_products(rows, query)
    assert scores[0] == scores[-1]
    assert np.allclose(scores, rows.astype(float) @ query.astype(float))
    assert np.array_equal(scores[:2], inner_products(rows[:2], query))


def test_needs_and_defaults() -> None:
    system = rag(tools())
    assert system.needs("remember") == system.needs("recall") == {"encoder"}
    assert system.needs("answer") == {"encoder", "main"}
    assert check_method_config("rag", RAGBuild, RAGAsk)["_target_"] == "baselines.rag.RAG"
    ask = RAGAsk()
    assert (ask.top_k, ask.context_order, ask.rewrite) == (20, "time", False)
    assert RAGBuild().memory_unit == "exchange"
