import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsys.memgas.propagation import propagate, rank, seeds, session_masses
from memsys.memgas.router import entropies, node_scores, weights

# memgas.md §9.3, on the similarities of §9.2
SIMILARITIES = np.array([[0.8, 0.5, 0.6, 0.3], [0.2, 0.5, 0.4, 0.2], [0.2, 0.5, 0.2, 0.1]])
EDGES = np.array([(4, 0), (5, 1), (8, 1), (8, 5), (10, 2), (11, 3)])


def example(formula="inverse_entropy"):
    w = weights(entropies(SIMILARITIES, 0.2), formula)
    return node_scores(SIMILARITIES, w)


def masses(formula="inverse_entropy", mode="ppr", damping=0.1, edges=EDGES):
    seeded = seeds(example(formula).ravel(), 5)
    return propagate(seeded, edges, mode, damping)


def test_seeds_are_nodes_not_sessions() -> None:
    seeded = seeds(example().ravel(), 5)
    assert np.flatnonzero(seeded).tolist() == [0, 2, 4, 6, 8]
    assert (seeded / seeded.sum())[[0, 2, 4, 6, 8]] == pytest.approx(
        [0.487683, 0.161085, 0.121921, 0.107390, 0.121921], abs=1e-6
    )
    assert np.flatnonzero(seeds(example("uniform").ravel(), 5)).tolist() == [0, 1, 2, 5, 9]


@pytest.mark.parametrize(
    ("damping", "expected"),
    [
        (0, [0.648768, 0.229311, 0.121921]),
        (0.1, [0.613265, 0.260425, 0.126310]),
        (0.5, [0.525768, 0.340187, 0.134045]),
        (0.85, [0.487572, 0.376844, 0.135584]),
    ],
)
def test_session_masses(damping, expected) -> None:
    assert session_masses(masses(damping=damping))[0] == pytest.approx(expected, abs=1e-6)


def test_node_masses() -> None:
    expected = [0.459365, 0.005869, 0.148031, 0, 0.156856, 0.005869,
                0.097700, 0, 0.111507, 0, 0.014803, 0]  # fmt: skip
    assert masses()[0] == pytest.approx(expected, abs=1e-6)
    assert (masses()[0][[3, 7, 9, 11]] == 0).all()


# ablations-memgas.md §9
@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"formula": "one_minus_entropy"}, [0.618497, 0.247127, 0.134376]),
        ({"edges": EDGES[:0]}, [0.648768, 0.229311, 0.121921]),
        ({"mode": "seeds"}, [0.648768, 0.229311, 0.121921]),
        ({"mode": "one_hop"}, [0.831650, 0.777955, 0.283006]),
        ({"formula": "uniform"}, [0.613655, 0.192603, 0.193742]),
        ({"formula": "uniform", "mode": "seeds"}, [0.655172, 0.172414, 0.172414]),
    ],
)
def test_ablations(setting, expected) -> None:
    assert session_masses(masses(**setting))[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("damping", [0.1, 0.5, 0.85])
def test_equals_networkx(damping) -> None:
    graph = nx.Graph([tuple(edge) for edge in EDGES.tolist()])
    graph.add_nodes_from(range(12))
    restart = dict(enumerate(seeds(example().ravel(), 5)))
    found = nx.pagerank(graph, alpha=damping, personalization=restart, tol=1e-12, max_iter=1000)
    np.testing.assert_allclose(masses(damping=damping)[0], [found[i] for i in range(12)],
                               atol=1e-10, rtol=0)  # fmt: skip


def test_ties_at_the_threshold_all_stay_and_bad_scores_go() -> None:
    assert seeds(np.array([0.5, 0.3, 0.3, 0.1]), 2).tolist() == [0.5, 0.3, 0.3, 0]
    assert seeds(np.array([0.5, -0.3, np.nan, 0.1]), 4).tolist() == [0.5, 0, 0, 0.1]
    assert seeds(np.array([0.5, 0.3]), 15).tolist() == [0.5, 0.3]  # fewer nodes than alpha


def test_without_positive_seeds_the_walk_restarts_anywhere() -> None:
    seeded = seeds(np.array([-0.1] * 8), 3)
    assert session_masses(propagate(seeded, EDGES[:0], "ppr", 0.1))[0].tolist() == [0.5, 0.5]


def test_sessions_without_mass_follow_in_order_of_equation_5() -> None:
    order = rank(np.array([0.0, 0.2, 0.0, 0.8, 0.0]), np.array([0.1, 0.9, 0.3, 0.1, 0.3]))
    assert order.tolist() == [3, 1, 2, 4, 0]


def test_rounding_noise_decides_no_order() -> None:
    assert rank(np.array([0.25, 0.25 + 1e-17, 0.5]), np.zeros(3)).tolist() == [2, 0, 1]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.integers(1, 60))
def test_more_seeds_never_drop_one(scores, alpha) -> None:
    few, more = (np.flatnonzero(seeds(np.array(scores), a)) for a in (alpha, alpha + 3))
    assert set(few) <= set(more)
    positive = sum(s > 0 for s in scores)
    assert len(few) >= min(alpha, positive)
