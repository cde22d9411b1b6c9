"""The two scores of MemoryOS: F, between a segment and a text, and heat."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from baselines.memoryos.settings import MemoryOSBuild, Overlap


def keyword_overlap(a: Iterable[str], b: Iterable[str], kind: Overlap) -> float:
    """Return J(K_s, K_p), in 0…1; 0 where a set is empty. Case does not count.

    `jaccard`: |∩| / |∪|; `containment`: the mean of |∩| / |K_s| and |∩| / |K_p| (authors' eval).
    """
    first, second = ({w.strip().casefold() for w in words} - {""} for words in (a, b))
    common = len(first & second)
    if not common:
        return 0.0
    if kind == "jaccard":
        return common / len(first | second)
    return (common / len(first) + common / len(second)) / 2


def heat(visits: float, interactions: float, seconds: float, build: MemoryOSBuild) -> float:
    """Return H = α · N_visit + β · L_interaction + γ · exp(-Δt / μ), Δt in seconds."""
    age = 0.0 if build.recency == "visit" else seconds
    recency = math.exp(-age / build.mu)
    return build.alpha * visits + build.beta * interactions + build.gamma * recency


def is_hot(value: float, build: MemoryOSBuild) -> bool:
    """Whether a heat feeds the long-term store."""
    return value >= build.tau if build.tau_reached else value > build.tau


def seconds_between(earlier: str, later: str) -> float:
    """Return the seconds from one ISO time to another; 0 if one is missing or the order wrong."""
    if not earlier or not later:
        return 0.0
    gap = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    return max(0.0, gap.total_seconds())
