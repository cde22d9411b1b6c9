import json

import pytest
from doubles import tools
from mgretrieval_case import QUERY, as_json, keywords_of, last, script, sessions

from memsys.dialogue import Query
from memsys.llm import ledger
from memsys.mgretrieval.index import KeywordIndex
from memsys.mgretrieval.items import memory_items
from memsys.mgretrieval.pyramid import path
from memsys.mgretrieval.rounds import Draft, Outcome, keep_latest, reflective_rounds
from memsys.mgretrieval.settings import MGRetrievalAsk

UNITS = [item.unit for session in sessions() for item in memory_items(session, "turn")]


def groups(keywords=("James", "adventure", "book")):
    index = KeywordIndex()
    for item in range(1, 14):
        index.add(item - 1, keywords_of(item))
    return path(index, keywords)


async def walk(lent, keywords=("James", "adventure", "book"), **ask) -> Outcome:
    return await reflective_rounds(lent, QUERY, UNITS, groups(keywords), MGRetrievalAsk(**ask))


def seen_by(request) -> list[int]:
    block = last(request).split("Critical memories:")[0]
    return [int(line.split("memory ")[1][:2]) for line in block.split("\n") if "This is" in line]


async def test_the_case_stops_in_round_three() -> None:
    lent = tools(script([False, False, True]))
    outcome = await walk(lent)
    assert outcome.stop == "sufficient"
    assert [len(r.new) for r in outcome.rounds] == [3, 6, 1]
    assert [r.sufficient for r in outcome.rounds] == [False, False, True]
    assert [seen_by(request) for _, _, request in lent.chat.calls] == [
        [1, 2, 3], [4, 5, 6, 7, 8, 9], [10],
    ]  # fmt: skip
    second = last(lent.chat.calls[1][2])
    assert "- statement 1" in second and "Previous answer: draft 1" in second


async def test_max_rounds_and_exhausted() -> None:
    four = await walk(tools(script()), max_rounds=4)
    assert (four.stop, [len(r.new) for r in four.rounds]) == ("max_rounds", [3, 6, 1, 1])
    ten = await walk(tools(script()), max_rounds=10)
    assert (ten.stop, [len(r.new) for r in ten.rounds]) == ("exhausted", [3, 6, 1, 1, 1, 1])
    assert [r.group for r in ten.rounds][-1] == ("book",)


async def test_without_skipping_an_empty_group_costs_a_round() -> None:
    lent = tools(script())
    outcome = await walk(lent, max_rounds=10, skip_empty=False)
    assert [len(r.new) for r in outcome.rounds] == [3, 6, 1, 1, 1, 0, 1]
    assert outcome.stop == "exhausted" and len(lent.chat.calls) == 7
    assert "New memories:\n(none)" in last(lent.chat.calls[5][2])


async def test_a_smaller_r_is_a_prefix() -> None:
    verdicts = [False, False, False, False, True]
    long = await walk(tools(script(verdicts)), max_rounds=5)
    for r in range(1, 6):
        short = await walk(tools(script(verdicts)), max_rounds=r)
        assert short.rounds == long.rounds[:r]


async def test_without_rmr_the_prompt_holds_all_that_was_retrieved() -> None:
    lent = tools(script())
    outcome = await walk(lent, rmr=False)
    assert [seen_by(request) for _, _, request in lent.chat.calls] == [
        [1, 2, 3], [*range(1, 10)], [*range(1, 11)], [*range(1, 12)],
    ]  # fmt: skip
    assert [len(r.new) for r in outcome.rounds] == [3, 6, 1, 1]
    with_rmr = await walk(tools(script()))
    assert sum(r.memory_tokens for r in outcome.rounds) > sum(
        r.memory_tokens for r in with_rmr.rounds
    )


async def test_critical_memories_are_replaced_or_united() -> None:
    told = script(critical=lambda n: [f"statement {n}", "statement 1", " "])
    replaced = await walk(tools(told), max_rounds=2)
    assert replaced.rounds[-1].critical == ("statement 2", "statement 1")
    told = script(critical=lambda n: [f"statement {n}"])
    united = await walk(tools(told), max_rounds=3, critical_update="union")
    assert united.rounds[-1].critical == ("statement 1", "statement 2", "statement 3")


async def test_no_memory_is_one_round_without_memories() -> None:
    lent = tools(script())
    with ledger.scope("question") as account:
        outcome = await walk(lent, keywords=())
    assert (outcome.stop, len(outcome.rounds)) == ("no_memory", 1)
    assert len(lent.chat.calls) == 1
    assert "New memories:\n(none)\n\nCritical memories:\n(none)" in last(lent.chat.calls[0][2])
    assert outcome.rounds[0].memory_tokens == 0
    assert account.counts["mgretrieval.no_memory"] == 1


