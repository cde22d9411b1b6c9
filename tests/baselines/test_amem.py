"""A-Mem: evolution and link expansion to the spec's example, cost model, odd replies."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime

import numpy as np
import pytest
import yaml
from anything import filled_with_anything
from doubles import HashEncoder, TableEncoder, tools
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.amem import AMem, AMemAsk, AMemBuild
from baselines.amem.notes import Note, evolve, expand, notes_of
from baselines.amem.replies import Analysis, Evolution, Keywords
from memsys.dialogue import Query, Session, Turn
from memsys.llm import ledger
from memsys.llm.structured import read_json
from memsys.system import Memory, Unit

QUERY = Query("What did Mia buy?")


def sessions(turns=7, per=3):
    made = []
    for start in range(0, turns, per):
        lines = tuple(
            Turn(f"t{i}", "Mia" if i % 2 else "Leo", f"word{i} thing{i % 3}")
            for i in range(start, min(start + per, turns))
        )
        made.append(Session(f"s{start // per}", lines, datetime(2023, 6, 1 + start, 9)))
    return made


def analysis(i):
    return json.dumps({"keywords": [f"k{i}"], "context": f"context {i}", "tags": [f"tag{i}"]})


def evolution(evolves=True, **fields):
    return json.dumps({"should_evolve": evolves, **fields})


def replying(note=None, evolved=evolution(False), keywords='{"keywords": "buy, shop"}'):
    """A script; a note's analysis depends on the number in its text alone."""

    def script(request, role, prompt):
        if prompt == "amem/note":
            text = request.messages[-1].content
            return analysis(text.split("word")[1].split()[0]) if note is None else note
        if prompt == "amem/evolution":
            return evolved if isinstance(evolved, str) else evolved(request)
        return {"amem/query": keywords}.get(prompt, "a kayak")

    return script


def amem(script=None, build=None, ask=None, encoder=None, window=128_000):
    lent = tools(script or replying(), encoder, window=window)
    return AMem(build or AMemBuild(), ask or AMemAsk(), lent)


def build(system, given_sessions=None):
    return asyncio.run(system.remember(None, given_sessions or sessions()))


def turns_of(memory):
    return [t for u in memory.units for t in u.turns]


class TestEvolution:
    def notes(self, count=2):
        return [
            Note(f"t{i}", "s", f"content {i}", "", [f"k{i}"], f"old context {i}", [f"old{i}"])
            for i in range(count)
        ]

    def test_worked_example(self):
        notes, note = self.notes(), Note("t2", "s", "content 2", "", tags=["first"])
        reply = Evolution(
            should_evolve=True,
            actions=["strengthen", "update_neighbor"],
            suggested_connections=[1],
            tags_to_update=["travel"],
            new_context_neighborhood=["c0"],
            new_tags_neighborhood=[["x"], ["y"]],
        )
        changed = evolve(notes, note, [1, 0], reply)
        assert (note.links, note.tags) == ([1], ["travel"])
        assert (notes[1].tags, notes[1].context) == (["x"], "c0")
        assert (notes[0].tags, notes[0].context) == (["y"], "old context 0")
        assert changed == [1, 0]
        assert [n.keywords for n in notes] == [["k0"], ["k1"]]

    def test_no_evolution_changes_nothing(self):
        notes, note = self.notes(), Note("t2", "s", "content 2", "", tags=["first"])
        reply = Evolution(
            should_evolve=False,
            actions=["strengthen", "update_neighbor"],
            suggested_connections=[1],
            tags_to_update=["travel"],
            new_tags_neighborhood=[["x"]],
        )
        assert evolve(notes, note, [1, 0], reply) == []
        assert (note.links, note.tags) == ([], ["first"]) and notes == self.notes()

    def test_bad_links_are_ignored(self):
        notes, note = self.notes(3), Note("t3", "s", "content 3", "")
        reply = Evolution(
            should_evolve=True, actions=["strengthen"], suggested_connections=[3, 99, 2, 0]
        )
        evolve(notes, note, [0], reply)
        assert note.links == [2, 0]  # 3 is the note itself

    def test_empty_replacements_lose_nothing(self):
        notes, note = self.notes(), Note("t2", "s", "content 2", "", tags=["first"])
        reply = Evolution(
            should_evolve=True,
            actions=["strengthen", "update_neighbor"],
            new_context_neighborhood=["", "second"],
            new_tags_neighborhood=[[], []],
        )
        assert evolve(notes, note, [0, 1], reply) == [1]
        assert note.tags == ["first"]
        assert [n.tags for n in notes] == [["old0"], ["old1"]]
        assert [n.context for n in notes] == ["old context 0", "second"]


