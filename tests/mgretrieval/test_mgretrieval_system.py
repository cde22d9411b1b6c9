import asyncio
import json

import pytest
from doubles import HashEncoder, tools
from methodconfig import check_method_config
from mgretrieval_case import QUERY, as_json, keywords_of, last, script, sessions, system

from memsys.errors import ChatFailure
from memsys.llm import ledger
from memsys.mgretrieval import MGRetrieval, MGRetrievalAsk, MGRetrievalBuild


async def test_the_memory_of_the_case() -> None:
    mg = system()
    memory = await mg.remember(None, sessions())
    assert [unit.id for unit in memory.units][4:7] == ["session_1:4", "session_2:0", "session_2:1"]
    assert [unit.fields["keywords"] for unit in memory.units] == [
        keywords_of(item) for item in range(1, 14)
    ]
    assert memory.sessions == ("session_1", "session_2", "session_3")
    index = dict(memory.state["index"])
    assert index == {
        "James": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11],
        "adventure": [0, 1, 2, 3, 4, 5, 6, 7, 8, 10],
        "book": [0, 1, 2, 9, 10, 12],
    }
    assert json.loads(json.dumps(memory.state)) == memory.state


@pytest.mark.parametrize("unit", ["turn", "exchange"])
async def test_session_by_session_equals_all_at_once(unit: str) -> None:
    def extracted(request):
        number = int(last(request).split("memory ")[1][:2])
        return as_json(keywords=[*keywords_of(number), f"topic{number}"])

    def matched(request):
        # merging depends on the vocabulary shown: order matters, concurrency must not
        shown, new = last(request).split("\n\nNew keywords:\n")
        entry = shown.split("\n")[-1]
        topic = next(keyword for keyword in new.split() if keyword.startswith("topic"))
        canonical = entry if int(topic[5:]) % 2 == 0 else None
        return as_json(matches=[{"keyword": topic, "canonical": canonical}])

    def made():
        lent = tools(script(extract=extracted, match=matched))
        return system(lent, memory_unit=unit, vocab_prompt_tokens=3)

    at_once = await made().remember(None, sessions())
    assert len(at_once.state["index"]) < 3 + len(at_once.units)  # some topics were merged
    memory = None
    for session in sessions():
        memory = await made().remember(memory, [session])
    assert memory == at_once
    assert await made().remember(at_once, []) == at_once


async def test_extraction_runs_concurrently_and_arrival_order_is_irrelevant() -> None:
    class Slow:
        """Answers later items first."""

        def __init__(self, inner):
            self.inner, self.flying, self.most = inner, 0, 0

        def __getattr__(self, name):
            return getattr(self.inner, name)

        async def reply(self, messages, **settings):
            self.flying += 1
            self.most = max(self.most, self.flying)
            if messages.prompt.startswith("mgretrieval/extract"):
                number = int(messages[-1].content.split("memory ")[1][:2])
                await asyncio.sleep((14 - number) * 0.002)
            self.flying -= 1
            return await self.inner.reply(messages, **settings)

    lent = tools(script())
    slow = Slow(lent.chat)
    memory = await system(type(lent)(slow, *_rest(lent))).remember(None, sessions())
    assert slow.most == 13
    assert memory == await system().remember(None, sessions())


def _rest(lent):
    return lent.encoder, lent.prompts, lent.answerer


async def test_a_failed_extraction_fails_the_build_and_leaves_no_task_behind() -> None:
    def extract(request):
        raise ChatFailure("server down")

    before = len(asyncio.all_tasks())
    with pytest.raises(ChatFailure):
        await system(tools(script(extract=extract))).remember(None, sessions())
    assert len(asyncio.all_tasks()) == before


async def test_calls_are_those_of_the_cost_model() -> None:
    lent = tools(script([False, False, True]))
    mg = system(lent)
    memory = await mg.remember(None, sessions())
    items = len(memory.units)
    prompts = lent.chat.prompts()
    assert prompts.count("mgretrieval/extract") == prompts.count("mgretrieval/match") == items
    assert {role for _, role, _ in lent.chat.calls} == {"auxiliary"} and len(prompts) == 2 * items
    lent.chat.calls.clear()
    answer = await mg.answer(memory, QUERY)
    assert lent.chat.prompts() == ["mgretrieval/select", *["mgretrieval/round"] * 3,
                                   "mgretrieval/rewrite_locomo"]  # fmt: skip
    assert [role for _, role, _ in lent.chat.calls] == ["auxiliary", *["main"] * 4]
    assert (answer.text, answer.rounds) == ("26 April 2022", 3)
    lent.chat.calls.clear()
    await mg.recall(memory, QUERY)
    assert lent.chat.prompts() == ["mgretrieval/select"]


async def test_extract_only_makes_one_call_an_item_and_merges_by_normal_form() -> None:
    def extract(request):
        number = int(last(request).split("memory ")[1][:2])
        return as_json(keywords=["BOOK" if number % 2 else "book"])

    lent = tools(script(extract=extract))
    memory = await system(lent, aux_pipeline="extract_only").remember(None, sessions())
    assert set(lent.chat.prompts()) == {"mgretrieval/extract"} and len(lent.chat.calls) == 13
    assert memory.state["index"] == [["BOOK", list(range(13))]]