async def test_memory_tokens_count_new_and_critical_memories() -> None:
    outcome = await walk(tools(script()), max_rounds=2)
    per_memory = len(UNITS[0].text.split())
    assert [r.memory_tokens for r in outcome.rounds] == [3 * per_memory, 6 * per_memory + 2]


async def test_one_schema_and_no_heat() -> None:
    lent = tools(script())
    await walk(lent)
    for prompt, role, request in lent.chat.calls:
        assert (prompt, role) == ("mgretrieval/round", "main")
        assert (request.max_tokens, request.temperature) == (512, 0.0)
    schema = Draft.model_json_schema()
    assert schema["required"] == ["answer", "critical_memories", "sufficient"]
    statements = schema["properties"]["critical_memories"]
    assert statements["maxItems"] == 10 and statements["items"]["maxLength"] == 300
    too_long = {"answer": "a" * 999, "critical_memories": ["b"] * 99, "sufficient": True}
    assert len(Draft.model_validate(too_long).critical_memories) == 99  # bounds guide, never refuse


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("He bought it in April.", "He bought it in April."),
        ('{"answer": "April", "critical_memories": ["He', "April"),
        ('{"answer": "April", "done": true}', "April"),
        ('{"reply": "April"}', '{"reply": "April"}'),
        ("", ""),
        ("他四月买的。", "他四月买的。"),
        ('["April"]', '["April"]'),
    ],
)
async def test_an_unreadable_reply_is_asked_again_and_then_taken_as_it_is(reply, answer) -> None:
    good = as_json(answer="draft", critical_memories=["kept"], sufficient=False)
    lent = tools(lambda request, *_: good if "memory 01" in last(request) else reply)
    with ledger.scope("question") as account:
        outcome = await walk(lent, max_rounds=2)
    second = outcome.rounds[1]
    assert (second.answer, second.critical, second.sufficient) == (answer, ("kept",), False)
    assert second.fallback and not outcome.rounds[0].fallback
    assert [request.attempt for _, _, request in lent.chat.calls] == [0, 0, 1]
    assert account.counts == {"mgretrieval.round:retried": 1, "mgretrieval.round:fallback": 1}


async def test_a_repairable_reply_needs_no_second_call() -> None:
    reply = "Of course.\n```json\n" + json.dumps(
        {"answer": 3, "critical_memories": [], "sufficient": "true"}
    )
    lent = tools(lambda *_: reply)
    with ledger.scope("question") as account:
        outcome = await walk(lent)
    assert (outcome.rounds[0].answer, outcome.stop) == ("3", "sufficient")
    assert account.counts == {"mgretrieval.round:repaired": 1}


async def test_the_length_guard_keeps_the_latest_memories_and_counts_the_others() -> None:
    per_memory = len(UNITS[0].text.split())
    lent = tools(script())
    with ledger.scope("question") as account:
        outcome = await walk(lent, max_rounds=2, max_round_tokens=2 * per_memory + 1)
    assert [seen_by(request) for _, _, request in lent.chat.calls] == [[2, 3], [8, 9]]
    assert [(r.shown, r.cut, len(r.new)) for r in outcome.rounds] == [(2, 1, 3), (2, 4, 6)]
    assert account.counts == {"mgretrieval.round:items_left_out": 5}


async def test_every_prompt_fits_the_window_by_default() -> None:
    window = 1100
    lent = tools(script(), window=window)
    long = [UNITS[0].__class__(f"u{i}", "word " * 100, (), ("s",)) for i in range(13)]
    with ledger.scope("question") as account:
        await reflective_rounds(lent, QUERY, long, groups(), MGRetrievalAsk())
    for _, _, request in lent.chat.calls:
        assert lent.chat.message_tokens(request.messages) <= window - 512
    assert account.counts["mgretrieval.round:items_left_out"] > 0


def test_a_single_memory_that_is_too_long_is_cut_not_dropped() -> None:
    lent = tools()
    with ledger.scope("question") as account:
        assert keep_latest(lent, ["a b c", "d e f g h"], 3) == ["d e f"]
    assert account.counts == {
        "mgretrieval.round:item_cut": 1,
        "mgretrieval.round:items_left_out": 1,
    }
    assert keep_latest(lent, ["a"], 0) == []


async def test_the_question_carries_its_date() -> None:
    from datetime import datetime

    lent = tools(script([True]))
    query = Query("When?", datetime(2023, 5, 30, 23, 40))
    await reflective_rounds(lent, query, UNITS, groups(), MGRetrievalAsk())
    assert last(lent.chat.calls[0][2]).endswith("When? (asked on 30 May 2023, 11:40 pm)")
