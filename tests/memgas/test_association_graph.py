import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsys.memgas.graph import new_edges
from memsys.memgas.settings import Association
from memsys.retrieval.mixture import accept_sets, fit_sklearn


def vectors(sessions, seed=0, d=24):
    random = np.random.default_rng(seed)
    return random.normal(size=(4 * sessions, d)).astype(np.float32)


def pairs(edges):
    return [tuple(edge) for edge in edges.tolist()]


def linked(sessions=9, nodes=None, **association):
    nodes = vectors(sessions) if nodes is None else nodes
    return new_edges(nodes, 0, Association(**association))


def test_graph_shape() -> None:  # memgas.md §9.4
    edges = linked(6, first_linked_session=5)
    assert set(edges[:, 0].tolist()) == {20, 21, 22, 23}
    assert edges[:, 1].max() < 20
    assert linked(5, first_linked_session=5).shape == (0, 2)


def test_the_paper_links_from_the_second_session_on() -> None:
    assert linked(2)[:, 0].min() >= 4 and set(linked(2)[:, 0].tolist()) == {4, 5, 6, 7}
    assert linked(1).shape == linked(1, first_linked_session=0).shape == (0, 2)


def test_edges_go_to_older_sessions_only_and_are_unique() -> None:
    edges = linked(12)
    assert (edges[:, 0] // 4 > edges[:, 1] // 4).all()
    assert len(set(pairs(edges))) == len(edges)
    assert (np.diff(edges[:, 0]) >= 0).all()


def test_accept_sets_are_scikit_learns() -> None:
    nodes = vectors(12)
    edges = linked(12)
    for node in range(4, 48):
        old = 4 * (node // 4)
        scores = nodes[old : old + 4][node - old] @ nodes[:old].T
        nearest = np.argsort(-scores, kind="stable")[:30]
        accepted = nearest[fit_sklearn(scores[nearest][None].astype(np.float64)).accepted[0]]
        assert set(edges[edges[:, 0] == node, 1].tolist()) == set(accepted.tolist())


def test_the_reference_switch_gives_the_same_graph() -> None:
    np.testing.assert_array_equal(linked(7, gmm="batched"), linked(7, gmm="sklearn"))


def test_edge_rules() -> None:
    nodes = vectors(8)
    for rule, k in (("top1", 1), ("topk:5", 5)):
        edges = linked(nodes=nodes, edge_rule=rule)
        assert len(edges) == sum(min(k, 4 * s) for s in range(1, 8) for _ in range(4))
        for node in (4, 17, 31):
            old = 4 * (node // 4)
            scores = nodes[node] @ nodes[:old].T
            nearest = np.argsort(-scores, kind="stable")[:k]
            assert edges[edges[:, 0] == node, 1].tolist() == nearest.tolist()
    assert linked(nodes=nodes, enabled=False).shape == (0, 2)
    for wrong in ("top2", "topk:0", "topk", "all"):
        with pytest.raises(ValueError, match="edge_rule"):
            Association(edge_rule=wrong)


def test_the_cap_limits_candidates() -> None:
    assert len(linked(10, candidate_cap=1)) == 36  # a single candidate is linked
    capped, free = linked(10, candidate_cap=5), linked(10, candidate_cap=None)
    assert max(np.bincount(capped[:, 0])) <= 5 < max(np.bincount(free[:, 0]))


def test_similar_nodes_are_linked_and_dissimilar_ones_not() -> None:
    topic, other = np.eye(2)
    nodes = np.repeat([topic, other, topic], 4, axis=0) + 0.01 * vectors(3, d=2)
    assert set(pairs(linked(nodes=nodes)[-16:])) == {(n, o) for n in range(8, 12) for o in range(4)}


def test_cosine_ignores_lengths() -> None:
    nodes = vectors(8)
    scaled = nodes * np.linspace(0.5, 3, 32, dtype=np.float32)[:, None]
    by_cosine = [new_edges(v, 0, Association(), "cosine") for v in (nodes, scaled)]
    np.testing.assert_array_equal(*by_cosine)
    assert pairs(new_edges(scaled, 0, Association())) != pairs(by_cosine[0])


def test_one_more_session_fits_its_own_nodes_only(monkeypatch) -> None:
    """Inserting costs a product with the older nodes and four fits, whatever the graph's size."""
    fitted = []

    def counted(scores, **more):
        fitted.append(scores.shape)
        return accept_sets(scores, **more)

    monkeypatch.setattr("memsys.memgas.graph.accept_sets", counted)
    for sessions in (20, 40):
        new_edges(vectors(sessions), sessions - 1, Association())
    assert fitted == [(4, 30), (4, 30)]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_growing_equals_building_at_once(seed, steps) -> None:
    total = sum(steps)
    nodes = vectors(total, seed)
    grown, done = [], 0
    for step in steps:
        grown.append(new_edges(nodes[: 4 * (done + step)], done, Association()))
        done += step
    np.testing.assert_array_equal(np.concatenate(grown), new_edges(nodes, 0, Association()))
