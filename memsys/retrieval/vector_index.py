"""Exact search by inner product or cosine.

A conversation has at most a few thousand vectors, for which one matrix product is the index.
`VectorIndex` searches pools of any size and can hand the work to faiss, which pays above some
hundred thousand vectors; it stays exact there.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memsys.errors import UserError
from memsys.retrieval.ranking import largest

Similarity = Literal["dot", "cosine"]


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Scale rows to length 1; zero rows stay zero."""
    rows = np.asarray(vectors, np.float32)
    norms: NDArray[np.float32] = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    norms[norms == 0] = 1
    return rows / norms


def similarities(
    vectors: NDArray[Any], queries: NDArray[Any], similarity: Similarity = "dot"
) -> NDArray[np.float32]:
    """Return the similarity of (n, d) vectors to (q, d) queries, shape (q, n).

    Query by query, so that a query's numbers do not depend on the batch it came in.
    """
    vectors, queries = np.asarray(vectors, np.float32), np.asarray(queries, np.float32)
    if similarity == "cosine":
        vectors, queries = unit_rows(vectors), unit_rows(queries)
    out = np.zeros((len(queries), len(vectors)), np.float32)
    for row, query in zip(out, queries, strict=True):
        np.matmul(vectors, query, out=row)
    return out


class VectorIndex:
    """An exact inner-product index over (n, d) vectors."""

    def __init__(self, vectors: NDArray[Any], backend: Literal["numpy", "faiss"] = "numpy") -> None:
        """Index `vectors`. Raises `UserError` if faiss is asked for and not installed."""
        self._vectors = np.ascontiguousarray(vectors, np.float32)
        self._faiss: Any = None
        if backend == "faiss":
            try:
                import faiss
            except ImportError:
                raise UserError(
                    "The faiss index needs faiss: install one of the extras 'faiss-cpu' and "
                    "'faiss-gpu' (pip install -e '.[faiss-cpu]'), or choose the numpy index."
                ) from None
            self._faiss = faiss.IndexFlatIP(self._vectors.shape[1])
            self._faiss.add(self._vectors)

    def search(self, queries: NDArray[Any], k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return indices and scores, each (q, min(k, n)), best first; ties by index."""
        queries = np.ascontiguousarray(np.atleast_2d(queries), np.float32)
        k = min(k, len(self._vectors))
        if self._faiss is not None and k:
            scores, found = self._faiss.search(queries, k)
            order = np.lexsort((found, -scores), axis=-1)
            return (
                np.take_along_axis(found, order, -1).astype(np.intp),
                np.take_along_axis(scores, order, -1),
            )
        scores = similarities(self._vectors, queries)
        found = np.array([largest(row, k) for row in scores], np.intp).reshape(len(queries), k)
        return found, np.take_along_axis(scores, found, -1)
