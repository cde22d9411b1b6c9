"""Differences between runs, with intervals that allow for conversations.

Values are by question (conversation and index). Whatever is compared question by question is
compared on the questions that all runs have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from eval.records import Key
from eval.statistics import (
    Interval,
    clustered_mean_interval,
    minimum_detectable_difference,
    paired_comparison,
)

Values = Mapping[Key, float]


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference with its interval; `detectable` is what a paired test would find with 80 %."""

    value: float
    low: float | None
    high: float | None
    n: int
    method: str
    detectable: float | None = None


def mean(values: Values) -> Contrast:
    """Return the mean of one run with its clustered interval."""
    return _of(clustered_mean_interval(list(values.values()), [c for c, _ in values]))


def paired(a: Values, b: Values) -> Contrast:
    """Return the mean of a − b over the questions that both have."""
    keys = _shared(a, b)
    clusters = [conversation for conversation, _ in keys]
    one, other = [a[k] for k in keys], [b[k] for k in keys]
    found = paired_comparison(one, other, clusters, draws=1)
    differences = [x - y for x, y in zip(one, other, strict=True)]
    return _of(found.difference, minimum_detectable_difference(differences, clusters))


def combined(parts: Sequence[tuple[float, Values]]) -> Contrast:
    """Return the mean of Σ weight·value over the questions that all runs have."""
    keys = _shared(*(values for _, values in parts))
    clusters = [conversation for conversation, _ in keys]
    sums = [sum(weight * values[k] for weight, values in parts) for k in keys]
    found = clustered_mean_interval(sums, clusters)
    return _of(found, minimum_detectable_difference(sums, clusters))


def gain(a: Values, b: Values) -> Contrast:
    """Return (mean a / mean b − 1)·100 by question pairs, its interval by linearisation.

    Each question stands for r + (a_i − r·b_i) / mean b, whose mean is the ratio r itself. Raises
    `ZeroDivisionError` where b is 0 throughout.
    """
    return _of(clustered_mean_interval(*_linear_gain(a, b)))


def mean_gain(pairs: Sequence[tuple[Values, Values]]) -> Contrast:
    """Return the mean of several gains over the same questions (one pair of runs a model)."""
    if len(pairs) == 1:
        return gain(*pairs[0])
    keys = _shared(*(values for pair in pairs for values in pair))
    linear = [_linear_gain({k: a[k] for k in keys}, {k: b[k] for k in keys})[0] for a, b in pairs]
    means = [sum(column) / len(pairs) for column in zip(*linear, strict=True)]
    return _of(clustered_mean_interval(means, [conversation for conversation, _ in keys]))


def unpaired(a: Values, b: Values) -> Contrast:
    """Return mean a − mean b of different questions of the same conversations.

    Both means are ratios of conversation totals; their linearised residuals are added up by
    conversation, so that what the two have in common counts.
    """
    names = list(dict.fromkeys(conversation for conversation, _ in [*a, *b]))
    place = {name: i for i, name in enumerate(names)}
    value = 0.0
    totals = np.zeros(len(names))
    for sign, values in ((1.0, a), (-1.0, b)):
        centre = sum(values.values()) / len(values)
        value += sign * centre
        for (conversation, _), x in values.items():
            totals[place[conversation]] += sign * (x - centre) / len(values)
    g = len(names)
    n = len(a) + len(b)
    if g == 1:
        return Contrast(value, None, None, n, "none: a single conversation")
    se = math.sqrt(g / (g - 1) * float(totals @ totals))
    half = float(stdtrit(g - 1, 0.975)) * se
    return Contrast(value, value - half, value + half, n, f"t({g - 1}), clustered by conversation")


def jackknifed(
    runs: Sequence[Values], statistic: Callable[[Sequence[Sequence[float]]], float]
) -> Contrast:
    """Return a statistic of several runs, leaving out one conversation at a time (or question)."""
    keys = _shared(*runs)
    names = list(dict.fromkeys(conversation for conversation, _ in keys))
    several = len(names) > 1
    groups = names if several else list(keys)

    def without(group: object) -> float:
        kept = [k for k in keys if (k[0] if several else k) != group]
        return statistic([[run[k] for k in kept] for run in runs])

    whole = statistic([[run[k] for k in keys] for run in runs])
    m = len(groups)
    unit = "conversation" if several else "question"
    if m < 3:
        return Contrast(whole, None, None, len(keys), f"none: {m} {unit}s")
    parts = np.array([without(group) for group in groups])
    se = math.sqrt((m - 1) / m * float(((parts - parts.mean()) ** 2).sum()))
    half = float(stdtrit(m - 1, 0.975)) * se
    method = f"t({m - 1}), delete-one-{unit} jackknife"
    return Contrast(whole, whole - half, whole + half, len(keys), method)


def relative_spread(values: Sequence[float]) -> float:
    """Return the interquartile range over the median; 0 where the median is 0."""
    low, middle, high = np.quantile(np.asarray(values, np.float64), [0.25, 0.5, 0.75])
    return float((high - low) / middle) if middle else 0.0


def _linear_gain(a: Values, b: Values) -> tuple[list[float], list[str]]:
    keys = _shared(a, b)
    below = sum(b[k] for k in keys) / len(keys)
    if below == 0:
        raise ZeroDivisionError
    ratio = sum(a[k] for k in keys) / len(keys) / below
    linear = [100 * (ratio - 1 + (a[k] - ratio * b[k]) / below) for k in keys]
    return linear, [conversation for conversation, _ in keys]


def _shared(*runs: Values) -> list[Key]:
    keys = [key for key in runs[0] if all(key in run for run in runs[1:])]
    if not keys:
        raise ValueError("The runs have no question in common.")
    return keys


def _of(found: Interval, detectable: float | None = None) -> Contrast:
    return Contrast(found.mean, found.low, found.high, found.n, found.method, detectable)
