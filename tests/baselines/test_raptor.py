import asyncio
import math
import sys
from datetime import datetime

import numpy as np
import pytest
from doubles import HashEncoder, TableEncoder, tools
from hypothesis import given, settings
from hypothesis import strategies as st
from methodconfig import check_method_config
from sklearn.mixture import GaussianMixture

from baselines.raptor import Raptor, RaptorAsk, RaptorBuild
from baselines.raptor import clustering as c
from baselines.raptor.chunks import Piece, chunks
from baselines.raptor.clustering import Clustering
from baselines.raptor.tree import collapsed, cosines, traverse
from memsys.dialogue import Query, Session, Turn
from memsys.errors import UserError
from memsys.llm import ledger
from memsys.system import Memory, Unit

PCA = Clustering(reducer="pca", max_components=5)
WORDS = (
    "oslo", "ski", "mia", "boat", "tea", "garden", "train", "piano",
    "cat", "rain", "book", "bread", "hill", "lamp", "snow",
)  # fmt: skip


def session(n, turns=6):
    texts = [f"{WORDS[(n + i) % 15]} {WORDS[n]} number {i}." for i in range(turns)]
    made = [Turn(f"{n}:{i}", ("Ann", "Ben")[i % 2], text) for i, text in enumerate(texts)]
    return Session(f"s{n}", tuple(made), datetime(2023, 5, n + 1, 9, 30))


SESSIONS = [session(n) for n in range(8)]


def short(request, role, prompt):
    """Summaries of three words, so that layers shrink in every way."""
    return " ".join(request.messages[-1].content.split()[:3])


def raptor(script=short, encoder=None, window=128_000, ask=None, clustering=PCA, **build):
    made = RaptorBuild(**{"leaf_tokens": 8, "clustering": clustering, **build})
    return Raptor(made, RaptorAsk(**(ask or {})), tools(script, encoder, window))


def remembered(system, sessions=SESSIONS):
    return asyncio.run(system.remember(None, sessions))


def words(text):
    return len(text.split())


# --- worked examples


def test_worked_example_soft_membership():
    x = np.array([0.5, 1.5])
    right = 1 / (1 + np.exp(-2 * x))
    assert right == pytest.approx([0.7311, 0.9526], abs=5e-5)
    assert c.members(np.stack([1 - right, right], 1), 0.1) == [[0], [0, 1]]


def test_worked_example_bic():
    x = np.concatenate([np.linspace(0, 1, 10), np.linspace(6, 7, 10), [3.5]])[:, None]
    scores = [c.bic(x, k, PCA) for k in range(1, 5)]
    assert scores == pytest.approx([111.04, 79.08, 59.22, 66.76], abs=5e-3)
    assert c.best_components(x, Clustering(reducer="pca", max_components=4)) == 3


def test_worked_example_chunker():
    text = (
        "I moved to Oslo. My sister Mia visits often! We ski, hike, read long books, and cook "
        "every weekend together. Nice."
    )
    made = chunks([Piece(text, "s", "t")], 8, words)
    assert [chunk.text for chunk in made] == [
        "I moved to Oslo",
        "My sister Mia visits often",
        "We ski hike read long books",
        "and cook every weekend together",
        "Nice",
    ]


def test_worked_example_collapsed_tree():
    vectors = np.array([(1, 0.2), (1, 1), (0, 1), (1, 0.5), (0.2, 1)], np.float32)
    scores = cosines(vectors, np.array([1, 0], np.float32))
    assert scores == pytest.approx([0.9806, 0.7071, 0, 0.8944, 0.1961], abs=5e-5)
    assert collapsed(scores, [1] * 5, None, None) == [0, 3, 1, 4, 2]
    assert collapsed(scores, [40, 100, 1, 30, 20], None, 90) == [0, 3]
    assert collapsed(scores, [40, 100, 1, 30, 20], 1, 90) == [0]


# --- chunks


def test_a_clause_above_the_limit_stays_whole_and_is_counted():
    with ledger.scope("build") as account:
        made = chunks([Piece("a b c d e f, g h. i", "s", "t")], 4, words)
    assert [chunk.text for chunk in made] == ["a b c d e f", "g h", "i"]
    assert account.counts == {"raptor.long_clause": 1}


def test_chunks_know_their_turns_and_sessions():
    lines = [Piece("one two", "s1"), Piece("A: three", "s1", "t1"), Piece("B: four", "s2", "t2")]
    (chunk,) = chunks(lines, 8, words)
    assert (chunk.turns, chunk.sessions) == (("t1", "t2"), ("s1", "s2"))


