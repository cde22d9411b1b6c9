"""MemoryOS: its calls by the cost model, what it recalls, and odd replies that lose nothing."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from anything import filled_with_anything
from doubles import HashEncoder, TableEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from memoryos_case import (
    EVAL,
    EVAL_ASK,
    LONG,
    ONE,
    QUERY,
    build,
    held,
    memoryos,
    replying,
    said,
    spoken,
)

from baselines.memoryos import MemoryOSAsk, MemoryOSBuild
from baselines.memoryos.pages import Page
from baselines.memoryos.replies import Facts, Persona, Themes, read_flag, read_keywords, read_lines
from baselines.memoryos.store import Segment, Stores
from memsys.dialogue import Query, Session, Turn
from memsys.llm import ledger
from memsys.llm.structured import read_json


class TestCalls:
    def test_three_calls_an_evicted_page_but_no_continuity_for_the_first(self):
        # every page has a theme of its own, so nothing gets hot
        system = memoryos()
        build(system, spoken("a", "ML" * 11))
        names = system.tools.chat.prompts()
        counts = {n.split("/")[1]: names.count(n) for n in names}
        assert counts == {"continuity": 3, "chain": 4, "themes": 4}
        limits = {p.split("/")[1]: r.max_tokens for p, _, r in system.tools.chat.calls}
        assert limits == {"continuity": 10, "chain": 100, "themes": 2000}
        assert {(role, r.temperature) for _, role, r in system.tools.chat.calls} == {("main", 0.0)}

    def test_a_hot_segment_costs_two_calls_and_three_with_a_profile(self):
        system = memoryos(replying(themes=ONE))
        memory = build(system, spoken("a", "ML" * (7 + 5)))
        names = system.tools.chat.prompts()
        assert names[-2:] == ["memoryos/persona", "memoryos/assistant_facts"]
        assert len(names) == 4 + 5 + 5 + 2
        (segment,) = memory.state["segments"]
        assert (segment["interactions"], segment["visits"]) == (0, 0)
        assert [u.fields["analysed"] for u in memory.units] == [True] * 5 + [False] * 7
        assert memory.state["profile"] == "likes boats"
        assert memory.state["facts"] == {
            "user": ["Mia bought a kayak."],
            "assistant": ["Leo has wax."],
        }
        more = asyncio.run(system.remember(memory, [spoken("b", "ML" * 5, 2)]))
        assert system.tools.chat.prompts()[-3:] == [
            "memoryos/persona",
            "memoryos/assistant_facts",
            "memoryos/merge",
        ]
        assert more.state["profile"] == "merged profile"

    def test_only_new_pages_are_analysed(self):
        system = memoryos(replying(themes=ONE))
        build(system, spoken("a", "ML" * (7 + 10)))
        seen = [
            r.messages[-1].content for p, _, r in system.tools.chat.calls if p.endswith("persona")
        ]
        assert len(seen) == 2
        assert [f"a line{2 * i}\n" in seen[0] for i in range(10)] == [True] * 5 + [False] * 5
        assert [f"a line{2 * i}\n" in seen[1] for i in range(10)] == [False] * 5 + [True] * 5
        assert "Speaker: Mia" in seen[0]

    def test_official_asks_for_keywords_of_new_segments_and_of_the_question(self):
        system = memoryos(build=EVAL, ask=EVAL_ASK)
        memory = build(system, spoken("a", "ML" * 3))
        names = [n.split("/")[1] for n in system.tools.chat.prompts()]
        assert {n: names.count(n) for n in names} == {
            "continuity": 2,
            "chain": 3,
            "themes": 3,
            "keywords": 6,
        }
        assert memory.state["segments"][0]["keywords"] == ["kayak", "boat"]
        asyncio.run(system.answer(memory, QUERY))
        assert system.tools.chat.prompts()[-2:] == ["memoryos/keywords", "memoryos/answer"]

    def test_one_call_and_one_embedding_a_question(self):
        encoder = HashEncoder()
        system = memoryos(encoder=encoder)
        memory = build(system, *LONG)
        calls, texts = len(system.tools.chat.calls), len(encoder.texts)
        answer = asyncio.run(system.answer(memory, QUERY))
        assert system.tools.chat.prompts()[calls:] == ["protocol/answer"]
        assert encoder.texts[texts:] == [QUERY.text] and answer.text == "a kayak"

    def test_official_themes_see_the_user_only(self):
        for how, seen in ((EVAL, False), (MemoryOSBuild(stm_length=1), True)):
            system = memoryos(build=how)
            build(system, spoken("a", "MLML"))
            texts = [
                r.messages[-1].content
                for p, _, r in system.tools.chat.calls
                if p.endswith("themes")
            ]
            assert ("Leo" in texts[0]) is seen and "Mia: a line0" in texts[0]


class TestRecall:
    def vectors(self, *cosines):
        return [np.array([c, np.sqrt(1 - c * c)], np.float32) for c in cosines]

    def memory(self):
        """Four pages; segments A = {0, 1}, B = {2, 1}; page 3 is in the queue."""
        stores = Stores(user="Mia", assistant="Leo", profile="likes boats", chains=["thread"])
        for i in range(4):
            page = Page(
                f"page-{i}", "", "", f"Mia: u{i}", f"Leo: r{i}", f"u{i}", f"r{i}", [f"s{i}"]
            )
            page.chain = 0 if i < 3 else -1
            stores.pages[page.id] = page
        stores.stm.append("page-3")
        stores.segments = [
            Segment("A", ["x"], ["page-0", "page-1"]),
            Segment("B", [], ["page-2", "page-1"]),
        ]
        stores.vectors["segments"] = self.vectors(0.1, 0.9)
        stores.learn("user", ["f0", "f1"], np.stack(self.vectors(0.2, 0.8)), None)
        units = tuple(p.unit() for p in stores.pages.values())
        arrays = {**stores.arrays(2), "pages": np.stack(self.vectors(0.9, 0.5, 0.3, 0.7))}
        from memsys.system import Memory

        return Memory(units, ("s0", "s1", "s2", "s3"), arrays, stores.state())

    def recall(self, script=None, **ask):
        encoder = TableEncoder({"q": (1.0, 0.0)})
        system = memoryos(script, ask=MemoryOSAsk(**ask), encoder=encoder)
        return asyncio.run(system.recall(self.memory(), Query("q")))

    def test_two_stages_then_the_rest_by_cosine(self):
        recall = self.recall(top_m=1, top_k=1)
        assert recall.trace["segments"] == [1] and recall.trace["retrieved"] == ["page-1"]
        assert [r.unit for r in recall.ranking] == ["page-1", "page-0", "page-3", "page-2"]
        assert recall.sessions == ("s1", "s0", "s3", "s2")

    def test_a_page_of_two_segments_is_shown_once(self):
        once = self.recall()
        assert once.trace["retrieved"] == ["page-0", "page-1", "page-2"]
        assert once.trace["duplicates"] == 1 and once.context.count("Mia: u1") == 1
        twice = self.recall(deduplicate=False, top_k=3)
        assert twice.trace["retrieved"] == ["page-0", "page-1", "page-1"]
        assert len({r.unit for r in twice.ranking}) == len(twice.ranking) == 4

    def test_thresholds(self):
        recall = self.recall(threshold=0.4)
        assert recall.trace["segments"] == [1] and recall.trace["retrieved"] == ["page-1"]
        assert recall.trace["facts"] == {"user": 1, "assistant": 0}

    def test_question_keywords_move_segments(self):
        plain = self.recall(top_m=1)
        moved = self.recall(replying(keywords="x"), top_m=1, query_keywords=True)
        assert plain.trace["segments"] == [1] and moved.trace["segments"] == [0]
        assert moved.trace["keywords"] == ["x"]

    def test_context_holds_all_three_stores(self):
        assert self.recall(user_facts=1, top_k=1).context == (
            "Profile of Mia:\nlikes boats\n\nKnown about Mia:\n- f1\n\n"
            "Earlier conversation:\n\nMia: u0\nLeo: r0\n(In short: thread)\n\n"
            "Recent conversation:\n\nMia: u3\nLeo: r3"
        )

    def test_asking_leaves_the_memory_alone(self):
        system = memoryos(ask=EVAL_ASK)
        memory = build(system, *LONG)
        before = repr((memory.units, memory.state, [a.tolist() for a in memory.arrays.values()]))
        asyncio.run(system.answer(memory, QUERY))
        after = repr((memory.units, memory.state, [a.tolist() for a in memory.arrays.values()]))
        assert before == after

    def test_an_empty_memory_answers(self):
        system = memoryos()
        memory = build(system, Session("s", ()))
        answer = asyncio.run(system.answer(memory, QUERY))
        assert answer.recall.ranking == () and answer.recall.sessions == ("s",)
        assert answer.recall.context == ""

    def test_needs(self):
        assert memoryos().needs("recall") == {"encoder"}
        assert memoryos(ask=EVAL_ASK).needs("recall") == {"encoder", "main"}


MALFORMED = [
    "",
    "Sure, here are the themes.",
    '{"themes": [{"theme": "a", "conte',
    "{}",
    '{"topics": []}',
    '{"themes": []}',
    '{"themes": [{"content": ""}]}',
    "```json\n[]\n```",
    "主题：船",
    "null",
    '{"themes": 3, "profile": [], "facts": {"a": 1}}',
]


class TestMalformed:
    BUILD = MemoryOSBuild(stm_length=1, evict="full", tau=1.5)

    @pytest.mark.parametrize("text", MALFORMED)
    def test_malformed_themes_do_not_lose_the_page(self, text):
        with ledger.scope("build") as account:
            memory = build(memoryos(replying(themes=text), self.BUILD), spoken("a", "MLML"))
        assert held(memory) == said(spoken("a", "MLML"))
        assert {p for s in memory.state["segments"] for p in s["pages"]} == {"page-0", "page-1"}
        assert sum(account.counts.values()) >= 1

    def test_fallback_theme_is_the_page_after_one_retry(self):
        system = memoryos(replying(themes="no"), self.BUILD)
        with ledger.scope("build") as account:
            memory = build(system, spoken("a", "ML"))
        assert system.tools.chat.prompts().count("memoryos/themes") == 2
        assert account.counts["memoryos.themes:fallback"] == 1
        (segment,) = memory.state["segments"]
        assert segment["summary"] == "Mia: a line0\nLeo: a line1" and segment["keywords"] == []

    def test_bad_persona_replies_change_nothing(self):
        script = replying(themes=ONE, persona="?", assistant_facts="?")
        memory = build(memoryos(script, self.BUILD), spoken("a", "ML" * 3))
        assert memory.state["profile"] == "" and memory.state["facts"]["user"] == []

    def test_empty_merge_keeps_both_profiles(self):
        memory = build(memoryos(replying(themes=ONE, merge=" "), self.BUILD), spoken("a", "ML" * 4))
        assert memory.state["profile"].count("likes boats") >= 2

    @pytest.mark.parametrize(
        ("text", "flag"),
        [
            ("True.", True),
            ("The answer is false", False),
            ("是", None),
            ("", None),
            ("untrue", None),
        ],
    )
    def test_flags(self, text, flag):
        assert read_flag(text) is flag

    def test_unreadable_continuity_is_a_new_chain_and_counted(self):
        with ledger.scope("build") as account:
            memory = build(
                memoryos(replying(continuity="perhaps"), self.BUILD), spoken("a", "MLML")
            )
        assert [u.fields["chain"] for u in memory.units] == [0, 1]
        assert account.counts["memoryos.continuity:fallback"] == 1

    @pytest.mark.parametrize(
        "text",
        [
            '[{"theme": "t", "keywords": "a", "content": "c"}]',
            '```json\n{"themes": [{"theme": "t", "keywords": ["a"], "content": "c"}]}\n```',
            'Here: {"content": "c", "keywords": ["a"]}',
        ],
    )
    def test_themes_are_read_leniently(self, text):
        read, _ = read_json(text, Themes)
        assert read is not None
        assert [(t.content, t.keywords) for t in read.themes] == [("c", ["a"])]

    def test_lists_are_read_leniently(self):
        assert read_lines("- one\n2. two\n\nNone.") == ["one", "two"]
        assert read_lines(["x", None, {"fact": "y"}, 3]) == ["x", "y", "3"]
        assert read_keywords("a, b , None, c, d") == ["a", "b", "c"]
        read, _ = read_json('{"facts": "None"}', Facts)
        assert read is not None and read.facts == []

    @settings(max_examples=50, deadline=None)
    @given(st.data())
    def test_random_replies_never_lose_a_turn(self, data):
        reply = st.one_of(
            st.text(max_size=30),
            st.sampled_from([*MALFORMED, ONE, "true", "false"]),
            st.sampled_from([Themes, Persona, Facts]).flatmap(filled_with_anything),
        )
        system = memoryos(lambda *_: data.draw(reply), self.BUILD)
        session = spoken("a", data.draw(st.text("ML", min_size=1, max_size=7)))
        memory = build(system, session)
        answer = asyncio.run(system.answer(memory, QUERY))
        assert held(memory) == said(session)
        assert {r.unit for r in answer.recall.ranking} == {u.id for u in memory.units}


def test_long_pages_are_cut_to_the_window_and_counted():
    turns = tuple(Turn(f"t{i}", "ML"[i % 2], f"word{i} " + "x " * 1500) for i in range(4))
    how = MemoryOSBuild(stm_length=1, evict="full", max_tokens=1000)
    system = memoryos(build=how, window=2000)
    with ledger.scope("build") as account:
        memory = build(system, Session("s", turns))
    assert account.counts["memoryos.themes:cut_tokens"] > 0
    chat = system.tools.chat
    assert all(
        chat.message_tokens(r.messages) + r.max_tokens <= 2000
        for p, _, r in chat.calls
        if p.endswith("themes")
    )
    assert held(memory) == {f"t{i}" for i in range(4)}
