import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memsys.retrieval.mixture import accept_sets, fit, fit_sklearn

# memgas.md §9.1: similarities, accept set, component means
EXAMPLES = [
    ((0.92, 0.28, 0.85, 0.31, 0.88, 0.25, 0.22), {0, 2, 4}, (0.2650, 0.8833)),
    ((0.9, 0.5, 0.49, 0.48, 0.47), {0}, (0.4850, 0.9000)),
    ((0.6, 0.4), {0}, (0.4, 0.6)),
    ((0.70, 0.66, 0.62, 0.58, 0.54, 0.50, 0.46, 0.42), {0, 1, 2}, (0.5046, 0.6578)),
    ((0.5, 0.5, 0.5, 0.5), {0, 1, 2, 3}, (0.0, 0.5)),
]


@pytest.mark.parametrize("backend", ["batched", "sklearn"])
@pytest.mark.parametrize(("scores", "accepted", "means"), EXAMPLES)
def test_worked_examples(scores, accepted, means, backend) -> None:
    row = np.array([scores])
    assert set(np.flatnonzero(accept_sets(row, backend=backend)[0])) == accepted
    found = fit(row) if backend == "batched" else fit_sklearn(row)
    assert sorted(found.means[0]) == pytest.approx(means, abs=5e-5)


def test_a_single_candidate_is_accepted_and_none_is_no_error() -> None:
    assert accept_sets(np.array([[0.3]])).tolist() == [[True]]
    assert accept_sets(np.zeros((0, 30))).shape == (0, 30)


@pytest.mark.parametrize("m", [2, 3, 12, 30, 200])
def test_equals_scikit_learn(m) -> None:
    random, seed = np.random.default_rng(m), m % 4
    rows = np.concatenate([
        random.normal(size=(6, m)),
        np.sort(random.beta(2, 5, (6, m)))[:, ::-1],
        random.normal(size=(6, m)) * 0.05 + (random.random((6, m)) < 0.2) * 0.5,
        random.integers(0, 4, (6, m)) / 4,  # many ties
    ])  # fmt: skip
    ours, reference = fit(rows, seed=seed), fit_sklearn(rows, seed)
    np.testing.assert_array_equal(ours.accepted, reference.accepted)
    np.testing.assert_allclose(ours.means, reference.means, atol=1e-9)
    np.testing.assert_allclose(ours.log_likelihood, reference.log_likelihood, atol=1e-9)


def test_rows_in_which_lloyd_loses_a_cluster_are_fitted_by_the_reference() -> None:
    rows = 0.3 + 1e-9 * np.random.default_rng(0).normal(size=(60, 12))
    ours, reference = fit(rows), fit_sklearn(rows)
    np.testing.assert_allclose(ours.log_likelihood, reference.log_likelihood, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(arrays(np.float64, (6, 9), elements=st.floats(-1, 1, width=32)), st.randoms())
def test_a_rows_fit_does_not_depend_on_its_batch(rows, random) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    together = fit(rows)
    np.testing.assert_array_equal(fit(rows[order]).labels, together.labels[order])
    for i in order:
        alone = fit(rows[i : i + 1])
        np.testing.assert_array_equal(alone.labels[0], together.labels[i])
        assert alone.log_likelihood[0] == together.log_likelihood[i]


def test_shifting_all_scores_keeps_the_accept_set() -> None:
    rows = np.random.default_rng(3).normal(size=(50, 20)) * 0.1
    np.testing.assert_array_equal(fit(rows).accepted, fit(rows + 0.125).accepted)


def test_accepted_scores_are_on_average_the_higher_ones() -> None:
    rows = np.random.default_rng(4).random((100, 30))
    accepted = accept_sets(rows)
    for row, kept in zip(rows, accepted):
        if 0 < kept.sum() < len(row):
            assert row[kept].mean() > row[~kept].mean()


def test_bad_rows_are_refused() -> None:
    for rows in (np.zeros((3, 1)), np.zeros(5), np.array([[0.1, np.nan]])):
        with pytest.raises(ValueError, match="two finite numbers"):
            fit(rows)


@pytest.mark.slow  # loads PyTorch
def test_torch_gives_the_same_sets() -> None:
    rows = np.random.default_rng(5).normal(size=(200, 30))
    on_cpu = fit(rows, device="cpu")
    np.testing.assert_array_equal(on_cpu.accepted, fit(rows).accepted)
    np.testing.assert_allclose(on_cpu.log_likelihood, fit(rows).log_likelihood, atol=1e-9)
    np.testing.assert_array_equal(accept_sets(rows, backend="torch"), fit(rows).accepted)


@pytest.mark.gpu
def test_cuda_gives_the_same_sets() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    rows = np.random.default_rng(6).normal(size=(2000, 30))
    ours, reference = fit(rows, device="cuda"), fit_sklearn(rows)
    same = (ours.accepted == reference.accepted).all(axis=1)
    assert same.mean() >= 0.995
    assert (ours.log_likelihood >= reference.log_likelihood - 1e-9).all()
    np.testing.assert_array_equal(accept_sets(rows, backend="torch"), ours.accepted)
