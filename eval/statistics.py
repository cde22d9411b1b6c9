"""Intervals and tests for scores of questions that come in clusters (conversations).

Questions about one conversation are not independent, so every interval and test here takes the
conversation of each value, and refuses to guess one. All functions are pure; those that draw
take a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]

NO_SPREAD = 1e-12
"""A standard error of scores (0–1) below this is rounding alone: the values have no spread."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its interval; `low` and `high` are `None` where nothing can be said.

    `se` is the standard error, `freedom` its degrees of freedom, `n` the number of values and
    `method` says how the interval was made.
    """

    mean: float
    low: float | None
    high: float | None
    level: float
    se: float | None
    freedom: int
    n: int
    method: str

    @property
    def flat(self) -> bool:
        """Whether the values have no spread: a width of zero would claim what nobody knows."""
        return self.se is not None and self.se <= NO_SPREAD


def _t_interval(
    mean: float, se: float, freedom: int, level: float, n: int, method: str
) -> Interval:
    half = float(stdtrit(freedom, (1 + level) / 2)) * se
    return Interval(mean, mean - half, mean + half, level, se, freedom, n, method)


def _cluster_index(clusters: Sequence[Hashable], n: int) -> tuple[NDArray[np.intp], int]:
    """Return each value's cluster as 0…G-1, and G."""
    if len(clusters) != n:
        raise ValueError(f"{n} values need {n} cluster ids, not {len(clusters)}.")
    if any(c is None or c == "" for c in clusters):
        raise ValueError("Every value needs a cluster id (its conversation); some have none.")
    numbers = {c: i for i, c in enumerate(dict.fromkeys(clusters))}
    return np.fromiter((numbers[c] for c in clusters), np.intp, n), len(numbers)


def clustered_mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable], level: float = 0.95
) -> Interval:
    """Return the mean of `values` with an interval that allows for clusters.

    The mean is a ratio of cluster totals; its linearised variance is
    G/(G-1) · Σ_g (Σ_{i∈g} (y_i - ȳ))² / n², used with t(G-1) for G clusters. With a single
    cluster the values are taken as independent, t(n-1), and `method` says so. Raises
    `ValueError` for missing cluster ids.
    """
    y = np.asarray(values, np.float64)
    n = len(y)
    group, g = _cluster_index(clusters, n)
    if not n:
        raise ValueError("There is no value to take the mean of.")
    mean = float(y.mean())
    if n == 1:
        return Interval(mean, None, None, level, None, 0, n, "none: a single question")
    if g == 1:
        se = float(y.std(ddof=1)) / math.sqrt(n)
        return _t_interval(
            mean, se, n - 1, level, n, f"t({n - 1}) over questions: a single conversation"
        )
    totals = np.bincount(group, y - mean, g)
    se = math.sqrt(g / (g - 1) * float(totals @ totals)) / n
    return _t_interval(mean, se, g - 1, level, n, f"t({g - 1}), clustered by conversation")


def jackknife_interval(
    counts: Sequence[Sequence[int]],
    clusters: Sequence[Hashable],
    statistic: Callable[[tuple[int, ...]], float],
    level: float = 0.95,
) -> Interval:
    """Return a corpus statistic with a delete-one-cluster jackknife interval.

    `counts` holds one row of counts a question; `statistic` takes their sum. With a single
    cluster one question is deleted at a time, and `method` says so.
    """
    rows = np.asarray(counts, np.int64)
    n = len(rows)
    group, g = _cluster_index(clusters, n)
    if not n:
        raise ValueError("There are no counts to compute a corpus statistic from.")
    total = rows.sum(axis=0)
    whole = statistic(_plain(total))
    if n == 1:
        return Interval(whole, None, None, level, None, 0, n, "none: a single question")
    unit = "question" if g == 1 else "conversation"
    parts = rows
    if g > 1:
        parts = np.zeros((g, rows.shape[1]), np.int64)
        np.add.at(parts, group, rows)
    m = len(parts)
    without = np.array([statistic(_plain(total - part)) for part in parts])
    se = math.sqrt((m - 1) / m * float(((without - without.mean()) ** 2).sum()))
    method = f"t({m - 1}), delete-one-{unit} jackknife"
    return _t_interval(whole, se, m - 1, level, n, method)