class TestExpansion:
    LINKS = ([3], [], [0, 1, 3], [])

    def test_worked_example(self):
        shown = expand([0, 2], self.LINKS, 2)
        assert shown == [0, 3, 2, 0, 1, 3]
        assert list(dict.fromkeys(shown)) == [0, 3, 2, 1]

    def test_the_loop_stops_after_k_plus_one_links(self):
        assert expand([2], [[3], [], [0, 1, 3, 0, 1], []], 2) == [2, 0, 1, 3]

    def test_recall_shows_and_ranks_the_example(self):
        units = [
            Unit(
                str(i),
                f"note {i}",
                (str(i),),
                (f"s{i}",),
                {
                    "time": "",
                    "keywords": [],
                    "context": "General",
                    "tags": [],
                    "links": [str(j) for j in links],
                },
            )
            for i, links in enumerate(self.LINKS)
        ]
        cosines = np.array([0.9, 0.2, 0.7, 0.4], np.float32)
        vectors = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)
        memory = Memory(tuple(units), ("s0", "s1", "s2", "s3"), {"vectors": vectors})
        system = amem(ask=AMemAsk(top_k=2), encoder=TableEncoder({"buy, shop": (1.0, 0.0)}))
        recall = asyncio.run(system.recall(memory, QUERY))
        assert recall.trace["shown"] == ["0", "3", "2", "0", "1", "3"]
        assert [r.unit for r in recall.ranking] == ["0", "3", "2", "1"]
        assert recall.sessions == ("s0", "s3", "s2", "s1")
        assert recall.context.count("Content: note 0") == 2  # repeats stay, as published


