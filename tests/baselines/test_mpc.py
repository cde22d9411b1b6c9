import asyncio
import json
from datetime import datetime

import numpy as np
import pytest
from doubles import HashEncoder, TableEncoder, tools
from hypothesis import given
from hypothesis import strategies as st
from methodconfig import check_method_config

from baselines.mpc import Mpc, MpcAsk, MpcBuild
from baselines.mpc.modules import Processed, bullets
from memsys.dialogue import Query, Session, Turn
from memsys.llm import ledger
from memsys.rendering import session_text


def session(n, exchanges=1, day=None):
    turns = [
        Turn(f"{n}:{i}", "Ann" if i % 2 == 0 else "Ben", f"line {n} {i}")
        for i in range(2 * exchanges)
    ]
    return Session(f"s{n}", tuple(turns), datetime(2023, 5, day or n))


SESSIONS = [session(1), session(2), session(3)]
VECTORS = {session_text(s): v for s, v in zip(SESSIONS, [(1, 0), (0.6, 0.8), (0, 1)], strict=True)}
TABLE = TableEncoder({**VECTORS, "Where?": (0.8, 0.6), "Where does Mia live?": (0.28, 0.96)})
STATEMENT = json.dumps({"reasoning": "2 says so", "useful": [2], "memory": "Mia lives in Oslo."})


def script(**replies):
    stock = {"clarify": "Where does Mia live?#", "process": STATEMENT, "answer": "Oslo", **replies}
    return lambda request, role, prompt: stock[prompt.split("/")[1]]


def mpc(reply=None, encoder=TABLE, window=128_000, build=None, **ask):
    return Mpc(MpcBuild(**(build or {})), MpcAsk(**ask), tools(reply or script(), encoder, window))


def remembered(system, sessions=SESSIONS):
    return asyncio.run(system.remember(None, sessions))


def answer(system, memory=None, text="Where?"):
    memory = memory or remembered(system)
    return asyncio.run(system.answer(memory, Query(text)))


def test_worked_example_plain_query():
    system = mpc(clarifier=False)
    found = asyncio.run(system.recall(remembered(system), Query("Where?")))
    assert found.sessions == ("s2", "s1", "s3")
    assert [r.score for r in found.ranking] == pytest.approx([0.96, 0.80, 0.60])
    assert system.tools.chat.calls == []


def test_worked_example_clarified_query():
    system = mpc()
    found = asyncio.run(system.recall(remembered(system), Query("Where?")))
    assert found.sessions == ("s3", "s2", "s1")
    assert [r.score for r in found.ranking] == pytest.approx([0.96, 0.936, 0.28])
    assert found.trace == {"clarified": "Where does Mia live?"}


def test_worked_example_context_and_calls():
    system = mpc()
    found = answer(system)
    lines = found.recall.context.split("\n\n")
    assert lines[0] == "Mia lives in Oslo."
    assert [part.split("\n")[1] for part in lines[1:]] == [
        "[Ann]: line 3 0", "[Ann]: line 2 0", "[Ann]: line 1 0",
    ]  # fmt: skip
    assert found.trace["useful"] == [2]
    assert system.tools.chat.prompts() == ["mpc/clarify", "mpc/process", "protocol/answer"]
    plain = mpc(memory_processor=False)
    answer(plain)
    assert plain.tools.chat.prompts() == ["mpc/clarify", "protocol/answer"]


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "I think memory 2.",
        '{"useful": [2]}',
        '{"memory": ""}',
        "```json\n[]\n```",
        "Oslo にいる",
    ],
)
def test_a_malformed_statement_leaves_the_sessions_alone(bad):
    system = mpc(script(process=bad))
    with ledger.scope("question") as account:
        found = answer(system)
    assert found.recall.context.startswith("[3 May 2023")
    assert found.text == "Oslo" and "memory" not in found.trace
    retried = bad != '{"memory": ""}'
    assert account.counts["mpc.process:fallback"] == retried
    assert len(system.tools.chat.calls) == 3 + retried


@pytest.mark.parametrize(
    ("text", "useful"),
    [
        (f"Sure:\n```json\n{STATEMENT}\n```", [2]),
        ('{"useful": ["2", "x", 9, null], "memory": "Mia lives in Oslo."}', [2]),
        ('{"useful": 2, "memory": "Mia lives in Oslo."', [2]),
    ],
)
def test_a_statement_is_read_leniently(text, useful):
    found = answer(mpc(script(process=text)))
    assert found.recall.context.startswith("Mia lives in Oslo.\n\n")
    assert found.trace["useful"] == useful


def test_useful_keeps_numbers_only():
    assert Processed.model_validate({"useful": ["1.", " 2 ", "²", {}], "memory": ""}).useful == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ("Where does Mia live?", "Where does Mia live?"),  # no marker: nothing is cut
        (" Where does\n Mia live? # Speakers:", "Where does Mia live?"),
        ("", "Where?"),
        ("#", "Where?"),
    ],
)
def test_the_clarifier_cuts_at_the_marker_only(reply, question):
    system = mpc(script(clarify=reply))
    found = asyncio.run(system.recall(remembered(system), Query("Where?")))
    assert found.trace["clarified"] == question


