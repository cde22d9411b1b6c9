import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memsys.retrieval.ranking import descending, largest

SCORES = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 0.5000001, 2.0]), min_size=0, max_size=40)


def test_ties_keep_their_order_and_nan_comes_last() -> None:
    assert descending(np.array([0.5, np.nan, 1.0, 0.5])).tolist() == [2, 0, 3, 1]
    assert descending(np.array([1, 1, 1]), np.array([0, 2, 2])).tolist() == [1, 2, 0]


@given(SCORES, st.integers(0, 50))
def test_largest_is_a_prefix_of_the_full_order(scores, k) -> None:
    scores = np.array(scores)
    expected = sorted(range(len(scores)), key=lambda i: -scores[i])
    assert descending(scores).tolist() == expected
    assert largest(scores, k).tolist() == expected[:k]