class TestMemory:
    def test_two_calls_a_turn_but_one_for_the_first(self):
        system = amem()
        memory = build(system)
        names = system.tools.chat.prompts()
        assert names.count("amem/note") == 7 and names.count("amem/evolution") == 6
        assert len(names) == 13
        assert {(role, r.temperature) for _, role, r in system.tools.chat.calls} == {("main", 0.0)}
        assert turns_of(memory) == [f"t{i}" for i in range(7)]

    def test_notes_hold_what_the_model_said(self):
        note = build(amem()).units[4]
        assert note.text == "Leo: word4 thing1" and note.sessions == ("s1",)
        assert note.fields == {
            "time": "4 June 2023, 9:00 am",
            "keywords": ["k4"],
            "context": "context 4",
            "tags": ["tag4"],
            "links": [],
        }

    def test_captions_stand_before_the_text(self):
        session = Session("s", (Turn("t", "Mia", "Look!", caption="a red kayak"),))
        assert Note.of(session.turns[0], session).content == "Mia: [image: a red kayak] Look!"

    @pytest.mark.parametrize("refresh", [False, True])
    def test_at_once_equals_session_by_session(self, refresh):
        def evolved(request):
            new = request.messages[-1].content.count("Index:")
            return evolution(
                actions=["strengthen", "update_neighbor"],
                suggested_connections=[0, new],
                tags_to_update=[f"tags{new}"],
                new_context_neighborhood=[f"seen {new}"],
                new_tags_neighborhood=[["n"], ["m", str(new)]],
            )

        async def go():
            how = AMemBuild(rebuild_every=4, refresh_neighbours=refresh)
            system = amem(replying(evolved=evolved), build=how)
            at_once = await system.remember(None, sessions(12))
            memory = None
            for session in sessions(12):
                memory = await system.remember(memory, [session])
            return at_once, memory

        at_once, memory = asyncio.run(go())
        assert at_once.units == memory.units and at_once.state == memory.state
        assert at_once.sessions == memory.sessions
        np.testing.assert_array_equal(at_once.array("vectors"), memory.array("vectors"))
        assert any(u.fields["links"] for u in memory.units)
        assert notes_of(memory.units)[-1].links

    def test_five_nearest_neighbours_are_shown_with_their_indices(self):
        system = amem()
        build(system, sessions(9))
        last = system.tools.chat.calls[-1][2].messages[-1].content
        assert last.count("Index: ") == 5
        assert last.startswith("New note:\nTime: 7 June 2023, 9:00 am\nContent: Leo: word8 thing2")

    def vectors(self, turns, **how):
        evolved = evolution(
            actions=["update_neighbor"], new_context_neighborhood=["a wholly new context"]
        )
        system = amem(replying(evolved=evolved), build=AMemBuild(**how))
        memory = build(system, sessions(turns))
        texts = [n.embedded_text("paper") for n in notes_of(memory.units)]
        fresh = asyncio.run(HashEncoder().encode(texts))
        return [
            bool(np.allclose(*pair)) for pair in zip(memory.array("vectors"), fresh, strict=True)
        ]

    def test_vectors_of_changed_neighbours_are_stale_until_the_rebuild(self):
        assert not all(self.vectors(7))
        assert all(self.vectors(7, refresh_neighbours=True))
        assert all(self.vectors(4, rebuild_every=3))  # three evolutions, the last one rebuilds

    def test_embedded_text_forms(self):
        note = Note("t", "s", "content", "", ["k1", "k2"], "context", ["tag"])
        assert note.embedded_text("paper") == "content k1 k2 tag context"
        assert note.embedded_text("official") == "content context k1 k2 tag"

    def test_an_empty_session_costs_nothing(self):
        system = amem()
        memory = build(system, [Session("s", ())])
        assert system.tools.chat.calls == [] and memory.sessions == ("s",)
        answer = asyncio.run(system.answer(memory, QUERY))
        assert answer.recall.ranking == () and answer.recall.sessions == ("s",)


class TestAsking:
    def test_two_calls_and_one_embedding_of_the_keywords(self):
        encoder = HashEncoder()
        system = amem(encoder=encoder)
        memory = build(system)
        calls, texts = len(system.tools.chat.calls), len(encoder.texts)
        answer = asyncio.run(system.answer(memory, QUERY))
        assert system.tools.chat.prompts()[calls:] == ["amem/query", "protocol/answer"]
        assert encoder.texts[texts:] == ["buy, shop"]
        assert answer.text == "a kayak"
        assert {r.unit for r in answer.recall.ranking} == {u.id for u in memory.units}

    def test_asking_leaves_the_memory_alone(self):
        system = amem()
        memory = build(system)
        before = (repr(memory.units), repr(memory.state), memory.array("vectors").tobytes())
        asyncio.run(system.answer(memory, QUERY))
        assert before == (repr(memory.units), repr(memory.state), memory.array("vectors").tobytes())

    @pytest.mark.parametrize(
        ("reply", "searched"),
        [
            ('{"keywords": ["kayak", "shop"]}', "kayak, shop"),
            ('```json\n{"keywords": "kayak"}\n```', "kayak"),
            ("kayak and shop", "kayak and shop"),
            ("", QUERY.text),
            ('{"keywords": ""}', QUERY.text),
        ],
    )
    def test_keywords_or_the_raw_text(self, reply, searched):
        system = amem(replying(keywords=reply))
        recall = asyncio.run(system.recall(build(system), QUERY))
        assert recall.trace["keywords"] == searched


MALFORMED = [
    "",
    "Certainly! Here it is.",
    '{"keywords": ["kay',
    "{}",
    '{"labels": 1}',
    "```json\n[]\n```",
    "关键词",
    '{"should_evolve": "maybe", "suggested_connections": {"a": 1}, "actions": 7}',
    '{"keywords": 3, "context": [], "tags": null}',
]


