"""Exact search by inner product or cosine.

A conversation has at most a few thousand vectors, for which one matrix product is the index.
`VectorIndex` searches pools of any size and hands large ones to faiss (on a GPU where faiss sees
one), which stays exact: its scores equal NumPy's but for the last digit.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memsys.errors import UserError
from memsys.retrieval.ranking import largest

Similarity = Literal["dot", "cosine"]
Index = Literal["auto", "numpy", "faiss"]

POOLED = 20_000
"""Vectors from which `auto` takes faiss.

Measured on one core for the nearest 2,047 of 500 queries (384 numbers a vector): of 5,000 vectors
NumPy takes 0.3 s and faiss 0.4 s, of 20,000 6.1 s and 1.3 s. A single query gains nothing at any
size: it costs one pass over the vectors.
"""
GPU_NEAREST = 2048  # the most neighbours that faiss finds on a GPU


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

    def __init__(self, vectors: NDArray[Any], backend: Index = "auto") -> None:
        """Index `vectors`; `auto` takes faiss, if it is installed, from `POOLED` vectors on.

        Raises `UserError` if faiss is asked for and not installed.
        """
        self._vectors = np.ascontiguousarray(vectors, np.float32)
        self._cpu: Any = None
        self._gpu: Any = None
        faiss = _faiss(backend, len(self._vectors))
        if faiss is not None:
            self._cpu = faiss.IndexFlatIP(self._vectors.shape[1])
            self._cpu.add(self._vectors)
            if getattr(faiss, "get_num_gpus", int)():
                self._gpu = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, self._cpu)

    def search(self, queries: NDArray[Any], k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return indices and scores, each (q, min(k, n)), best first; ties by index."""
        queries = np.ascontiguousarray(np.atleast_2d(queries), np.float32)
        k = min(k, len(self._vectors))
        if self._cpu is not None and k:
            index = self._cpu if self._gpu is None or k > GPU_NEAREST else self._gpu
            scores, found = index.search(queries, k)
            order = np.lexsort((found, -scores), axis=-1)
            return (
                np.take_along_axis(found, order, -1).astype(np.intp),
                np.take_along_axis(scores, order, -1),
            )
        scores = similarities(self._vectors, queries)
        found = np.array([largest(row, k) for row in scores], np.intp).reshape(len(queries), k)
        return found, np.take_along_axis(scores, found, -1)


def _faiss(backend: Index, size: int) -> Any:
    if backend == "numpy" or (backend == "auto" and size < POOLED):
        return None
    try:
        import faiss
    except ImportError:
        if backend == "auto":
            return None
        raise UserError(
            "The faiss index needs faiss: install one of the extras 'faiss-cpu' and "
            "'faiss-gpu' (pip install -e '.[faiss-cpu]'), or choose the numpy index."
        ) from None
    return faiss
