"""From node scores to session scores (§2.4): seeds, then PageRank over the association graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memsys.memgas.nodes import G
from memsys.memgas.settings import Propagation
from memsys.retrieval.pagerank import distributions, personalized_pagerank, transition
from memsys.retrieval.ranking import descending

DIGITS = 15
"""Masses closer than this are equal: their order must not hang on rounding."""


def seeds(scores: NDArray[Any], alpha: int) -> NDArray[np.float64]:
    """Keep the `alpha` best of (N,) node scores, set the rest to 0.

    Ties at the threshold all stay; negative scores and NaN become 0.
    """
    scores = np.nan_to_num(np.asarray(scores, np.float64), nan=0.0)
    if 0 < alpha < len(scores):
        threshold = np.partition(scores, len(scores) - alpha)[len(scores) - alpha]
        scores = np.where(scores >= threshold, scores, 0.0)
    positive: NDArray[np.float64] = np.maximum(scores, 0.0)
    return positive


def propagate(
    seeded: NDArray[Any], edges: NDArray[Any], mode: Propagation, damping: float
) -> NDArray[np.float64]:
    """Return each node's mass: (q, N) seed scores to (q, N).

    `ppr` runs Personalized PageRank, `one_hop` adds to the seeds what they pass to their direct
    neighbours (v + Pᵀv, not normalised), `seeds` returns the seeds' own distribution. A query
    without any positive seed restarts anywhere.
    """
    v = distributions(seeded)
    if mode == "seeds" or not v.size:
        return v
    step = transition(edges, v.shape[1])
    if mode == "one_hop":
        return np.ascontiguousarray((v.T + step @ np.ascontiguousarray(v.T)).T)
    return personalized_pagerank(step, v, damping)


def session_masses(masses: NDArray[Any]) -> NDArray[np.float64]:
    """Sum node masses over the granularities: (q, 4n) to (q, n)."""
    summed: NDArray[np.float64] = masses.reshape(len(masses), -1, G).sum(axis=-1)
    return summed


def rank(masses: NDArray[Any], eq5: NDArray[Any]) -> NDArray[np.intp]:
    """Order sessions by mass (n,), those without any by their score of Eq. 5 (n,), then by time."""
    rounded = np.round(masses, DIGITS)
    return descending(rounded, np.where(rounded > 0, 0.0, np.nan_to_num(eq5)))
