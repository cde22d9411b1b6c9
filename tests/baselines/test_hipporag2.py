import asyncio
import json
from datetime import datetime

import networkx as nx
import numpy as np
import pytest
from doubles import HashEncoder, TableEncoder, tools
from hypothesis import given, settings
from hypothesis import strategies as st
from methodconfig import check_method_config

from baselines.hipporag2 import HippoRag2, HippoRag2Ask, HippoRag2Build
from baselines.hipporag2.extraction import Entities, Kept, Triples, clean, nearest_triple, normalise
from baselines.hipporag2.graph import (
    build_edges,
    min_max,
    phrase_seeds,
    phrases_of,
    rank_nodes,
    relation_pairs,
    synonym_pairs,
)
from memsys.dialogue import Query, Session, Turn
from memsys.llm import ledger
from memsys.rendering import session_text

ALICE, MIA = ("alice", "moved to", "oslo"), ("mia", "sister of", "alice")
FACTS = {"one": [["Alice", "moved to", "Oslo!"]], "two": [["Mia", "sister of", "Alice"]], "tea": []}


def session(n, word):
    turns = (Turn(f"{n}:1", "Ann", word), Turn(f"{n}:2", "Ben", "I see."))
    return Session(f"P{n}", turns, datetime(2023, 5, n))


SESSIONS = [session(1, "one"), session(2, "two"), session(3, "tea")]


def script(entities=None, triples=None, kept="all", answer="an answer"):
    """Replies by prompt; by default what the worked example extracts, and all facts kept."""

    def reply(request, role, prompt):
        text = request.messages[-1].content
        name = prompt.split("/")[1]
        if name == "entities":
            return (
                json.dumps({"named_entities": ["Alice", "Alice"]}) if entities is None else entities
            )
        if name == "triples":
            word = next(w for w in FACTS if f"[Ann]: {w}" in text)
            return json.dumps({"triples": FACTS[word]}) if triples is None else triples
        if name == "filter":
            return text.split("Facts: ")[1] if kept == "all" else kept
        return answer

    return reply


def angle(cosine):
    return (cosine, (1 - cosine**2) ** 0.5)


class Table(TableEncoder):
    """Knows the worked example's vectors; every other text (a phrase) has one of its own."""

    async def encode(self, texts, *, kind="passage"):
        self.texts.extend(texts)
        rows = np.zeros((len(texts), 16), np.float32)
        for row, text in zip(rows, texts, strict=True):
            if text in self.table:
                row[:2] = self.table[text]
            else:
                row[2 + ["alice", "oslo", "mia"].index(text)] = 1
        return rows


def worked(reply=None, build=None, **ask):
    # triple scores .8 and .5 and .. scale to 1 and 0 with two triples; a third pins the minimum
    table = {session_text(s): angle(x) for s, x in zip(SESSIONS, (0.62, 0.50, 0.20), strict=True)}
    table |= {str(ALICE): angle(0.9), str(MIA): angle(0.4), "q": (1, 0)}
    lent = tools(reply or script(), Table(table))
    return HippoRag2(HippoRag2Build(**(build or {})), HippoRag2Ask(**ask), lent)


def hippo(reply=None, encoder=None, window=128_000, build=None, **ask):
    lent = tools(reply or script(), encoder, window)
    return HippoRag2(HippoRag2Build(**(build or {})), HippoRag2Ask(**ask), lent)


def remembered(system, sessions=SESSIONS):
    return asyncio.run(system.remember(None, sessions))


def recall(system, memory, text="q"):
    return asyncio.run(system.recall(memory, Query(text)))


# --- the worked example

PASSAGES = [[ALICE], [MIA], []]
PHRASES = ["alice", "oslo", "mia"]
DENSE = min_max(np.array([0.62, 0.50, 0.20]))


def test_worked_example_passage_similarities():
    assert pytest.approx([1, 0.714286, 0], abs=5e-7) == DENSE


@pytest.mark.parametrize(
    ("rule", "expected"), [("mean", [0.35, 1.0, 0.4]), ("last", [0.2, 1.0, 0.4])]
)
def test_worked_example_phrase_seeds(rule, expected):
    seeds = phrase_seeds([(ALICE, 1.0), (MIA, 0.4)], PHRASES, [2, 1, 1], rule, 5)
    assert seeds == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rule", "mode", "expected"),
    [
        ("mean", "official", [0.311319, 0.348679, 0.177134, 0.097675, 0.065193, 0]),
        ("last", "official", [0.284201, 0.368980, 0.182170, 0.100011, 0.064638, 0]),
        ("mean", "merged", [0.276265, 0.340208, 0.164851, 0.133204, 0.085473, 0]),
    ],
)
def test_worked_example_pagerank(rule, mode, expected):
    edges, weights = build_edges(PASSAGES, PHRASES, {}, mode)
    seeds = phrase_seeds([(ALICE, 1.0), (MIA, 0.4)], PHRASES, [2, 1, 1], rule, 5)
    both = np.concatenate([seeds, 0.05 * DENSE])
    assert both.sum() == pytest.approx(1.835714 if rule == "mean" else 1.685714, abs=5e-7)
    pi = rank_nodes(edges, weights, both, 0.5)
    assert pi == pytest.approx(expected, abs=5e-7)


