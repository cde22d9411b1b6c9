"""MemR3: chunks, the router's rules, the six-call trace of the spec, malformed replies."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
import yaml
from doubles import HashEncoder, tools
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.memr3 import MemR3, MemR3Ask, MemR3Build
from baselines.memr3.chunking import cut_blocks, flatten
from baselines.memr3.controller import State, Step, forced, route
from memsys.dialogue import Query, Session, Turn
from memsys.errors import ChatFailure
from memsys.llm import ledger
from memsys.llm.structured import read_json

QUERY = Query("Where did Iris plant the fig tree?")


def step(decision, evidence=(), gaps="more", **payload):
    return json.dumps({"evidence": list(evidence), "gaps": gaps, "decision": decision, **payload})


def sessions(turns=12, words=6, per=6):
    """Every line `Ann: w…` has `words` words, so `words` word pieces a chunk is one turn each."""
    made = []
    for start in range(0, turns, per):
        lines = tuple(
            Turn(f"t{i}", "Ann", " ".join(f"w{i}x{j}" for j in range(words - 1)))
            for i in range(start, min(start + per, turns))
        )
        made.append(Session(f"s{start // per}", lines))
    return made


def scripted(replies, answer="in the yard", **kwargs):
    """A script that replies to `generate` from a list (the last reply repeats)."""
    left = list(replies)

    def script(request, role, prompt):
        if prompt == "memr3/generate":
            return left.pop(0) if len(left) > 1 else left[0]
        return answer

    return tools(script, **kwargs)


def ask_all(system, query=QUERY, given_sessions=None):
    async def go():
        memory = await system.remember(None, given_sessions or sessions())
        with ledger.scope("question") as account:
            answer = await system.answer(memory, query)
        return memory, answer, account

    return asyncio.run(go())


BUILD = MemR3Build(chunk_size=6)


class TestChunks:
    def test_lines_have_time_speaker_text_and_caption(self):
        session = Session(
            "s", (Turn("t", "Ann", "two\nlines", caption="a fig"),), datetime(2023, 5, 8, 13, 56)
        )
        assert flatten([session]) == [
            ["8 May 2023, 1:56 pm | Ann: two lines [image: a fig]", "t", "s"]
        ]

    def test_blocks_ignore_turn_borders_and_know_their_turns(self):
        units = cut_blocks(flatten(sessions(3, words=4, per=2)), 6, HashEncoder())
        assert [u.turns for u in units] == [("t0", "t1"), ("t1", "t2")]
        assert [u.sessions for u in units] == [("s0",), ("s0", "s1")]
        assert units[0].text == "Ann: w0x0 w0x1 w0x2\nAnn: w1x0"

    def test_minus_one_is_one_chunk(self):
        units = cut_blocks(flatten(sessions()), -1, HashEncoder())
        assert len(units) == 1 and len(units[0].turns) == 12
        with pytest.raises(ValueError, match="chunk_size"):
            MemR3Build(chunk_size=0)

    def test_every_word_is_in_exactly_one_chunk(self):
        lines = flatten(sessions(11, words=5))
        units = cut_blocks(lines, 7, HashEncoder())
        assert " ".join(u.text for u in units).split() == " ".join(t for t, _, _ in lines).split()

    @pytest.mark.parametrize("size", [5, 7, -1])
    async def test_at_once_equals_session_by_session(self, size):
        system = MemR3(MemR3Build(chunk_size=size), MemR3Ask(), tools())
        everything = sessions(20, per=3)
        at_once = await system.remember(None, everything)
        memory = None
        for session in everything:
            memory = await system.remember(memory, [session])
        assert memory.units == at_once.units and memory.sessions == at_once.sessions
        assert memory.state == at_once.state
        np.testing.assert_array_equal(memory.array("vectors"), at_once.array("vectors"))

    async def test_untouched_chunks_are_not_embedded_again(self):
        encoder = HashEncoder()
        system = MemR3(BUILD, MemR3Ask(), tools(encoder=encoder))
        memory = await system.remember(None, sessions()[:1])
        await system.remember(memory, sessions()[1:])
        assert len(encoder.texts) == len(set(encoder.texts)) == 12

    async def test_building_makes_no_chat_call(self):
        lent = tools()
        await MemR3(BUILD, MemR3Ask(), lent).remember(None, sessions())
        assert lent.chat.calls == []


class TestLoop:
    def test_worked_example_six_calls(self):
        retrieve = step("retrieve", retrieval_query="fig tree yard")
        lent = scripted([step("reflect", reasoning="look at spring"), retrieve])
        memory, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(), lent))
        assert len(memory.units) == 12
        assert lent.chat.prompts() == ["memr3/generate"] * 5 + ["protocol/answer"]
        trace = answer.recall.trace
        assert [len(r["shown"]) for r in trace["retrievals"]] == [5, 5, 2, 0]
        assert [r["mask"] for r in trace["retrievals"]] == [5, 10, 12, 12]
        assert [s["action"] for s in trace["steps"]] == [
            "reflect",
            "retrieve",
            "retrieve",
            "retrieve",
            "answer",
        ]
        assert answer.rounds == 5 and answer.text == "in the yard"

    def test_the_prompt_after_an_empty_retrieval_allows_reflection_only(self):
        lent = scripted([step("retrieve", retrieval_query="fig")])
        ask_all(MemR3(BUILD, MemR3Ask(), lent))
        last = [r.messages[-1].content for p, _, r in lent.chat.calls if p == "memr3/generate"]
        assert [text.rsplit("actions: ", 1)[1] for text in last] == [
            "retrieve, reflect, answer",
            "retrieve, reflect, answer",
            "retrieve, reflect, answer",
            "reflect",
            "reflect",
        ]

    def test_answer_at_once_is_two_calls(self):
        lent = scripted([step("answer", ["Iris planted it in May"], "", detailed_answer="yard")])
        _, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(), lent))
        assert lent.chat.prompts() == ["memr3/generate", "protocol/answer"]
        assert answer.recall.context == (
            "Evidence:\n- Iris planted it in May\n\nDraft answer: yard"
        )
        final = lent.chat.calls[-1][2].messages[-1].content
        assert "w0x" not in final and "w5x" not in final  # no raw snippet reaches the answer call

    @pytest.mark.parametrize("n_max", [1, 2, 3, 4, 5])
    def test_the_budget_bounds_the_calls(self, n_max):
        lent = scripted([step("retrieve", retrieval_query="fig")])
        ask_all(MemR3(BUILD, MemR3Ask(n_max=n_max, top_k=1), lent))
        assert len(lent.chat.calls) == n_max + 1

    def test_official_keeps_retrieving_nothing(self):
        lent = scripted([step("retrieve", retrieval_query="fig")])
        ask = MemR3Ask(empty_retrieval="ignore")
        _, answer, _ = ask_all(MemR3(BUILD, ask, lent))
        assert [len(r["shown"]) for r in answer.recall.trace["retrievals"]] == [5, 5, 2, 0, 0]

    def test_refinement_follows_the_question_and_its_absence_does_not(self):
        lent = scripted([step("retrieve", retrieval_query="fig yard"), step("retrieve")])
        _, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(n_max=3), lent))
        queries = [r["query"] for r in answer.recall.trace["retrievals"]]
        assert queries == [QUERY.text, f"{QUERY.text}. fig yard", QUERY.text]

    def test_a_second_reflection_is_turned_into_a_retrieval(self):
        lent = scripted([step("reflect", reasoning="hm")])
        _, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(), lent))
        assert [s["action"] for s in answer.recall.trace["steps"]] == [
            "reflect",
            "retrieve",
            "reflect",
            "retrieve",
            "answer",
        ]

    def test_reasoning_reaches_the_next_call(self):
        lent = scripted([step("reflect", ["A"], reasoning="think of spring"), step("answer")])
        ask_all(MemR3(BUILD, MemR3Ask(), lent))
        assert "Reasoning so far: think of spring" in lent.chat.calls[1][2].messages[-1].content
        assert "Evidence: - A" in lent.chat.calls[1][2].messages[-1].content

    def test_router_table(self):
        ask = MemR3Ask()
        fresh = State(snippets=[1], shown=[1], iteration=1)
        assert route(fresh, "answer", 9, ask) == "answer"
        assert route(replace(fresh, iteration=5), "reflect", 9, ask) == "answer"
        assert route(replace(fresh, snippets=[]), "answer", 9, ask) == "reflect"
        assert route(replace(fresh, streak=1), "answer", 9, ask) == "retrieve"
        assert route(replace(fresh, streak=1), "answer", 1, ask) == "answer"
        assert forced(fresh, 9, ask) is None


class Reversing:
    """Prefers the chunk that cosine puts last among its candidates."""

    def __init__(self):
        self.pairs = []

    async def score(self, query, texts):
        self.pairs.append((query, len(texts)))
        return [float(i) for i in range(len(texts))]


class TestReranker:
    def run(self, **ask):
        lent = scripted([step("answer")])
        reranker = Reversing()
        lent = replace(lent, reranker=reranker)
        _, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(**ask), lent))
        return reranker, answer

    def test_rescores_the_candidates_only(self):
        reranker, answer = self.run(candidate_k=8, top_k=2)
        plain = self.run(rerank=False, top_k=8)[1].recall.trace["retrievals"][0]["shown"]
        assert reranker.pairs == [(QUERY.text, 8)]
        assert answer.recall.trace["retrievals"][0]["shown"] == plain[::-1][:2]
        assert answer.recall.trace["reranker"] == "cross-encoder"

    def test_top_k_widens_the_candidates(self):
        assert self.run(candidate_k=2, top_k=5)[0].pairs == [(QUERY.text, 5)]

    def test_off_and_absent_say_so(self):
        reranker, answer = self.run(rerank=False)
        assert reranker.pairs == [] and answer.recall.trace["reranker"] == "no reranker"
        lent = scripted([step("answer")])
        _, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(), lent))
        assert answer.recall.trace["reranker"] == "no reranker"

    def test_needs(self):
        system = MemR3(BUILD, MemR3Ask(), tools())
        assert system.needs("remember") == {"encoder"}
        assert system.needs("answer") == {"encoder", "main", "reranker"}
        assert "reranker" not in MemR3(BUILD, MemR3Ask(rerank=False), tools()).needs("recall")


class TestRanking:
    def test_shown_first_then_by_cosine_each_once(self):
        lent = scripted([step("retrieve", retrieval_query="w9x1 w9x2"), step("answer")])
        memory, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(top_k=2), lent))
        recall = answer.recall
        shown = [u for r in recall.trace["retrievals"] for u in r["shown"]]
        ranked = [r.unit for r in recall.ranking]
        assert ranked[:4] == shown and sorted(ranked) == sorted(u.id for u in memory.units)
        scores = [r.score for r in recall.ranking]
        assert scores == sorted(scores, reverse=True)
        assert set(recall.sessions) == {"s0", "s1"}

    def test_empty_memory_still_answers(self):
        lent = scripted([step("answer")])
        _, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(), lent), given_sessions=[Session("s", ())])
        assert answer.recall.ranking == () and answer.recall.sessions == ("s",)
        assert answer.recall.context == "" and len(lent.chat.calls) == 6


MALFORMED = [
    "",
    "I would look again.",
    '{"evidence": ["a"',
    "{}",
    '{"thoughts": "none"}',
    "```json\n[1, 2]\n```",
    "私は知りません",
    '{"evidence": 3, "gaps": {}, "decision": 7}',
]


class TestMalformed:
    @pytest.mark.parametrize("text", MALFORMED)
    def test_never_crashes_and_keeps_the_notes(self, text):
        good = step("retrieve", ["fact one"], retrieval_query="fig")
        lent = scripted([good, text])
        _, answer, account = ask_all(MemR3(BUILD, MemR3Ask(), lent))
        assert answer.text == "in the yard" and answer.rounds == 5
        if account.counts["memr3.generate:fallback"]:
            assert answer.recall.trace["evidence"] == ["fact one"]

    def test_fallback_is_counted_and_retried(self):
        lent = scripted(["no json here"])
        _, answer, account = ask_all(MemR3(BUILD, MemR3Ask(n_max=2, retries=2), lent))
        assert account.counts["memr3.generate:retried"] == 4
        assert account.counts["memr3.generate:fallback"] == 2
        assert [s["decision"] for s in answer.recall.trace["steps"]] == ["reflect", "reflect"]

    @pytest.mark.parametrize(
        ("text", "evidence", "decision"),
        [
            ('```json\n{"evidence": ["a"], "gaps": "", "decision": "answer"}\n', ["a"], "answer"),
            ('{"evidence": "a", "gaps": null, "decision": "RETRIEVE "}', ["a"], "retrieve"),
            (
                '{"evidence": [{"fact": "a", "day": 3}], "gaps": "", "decision": "stop"}',
                ["a; 3"],
                "reflect",
            ),
            ('{"evidence": null, "gaps": ["x", "y"], "decision": null}', [], "reflect"),
        ],
    )
    def test_lenient_reading(self, text, evidence, decision):
        read, _ = read_json(text, Step)
        assert read is not None and read.evidence == evidence and read.decision == decision

    def test_schema_names_the_three_actions(self):
        assert Step.model_json_schema()["properties"]["decision"]["enum"] == [
            "retrieve",
            "reflect",
            "answer",
        ]

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.text(max_size=40),
                st.sampled_from(MALFORMED),
                st.builds(
                    lambda d, e, g: json.dumps({"decision": d, "evidence": e, "gaps": g}),
                    st.one_of(
                        st.text(max_size=8), st.sampled_from(["retrieve", "reflect", "answer"])
                    ),
                    st.recursive(
                        st.one_of(st.none(), st.integers(), st.text(max_size=5)),
                        st.lists,
                        max_leaves=4,
                    ),
                    st.one_of(st.none(), st.text(max_size=5)),
                ),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def test_random_replies(self, replies):
        lent = scripted(replies)
        memory, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(), lent))
        assert 1 <= answer.rounds <= 5
        assert {r.unit for r in answer.recall.ranking} == {u.id for u in memory.units}


class TestOfficialAnswer:
    ASK = MemR3Ask(answer_style="official")

    def test_one_call_on_evidence_and_draft(self):
        lent = scripted([step("answer", ["fact"], "", detailed_answer="draft text")])
        _, answer, _ = ask_all(MemR3(BUILD, self.ASK, lent))
        assert lent.chat.prompts() == ["memr3/generate", "memr3/answer"]
        final = lent.chat.calls[-1][2].messages[-1].content
        assert "- fact" in final and "draft text" in final and answer.text == "in the yard"

    def test_empty_twice_is_a_failure_of_the_question(self):
        lent = scripted([step("answer")], answer=" ")
        with pytest.raises(ChatFailure, match="empty twice"):
            ask_all(MemR3(BUILD, self.ASK, lent))
        assert [r.attempt for p, _, r in lent.chat.calls if p == "memr3/answer"] == [0, 1]


def test_rewriting_is_one_more_call_on_the_evidence():
    first = step("answer", ["Iris planted it in May"], "")

    def script(request, role, prompt):
        if prompt == "mgretrieval/rewrite_locomo":
            return '{"answer": "yard"}'
        return first if prompt == "memr3/generate" else "It is in the yard."

    lent = tools(script)
    _, answer, _ = ask_all(MemR3(BUILD, MemR3Ask(rewrite=True), lent))
    assert lent.chat.prompts() == [
        "memr3/generate",
        "protocol/answer",
        "mgretrieval/rewrite_locomo",
    ]
    assert "Iris planted it in May" in lent.chat.calls[-1][2].messages[-1].content
    assert answer.text == "yard" and answer.trace["rewritten"]


def test_long_snippets_are_cut_to_the_window_and_counted():
    lent = scripted([step("answer")], window=1600)
    build = MemR3Build(chunk_size=-1)
    _, _, account = ask_all(MemR3(build, MemR3Ask(), lent), given_sessions=sessions(200, per=50))
    assert account.counts["memr3.generate:cut_tokens"] > 0
    assert lent.chat.message_tokens(lent.chat.calls[0][2].messages) <= 600


def test_config_spells_out_the_defaults_and_valid_presets(pytestconfig):
    config = yaml.safe_load((pytestconfig.rootpath / "configs/method/memr3.yaml").read_text())
    assert MemR3Build(**config["build"]) == MemR3Build()
    assert MemR3Ask(**config["ask"]) == MemR3Ask()
    assert set(config["ask"]) == set(MemR3Ask.model_fields)
    assert set(config["build"]) == set(MemR3Build.model_fields)
    official = MemR3Ask(**{**config["ask"], **config["presets"]["official"]["ask"]})
    assert official.answer_style == "official" and official.empty_retrieval == "ignore"
