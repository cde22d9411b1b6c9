import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsys.retrieval.pagerank import distributions, personalized_pagerank, transition


def networkx_pagerank(edges, size, restart, damping, weights=None):
    graph = nx.Graph()
    graph.add_nodes_from(range(size))
    for k, (u, v) in enumerate(edges):
        graph.add_edge(int(u), int(v), weight=1.0 if weights is None else weights[k])
    wanted = dict(enumerate(restart))
    found = nx.pagerank(graph, alpha=damping, personalization=wanted, tol=1e-12, max_iter=1000)
    return [found[i] for i in range(size)]


def random_graph(random, size, m):
    edges = {tuple(sorted(random.choice(size, 2, replace=False).tolist())) for _ in range(m)}
    return np.array(sorted(edges))


@pytest.mark.parametrize("damping", [0.1, 0.3, 0.5, 0.85])
@pytest.mark.parametrize("m", [5, 60, 400])
def test_equals_networkx(damping, m) -> None:
    random = np.random.default_rng(m)
    edges = random_graph(random, 60, m)  # few edges leave isolated nodes, many of them restarting
    restarts = random.random((4, 60)) * (random.random((4, 60)) < 0.2)
    restarts[:, 0] += 0.01
    mine = personalized_pagerank(transition(edges, 60), restarts, damping)
    for row, restart in zip(mine, restarts):
        reference = networkx_pagerank(edges, 60, restart, damping)
        np.testing.assert_allclose(row, reference, atol=1e-10, rtol=0)


def test_equals_networkx_with_weights() -> None:
    random = np.random.default_rng(0)
    edges = random_graph(random, 30, 80)
    weights = random.random(len(edges)) + 0.1
    restart = random.random(30)
    mine = personalized_pagerank(transition(edges, 30, weights), restart, 0.5)[0]
    reference = networkx_pagerank(edges, 30, restart, 0.5, weights)
    np.testing.assert_allclose(mine, reference, atol=1e-10, rtol=0)


def test_equals_the_closed_form() -> None:
    random = np.random.default_rng(1)
    edges, v = random_graph(random, 12, 20), distributions(random.random(12))[0]
    adjacency = np.zeros((12, 12))
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = 1
    p = adjacency / np.maximum(adjacency.sum(axis=1, keepdims=True), 1)
    closed = 0.4 * np.linalg.solve(np.eye(12) - 0.6 * p.T, v)
    mine = personalized_pagerank(transition(edges, 12), v, 0.6)[0]
    np.testing.assert_allclose(mine, closed / closed.sum(), atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.85]))
def test_all_at_once_equals_one_by_one_and_relabelling_moves_with_the_nodes(seed, damping) -> None:
    random = np.random.default_rng(seed)
    edges = random_graph(random, 16, 25)
    restarts = random.random((5, 16))
    together = personalized_pagerank(transition(edges, 16), restarts, damping)
    for row, restart in zip(together, restarts):
        alone = personalized_pagerank(transition(edges, 16), restart, damping)[0]
        np.testing.assert_array_equal(row, alone)
    assert together.sum(axis=1) == pytest.approx(1)
    names = random.permutation(16)
    moved = personalized_pagerank(transition(names[edges], 16), restarts[:, np.argsort(names)],
                                  damping)  # fmt: skip
    np.testing.assert_allclose(moved[:, names], together, atol=1e-12)


def test_what_no_seed_reaches_has_no_mass_at_all() -> None:
    mass = personalized_pagerank(transition(np.array([[0, 1], [2, 3]]), 5), [[1, 0, 0, 0, 0]], 0.85)
    assert (mass[0, 2:] == 0).all() and (mass[0, :2] > 0).all()


def test_edge_cases() -> None:
    no_edges = transition(np.zeros((0, 2)), 4)
    np.testing.assert_allclose(personalized_pagerank(no_edges, [[0, 0, 0, 0]], 0.1), [[0.25] * 4])
    np.testing.assert_allclose(personalized_pagerank(no_edges, [[3, 1, 0, 0]], 0.5),
                               [[0.75, 0.25, 0, 0]])  # fmt: skip
    assert personalized_pagerank(no_edges, np.zeros((0, 4)), 0.1).shape == (0, 4)
    np.testing.assert_array_equal(
        personalized_pagerank(no_edges, [[2, 2, 0, 0]], 0), [[0.5, 0.5, 0, 0]]
    )
    with pytest.raises(ValueError, match="damping"):
        personalized_pagerank(no_edges, [[1, 0, 0, 0]], 1.0)