def test_worked_example_edges():
    pairs = relation_pairs(PASSAGES, {p: i for i, p in enumerate(PHRASES)})
    assert pairs == {(0, 1): 1, (1, 0): 1, (2, 0): 1, (0, 2): 1}
    edges, weights = build_edges(PASSAGES, PHRASES, {}, "official")
    assert len(edges) == 8 and set(weights) == {1.0}
    edges, _ = build_edges(PASSAGES, PHRASES, {}, "merged")
    assert len(edges) == 6


def test_worked_example_filter_empty_is_dense():
    system = worked(script(kept='{"fact": []}'))
    with ledger.scope("question") as account:
        found = recall(system, remembered(system))
    assert [r.score for r in found.ranking] == pytest.approx([1, 0.714286, 0], abs=5e-7)
    assert found.sessions == ("P1", "P2", "P3") and found.trace["dense"]
    assert account.counts == {"hipporag2.dense_fallback": 1}


def test_the_system_runs_the_worked_example():
    system = worked(seed_rule="mean")
    memory = remembered(system)
    assert memory.state["phrases"] == PHRASES
    assert memory.state["passages_with"] == [2, 1, 1]
    assert memory.state["triples"] == [list(ALICE), list(MIA)]
    found = recall(system, memory)
    # with two triples the scores are 1 and 0: alice (1/2 + 0)/2, oslo 1, mia 0
    seeds = np.array([0.25, 1, 0, 0.05, 0.05 * DENSE[1], 0])
    expected = rank_nodes(*build_edges(PASSAGES, PHRASES, {}, "official"), seeds, 0.5)[3:]
    assert [r.score for r in found.ranking] == pytest.approx(list(expected), abs=1e-6)
    assert found.sessions == ("P1", "P2", "P3")
    assert found.trace["kept"] == [list(ALICE), list(MIA)]
    assert found.context.startswith("[1 May 2023, 12:00 am]\n[Ann]: one\n[Ben]: I see.\n\n[2 May")
    assert all("May" not in u.text for u in memory.units)


# --- the graph against networkx


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from(["official", "merged"]))
def test_pagerank_equals_networkx(seed, size, mode):
    random = np.random.default_rng(seed)
    names = [f"phrase {i}" for i in range(size)]
    triples = [
        [(names[a], "r", names[b]) for a, b in random.integers(0, size, (n, 2))]
        for n in random.integers(0, 6, 5)
    ]
    phrases = phrases_of([t for p in triples for t in p])
    vectors = random.standard_normal((len(phrases), 3)).astype(np.float32)
    synonyms = synonym_pairs(phrases, vectors, 0.8, 2047, 101)
    edges, weights = build_edges(triples, phrases, synonyms, mode)
    nodes = len(phrases) + len(triples)
    seeds = random.random(nodes) * (random.random(nodes) < 0.6)
    seeds[0] += 0.1
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    for (a, b), weight in zip(edges.tolist(), weights, strict=True):
        old = graph.get_edge_data(a, b, {"weight": 0})["weight"]
        graph.add_edge(a, b, weight=old + weight)
    restart = dict(enumerate(seeds))
    expected = nx.pagerank(
        graph, 0.5, restart, tol=1e-15, max_iter=1000, dangling=restart, weight="weight"
    )
    pi = rank_nodes(edges, weights, seeds, 0.5)
    np.testing.assert_allclose(pi, [expected[i] for i in range(nodes)], atol=1e-10)


def test_negative_seeds_count_as_none():
    edges, weights = build_edges(PASSAGES, PHRASES, {}, "official")
    negative = rank_nodes(edges, weights, np.array([1, -5, 0, 0, 0, 0.0]), 0.5)
    np.testing.assert_array_equal(
        negative, rank_nodes(edges, weights, np.array([1, 0, 0, 0, 0, 0.0]), 0.5)
    )


