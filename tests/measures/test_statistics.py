"""Intervals keep their coverage, tests their level; each against a computation by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from eval.statistics import (
    bootstrap_t_interval,
    clustered_mean_interval,
    holm,
    jackknife_interval,
    minimum_detectable_difference,
    paired_comparison,
    sign_flip_test,
    t_test,
)


def test_one_value_a_cluster_is_the_students_interval():
    values = [0.1, 0.9, 0.4, 0.7, 0.2]
    found = clustered_mean_interval(values, list("abcde"))
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.freedom, found.n) == (4, 5)


def test_clusters_by_hand():
    found = clustered_mean_interval([1, 1, 0, 0, 1], ["a", "a", "b", "b", "b"])
    # mean 0.6; residual totals 0.8 and -0.8; 2/1 · (0.64 + 0.64) / 25
    assert found.mean == pytest.approx(0.6)
    assert found.se == pytest.approx(math.sqrt(2 * 1.28) / 5)
    assert found.high - found.mean == pytest.approx(stats.t.ppf(0.975, 1) * found.se)


def test_a_single_cluster_falls_back_and_says_so():
    values = [1, 0, 1, 1]
    found = clustered_mean_interval(values, ["a"] * 4)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert "single conversation" in found.method
    alone = clustered_mean_interval([1], ["a"])
    assert (alone.mean, alone.low, alone.high) == (1, None, None)


@pytest.mark.parametrize("clusters", [["a"], ["a", None], ["a", ""]])
def test_missing_clusters_are_refused(clusters):
    for interval in (clustered_mean_interval, bootstrap_t_interval, sign_flip_test):
        with pytest.raises(ValueError, match="cluster"):
            interval([1.0, 0.0], clusters)
    with pytest.raises(ValueError, match="cluster"):
        jackknife_interval([(1,), (0,)], clusters, lambda total: total[0])


def test_nothing_to_average_is_refused():
    with pytest.raises(ValueError, match="no value"):
        clustered_mean_interval([], [])


def test_jackknife_of_a_mean_is_the_students_interval():
    rows = [(1, 1), (0, 1), (1, 1), (0, 1), (1, 1)]
    found = jackknife_interval(rows, list("abcde"), lambda total: total[0] / total[1])
    plain = clustered_mean_interval([r[0] for r in rows], list("abcde"))
    assert (found.mean, found.low, found.high) == pytest.approx((plain.mean, plain.low, plain.high))
    assert "conversation" in found.method
    alone = jackknife_interval(rows, ["a"] * 5, lambda total: total[0] / total[1])
    assert alone.low == pytest.approx(plain.low)
    assert "question" in alone.method


def clustered(rng, clusters, spread=0.15, mean=0.5):
    """0/1 scores of unequal conversations, whose own rates differ."""
    sizes = rng.integers(3, 9, clusters) if clusters > 50 else rng.integers(80, 260, clusters)
    rates = np.clip(rng.normal(mean, spread, clusters), 0, 1)
    ids = np.repeat(np.arange(clusters), sizes)
    return (rng.random(len(ids)) < rates[ids]).astype(float), ids


def coverage(clusters, draws, seed, interval=clustered_mean_interval):
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(draws):
        values, ids = clustered(rng, clusters)
        found = interval(list(values), list(ids))
        hits += found.low <= 0.5 <= found.high
    return hits / draws


@pytest.mark.parametrize(("clusters", "draws"), [(10, 300), (500, 120)])
def test_coverage_quick(clusters, draws):
    assert coverage(clusters, draws, 11) == pytest.approx(0.95, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [10, 500])
def test_coverage(clusters):
    assert coverage(clusters, 2_000, 11) == pytest.approx(0.95, abs=0.015)


def test_ignoring_clusters_would_not_cover():
    def naive(values, ids):
        return clustered_mean_interval(values, range(len(values)))

    assert coverage(10, 200, 1, naive) < 0.7


def test_bootstrap_t_covers_and_repeats():
    def bootstrap(values, ids):
        return bootstrap_t_interval(values, ids, draws=400)

    assert coverage(10, 200, 2, bootstrap) == pytest.approx(0.95, abs=0.05)
    values, ids = clustered(np.random.default_rng(0), 10)
    assert bootstrap_t_interval(values, ids) == bootstrap_t_interval(values, ids)
    assert bootstrap_t_interval(values, ids) != bootstrap_t_interval(values, ids, seed=1)
    flat = bootstrap_t_interval([1, 1, 1], [1, 2, 3])
    assert (flat.low, flat.high) == (1, 1)


def test_sign_flips_by_hand():
    # totals 2, 1, 1: of eight flips two reach |4|
    assert sign_flip_test([1, 1, 1, 1], ["a", "a", "b", "c"]) == 2 / 8
    assert sign_flip_test([1, -1, 0], ["a", "a", "b"]) == 1  # nothing is left to flip
    ten = sign_flip_test([0.1 * (i + 1) for i in range(10)], range(10))
    assert ten == 2 / 1024  # the least p that ten conversations can give
    assert sign_flip_test([0.1, 0.2, 0.3], ["a"] * 3) == 2 / 8  # one conversation: by question


def test_random_flips_agree_with_all_flips():
    rng = np.random.default_rng(3)
    d = list(rng.normal(0.3, 1, 12))
    every = sign_flip_test(d, range(12))
    drawn = sign_flip_test(d, range(12), draws=4_000)
    theirs = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert every == pytest.approx(theirs)
    assert drawn == pytest.approx(every, abs=0.03)


@pytest.mark.parametrize("clusters", [14, 40])
def test_p_values_are_uniform_under_the_null(clusters):
    rng = np.random.default_rng(7)
    p = []
    for seed in range(300):
        ids = np.repeat(np.arange(clusters), 5)
        d = rng.normal(0, 1, clusters)[ids] + rng.normal(0, 1, len(ids))
        p.append(sign_flip_test(list(d), list(ids), draws=999, seed=seed))
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.04)


def test_paired_comparison():
    found = paired_comparison([1, 1, 0, 1], [0, 1, 1, 0], list("abcd"))
    assert (found.wins, found.losses, found.ties) == (2, 1, 1)
    assert found.difference.mean == 0.25
    assert found.p == sign_flip_test([1, 0, -1, 1], list("abcd"))
    with pytest.raises(ValueError, match="as many"):
        paired_comparison([1], [1, 0], ["a", "b"])


def test_t_test_agrees_with_scipy():
    d = [0.3, -0.1, 0.5, 0.2, 0.4]
    assert t_test(d, range(5)) == pytest.approx(stats.ttest_1samp(d, 0).pvalue)
    assert t_test([0, 0, 0], range(3)) == 1
    assert t_test([1, 1, 1], range(3)) == 0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_minimum_detectable_difference_has_its_power():
    rng = np.random.default_rng(5)
    ids = list(range(30))
    found = minimum_detectable_difference(list(rng.normal(0, 1, 30)), ids)
    assert found == pytest.approx(2.9 / math.sqrt(30), abs=0.15)
    hits = sum(t_test(list(rng.normal(2.9 / math.sqrt(30), 1, 30)), ids) < 0.05 for _ in range(300))
    assert hits / 300 == pytest.approx(0.8, abs=0.07)
    assert minimum_detectable_difference([0.2], ["a"]) is None
