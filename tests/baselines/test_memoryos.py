"""MemoryOS: scores and queue to the spec's digits, pairing, stores, cost model, odd replies."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
import yaml
from doubles import HashEncoder, TableEncoder, tools
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.memoryos import MemoryOS, MemoryOSAsk, MemoryOSBuild
from baselines.memoryos.pages import Page, Pager, meet
from baselines.memoryos.replies import Facts, Persona, Themes, read_flag, read_keywords, read_lines
from baselines.memoryos.scores import heat, is_hot, keyword_overlap, seconds_between
from baselines.memoryos.store import Segment, Stores
from memsys.dialogue import Query, Session, Turn
from memsys.llm import ledger
from memsys.llm.structured import read_json

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "configs/method/memoryos.yaml").read_text())
EVAL = MemoryOSBuild(**{**CONFIG["build"], **CONFIG["presets"]["official"]["build"]})
EVAL_ASK = MemoryOSAsk(**{**CONFIG["ask"], **CONFIG["presets"]["official"]["ask"]})
PAPER = MemoryOSBuild()
QUERY = Query("What did Mia buy?")


def spoken(name, speakers, day=1):
    """A session whose speakers are given by letters: `MLLM`."""
    names = {"M": "Mia", "L": "Leo"}
    turns = tuple(Turn(f"{name}.{i}", names[s], f"{name} line{i}") for i, s in enumerate(speakers))
    return Session(name, turns, datetime(2023, 6, day, 9))


def theme(content, keywords=()):
    return {"theme": "t", "keywords": list(keywords), "content": content}


def replying(**replies):
    """A script; a reply given by name is a text or a function of the last message."""
    usual = {
        "continuity": "true",
        "chain": "the thread so far",
        "themes": lambda text: json.dumps({"themes": [theme(text.split()[-1])]}),
        "persona": '{"profile": "likes boats", "facts": ["Mia bought a kayak."]}',
        "assistant_facts": '{"facts": ["Leo has wax."]}',
        "merge": "merged profile",
        "keywords": "kayak, boat",
        "protocol": "a kayak",
    }

    def script(request, role, prompt):
        folder, name = prompt.split("/")
        reply = {**usual, **replies}.get("protocol" if folder == "protocol" else name, "")
        return reply(request.messages[-1].content) if callable(reply) else reply

    return script


ONE = json.dumps({"themes": [theme("boats and water", ["boat"])]})


def memoryos(script=None, build=PAPER, ask=None, encoder=None, window=128_000):
    return MemoryOS(
        build, ask or MemoryOSAsk(), tools(script or replying(), encoder, window=window)
    )


def build(system, *sessions):
    return asyncio.run(system.remember(None, sessions))


def said(*sessions):
    return {t.id for s in sessions for t in s.turns}


def held(memory):
    return {t for u in memory.units for t in u.turns}


LONG = [spoken("a", "ML" * 6), spoken("b", "LMMLLM" * 2, 3), spoken("c", "ML" * 4, 9)]


class TestScores:
    def test_worked_example_f(self):
        a, b = {"a", "b", "c"}, {"b", "c", "d", "e"}
        assert keyword_overlap(a, b, "jaccard") == pytest.approx(2 / 5)
        assert keyword_overlap(a, b, "containment") == pytest.approx(0.5833, abs=5e-5)
        cosine = np.array([0.55, np.sqrt(1 - 0.55**2)], np.float32)
        stores = Stores(segments=[Segment("s", sorted(a))])
        stores.vectors["segments"] = [np.array([1, 0], np.float32)]
        assert stores.similarity(cosine, sorted(b), "jaccard")[0] == pytest.approx(0.95)
        assert stores.similarity(cosine, sorted(b), "containment")[0] == pytest.approx(
            1.1333, abs=5e-5
        )
        assert stores.choose(cosine, sorted(b), PAPER) is stores.segments[0]
        assert stores.choose(cosine, [], PAPER) is None  # 0.55 alone stays below 0.6

    def test_worked_example_heat(self):
        assert round(heat(2, 5, 3600, PAPER), 6) == 7.999640
        assert round(heat(2, 5, 3600, EVAL), 4) == 5.6001

    def pages_to_heat(self, how):
        return next(n for n in range(1, 99) if is_hot(heat(0, n, 0, how), how))

    def test_worked_example_pages_until_hot(self):
        assert self.pages_to_heat(PAPER) == 5
        assert self.pages_to_heat(EVAL) == 7
        assert self.pages_to_heat(MemoryOSBuild(tau_reached=True)) == 4
        assert round(heat(0, 6, 0, EVAL), 4) == 4.8001

    def test_overlap_ignores_case_and_empty_words(self):
        assert keyword_overlap(["Boat ", ""], ["boat", " "], "jaccard") == 1.0
        assert keyword_overlap([], ["x"], "containment") == 0.0

    @given(st.sets(st.text(max_size=2)), st.sets(st.text(max_size=2)))
    def test_overlap_is_symmetric_and_bounded(self, a, b):
        for kind in ("jaccard", "containment"):
            value = keyword_overlap(a, b, kind)
            assert 0 <= value <= 1 and value == pytest.approx(keyword_overlap(b, a, kind))

    def test_clock(self):
        assert seconds_between("2023-06-01T09:00:00", "2023-06-01T10:00:00") == 3600
        assert seconds_between("", "2023-06-01T10:00:00") == 0
        assert seconds_between("2023-06-02T00:00:00", "2023-06-01T10:00:00") == 0


class TestPages:
    def sides(self, pages):
        return [(p.user_turn, p.reply_turn) for p in pages]

    def test_safe_pairing_loses_nothing_and_keeps_to_the_session(self):
        pager = Pager("Mia", 0)
        pages = [p for s in (spoken("a", "MLM"), spoken("b", "LMMLL")) for p in pager.pages(s)]
        assert self.sides(pages) == [
            ("a.0", "a.1"),
            ("a.2", ""),
            ("", "b.0"),
            ("b.1", ""),
            ("b.2", "b.3"),
            ("", "b.4"),
        ]
        assert [p.id for p in pages] == [f"page-{i}" for i in range(6)]
        assert all(len(p.sessions) == 1 for p in pages)

    def test_official_pairing_overwrites_within_and_across_sessions(self):
        with ledger.scope("build") as account:
            pages = Pager("Mia", 0).official_pages([spoken("a", "MLL"), spoken("b", "LM")], None)
        assert self.sides(pages) == [("a.0", "b.0"), ("b.1", "")]
        assert pages[0].sessions == ["a", "b"] and pages[0].time_text == "1 June 2023, 9:00 am"
        assert account.counts["memoryos.turns_lost"] == 2

    @given(st.lists(st.text("ML", max_size=8), max_size=4))
    def test_every_turn_is_on_exactly_one_safe_page(self, letters):
        sessions = [spoken(f"s{i}", text) for i, text in enumerate(letters)]
        pager = Pager("Mia", 0)
        turns = [t for s in sessions for p in pager.pages(s) for t in p.unit().turns]
        assert sorted(turns) == sorted(said(*sessions))

    def test_captions_and_roles(self):
        turns = (
            Turn("x", "Bot", "Hi", role="assistant"),
            Turn("y", "Kim", "See", caption="a boat", role="user"),
        )
        session = Session("s", turns)
        assert meet([session], "", "") == ("Kim", "Bot")
        pages = Pager("Kim", 0).pages(session)
        assert [p.text for p in pages] == ["Bot: Hi", "Kim: See [image: a boat]"]
        assert pages[1].unit().text == "Kim: See [image: a boat]"  # no date, no empty bracket

    def test_the_user_is_speaker_a_or_who_speaks_first(self):
        session = spoken("a", "LM")
        assert meet([session], "", "") == ("Leo", "Mia")
        assert meet([replace(session, speaker_a="Mia")], "", "") == ("Mia", "Leo")
        assert meet([spoken("a", "LL"), session], "", "") == ("Leo", "Mia")
        assert meet([session], "Mia", "") == ("Mia", "Leo")

    @pytest.mark.data
    def test_official_pairing_loses_what_it_lost_in_locomo(self):
        folder = os.environ.get("MEMSYS_DATA")
        files = sorted(Path(folder).rglob("locomo10.json")) if folder else []
        if not files:
            pytest.skip("locomo10.json is not under MEMSYS_DATA")
        total = lost = attached = 0
        for sample in json.loads(files[0].read_text(encoding="utf-8")):
            talk = sample["conversation"]
            numbers = [n for n in range(1, 99) if talk.get(f"session_{n}")]
            sessions = [
                Session(
                    f"session_{n}",
                    tuple(Turn(t["dia_id"], t["speaker"], t["text"]) for t in talk[f"session_{n}"]),
                )
                for n in numbers
            ]
            user = talk["speaker_a"]
            pages = Pager(user, 0).official_pages(sessions, None)
            kept = {t for p in pages if p.user and p.reply for t in p.unit().turns}
            total += len(said(*sessions))
            lost += len(said(*sessions) - kept)
            attached += sum(s.turns[0].speaker != user for s in sessions[1:])
        assert (total, lost, attached) == (5882, 154, 118)


class TestQueue:
    def test_worked_example_fifo(self):
        memory = build(memoryos(), spoken("a", "ML" * 8))
        assert memory.state["stm"] == [f"page-{i}" for i in range(1, 8)]
        assert [s["pages"] for s in memory.state["segments"]] == [["page-0"]]

    def test_seven_pages_stay_and_cost_nothing(self):
        system = memoryos()
        memory = build(system, spoken("a", "ML" * 7))
        assert len(memory.state["stm"]) == 7 and system.tools.chat.calls == []

    def test_a_full_queue_of_one_is_empty_when_asked(self):
        memory = build(memoryos(build=EVAL), spoken("a", "ML" * 3))
        assert memory.state["stm"] == [] and len(memory.units) == 3


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


class TestMidTerm:
    BUILD = MemoryOSBuild(stm_length=1, evict="full")

    def test_chains_share_one_running_summary(self):
        continuity = iter(["true", "false", "true"])
        chain = iter(["one", "one two", "three", "three four"])
        script = replying(continuity=lambda _: next(continuity), chain=lambda _: next(chain))
        memory = build(memoryos(script, self.BUILD), spoken("a", "ML" * 4))
        assert [u.fields["chain"] for u in memory.units] == [0, 0, 1, 1]
        assert memory.state["chains"] == ["one two", "three four"]

    def test_two_themes_put_a_page_into_two_segments_once_each(self):
        both = json.dumps({"themes": [theme("boats"), theme("cats"), theme("ignored third")]})
        memory = build(memoryos(replying(themes=both), self.BUILD), spoken("a", "MLML"))
        assert [s["summary"] for s in memory.state["segments"]] == ["boats", "cats"]
        assert [s["pages"] for s in memory.state["segments"]] == [["page-0", "page-1"]] * 2
        assert len(memory.units) == 2

    def test_one_segment_named_twice_counts_a_page_once(self):
        twice = json.dumps({"themes": [theme("boats"), theme("boats")]})
        memory = build(memoryos(replying(themes=twice), self.BUILD), spoken("a", "ML"))
        (segment,) = memory.state["segments"]
        assert segment["interactions"] == 1 and segment["pages"] == ["page-0"]

    @pytest.mark.parametrize(
        ("drop", "left"), [("coldest", ["cats"]), ("least_accessed", ["boats"])]
    )
    def test_capacity(self, drop, left):
        # boats gets three pages, is analysed (heat falls), then cats gets one
        said_of = iter(["boats", "boats", "boats", "cats"])
        script = replying(themes=lambda _: json.dumps({"themes": [theme(next(said_of))]}))
        how = self.BUILD.model_copy(update={"segments": 1, "drop": drop, "tau": 3.0})
        with ledger.scope("build") as account:
            memory = build(memoryos(script, how), spoken("a", "ML" * 4))
        assert [s["summary"] for s in memory.state["segments"]] == left
        assert account.counts["memoryos.segments_dropped"] == 1
        kept = {"cats": ["page-3"], "boats": ["page-0", "page-1", "page-2"]}[left[0]]
        assert [u.id for u in memory.units] == kept == memory.state["segments"][0]["pages"]
        assert len(memory.array("pages")) == len(kept) and len(memory.array("segments")) == 1

    def test_recency_cools_by_the_clock_of_the_conversation(self):
        stores = Stores(now="2023-07-01T00:00:00")
        stores.segments = [
            Segment("old", [], visited="2023-01-01T00:00:00"),
            Segment("new", [], visited="2023-07-01T00:00:00"),
        ]
        old, new = stores.heats(PAPER)
        assert old == pytest.approx(np.exp(-181 * 86400 / 1e7)) and new == 1.0
        assert stores.heats(EVAL) == [0.0001, 0.0001]

    def test_fact_queues_are_bounded(self):
        stores = Stores()
        for i in range(5):
            stores.learn("user", [f"f{i}"], np.full((1, 2), i, np.float32), 3)
        assert stores.facts["user"] == ["f2", "f3", "f4"]
        assert [row[0] for row in stores.vectors["user"]] == [2, 3, 4]
        stores.learn("user", ["f5"], np.zeros((1, 2), np.float32), None)
        assert len(stores.facts["user"]) == 4


class TestIncremental:
    @pytest.mark.parametrize(
        "how",
        [
            PAPER,
            MemoryOSBuild(stm_length=2, segments=2, tau=2.0, theta=0.9),
            MemoryOSBuild(stm_length=1, evict="full", tau=1.5, facts=3),
            MemoryOSBuild(stm_length=3, pairing="official", tau=2.0),
        ],
    )
    def test_at_once_equals_session_by_session(self, how):
        facts = replying(
            persona=lambda t: json.dumps({"profile": t[-40:], "facts": t.splitlines()[1:3]}),
            merge=lambda t: t[:60],
            continuity=lambda t: "true" if len(t) % 2 else "false",
            chain=lambda t: t[-20:],
        )

        async def go():
            system = memoryos(facts, how)
            at_once = await system.remember(None, LONG)
            memory = None
            for session in LONG:
                memory = await system.remember(memory, [session])
            return at_once, memory

        at_once, memory = asyncio.run(go())
        assert at_once.units == memory.units and at_once.state == memory.state
        assert at_once.sessions == memory.sessions
        assert at_once.arrays.keys() == memory.arrays.keys()
        for name in at_once.arrays:
            np.testing.assert_array_equal(at_once.array(name), memory.array(name))

    def test_memories_survive_json(self):
        system = memoryos(replying(themes=ONE))
        memory = build(system, *LONG)
        state = json.loads(json.dumps(memory.state))
        assert state == memory.state
        fields = json.loads(json.dumps([u.fields for u in memory.units]))
        assert fields == [u.fields for u in memory.units]


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
        anything = st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=4,
        )
        reply = st.one_of(
            st.text(max_size=30),
            st.sampled_from([*MALFORMED, ONE, "true", "false"]),
            st.sampled_from([Themes, Persona, Facts]).flatmap(
                lambda s: st.fixed_dictionaries(dict.fromkeys(s.model_fields, anything)).map(
                    json.dumps
                )
            ),
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


def test_config_spells_out_the_defaults_and_the_middle_column():
    assert MemoryOSBuild(**CONFIG["build"]) == MemoryOSBuild()
    assert MemoryOSAsk(**CONFIG["ask"]) == MemoryOSAsk()
    assert set(CONFIG["build"]) == set(MemoryOSBuild.model_fields)
    assert set(CONFIG["ask"]) == set(MemoryOSAsk.model_fields)
    assert MemoryOSAsk(**{**CONFIG["ask"], **CONFIG["presets"]["gvd"]["ask"]}).top_k == 5
    column = (EVAL.stm_length, EVAL.segments, EVAL.theta, EVAL.overlap, EVAL.tau, EVAL.facts)
    assert column == (1, 2000, 0.6, "containment", 5.0, None)
    assert (EVAL.alpha, EVAL.beta, EVAL.gamma, EVAL.mu) == (0.8, 0.8, 0.0001, 3600.0)
    assert (EVAL_ASK.top_m, EVAL_ASK.top_k, EVAL_ASK.user_facts) == (5, 10, 10)
    assert EVAL_ASK.assistant_facts is None and EVAL_ASK.threshold == 0.1