@given(st.lists(st.text(alphabet="ab ,.;!\n", max_size=40), max_size=6), st.integers(1, 9))
def test_chunks_keep_every_word_in_order(lines, limit):
    made = chunks([Piece(t, "s", str(i)) for i, t in enumerate(lines)], limit, words)

    def bare(text):
        return text.translate(str.maketrans(",.;!", "    ")).split()

    assert bare(" ".join(chunk.text for chunk in made)) == bare("\n".join(lines))
    assert all(chunk.text for chunk in made)


# --- clustering


def blobs(n, centres=3, d=16, seed=0):
    random = np.random.default_rng(seed)
    middle = random.standard_normal((centres, d)) * 3
    return (middle[np.arange(n) % centres] + random.standard_normal((n, d)) * 0.3).astype("f4")


@pytest.mark.parametrize("seed", range(3))
def test_the_bic_choice_equals_scikit_learns(seed):
    points = np.random.default_rng(seed).standard_normal((60, 10))
    points[:30] += 2
    settings = Clustering(reducer="pca", max_components=12)
    by_formula = []
    for k in range(1, 13):
        model = GaussianMixture(k, random_state=224).fit(points)
        d, n = points.shape[1], len(points)
        parameters = k * d * (d + 1) / 2 + k * d + k - 1
        by_formula.append(parameters * math.log(n) - 2 * n * model.score(points))
    mine = [c.bic(points, k, settings) for k in range(1, 13)]
    np.testing.assert_allclose(mine, by_formula, rtol=1e-10)
    assert c.best_components(points, settings) == int(np.argmin(by_formula)) + 1


def test_separate_blobs_become_clusters_and_every_node_has_one():
    found = c.clusters(blobs(30), [10] * 30, PCA)
    assert sorted({i for cluster in found for i in cluster}) == list(range(30))
    assert all(len({i % 3 for i in cluster}) == 1 for cluster in found)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_tiny_inputs_are_one_cluster(n):
    assert c.clusters(blobs(n), [10] * n, PCA) == [list(range(n))]


def test_large_clusters_are_clustered_again_and_inseparable_ones_cut_in_order():
    same = np.ones((20, 8), np.float32)
    limited = Clustering(reducer="pca", max_components=5, max_cluster_tokens=50)
    found = c.clusters(same, [10] * 20, limited)
    assert all(len(cluster) <= 5 for cluster in found)
    assert sorted({i for cluster in found for i in cluster}) == list(range(20))
    assert c.in_order([4, 5, 6], [0, 0, 0, 0, 30, 30, 90], 60) == [[4, 5], [6]]
    unlimited = c.clusters(
        same, [10] * 20, Clustering(reducer="pca", max_components=5, max_cluster_tokens=None)
    )
    assert max(map(len, unlimited)) > 5


def test_clusters_with_too_many_tokens_split():
    limited = Clustering(reducer="pca", max_components=5, max_cluster_tokens=40)
    found = c.clusters(blobs(30), [10] * 30, limited)
    assert all(len(cluster) * 10 <= 40 for cluster in found)


def test_duplicates_are_matched_by_position():
    vectors = np.repeat(blobs(12, 12), 2, axis=0)
    found = c.clusters(vectors, [10] * 24, PCA)
    assert sorted({i for cluster in found for i in cluster}) == list(range(24))
    assert all(cluster == sorted(set(cluster)) for cluster in found)


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 6, 12, 40, 90])
def test_umap_clusters_are_bit_identical(n):
    pytest.importorskip("umap", reason="the extra 'raptor' is not installed")
    vectors = blobs(n, 4)
    first = c.reduce(vectors, max(2, int((n - 1) ** 0.5)), min(10, n - 2), Clustering())
    again = c.reduce(vectors, max(2, int((n - 1) ** 0.5)), min(10, n - 2), Clustering())
    np.testing.assert_array_equal(first, again)
    found = c.clusters(vectors, [10] * n, Clustering())
    assert found == c.clusters(vectors, [10] * n, Clustering())
    assert sorted({i for cluster in found for i in cluster}) == list(range(n))