async def test_the_trace_says_how_the_case_went() -> None:
    mg = system(tools(script([False, False, True])))
    memory = await mg.remember(None, sessions())
    with ledger.scope("question") as account:
        answer = await mg.answer(memory, QUERY)
    trace = {**answer.recall.trace, **answer.trace}
    assert json.loads(json.dumps(trace)) == trace
    assert trace["query_keywords"] == ["James", "adventure", "book"]
    assert (trace["vocabulary"], trace["vocabulary_shown"]) == (3, 3)
    assert [(p["level"], p["size"], p["new"]) for p in trace["path"]] == [
        (3, 3, 3), (2, 9, 6), (2, 4, 1), (2, 4, 1), (1, 11, 1), (1, 10, 0), (1, 6, 1),
    ]  # fmt: skip
    assert [r["new_count"] for r in trace["rounds"]] == [3, 6, 1]
    assert [r["round"] for r in trace["rounds"]] == [1, 2, 3]
    assert trace["rounds"][1]["new"] == [unit.id for unit in memory.units[3:9]]
    assert trace["rounds"][0]["critical_memories"] == ["statement 1"]
    assert trace["stop"] == "sufficient"
    assert len(trace["visited"]) == 10
    assert trace["visited_sessions"] == ["session_1", "session_2", "session_3"]
    per_round = [r["memory_tokens"] for r in trace["rounds"]]
    assert trace["memory_tokens"] == sum(per_round)
    assert account.counts == {"context_tokens": sum(per_round)}
    assert trace["memory_tokens_max"] == max(per_round)
    assert len(answer.recall.context.split()) == sum(per_round)  # Figure 3 plots the sum
    assert (trace["draft"], trace["rewritten"]) == ("draft 3", True)


async def test_the_ranking_is_the_order_of_first_reach_then_time() -> None:
    select = lambda request: as_json(keywords=["book", "adventure"])  # noqa: E731
    mg = system(tools(script(select=select)))
    memory = await mg.remember(None, sessions())
    recall = await mg.recall(memory, QUERY)
    order = [1, 2, 3, 11, 10, 13, 4, 5, 6, 7, 8, 9, 12]
    assert [r.unit for r in recall.ranking] == [memory.units[i - 1].id for i in order]
    scores = [r.score for r in recall.ranking]
    assert scores == sorted(scores, reverse=True) and scores[-1] == 0.0
    assert recall.sessions == ("session_1", "session_3", "session_2")
    answered = await mg.answer(memory, QUERY)
    assert answered.recall.ranking == recall.ranking  # the verdicts do not change the ranking


async def test_a_question_without_keywords_ranks_in_time_order() -> None:
    lent = tools(script(select=lambda request: '{"keywords": []}'))
    mg = system(lent)
    memory = await mg.remember(None, sessions())
    recall = await mg.recall(memory, QUERY)
    assert [r.unit for r in recall.ranking] == [unit.id for unit in memory.units]
    assert recall.sessions == memory.sessions and recall.context == ""
    assert (await mg.answer(memory, QUERY)).trace["stop"] == "no_memory"


async def test_depth_caps_the_keywords_and_makes_no_build_call() -> None:
    memory = await system().remember(None, sessions())
    for depth, groups in ((1, 1), (2, 3), (3, 7), (6, 7)):
        lent = tools(script())
        mg = system(lent, depth=depth, max_rounds=1)
        answer = await mg.answer(memory, QUERY)
        assert len(answer.recall.trace["path"]) == groups
        assert set(lent.chat.prompts()) == {
            "mgretrieval/select", "mgretrieval/round", "mgretrieval/rewrite_locomo",
        }  # fmt: skip
        assert f"at most {depth} keywords" in last(lent.chat.calls[0][2])


async def test_rewriting_can_be_left_out_or_made_conversational() -> None:
    memory = await system().remember(None, sessions())
    lent = tools(script([True]))
    answer = await system(lent, rewrite=False).answer(memory, QUERY)
    assert answer.text == "draft 1" and answer.trace["rewritten"] is False
    assert lent.chat.prompts()[-1] == "mgretrieval/round"
    lent = tools(script([True]))
    await system(lent, rewrite_style="conversational").answer(memory, QUERY)
    assert lent.chat.prompts()[-1] == "mgretrieval/rewrite_conversational"


async def test_asking_changes_nothing_and_embeds_nothing() -> None:
    encoder = HashEncoder()
    lent = tools(script(), encoder)
    mg = system(lent)
    memory = await mg.remember(None, sessions())
    frozen = json.dumps(memory.state), memory.units
    first = await mg.answer(memory, QUERY)
    again = await system(tools(script())).answer(memory, QUERY)
    assert (json.dumps(memory.state), memory.units) == frozen
    assert first == again
    assert encoder.texts == [] and memory.arrays == {}


async def test_needs_name_just_what_is_called() -> None:
    mg = system()
    assert mg.needs("remember") == mg.needs("recall") == {"auxiliary"}
    assert mg.needs("answer") == {"auxiliary", "main"}


async def test_an_unreadable_extraction_is_counted_on_the_build() -> None:
    with ledger.scope("build") as account:
        memory = await system(tools(script(extract=lambda request: "…"))).remember(None, sessions())
    assert account.counts["mgretrieval.extract:fallback"] == 13
    assert [u.fields["keywords"] for u in memory.units][:2] == [["Ruth"], ["James"]]


def test_the_defaults_are_the_papers() -> None:
    ask, build = MGRetrievalAsk(), MGRetrievalBuild()
    assert (ask.depth, ask.max_rounds, ask.rmr, ask.rewrite, ask.skip_empty) == (
        4, 4, True, True, True,
    )  # fmt: skip
    assert (build.memory_unit, build.aux_pipeline, build.vocab_prompt_tokens) == (
        "exchange", "extract_match", 500,
    )  # fmt: skip
    assert MGRetrieval.session_ranking
    config = check_method_config("mgretrieval", MGRetrievalBuild, MGRetrievalAsk)
    assert config["_target_"] == "memsys.mgretrieval.MGRetrieval"