def test_the_original_answers_from_the_statement_alone():
    found = answer(mpc(context="statement"))
    assert found.recall.context == "Mia lives in Oslo."
    assert answer(mpc(script(process="?"), context="statement")).recall.context.count("\n\n") == 2


def test_the_clarifier_knows_speakers_and_date_but_the_answer_prompt_has_the_question():
    system = mpc()
    memory = remembered(system)
    asyncio.run(system.answer(memory, Query("Where?", datetime(2023, 6, 1))))
    asked = system.tools.chat.calls[0][2].messages[-1].content
    assert asked == "Speakers: Ann and Ben\nDate: 1 June 2023, 12:00 am\nQuestion: Where?"
    assert system.tools.chat.calls[-1][2].messages[-1].content.endswith("\n\nWhere?")


def test_no_call_at_construction_over_sessions():
    system = mpc()
    remembered(system)
    assert system.tools.chat.calls == [] and "main" not in system.needs("remember")


FACTS = json.dumps({"facts": ["Ann skis.", " ", "Ben cooks."]})


def test_worked_example_facts():
    system = mpc(script(summarise=FACTS), HashEncoder(), build={"memory": "facts"})
    memory = remembered(system, [session(1, 7)])
    assert system.tools.chat.prompts() == ["mpc/summarise"] * 3
    assert [len(u.turns) for u in memory.units] == [6, 6, 6, 6, 2, 2]
    assert [u.text for u in memory.units[:2]] == ["Ann skis.", "Ben cooks."]
    shown = system.tools.chat.calls[2][2].messages[-1].content
    assert shown == "Ann: line 1 12\nBen: line 1 13"


def test_a_session_is_ranked_by_its_best_fact():
    facts = {1: ["a", "b"], 2: ["c"], 3: []}

    def reply(request, role, prompt):
        return json.dumps({"facts": facts[int(request.messages[-1].content.split()[2])]})

    table = TableEncoder({"a": (0.1, 0), "b": (0.9, 0), "c": (0.5, 0), "q": (1, 0)})
    system = mpc(reply, table, build={"memory": "facts"}, clarifier=False)
    found = asyncio.run(system.recall(remembered(system), Query("q")))
    assert found.sessions == ("s1", "s2", "s3")
    assert found.context.split("\n\n")[0] == "[1 May 2023, 12:00 am]\nb"


def test_bullets_are_read_and_prose_holds_no_fact():
    assert bullets("Facts:\n- Ann skis.\n - Ben cooks.\nok") == ["Ann skis.", "Ben cooks."]
    build = {"memory": "facts"}
    system = mpc(script(summarise="- Ann skis.\n- Ben cooks."), HashEncoder(), build=build)
    assert [u.text for u in remembered(system, [session(1)]).units] == ["Ann skis.", "Ben cooks."]
    with ledger.scope("build") as account:
        lost = remembered(mpc(script(summarise="Nothing."), HashEncoder(), build=build))
    assert lost.units == () and lost.sessions == ("s1", "s2", "s3")
    assert account.counts["mpc.summarise:lost"] == 3


def test_an_empty_pool_is_answered_without_processing():
    system = mpc(script(summarise="Nothing."), HashEncoder(), build={"memory": "facts"})
    found = answer(system)
    assert found.recall.context == "" and found.recall.sessions == ("s1", "s2", "s3")
    assert system.tools.chat.prompts()[-1] == "protocol/answer"
    assert "mpc/process" not in system.tools.chat.prompts()


@pytest.mark.parametrize("kind", ["sessions", "facts"])
def test_session_by_session_gives_the_same_memory(kind):
    system = mpc(script(summarise=FACTS), HashEncoder(), build={"memory": kind})
    sessions = [session(1, 4), session(2, 1), session(3, 7)]
    whole, grown = remembered(system, sessions), None
    for one in sessions:
        grown = asyncio.run(system.remember(grown, [one]))
    assert (grown.units, grown.sessions, grown.state) == (whole.units, whole.sessions, whole.state)
    np.testing.assert_array_equal(grown.arrays["vectors"], whole.arrays["vectors"])


def test_long_memories_are_cut_to_the_window_and_counted():
    long = Session("s1", (Turn("1", "Ann", "word " * 3000),))
    system = mpc(encoder=HashEncoder(), window=1500)
    with ledger.scope("question") as account:
        found = answer(system, remembered(system, [long]))
    assert account.counts["mpc.process:cut_tokens"] > 1000
    assert found.recall.context.startswith("Mia lives in Oslo.")
    chat = system.tools.chat
    assert chat.message_tokens(chat.calls[1][2].messages) <= 1500 - 512


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_no_reply_crashes_or_loses_a_session(clarified, processed, summarised):
    replies = script(clarify=clarified, process=processed, summarise=summarised)
    for kind in ("sessions", "facts"):
        system = mpc(replies, HashEncoder(4), build={"memory": kind})
        found = answer(system)
        assert found.text == "Oslo"
        assert sorted(found.recall.sessions) == ["s1", "s2", "s3"]


def test_config():
    config = check_method_config("mpc", MpcBuild, MpcAsk)
    assert config["_target_"] == "baselines.mpc.Mpc"
