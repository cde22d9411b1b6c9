"""The multi-granularity router (§2.3): certain granularities weigh more.

All functions are about one query; similarities have shape (n, 4), sessions by granularities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memsys.memgas.settings import Formula

SMALLEST = 1e-12


def entropies(similarities: NDArray[Any], temperature: float) -> NDArray[np.float64]:
    """Return the Shannon entropy in nats of each granularity's softmax over sessions (Eq. 3)."""
    logits = np.asarray(similarities, np.float64) / temperature
    logits = logits - logits.max(axis=0, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=0)
    logs = np.log(np.where(p > 0, p, 1.0))
    # −0.0 for a single session would print as such
    entropy: NDArray[np.float64] = np.abs((p * logs).sum(axis=0))
    return entropy


def weights(entropies: NDArray[Any], formula: Formula) -> NDArray[np.float64]:
    """Return the router's weights, which sum to 1.

    `inverse_entropy` is Eq. 4. `one_minus_entropy` is the official code's: where all entropies
    exceed 1 it favours the *less* certain granularity, and weights may be negative. A sum of
    zero gives equal weights.
    """
    h = np.asarray(entropies, np.float64)
    if formula == "inverse_entropy":
        raw = 1 / np.maximum(h, SMALLEST)
    elif formula == "one_minus_entropy":
        raw = 1 - h
    else:
        raw = np.ones_like(h)
    total = raw.sum()
    return raw / total if abs(total) > SMALLEST else np.full(h.shape, 1 / h.size)


def node_scores(similarities: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.float64]:
    """Return each node's weighted similarity, (n, 4); a row's sum is the session score of Eq. 5."""
    scores: NDArray[np.float64] = np.asarray(similarities, np.float64) * weights
    return scores