def test_synonyms_replace_relations_of_the_same_ordered_pair():
    phrases = ["car", "cars", "uk", "ukraine"]
    near = np.array([(1, 0.0), angle(0.9), (-1, 0.1), (-1, 0.0)], np.float32)
    pairs = synonym_pairs(phrases, near, 0.8, 2047, 101)
    assert set(pairs) == {(0, 1), (1, 0), (3, 2)}  # "uk" is too short to look for its own
    assert pairs[0, 1] == pytest.approx(0.9, abs=1e-6)
    triples = [[("car", "r", "cars"), ("car", "q", "cars")]]
    with ledger.scope("build") as account:
        edges, weights = build_edges(triples, phrases, pairs, "official")
    weight = dict(zip(map(tuple, edges.tolist()), weights, strict=True))
    assert weight[0, 1] == weight[1, 0] == pytest.approx(0.9, abs=1e-6)
    assert account.counts == {"hipporag2.graph:synonym_over_relation": 2}


def test_synonyms_are_limited():
    same = np.ones((6, 4), np.float32)
    names = [f"name{i}" for i in range(6)]
    assert len(synonym_pairs(names, same, 0.8, 2047, 2)) == 12
    assert len(synonym_pairs(names, same, 0.8, 3, 101)) <= 18
    assert synonym_pairs([], np.zeros((0, 4), np.float32), 0.8, 2047, 101) == {}


def test_a_large_pool_of_phrases_gives_the_same_synonyms(monkeypatch):
    """From `POOLED` phrases on faiss looks for the neighbours; no pair changes."""
    pytest.importorskip("faiss")
    names = [f"name{i}" for i in range(600)]
    vectors = np.random.default_rng(0).standard_normal((600, 3)).astype(np.float32)
    small = synonym_pairs(names, vectors, 0.8, 2047, 101)
    monkeypatch.setattr("memsys.retrieval.vector_index.POOLED", 100)
    large = synonym_pairs(names, vectors, 0.8, 2047, 101)
    assert len(small) > 600 and list(small) == list(large)
    assert list(large.values()) == pytest.approx(list(small.values()), abs=1e-6)


def test_self_loops_are_dropped_and_repeated_triples_add_up():
    pairs = relation_pairs(
        [[("a", "r", "a"), ("a", "r", "b")], [("b", "q", "a")]], {"a": 0, "b": 1}
    )
    assert pairs == {(0, 1): 2, (1, 0): 2}


def test_only_the_best_phrases_are_seeds():
    kept = [((f"s{i}", "r", f"o{i}"), 1 - i / 10) for i in range(5)]
    phrases = phrases_of([t for t, _ in kept])
    for rule in ("mean", "last"):
        seeds = phrase_seeds(kept, phrases, [1] * 10, rule, 5)
        assert np.flatnonzero(seeds).tolist() == [0, 1, 2, 3, 4]
    # `mean` orders by the divided weight, `last` by the undivided score
    few = [(("a", "r", "a2"), 1.0), (("b", "r", "b2"), 0.6)]
    names = phrases_of([t for t, _ in few])
    spread = [10, 10, 1, 1]
    assert np.flatnonzero(phrase_seeds(few, names, spread, "mean", 2)).tolist() == [2, 3]
    assert np.flatnonzero(phrase_seeds(few, names, spread, "last", 2)).tolist() == [0, 1]


def test_min_max():
    assert min_max(np.array([2.0, 4, 3])).tolist() == [0, 1, 0.5]
    assert min_max(np.array([2.0, 2])).tolist() == [1, 1] and len(min_max(np.zeros(0))) == 0


# --- extraction


def test_two_calls_a_session_one_a_question_and_one_answer():
    system = hippo()
    memory = remembered(system)
    assert (
        sorted(system.tools.chat.prompts())
        == ["hipporag2/entities"] * 3 + ["hipporag2/triples"] * 3
    )
    asyncio.run(system.answer(memory, Query("q")))
    assert system.tools.chat.prompts()[6:] == ["hipporag2/filter", "protocol/answer"]
    assert memory.units[0].fields["entities"] == ["Alice"]


def test_the_filter_can_be_left_out_and_needs_triples():
    system = hippo(filter=False)
    memory = remembered(system)
    assert recall(system, memory).trace["kept"] and len(system.tools.chat.calls) == 6
    assert "main" not in system.needs("recall")
    bare = hippo(script(triples='{"triples": []}'))
    memory = remembered(bare)
    assert recall(bare, memory).trace["dense"] and len(bare.tools.chat.calls) == 6


def test_only_five_triples_reach_the_filter():
    many = json.dumps({"triples": [["a", f"r{i}", f"o{i}"] for i in range(9)]})
    system = hippo(script(triples=many))
    found = recall(system, remembered(system))
    assert len(found.trace["candidates"]) == 5
    assert system.tools.chat.calls[-1][2].messages[-1].content.count("[") == 6


def test_normalise_and_clean():
    assert normalise(" Oslo! (2023) ") == "oslo   2023"
    assert normalise("東京") == ""
    rows = [["A", "r", "B"], ["A", "r", "B"], ["a", "r", "b"], ["東京", "r", "B"]]
    with ledger.scope("build") as account:
        assert clean(rows) == [("a", "r", "b"), ("a", "r", "b")]
    assert account.counts == {"hipporag2.triples:empty": 1}


