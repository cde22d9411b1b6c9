"""Control rows: no memory at all, and the evidence itself behind a door for controls alone."""

from __future__ import annotations

from datetime import datetime

import pytest
from doubles import tools
from fakes import Notebook, NotebookAsk, NotebookBuild

from eval.controls import Oracle, OracleAsk, OracleBuild, ShownQuestion, asked_of, query_for
from memsys.datasets.base import Sample
from memsys.dialogue import Conversation, Query, Question, Session, Turn

SESSIONS = tuple(
    Session(f"s{i}", (Turn(f"D{i}:1", "Ann", text),), datetime(2023, 5, 1 + i, 9, 0))
    for i, text in enumerate(["The boat is blue", "Rain", "A cello in Oslo"])
)
CONTROL = {"_target_": "eval.controls.Oracle", "build": {}, "ask": {}}
BLIND = {"_target_": "baselines.no_memory.NoMemory", "build": {}, "ask": {}}


def question(index: int = 0, *evidence: str, **changes) -> Question:
    text = f"question {index}?"
    return Question("c", index, f"q{index}", text, "1", evidence_sessions=evidence, **changes)


def oracle() -> Oracle:
    return Oracle(OracleBuild(), OracleAsk(), tools(lambda request, role, prompt: "blue"))


async def test_the_oracle_shows_exactly_the_evidence_sessions_in_time_order() -> None:
    control = oracle()
    memory = await control.remember(None, SESSIONS)
    answer = await control.answer(memory, query_for(control, question(0, "s2", "s0")))
    assert answer.recall.context == (
        "[1 May 2023, 9:00 am]\n[Ann]: The boat is blue\n\n"
        "[3 May 2023, 9:00 am]\n[Ann]: A cello in Oslo"
    )
    assert answer.recall.sessions == ("s0", "s2", "s1")
    assert [ranked.unit for ranked in answer.recall.ranking] == ["s0", "s2"]
    assert answer.recall.trace == {"control": "Oracle"}, "every record says that it is a control's"
    assert answer.text == "blue"
    assert [role for _, role, _ in control.tools.chat.calls] == ["main"]


async def test_the_oracle_remembers_one_by_one_as_all_at_once() -> None:
    control = oracle()
    grown = None
    for session in SESSIONS:
        grown = await control.remember(grown, [session])
    assert grown == await control.remember(None, SESSIONS)


async def test_a_control_cannot_be_asked_without_its_question() -> None:
    control = oracle()
    memory = await control.remember(None, SESSIONS)
    with pytest.raises(TypeError, match="by the engine"):
        await control.recall(memory, Query("question 0?"))


def test_a_memory_system_is_never_given_the_question_behind_its_query() -> None:
    system = Notebook(NotebookBuild(), NotebookAsk(), tools())
    query = query_for(system, question(0, "s0"))
    assert type(query) is Query and not hasattr(query, "question")
    assert isinstance(query_for(oracle(), question(0, "s0")), ShownQuestion)


def test_a_control_is_asked_only_what_has_evidence_and_a_system_everything() -> None:
    questions = (
        question(0, "s0"),
        question(1),
        question(2, "s9"),  # evidence that is not there
        question(3, "s1", has_evidence=False, abstention=True),
        question(4, "s9", "s2"),
    )
    sample = Sample(Conversation("c", SESSIONS), questions)
    assert [q.index for q in asked_of(oracle(), sample).questions] == [0, 4]
    assert asked_of(Notebook(NotebookBuild(), NotebookAsk(), tools()), sample) is sample


@pytest.mark.parametrize("stage", ["answer", "retrieve"])
async def test_the_engine_opens_the_door_for_the_control_alone(bench, stage: str) -> None:
    asked = (f"stage={stage}", "protocol=memgas", "judge=none")
    shown = await bench.run(*asked, method=CONTROL)
    ordinary = await bench.run(*asked)
    assert shown.records and shown.failed == 0
    for record in shown.records:
        found = set(record["ranked_sessions"][: len(record["evidence_sessions"])])
        assert found == set(record["evidence_sessions"])
        assert record["trace"] == {"control": "Oracle"}
    with_evidence = {
        (r["conversation"], r["index"])
        for r in ordinary.records
        if r["has_evidence"] and r["evidence_sessions"]
    }
    assert {(r["conversation"], r["index"]) for r in shown.records} == with_evidence
    assert all(type(query) is Query for query in Notebook.queries)
    assert "control" not in ordinary.records[0]["trace"]


async def test_no_memory_answers_from_the_question_alone_with_one_call(bench) -> None:
    finished = await bench.run("protocol=memgas", "judge=none", method=BLIND)
    assert finished.records and finished.failed == 0
    text = " ".join(
        turn.text
        for sample in finished.spec.dataset.load(finished.spec.protocol.rules)
        for session in sample.conversation.sessions
        for turn in session.turns
    )
    assert len(text) > 1000
    for record in finished.records:
        assert len(record["calls"]) == 1 and record["context_tokens"] == 0
        assert record["ranked_sessions"] is None and record["recalled"] == []
    assert all(build["units"] == 0 and build["calls"] == [] for build in finished.builds)
