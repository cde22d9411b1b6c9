"""MemoryBank: the forgetting curve, the calendar, gluing, cost model, odd replies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pytest
import yaml
from doubles import HashEncoder, TableEncoder, tools
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.memorybank import MemoryBank, MemoryBankAsk, MemoryBankBuild
from baselines.memorybank.forgetting import draw, retained, retention, strength_and_age
from baselines.memorybank.system import glue
from memsys.dialogue import Query, Session, Turn
from memsys.llm import ledger
from memsys.system import Memory, Unit

TABLE = [
    (1, 1, 0.367879, 0.818731),
    (1, 5, 0.006738, 0.367879),
    (2, 1, 0.606531, 0.670320),
    (2, 5, 0.082085, 0.135335),
    (5, 5, 0.367879, 0.006738),
    (5, 10, 0.135335, 0.000045),
]


def session(name, day, texts, hour=9):
    """A session of Mia and Leo taking turns; `day` is in June 2023, `None` for no date."""
    turns = tuple(
        Turn(f"{name}.{i}", "Mia" if i % 2 == 0 else "Leo", text) for i, text in enumerate(texts)
    )
    return Session(name, turns, day and datetime(2023, 6, day, hour))


SESSIONS = [
    session("s1", 1, ["I bought a kayak", "Which colour is it", "It is red"]),
    session("s2", 1, ["The kayak leaks", "Use some wax"], hour=20),
    session("s3", 4, ["My cat had kittens", "How many kittens"]),
]


def chatty(request, role, prompt):
    """Replies that depend on nothing but the prompt's name and its text."""
    return f"{prompt.split('/')[1]} of {len(request.messages[-1].content)} characters"


def bank(script=chatty, ask=None, encoder=None, window=128_000):
    return MemoryBank(
        MemoryBankBuild(), ask or MemoryBankAsk(), tools(script, encoder, window=window)
    )


def build(system, sessions=SESSIONS):
    return asyncio.run(system.remember(None, sessions))


class TestForgettingCurve:
    @pytest.mark.parametrize(("strength", "days", "paper", "official"), TABLE)
    def test_worked_example(self, strength, days, paper, official):
        assert round(retention(days, strength, "paper"), 6) == paper
        assert round(retention(days, strength, "official"), 6) == official
        assert retention(days, strength, "off") == 1.0

    @given(st.integers(1, 60), st.integers(1, 40))
    def test_paper_rises_with_strength_and_official_falls(self, days, strength):
        assert retention(days, strength + 1, "paper") > retention(days, strength, "paper")
        assert retention(days, strength + 1, "official") < retention(days, strength, "official")

    @given(st.integers(0, 60), st.integers(1, 40), st.sampled_from(["paper", "official"]))
    def test_falls_with_time(self, days, strength, rule):
        assert retention(days + 1, strength, rule) < retention(days, strength, rule) <= 1

    def test_recall_restarts_the_clock(self):
        unit = Unit("u", "x", fields={"kind": "exchange", "day": "d", "date": "2023-06-01"})
        assert strength_and_age(unit, {}, date(2023, 6, 4)) == (1, 3)
        strength, days = strength_and_age(unit, {"u": [2, "2023-06-04"]}, date(2023, 6, 6))
        assert (strength, days) == (2, 2)
        assert round(retention(days, strength, "paper"), 6) == 0.367879

    def test_reinforced_is_a_new_memory(self):
        system = bank(ask=MemoryBankAsk(top_k=1))
        memory = build(system)
        recall = asyncio.run(system.recall(memory, Query("kayak")))
        once = system.reinforced(memory, recall, date(2023, 6, 4))
        twice = system.reinforced(once, recall, date(2023, 6, 9))
        (hit,) = recall.trace["hits"]
        assert "recalls" not in memory.state
        assert once.state["recalls"] == {hit: [2, "2023-06-04"]}
        assert twice.state["recalls"] == {hit: [3, "2023-06-09"]}


def dated(number, day):
    """Exchanges with a date, for the draws."""
    fields = {"kind": "exchange", "day": day, "date": day}
    return [Unit(f"{day}-{i}", f"text {i}", fields=fields) for i in range(number)]


