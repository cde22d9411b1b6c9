"""Rankings: descending, stable, ties in the order in which things were remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def descending(scores: NDArray[Any], *tie_breakers: NDArray[Any]) -> NDArray[np.intp]:
    """Return indices of (n,) `scores`, highest first.

    Equal scores are ordered by the tie-breakers (highest first), then by index; NaN comes last.
    """
    keys = [-np.asarray(key, np.float64) for key in (scores, *tie_breakers)]
    return np.lexsort(keys[::-1])


def largest(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the indices of the `k` highest of (n,) `scores` (all of them if n ≤ k), in order.

    The same as `descending(scores)[:k]`, without sorting the rest.
    """
    scores = np.asarray(scores)
    if k >= len(scores):
        return descending(scores)
    if k <= 0:
        return np.zeros(0, np.intp)
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    kept = np.flatnonzero(~(scores < threshold))  # ties at the threshold included, in index order
    return kept[descending(scores[kept])][:k]