def test_lists_are_read_leniently():
    assert Entities(named_entities=["a", 3, None, ["b"], True]).named_entities == ["a", "3"]
    rows = [["a", "r", "b"], ["a", "b"], "arb", ["a", "r", 5], {"s": 1}, None]
    assert Triples(triples=rows).triples == [["a", "r", "b"], ["a", "r", "5"]]
    assert Kept(fact="none").fact == []


def test_the_nearest_candidate():
    assert nearest_triple(("mia", "is sister of", "alice"), [ALICE, MIA]) == 1
    assert nearest_triple(("x", "y", "z"), [ALICE, ALICE]) == 0


def test_repeated_and_loosely_quoted_facts_are_matched_and_counted():
    facts = json.dumps({"fact": [list(ALICE), ["alice", "moved", "oslo"], list(ALICE)]})
    system = worked(script(kept=facts))
    with ledger.scope("question") as account:
        found = recall(system, remembered(system))
    assert found.trace["kept"] == [list(ALICE)]
    assert account.counts == {"hipporag2.filter:matched_loosely": 1, "hipporag2.filter:repeated": 2}


BAD = [
    "",
    "There is nothing.",
    '{"other": 1}',
    "```\n[1]\n```",
    "[[1, 2",
    "なにもない",
    "__import__('os')",
]


@pytest.mark.parametrize("bad", BAD)
def test_malformed_extraction_leaves_an_isolated_passage(bad):
    system = hippo(script(entities=bad, triples=bad))
    with ledger.scope("build") as account:
        memory = remembered(system)
    assert account.counts["hipporag2.entities:fallback"] == 3
    assert account.counts["hipporag2.triples:fallback"] == 3
    assert len(memory.arrays["edges"]) == 0 and len(memory.units) == 3
    assert len(recall(system, memory, "one").sessions) == 3


@pytest.mark.parametrize("bad", BAD)
def test_a_malformed_filter_is_dense_retrieval(bad):
    system = worked(script(kept=bad))
    with ledger.scope("question") as account:
        found = recall(system, remembered(system))
    assert found.trace["dense"] and account.counts["hipporag2.filter:fallback"] == 1


@pytest.mark.parametrize(
    "text",
    ['{"triples": [["Alice", "moved to", "Oslo"], ["Alice", "li',
     'Sure!\n```json\n{"triples": [["Alice", "moved to", "Oslo"]]}\n```'],
)  # fmt: skip
def test_truncated_and_fenced_triples_are_read(text):
    memory = remembered(hippo(script(triples=text)), SESSIONS[:1])
    assert memory.units[0].fields["triples"] == [list(ALICE)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(JSON, JSON, JSON, st.text(max_size=40), st.booleans())
def test_no_reply_crashes_or_loses_a_session(entities, triples, fact, noise, prose):
    def wrapped(name, value):
        return noise if prose else json.dumps({name: value}) + noise

    reply = script(
        wrapped("named_entities", entities), wrapped("triples", triples), wrapped("fact", fact)
    )
    system = hippo(reply, HashEncoder(6))
    memory = remembered(system)
    found = recall(system, memory)
    assert sorted(found.sessions) == ["P1", "P2", "P3"] and memory.sessions == ("P1", "P2", "P3")


def test_session_by_session_gives_the_same_memory():
    sessions = [*SESSIONS, session(4, "one"), Session("P5", ())]
    system, grown = hippo(encoder=HashEncoder()), None
    whole = remembered(system, sessions)
    for one in sessions:
        grown = asyncio.run(system.remember(grown, [one]))
    assert (grown.units, grown.sessions, grown.state) == (whole.units, whole.sessions, whole.state)
    assert grown.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(grown.arrays[name], array)


def test_a_session_without_turns_costs_no_call_and_a_long_one_is_cut():
    long = Session("P9", (Turn("1", "Ann", "one " * 3000),))
    system = hippo(window=2600)
    with ledger.scope("build") as account:
        memory = remembered(system, [Session("P8", ()), long])
    assert len(system.tools.chat.calls) == 2 and memory.sessions == ("P8", "P9")
    assert account.counts["hipporag2.entities:cut_tokens"] > 2000
    assert account.counts["hipporag2.triples:cut_tokens"] > 2000
    chat = system.tools.chat
    assert all(chat.message_tokens(call[2].messages) <= 2600 - 2048 for call in chat.calls)


def test_an_empty_memory_recalls_nothing():
    system = hippo()
    assert recall(system, remembered(system, [])).sessions == ()


def test_config():
    config = check_method_config("hipporag2", HippoRag2Build, HippoRag2Ask)
    assert config["_target_"] == "baselines.hipporag2.HippoRag2"