class TestForgetting:
    def test_draws_are_uniform_and_seeded(self):
        units = dated(2000, "2023-06-01")
        first = [draw(u, 0) for u in units]
        assert abs(np.mean(first) - 0.5) < 0.03 and min(first) >= 0 and max(first) < 1
        assert [draw(u, 0) for u in units] == first
        assert [draw(u, 1) for u in units] != first

    def test_the_share_kept_follows_the_curve(self):
        units = dated(2000, "2023-06-01")
        kept = retained(units, {}, date(2023, 6, 2), "paper", 0)
        assert abs(len(kept) / 2000 - 0.367879) < 0.03

    def test_forgotten_stays_forgotten(self):
        units = dated(300, "2023-06-01")
        kept = [set(retained(units, {}, date(2023, 6, d), "official", 7)) for d in range(1, 20)]
        assert kept[0] == set(range(300))
        assert all(later <= earlier for earlier, later in pairwise(kept))
        assert len(kept[-1]) < len(kept[0])

    def test_a_summary_goes_with_its_day_and_nothing_breaks(self):
        system = bank(ask=MemoryBankAsk(forgetting="paper"))
        memory = build(system)
        late = Query("kayak", datetime(2030, 1, 1))
        recall = asyncio.run(system.recall(memory, late))
        assert recall.ranking == () and recall.trace["forgotten"] == len(memory.units)
        assert recall.sessions == ("s1", "s2", "s3")
        assert recall.context.startswith("About Mia: overall_portrait")

    def test_the_clock_is_the_last_session_without_a_question_date(self):
        system = bank(ask=MemoryBankAsk(forgetting="paper"))
        memory = build(system)
        recall = asyncio.run(system.recall(memory, Query("kittens")))
        alive = {r.unit for r in recall.ranking}
        assert {u.id for u in memory.units if u.fields["day"] == "2023-06-04"} <= alive

    def test_undated_memories_do_not_fade(self):
        system = bank(ask=MemoryBankAsk(forgetting="paper"))
        memory = build(system, [session("a", None, ["one", "two"])])
        recall = asyncio.run(system.recall(memory, Query("one", datetime(2030, 1, 1))))
        assert len(recall.ranking) == len(memory.units) == 2


class TestMemory:
    def test_two_calls_a_day_and_two_a_build(self):
        system = bank()
        memory = build(system)
        names = sorted(system.tools.chat.prompts())
        assert names == sorted(
            ["memorybank/day_summary", "memorybank/day_personality"] * 2
            + ["memorybank/overall_history", "memorybank/overall_portrait"]
        )
        assert all(
            (r.temperature, r.max_tokens, role) == (0.0, 400, "main")
            for _, role, r in system.tools.chat.calls
        )
        assert [u.id for u in memory.units] == [
            "s1-exchange-0",
            "s1-exchange-1",
            "s2-exchange-0",
            "summary-2023-06-01",
            "s3-exchange-0",
            "summary-2023-06-04",
        ]

    def test_documents_carry_their_date_and_origin(self):
        units = {u.id: u for u in build(bank()).units}
        exchange = units["s1-exchange-0"]
        assert exchange.text == ("[1 June 2023]\nMia: I bought a kayak\nLeo: Which colour is it")
        assert exchange.turns == ("s1.0", "s1.1") and exchange.sessions == ("s1",)
        summary = units["summary-2023-06-01"]
        assert summary.turns == () and summary.sessions == ("s1", "s2")

    def test_personality_is_not_indexed(self):
        assert not any("personality" in unit.text for unit in build(bank()).units)

    def test_at_once_equals_session_by_session(self):
        async def go():
            system = bank()
            at_once = await system.remember(None, SESSIONS)
            memory = None
            for one in SESSIONS:
                memory = await system.remember(memory, [one])
            return at_once, memory

        at_once, memory = asyncio.run(go())
        assert at_once.units == memory.units and at_once.state == memory.state
        assert at_once.sessions == memory.sessions
        np.testing.assert_array_equal(at_once.array("vectors"), memory.array("vectors"))

    def test_an_untouched_day_is_not_described_again(self):
        async def go():
            system = bank()
            memory = await system.remember(None, SESSIONS[:2])
            before = len(system.tools.chat.calls)
            await system.remember(memory, SESSIONS[2:])
            return system.tools.chat.prompts()[before:]

        assert sorted(asyncio.run(go())) == [
            "memorybank/day_personality",
            "memorybank/day_summary",
            "memorybank/overall_history",
            "memorybank/overall_portrait",
        ]

    def test_the_user_is_portrayed(self):
        turns = (Turn("a", "Bot", "Hello", role="assistant"), Turn("b", "Kim", "Hi", role="user"))
        assert build(bank(), [Session("s", turns)]).state["user"] == "Kim"
        assert build(bank()).state["user"] == "Mia"
        named = [replace(one, speaker_a="Leo") for one in SESSIONS]
        assert build(bank(), named).state["user"] == "Leo"

    def test_a_session_without_turns_costs_nothing(self):
        system = bank()
        memory = build(system, [Session("empty", ())])
        assert system.tools.chat.calls == [] and memory.units == ()
        recall = asyncio.run(system.recall(memory, Query("anything")))
        assert recall.ranking == () and recall.sessions == ("empty",) and recall.context == ""

    def test_long_days_keep_their_end_and_the_cut_is_counted(self):
        system = bank(window=600)
        long = session("long", 1, [f"start{i} middle{i} end{i}" for i in range(200)])
        with ledger.scope("build") as account:
            memory = build(system, [long])
        assert account.counts["memorybank.day_summary:cut_tokens"] > 0
        prompts = [r.messages[-1].content for _, _, r in system.tools.chat.calls]
        assert "end199" in prompts[0] and "start0 " not in prompts[0]
        assert sum(u.fields["kind"] == "exchange" for u in memory.units) == 100