def _plain(row: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(int(v) for v in row)


def bootstrap_t_interval(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    level: float = 0.95,
    draws: int = 2_000,
    seed: int = 0,
) -> Interval:
    """Return the mean with a studentised bootstrap interval over whole clusters.

    For skewed scores of few conversations, where t(G-1) is strained. Draws without spread are
    left out. Needs at least two clusters.
    """
    y = np.asarray(values, np.float64)
    group, g = _cluster_index(clusters, len(y))
    if g < 2:
        raise ValueError("A bootstrap over clusters needs at least two of them.")
    start = clustered_mean_interval(values, clusters, level)
    se = start.se or 0.0
    method = f"bootstrap-t over {g} conversations, {draws} draws, seed {seed}"
    if se == 0.0:
        return Interval(start.mean, start.mean, start.mean, level, 0.0, g - 1, len(y), method)
    sums, sizes = np.bincount(group, y, g), np.bincount(group, minlength=g).astype(np.float64)
    picks = np.random.default_rng(seed).integers(0, g, (draws, g))
    n = sizes[picks].sum(axis=1)
    means = sums[picks].sum(axis=1) / n
    residuals = sums[picks] - means[:, None] * sizes[picks]
    errors = np.sqrt(g / (g - 1) * (residuals**2).sum(axis=1)) / n
    spread = errors > 1e-12
    t = (means[spread] - start.mean) / errors[spread]
    low, high = np.quantile(t, [(1 - level) / 2, (1 + level) / 2])
    return Interval(
        start.mean, start.mean - float(high) * se, start.mean - float(low) * se,
        level, se, g - 1, len(y), method,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """A paired difference a - b: its interval, its p-value, and who won how often."""

    difference: Interval
    p: float
    wins: int
    losses: int
    ties: int


def paired_comparison(
    a: Sequence[float],
    b: Sequence[float],
    clusters: Sequence[Hashable],
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two systems question by question: interval clustered, p by sign flips."""
    if len(a) != len(b):
        raise ValueError(f"Paired scores must be as many: {len(a)} against {len(b)}.")
    d = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    interval = clustered_mean_interval(list(d), clusters, level)
    p = sign_flip_test(list(d), clusters, draws, seed)
    wins, losses = int((d > 0).sum()), int((d < 0).sum())
    return Comparison(interval, p, wins, losses, len(d) - wins - losses)


def sign_flip_test(
    differences: Sequence[float],
    clusters: Sequence[Hashable],
    draws: int = 10_000,
    seed: int = 0,
) -> float:
    """Return the two-sided p-value of a mean difference of 0, flipping whole clusters' signs.

    All 2^G flips where they are no more than `draws` (the least p is then 2/2^G: 2/1024 for ten
    conversations), else `draws` random ones, with p = (1 + hits)/(1 + draws). A single cluster
    is flipped question by question.
    """
    d = np.asarray(differences, np.float64)
    group, g = _cluster_index(clusters, len(d))
    sums = d if g <= 1 else np.bincount(group, d, g)
    sums = sums[sums != 0]  # a flip of nothing changes nothing
    m = len(sums)
    if not m:
        return 1.0
    observed = abs(float(sums.sum()))
    bar = observed - 1e-9 * float(np.abs(sums).sum())  # equal sums must count as equal
    if m < 63 and 2**m <= draws:
        signs = ((np.arange(2**m)[:, None] >> np.arange(m)) & 1) * 2.0 - 1
        return float(np.mean(np.abs(signs @ sums) >= bar))
    rng = np.random.default_rng(seed)
    hits = 0
    for start in range(0, draws, 1_000):  # in blocks, for memory
        size = min(1_000, draws - start)
        signs = rng.integers(0, 2, (size, m)) * 2.0 - 1
        hits += int((np.abs(signs @ sums) >= bar).sum())
    return (1 + hits) / (1 + draws)


def t_test(differences: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """Return the two-sided p-value that belongs to `clustered_mean_interval`."""
    return two_sided(clustered_mean_interval(differences, clusters))


def two_sided(found: Interval) -> float:
    """Return the two-sided p-value of an interval's mean against 0, by its own t."""
    if not found.se:
        return 1.0 if found.mean == 0 or found.se is None else 0.0
    return 2 * float(stdtr(found.freedom, -abs(found.mean) / found.se))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = running
    return adjusted


def minimum_detectable_difference(
    differences: Sequence[float],
    clusters: Sequence[Hashable],
    level: float = 0.95,
    power: float = 0.8,
) -> float | None:
    """Return the true difference that a paired t-test at 1 - `level` finds with `power`.

    (t_{(1+level)/2} + t_{power}) · SE, with the spread of `differences`; `None` for one value.
    """
    found = clustered_mean_interval(differences, clusters, level)
    if found.se is None:
        return None
    quantiles = stdtrit(found.freedom, (1 + level) / 2) + stdtrit(found.freedom, power)
    return float(quantiles) * found.se