class TestMalformed:
    def test_a_bad_note_reply_gives_an_empty_general_note(self):
        system = amem(replying(note="I cannot."))
        with ledger.scope("build") as account:
            memory = build(system)
        assert account.counts["amem.note:fallback"] == 7
        assert {
            (u.fields["context"], *u.fields["keywords"], *u.fields["tags"]) for u in memory.units
        } == {("General",)}
        assert turns_of(memory) == [f"t{i}" for i in range(7)]

    def test_a_bad_evolution_reply_changes_nothing(self):
        system = amem(replying(evolved="I cannot."))
        with ledger.scope("build") as account:
            memory = build(system)
        assert account.counts["amem.evolution:fallback"] == 6
        assert memory.units == build(amem()).units

    def test_good_keywords_survive_a_fence(self):
        read, clean = read_json(
            '```json\n{"keywords": "a, b", "context": "c", "tags": []}\n```', Analysis
        )
        assert read is not None and read.keywords == ["a", "b"] and not clean

    def test_a_cut_off_note_keeps_what_it_has(self):
        system = amem(replying(note='{"keywords": ["kayak", "shop"], "context": "Mia b'))
        fields = build(system).units[0].fields
        assert fields["keywords"] == ["kayak", "shop"] and fields["context"] == "Mia b"

    def test_lenient_evolution(self):
        read, _ = read_json(
            '{"should_evolve": "True", "actions": "Strengthen", "suggested_connections": '
            '["2", 1, "x", null, true, -1, 1.5], "new_context_neighborhood": ["", null, "c"], '
            '"new_tags_neighborhood": [["a"], "b, c", null]}',
            Evolution,
        )
        assert read is not None and read.should_evolve and read.actions == ["strengthen"]
        assert read.suggested_connections == [2, 1]
        assert read.new_context_neighborhood == ["", "", "c"]
        assert read.new_tags_neighborhood == [["a"], ["b", "c"], []]

    @pytest.mark.parametrize("text", MALFORMED)
    def test_each_kind_loses_nothing(self, text):
        system = amem(replying(note=text, evolved=text, keywords=text))
        memory = build(system)
        answer = asyncio.run(system.answer(memory, QUERY))
        assert turns_of(memory) == [f"t{i}" for i in range(7)]
        assert {r.unit for r in answer.recall.ranking} == {u.id for u in memory.units}

    @settings(max_examples=50, deadline=None)
    @given(st.data())
    def test_random_replies_never_lose_a_turn(self, data):
        shapes = st.sampled_from([Analysis, Evolution, Keywords])
        reply = st.one_of(
            st.text(max_size=30),
            st.sampled_from(MALFORMED),
            shapes.flatmap(filled_with_anything),
        )
        system = amem(lambda *_: data.draw(reply))
        memory = build(system, sessions(4))
        answer = asyncio.run(system.answer(memory, QUERY))
        assert turns_of(memory) == [f"t{i}" for i in range(4)]
        assert {r.unit for r in answer.recall.ranking} == {u.id for u in memory.units}
        assert {link for u in memory.units for link in u.fields["links"]} <= set(turns_of(memory))


def test_long_neighbours_are_cut_to_the_window_and_counted():
    long = Session("s", tuple(Turn(f"t{i}", "Mia", f"word{i} " + "x " * 300) for i in range(6)))
    system = amem(window=2200)
    with ledger.scope("build") as account:
        memory = build(system, [long])
    assert account.counts["amem.evolution:cut_tokens"] > 0
    chat = system.tools.chat
    assert max(chat.message_tokens(r.messages) for _, _, r in chat.calls) <= 1200
    assert len(memory.units) == 6


def test_config_spells_out_the_defaults_and_valid_presets(pytestconfig):
    config = yaml.safe_load((pytestconfig.rootpath / "configs/method/amem.yaml").read_text())
    assert AMemBuild(**config["build"]) == AMemBuild()
    assert AMemAsk(**config["ask"]) == AMemAsk()
    assert set(config["build"]) == set(AMemBuild.model_fields)
    assert set(config["ask"]) == set(AMemAsk.model_fields)
    official = AMemBuild(**{**config["build"], **config["presets"]["official"]["build"]})
    assert official.note_text == "official"
