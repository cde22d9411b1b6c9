"""Personalized PageRank on sparse graphs, for any number of restart distributions at once.

π = (1 − d)(I − d Pᵀ)⁻¹ v, with P the row-normalised adjacency and `d` the probability of
*following* an edge; what reaches a node without edges restarts with v. The inverse is summed as
its Neumann series Σ dᵏ(Pᵀ)ᵏ, whose number of terms depends on d alone, so a distribution gets the
same result in any batch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

TOLERANCE = 1e-14
"""Mass that may be left out of the series."""


def transition(edges: NDArray[Any], size: int, weights: NDArray[Any] | None = None) -> csr_array:
    """Return Pᵀ of an undirected graph: (m, 2) edges over `size` nodes, optionally weighted.

    Column j says where node j's mass goes; a node without edges has an empty column.
    """
    pairs = np.asarray(edges, np.int64).reshape(-1, 2)
    values = np.ones(len(pairs)) if weights is None else np.asarray(weights, np.float64)
    a = np.concatenate([pairs[:, 0], pairs[:, 1]])
    b = np.concatenate([pairs[:, 1], pairs[:, 0]])
    both = np.concatenate([values, values])
    degree = np.bincount(b, both, minlength=size)
    return csr_array(coo_array((both / degree[b], (a, b)), shape=(size, size)))


def personalized_pagerank(
    transition: csr_array, restarts: NDArray[Any], damping: float
) -> NDArray[np.float64]:
    """Return π for each restart distribution: (q, n) in, (q, n) out, rows summing to 1.

    Equals `networkx.pagerank(alpha=damping, personalization=v, tol=1e-12)` to 1e-10. Restart rows
    must be non-negative; a row of zeros restarts anywhere.
    """
    if not 0 <= damping < 1:
        raise ValueError(f"The damping {damping} does not lie in [0, 1).")
    v = distributions(restarts)
    if damping == 0 or not v.size:
        return v
    term = np.ascontiguousarray(v.T)  # (n, q): one sparse product a term for all of them
    total = term.copy()
    for _ in range(math.ceil(math.log(TOLERANCE) / math.log(damping))):
        term = damping * (transition @ term)
        total += term
    # restarting from dead ends multiplies the whole by a constant
    return distributions(total.T)


def distributions(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Scale (q, n) non-negative rows to sum to 1; a row of zeros becomes uniform."""
    rows = np.ascontiguousarray(np.atleast_2d(rows), np.float64)
    sums = rows.sum(axis=1, keepdims=True)
    uniform = np.full(rows.shape, 1 / max(1, rows.shape[1]))
    return np.where(sums > 0, rows / np.where(sums > 0, sums, 1), uniform)
