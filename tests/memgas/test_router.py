import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memsys.memgas.router import entropies, node_scores, weights

# memgas.md §9.2: rows are sessions, columns session, turn, summary, keyword
SIMILARITIES = np.array([[0.8, 0.5, 0.6, 0.3], [0.2, 0.5, 0.4, 0.2], [0.2, 0.5, 0.2, 0.1]])
ENTROPIES = [0.366594, 1.098612, 0.832396, 1.020191]


def test_worked_example() -> None:
    h = entropies(SIMILARITIES, 0.2)
    assert h == pytest.approx(ENTROPIES, abs=1e-6)
    assert h[1] == pytest.approx(math.log(3))
    assert weights(h, "inverse_entropy") == pytest.approx(
        [0.468728, 0.156409, 0.206432, 0.168432], abs=1e-6
    )
    assert weights(h, "one_minus_entropy") == pytest.approx(
        [0.928466, -0.144549, 0.245680, -0.029597], abs=1e-6
    )
    assert weights(h, "uniform").tolist() == [0.25] * 4


def test_the_official_formula_reverses_the_order_above_one() -> None:
    h = [3.60, 3.50, 3.70, 3.80]
    assert weights(h, "inverse_entropy") == pytest.approx(
        [0.253234, 0.260470, 0.246390, 0.239906], abs=1e-6
    )
    assert weights(h, "one_minus_entropy") == pytest.approx(
        [0.245283, 0.235849, 0.254717, 0.264151], abs=1e-6
    )


def test_the_official_formula_blows_up_around_one() -> None:
    found = weights([0.90, 1.20, 0.95, 1.05], "one_minus_entropy")
    assert found == pytest.approx([-1, 2, -0.5, 0.5], abs=1e-6)
    assert weights([0.9, 1.1, 1.0, 1.0], "one_minus_entropy").tolist() == [0.25] * 4  # 0 / 0


@pytest.mark.parametrize("formula", ["inverse_entropy", "one_minus_entropy", "uniform"])
def test_one_session_gives_equal_weights(formula) -> None:
    h = entropies(np.array([[0.9, 0.1, -0.3, 0.0]]), 0.2)
    assert h.tolist() == [0.0] * 4
    assert weights(h, formula).tolist() == [0.25] * 4


def test_node_scores_sum_to_equation_5() -> None:
    scores = node_scores(SIMILARITIES, weights(entropies(SIMILARITIES, 0.2), "inverse_entropy"))
    assert scores.ravel() == pytest.approx(
        [0.374982, 0.078204, 0.123859, 0.050530, 0.093746, 0.078204, 0.082573, 0.033686,
         0.093746, 0.078204, 0.041286, 0.016843], abs=1e-6)  # fmt: skip
    assert scores.sum(axis=1) == pytest.approx([0.627575, 0.288209, 0.230079], abs=1e-6)


@given(arrays(np.float32, (7, 4), elements=st.floats(-50, 50, width=32)), st.floats(0.01, 2))
def test_entropy_bounds_shift_and_order(similarities, temperature) -> None:
    h = entropies(similarities, temperature)
    assert np.isfinite(h).all() and (h >= 0).all() and (h <= math.log(7) + 1e-9).all()
    assert entropies(similarities[::-1], temperature) == pytest.approx(h)
    assert entropies(similarities + np.float32(8), temperature) == pytest.approx(h, abs=1e-3)
    w = weights(h, "inverse_entropy")
    assert w.sum() == pytest.approx(1)
    assert (np.diff(w[np.argsort(h)]) <= 1e-12).all()  # more certain, more weight


def test_a_colder_softmax_is_more_certain() -> None:
    random = np.random.default_rng(0).random((9, 4))
    by_lambda = [entropies(random, t) for t in (0.02, 0.1, 0.5, 2.0)]
    assert all((a < b).all() for a, b in pairwise(by_lambda))