class TestRecall:
    def test_ranks_by_similarity_and_shows_in_time_order(self):
        table = {
            "[1 June 2023]\nMia: a\nLeo: b": (0.6, 0.8),
            "[2 June 2023]\nMia: c\nLeo: d": (0.0, 1.0),
            "[3 June 2023]\nMia: e\nLeo: f": (1.0, 0.0),
            "q": (1.0, 0.0),
        }
        days = [
            session("x", 1, ["a", "b"]),
            session("y", 2, ["c", "d"]),
            session("z", 3, ["e", "f"]),
        ]
        system = bank(lambda *_: "", encoder=TableEncoder(table))
        recall = asyncio.run(system.recall(build(system, days), Query("q")))
        assert [r.unit for r in recall.ranking] == [
            "z-exchange-0",
            "x-exchange-0",
            "y-exchange-0",
        ]
        assert [round(r.score, 6) for r in recall.ranking] == [1.0, 0.6, 0.0]
        assert recall.context == "[1 June 2023]\nMia: a\nLeo: b\n\n[3 June 2023]\nMia: e\nLeo: f"
        assert recall.sessions == ("z", "x", "y")

    def test_one_call_and_one_embedding_a_question(self):
        encoder = HashEncoder()
        system = bank(encoder=encoder)
        memory = build(system)
        calls, texts = len(system.tools.chat.calls), len(encoder.texts)
        answer = asyncio.run(system.answer(memory, Query("What leaks?")))
        assert system.tools.chat.prompts()[calls:] == ["protocol/answer"]
        assert encoder.texts[texts:] == ["What leaks?"]
        assert answer.recall.context.startswith("About Mia: overall_portrait of")

    def test_overall_history_is_an_option(self):
        memory = build(bank())
        for wanted in (False, True):
            system = bank(ask=MemoryBankAsk(include_overall_history=wanted))
            recall = asyncio.run(system.recall(memory, Query("kayak")))
            assert ("overall_history of" in recall.context) is wanted

    def test_asking_leaves_the_memory_alone(self):
        system = bank()
        memory = build(system)
        before = (memory.units, repr(memory.state), memory.array("vectors").tobytes())
        asyncio.run(system.answer(memory, Query("kayak")))
        assert before == (memory.units, repr(memory.state), memory.array("vectors").tobytes())


def documents(*lengths, days=None):
    days = days or ["d"] * len(lengths)
    return [
        Unit(str(i), "x" * n, fields={"day": d})
        for i, (n, d) in enumerate(zip(lengths, days, strict=True))
    ]


class TestGluing:
    def test_neighbours_join_up_to_the_limit(self):
        assert glue(documents(50, 50, 50, 50, 50), [2], 200) == [1, 2, 3, 4]

    def test_long_exchanges_stay_alone(self):
        assert glue(documents(150, 150, 150), [1], 200) == [1]

    def test_other_days_never_join(self):
        assert glue(documents(10, 10, 10, days=["a", "b", "b"]), [1], 200) == [1, 2]

    @given(st.lists(st.integers(1, 120), min_size=1, max_size=8), st.data())
    def test_hits_are_always_shown_in_order(self, lengths, data):
        hits = data.draw(st.lists(st.sampled_from(range(len(lengths))), min_size=1, unique=True))
        shown = glue(documents(*lengths), hits, 200)
        assert set(hits) <= set(shown) and shown == sorted(shown)


class TestOddReplies:
    def test_empty_replies_are_counted_and_nothing_said_is_lost(self):
        system = bank(lambda *_: "  ")
        with ledger.scope("build") as account:
            memory = build(system)
        assert account.counts == {
            "memorybank.day_summary:empty": 2,
            "memorybank.day_personality:empty": 2,
            "memorybank.overall_history:empty": 1,
            "memorybank.overall_portrait:empty": 1,
        }
        assert {u.fields["kind"] for u in memory.units} == {"exchange"}
        assert {t for u in memory.units for t in u.turns} == {
            t.id for s in SESSIONS for t in s.turns
        }

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.text(max_size=60), min_size=1, max_size=8))
    def test_random_replies_never_lose_a_turn(self, replies):
        left = list(replies)

        def script(request, role, prompt):
            return left.pop() if left else '{"summary": ["cut'

        system = bank(script)
        memory = build(system)
        answer = asyncio.run(system.answer(memory, Query("kayak")))
        assert {t for u in memory.units for t in u.turns} == {
            t.id for s in SESSIONS for t in s.turns
        }
        assert {r.unit for r in answer.recall.ranking} == {u.id for u in memory.units}
        assert isinstance(memory, Memory)


def test_config_spells_out_the_defaults_and_valid_presets(pytestconfig):
    config = yaml.safe_load((pytestconfig.rootpath / "configs/method/memorybank.yaml").read_text())
    assert MemoryBankBuild(**config["build"]) == MemoryBankBuild()
    assert MemoryBankAsk(**config["ask"]) == MemoryBankAsk()
    assert set(config["build"]) == set(MemoryBankBuild.model_fields)
    assert set(config["ask"]) == set(MemoryBankAsk.model_fields)
    for name, rule in (("forgetting", "paper"), ("official", "official")):
        assert MemoryBankAsk(**config["presets"][name]["ask"]).forgetting == rule
    assert MemoryBankAsk(forgetting=False).forgetting == "off"  # YAML's bare `off`
