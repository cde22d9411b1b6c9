import asyncio
import re
from datetime import datetime
from itertools import pairwise

import numpy as np
import pytest
from doubles import HashEncoder, tools
from hypothesis import given
from hypothesis import strategies as st
from methodconfig import check_method_config

from baselines.llm_rsum import LlmRsum, LlmRsumAsk, LlmRsumBuild
from baselines.llm_rsum.states import new_sentences, read_state, sentences, speaker_names
from memsys.dialogue import Query, Session, Turn
from memsys.llm import ledger

WORDS = ("oslo", "ski", "mia")


class WordCounts(HashEncoder):
    """Cosine of these vectors is the cosine of bags of three words."""

    async def encode(self, texts, *, kind="passage"):
        counts = [[len(re.findall(rf"\b{w}\b", t.lower())) for w in WORDS] for t in texts]
        rows = np.array(counts, np.float32).reshape(-1, len(WORDS))
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def session(n, text):
    turns = (Turn(f"{n}:1", "Ann", text), Turn(f"{n}:2", "Ben", "I see."))
    return Session(f"s{n}", turns, datetime(2023, 5, n))


SESSIONS = [session(1, "Oslo"), session(2, "ski"), session(3, "Oslo, Mia")]


def union(request, role, prompt):
    """Returns old ⊕ keywords of the session, as one sentence a keyword."""
    if prompt != "llm_rsum/update":
        return "an answer"
    text = request.messages[-1].content
    found = {w for w in ("Oslo", "ski", "Mia") if re.search(rf"\b{w}\b", text)}
    return " ".join(f"{w}." for w in sorted(found))


def rsum(script=union, encoder=None, window=128_000, ask=None, **build):
    lent = tools(script, encoder or WordCounts(3), window)
    return LlmRsum(LlmRsumBuild(**build), ask or LlmRsumAsk(), lent)


def ask(system, memory, text):
    return asyncio.run(system.recall(memory, Query(text)))


def test_worked_example_states():
    system = rsum()
    memory = asyncio.run(system.remember(None, SESSIONS))
    assert [u.text for u in memory.units] == ["Oslo.", "Oslo. ski.", "Mia. Oslo. ski."]
    assert system.tools.chat.prompts() == ["llm_rsum/update"] * 3
    prompts = [call[2].messages[-1].content for call in system.tools.chat.calls]
    assert "Previous memory: Empty" in prompts[0]
    assert "Previous memory: Oslo.\n" in prompts[1]
    assert "Previous memory: Oslo. ski.\n" in prompts[2]
    assert "[2 May 2023, 12:00 am]\nAnn: ski\nBen: I see." in prompts[1]


@pytest.mark.parametrize(
    ("question", "sessions", "scores"),
    [
        ("ski", ("s2", "s3", "s1"), (0.7071, 0.5774, 0.0)),
        ("Mia", ("s3", "s1", "s2"), (0.5774, 0.0, 0.0)),
        ("Oslo", ("s1", "s2", "s3"), (1.0, 0.7071, 0.5774)),
    ],
)
def test_worked_example_ranking(question, sessions, scores):
    system = rsum()
    memory = asyncio.run(system.remember(None, SESSIONS))
    found = ask(system, memory, question)
    assert found.sessions == sessions
    assert [r.score for r in found.ranking] == pytest.approx(scores, abs=5e-5)


def test_worked_example_delta():
    system = rsum(rank_text="delta")
    memory = asyncio.run(system.remember(None, SESSIONS))
    found = ask(system, memory, "ski")
    assert found.sessions[0] == "s2"
    assert [r.score for r in found.ranking] == pytest.approx([1, 0, 0], abs=1e-6)


def test_context_is_dated_states_in_rank_order_or_the_last_memory():
    system = rsum(ask=LlmRsumAsk(top_k=2))
    memory = asyncio.run(system.remember(None, SESSIONS))
    found = ask(system, memory, "ski")
    assert found.context == (
        "[2 May 2023, 12:00 am]\nOslo. ski.\n\n[3 May 2023, 12:00 am]\nMia. Oslo. ski."
    )
    assert len(found.ranking) == 2 and len(found.sessions) == 3
    original = rsum(ask=LlmRsumAsk(context="final_memory"))
    assert ask(original, memory, "ski").context == "Mia. Oslo. ski."


