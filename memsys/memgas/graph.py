"""Dynamical memory association (§2.2): each new node is linked to its accept set.

A node's candidates are all nodes of *older* sessions, so an edge never changes once it is there:
a graph grown session by session equals one built at once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memsys.memgas.nodes import G
from memsys.memgas.settings import Association
from memsys.retrieval.mixture import accept_sets
from memsys.retrieval.ranking import largest
from memsys.retrieval.vector_index import Similarity, unit_rows


def new_edges(
    vectors: NDArray[Any], first_new: int, settings: Association, similarity: Similarity = "dot"
) -> NDArray[np.int32]:
    """Return the edges that sessions `first_new`, `first_new + 1`, … add to the graph.

    `vectors` are all (4n, d) nodes, old and new. Edges have shape (m, 2), the newer node first,
    in order of the newer node, then of similarity.
    """
    vectors = unit_rows(vectors) if similarity == "cosine" else np.asarray(vectors, np.float32)
    groups: dict[int, list[tuple[int, NDArray[Any], NDArray[Any]]]] = defaultdict(list)
    if settings.enabled:
        for session in range(max(first_new, settings.first_linked_session, 1), len(vectors) // G):
            old = G * session
            for node in range(old, old + G):
                # node by node on purpose: the same product, bit for bit, in any order of growth,
                # and at half the price of a product of so few rows
                row = vectors[:old] @ vectors[node]
                nearest = largest(row, settings.candidate_cap or old)
                groups[len(nearest)].append((node, nearest, row[nearest]))
    links = [pair for group in groups.values() for pair in _accept(group, settings)]
    links.sort(key=lambda link: link[0])
    if not links:
        return np.zeros((0, 2), np.int32)
    newer = np.repeat([node for node, _ in links], [len(found) for _, found in links])
    older = np.concatenate([found for _, found in links])
    return np.stack([newer, older], axis=1).astype(np.int32)


def _accept(
    group: list[tuple[int, NDArray[Any], NDArray[Any]]], settings: Association
) -> list[tuple[int, NDArray[Any]]]:
    """Choose among candidates, most similar first, of nodes that have equally many."""
    if settings.neighbours is not None:
        return [(node, nearest[: settings.neighbours]) for node, nearest, _ in group]
    scores = np.stack([row for _, _, row in group])
    accepted = accept_sets(scores, seed=settings.seed, backend=settings.gmm)
    return [(node, nearest[kept]) for (node, nearest, _), kept in zip(group, accepted, strict=True)]