@pytest.mark.slow
def test_conversations_may_be_clustered_concurrently():
    pytest.importorskip("umap", reason="the extra 'raptor' is not installed")
    system = raptor(clustering=Clustering())

    async def both():
        return await asyncio.gather(*(system.remember(None, SESSIONS) for _ in range(3)))

    one, *others = asyncio.run(both())
    for other in others:
        assert other.units == one.units
        np.testing.assert_array_equal(other.arrays["vectors"], one.arrays["vectors"])


def test_a_missing_reducer_is_said_before_any_call(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    system = raptor(clustering=Clustering())
    with pytest.raises(UserError, match="pip install umap-learn"):
        remembered(system)
    assert system.tools.chat.calls == []


# --- the tree


def test_the_tree_holds_together_and_costs_one_call_a_cluster():
    system = raptor()
    memory = remembered(system)
    units = {u.id: u for u in memory.units}
    summaries = [u for u in memory.units if u.fields["layer"] > 0]
    assert summaries and len(system.tools.chat.calls) == len(summaries)
    assert len(memory.array("vectors")) == len(memory.units)
    for unit in summaries:
        children = [units[name] for name in unit.fields["children"]]
        assert children and {x.fields["layer"] for x in children} == {unit.fields["layer"] - 1}
        assert set(unit.sessions) == {s for x in children for s in x.sessions}
        assert set(unit.turns) == {t for x in children for t in x.turns}
    leaves = [u for u in memory.units if u.fields["layer"] == 0]
    assert {t for u in leaves for t in u.turns} == {t.id for s in SESSIONS for t in s.turns}
    assert all(u.fields["tokens"] == words(u.text) for u in memory.units)


def test_a_small_layer_is_the_top():
    system = raptor()
    memory = remembered(system, SESSIONS[:1])
    assert len(memory.units) <= 11 and system.tools.chat.calls == []
    assert max(u.fields["layer"] for u in remembered(raptor(layers=1)).units) == 1


def test_two_builds_are_identical_and_one_system_builds_many():
    system = raptor()
    first = remembered(system)
    remembered(system, SESSIONS[:1])  # a small tree leaves nothing behind
    again = remembered(system)
    assert again.units == first.units
    np.testing.assert_array_equal(again.arrays["vectors"], first.arrays["vectors"])


def test_session_by_session_ends_with_the_same_tree():
    system = raptor()
    whole, grown = remembered(system), None
    for one in SESSIONS:
        grown = asyncio.run(system.remember(grown, [one]))
    assert (grown.units, grown.sessions, grown.state) == (whole.units, whole.sessions, whole.state)
    np.testing.assert_array_equal(grown.arrays["vectors"], whole.arrays["vectors"])
    assert asyncio.run(system.remember(grown, [])) is grown


def test_session_sized_leaves():
    memory = remembered(raptor(leaf="session"), SESSIONS)
    assert [u.sessions for u in memory.units] == [(s.id,) for s in SESSIONS]
    assert memory.units[1].text.startswith("2 May 2023, 9:30 am\nAnn: ski ski number 0.\nBen: ")


def test_a_lone_node_is_summarised_or_kept():
    alone = Clustering(
        reducer="pca", max_components=5, max_cluster_tokens=1
    )  # every node is a cluster
    system = raptor(clustering=alone, layers=1)
    leaves = [u for u in remembered(system).units if u.fields["layer"] == 0]
    assert len(system.tools.chat.calls) >= len(leaves)
    kept = raptor(clustering=alone, layers=1, reuse_single=True)
    memory = remembered(kept)
    assert kept.tools.chat.calls == []
    assert {u.text for u in memory.units} == {u.text for u in leaves}


# --- recall


def test_collapsed_recall_takes_three_nodes_and_ranks_sessions_by_leaves():
    system = raptor()
    memory = remembered(system)
    found = asyncio.run(system.recall(memory, Query("ski ski number 0")))
    assert len(found.ranking) == 3 and len(found.context.split("\n\n")) == 3
    assert sorted(found.sessions) == sorted(s.id for s in SESSIONS)
    best = {
        s.id: max(
            float(x)
            for u, x in zip(
                memory.units,
                cosines(
                    memory.array("vectors"),
                    asyncio.run(HashEncoder().encode(["ski ski number 0"]))[0],
                ),
                strict=True,
            )
            if u.fields["layer"] == 0 and s.id in u.sessions
        )
        for s in SESSIONS
    }
    assert list(found.sessions) == sorted(best, key=lambda name: -best[name])
    assert "ours" in system.session_ranking


def node(name, layer, children=(), sessions=()):
    fields = {"layer": layer, "children": list(children), "tokens": 1}
    return Unit(name, f"text {name}", (), tuple(sessions), fields)


TREE = (
    node("a", 0, (), ["s1"]), node("b", 0, (), ["s2"]), node("c", 0, (), ["s3"]),
    node("x", 1, "ab"), node("y", 1, "bc"), node("z", 1, "c"),
)  # fmt: skip


def test_traversal_goes_down_through_the_kept_nodes():
    assert [TREE[i].id for i in traverse(TREE, np.array([5, 4, 3, 1, 2, 0.0]), 1)] == ["y", "b"]
    two = traverse(TREE, np.array([5, 4, 3, 1, 2, 0.0]), 2)
    assert [TREE[i].id for i in two] == ["y", "x", "a", "b"]


def test_summaries_earn_a_session_nothing():
    vectors = np.array([(0.1, 1), (0.2, 1), (0, 1), (1, 0), (0, 1), (1, 0.1)], np.float32)
    memory = Memory(TREE, ("s1", "s2", "s3", "s4"), {"vectors": vectors})
    table = TableEncoder({"q": (1, 0)})
    found = asyncio.run(raptor(encoder=table).recall(memory, Query("q")))
    assert found.sessions == ("s2", "s1", "s3", "s4")
    assert [r.unit for r in found.ranking] == ["x", "z", "b"]
    walked = raptor(encoder=table, ask={"search": "traversal", "top_k": 1})
    assert [r.unit for r in asyncio.run(walked.recall(memory, Query("q"))).ranking] == ["x", "b"]


def test_one_answer_call_a_question():
    system = raptor()
    memory = remembered(system)
    before = len(system.tools.chat.calls)
    asyncio.run(system.answer(memory, Query("q")))
    assert system.tools.chat.prompts()[before:] == ["protocol/answer"]


# --- replies


def test_an_empty_summary_is_asked_again_then_replaced_by_the_texts_start():
    system = raptor(lambda *_: " \n", summary_tokens=5, layers=1)
    with ledger.scope("build") as account:
        memory = remembered(system)
    summaries = [u for u in memory.units if u.fields["layer"] == 1]
    assert account.counts["raptor.summary:fallback"] == len(summaries)
    assert len(system.tools.chat.calls) == 2 * len(summaries)
    assert {call[2].attempt for call in system.tools.chat.calls} == {0, 1}
    texts = {u.id: u.text for u in memory.units}
    first = texts[summaries[0].fields["children"][0]]
    assert " ".join(first.split()[:5]).startswith(" ".join(summaries[0].text.split()[:2]))
    assert all(0 < words(u.text) <= 5 for u in summaries)


@settings(max_examples=10, deadline=None)
@given(st.text(max_size=50))
def test_no_reply_crashes_or_loses_a_leaf(text):
    system = raptor(lambda *_: text, HashEncoder(8), layers=2)
    memory = remembered(system, SESSIONS[:4])
    turns = {t for u in memory.units if u.fields["layer"] == 0 for t in u.turns}
    assert turns == {t.id for s in SESSIONS[:4] for t in s.turns}
    found = asyncio.run(system.recall(memory, Query("ski")))
    assert len(found.ranking) == 3 and len(found.sessions) == 4


def test_a_cluster_longer_than_the_window_is_cut_and_counted():
    settings = Clustering(reducer="pca", max_components=5, max_cluster_tokens=None)
    system = raptor(leaf="session", window=120, summary_tokens=10, layers=1, clustering=settings)
    with ledger.scope("build") as account:
        memory = remembered(system, [session(n % 8, 40) for n in range(13)])
    assert account.counts["raptor.summary:cut_tokens"] > 0
    chat = system.tools.chat
    assert all(chat.message_tokens(call[2].messages) <= 110 for call in chat.calls)
    assert any(u.fields["layer"] == 1 for u in memory.units)


def test_nothing_said_is_an_empty_tree():
    system = raptor()
    memory = remembered(system, [Session("s1", ())])
    found = asyncio.run(system.recall(memory, Query("q")))
    assert (found.context, found.sessions, memory.sessions) == ("", ("s1",), ("s1",))
    grown = asyncio.run(system.remember(memory, SESSIONS[:1]))
    assert grown.units and grown.sessions == ("s1", "s0")


def test_config():
    config = check_method_config("raptor", RaptorBuild, RaptorAsk)
    assert config["_target_"] == "baselines.raptor.Raptor"