def test_one_answer_call_a_question_and_none_at_recall():
    system = rsum()
    memory = asyncio.run(system.remember(None, SESSIONS))
    ask(system, memory, "ski")
    assert len(system.tools.chat.calls) == 3
    assert asyncio.run(system.answer(memory, Query("ski"))).text == "an answer"
    assert len(system.tools.chat.calls) == 4


def test_session_by_session_gives_the_same_memory():
    whole = asyncio.run(rsum().remember(None, SESSIONS))
    grown, system = None, rsum()
    for one in SESSIONS:
        grown = asyncio.run(system.remember(grown, [one]))
    assert grown.units == whole.units and grown.sessions == whole.sessions
    np.testing.assert_array_equal(grown.arrays["vectors"], whole.arrays["vectors"])
    assert asyncio.run(system.remember(grown, [])).units == whole.units


def test_read_state():
    assert read_state("Ann skis.\nBen cooks.\n") == "Ann skis. Ben cooks."
    assert read_state("Sure!\nUpdated memory: Ann skis.") == "Ann skis."
    assert read_state(" \n ") == read_state("Empty.") == read_state("updated memory: empty") == ""
    assert sentences("A b. C d! E?") == ["A b.", "C d!", "E?"]
    assert new_sentences("A b. C d!", "a b.") == "C d!"


def test_speaker_names():
    assert speaker_names(SESSIONS[0]) == "Ann and Ben"
    assert speaker_names(Session("s", ())) == ""
    assert speaker_names(Session("s", (Turn("1", "Ann", "Hi"),))) == "Ann"


def test_an_empty_reply_keeps_the_previous_memory_and_is_counted():
    replies = iter(["Ann skis.", "  \n", "Updated memory: Empty", "Ann sails."])
    system = rsum(lambda *_: next(replies))
    with ledger.scope("build") as account:
        memory = asyncio.run(system.remember(None, [*SESSIONS, session(4, "sail")]))
    assert [u.text for u in memory.units] == ["Ann skis.", "Ann skis.", "Ann skis.", "Ann sails."]
    assert account.counts == {"llm_rsum.empty_state": 2}


def test_more_than_the_allowed_sentences_stay_and_are_counted():
    system = rsum(lambda *_: "A. B. C.", max_sentences=2)
    with ledger.scope("build") as account:
        memory = asyncio.run(system.remember(None, SESSIONS[:1]))
    assert memory.units[0].text == "A. B. C."
    assert account.counts == {"llm_rsum.long_state": 1}


def test_a_long_session_is_cut_to_the_window_and_counted():
    system = rsum(window=300, max_tokens=50)
    long = Session("s1", (Turn("1", "Ann", "Oslo " + "word " * 500),))
    with ledger.scope("build") as account:
        memory = asyncio.run(system.remember(None, [long]))
    chat = system.tools.chat
    assert chat.message_tokens(chat.calls[0][2].messages) <= 250
    assert account.counts["llm_rsum.update:cut_tokens"] > 250
    assert memory.units[0].text == "Oslo."


def test_a_session_without_turns_costs_no_call():
    system = rsum()
    memory = asyncio.run(system.remember(None, [SESSIONS[0], Session("s2", ())]))
    assert [u.text for u in memory.units] == ["Oslo.", "Oslo."]
    assert len(system.tools.chat.calls) == 1


def test_an_empty_memory_recalls_nothing():
    system = rsum()
    memory = asyncio.run(system.remember(None, []))
    assert ask(system, memory, "ski").sessions == ()


@given(st.lists(st.text(max_size=60), min_size=3, max_size=3))
def test_no_reply_crashes_or_loses_a_session(replies):
    left = iter(replies)
    system = rsum(lambda *_: next(left), HashEncoder(4))
    memory = asyncio.run(system.remember(None, SESSIONS))
    assert memory.sessions == ("s1", "s2", "s3")
    assert memory.array("vectors").shape == (3, 4)
    states = [u.text for u in memory.units]
    assert all(not old or new for old, new in pairwise(states))
    assert sorted(ask(system, memory, "ski").sessions) == ["s1", "s2", "s3"]


def test_config():
    config = check_method_config("llm_rsum", LlmRsumBuild, LlmRsumAsk)
    assert config["_target_"] == "baselines.llm_rsum.LlmRsum"
