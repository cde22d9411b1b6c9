"""RAPTOR's soft clustering (§3): UMAP, then Gaussian mixtures whose size the BIC chooses.

First over all nodes, then inside every cluster found; a cluster with too much text is clustered
again. Everything is seeded, and linear algebra runs on one thread (many small fits are far slower
on several), so two runs are bit-identical.
"""

from __future__ import annotations

import importlib.util
import inspect
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from memsys.errors import UserError
from memsys.settings import Settings

Reducer = Literal["umap", "pca"]
Floats = NDArray[np.floating[Any]]

REFIT_SEED = 0  # cluster_utils.py: the chosen mixture is fitted anew with this seed
SMALLEST = 4  # nodes that UMAP cannot reduce: ⌊√(N−1)⌋ neighbours would be fewer than 2
_one_at_a_time = threading.Lock()  # numba's default threads abort the process on concurrent use


class Clustering(Settings):
    """Settings of the soft clustering."""

    reducer: Reducer = "umap"  # cluster_utils.py; pca: a stand-in without umap-learn
    dimension: int = Field(default=10, ge=1)  # d, cluster_tree_builder.py
    local_neighbors: int = Field(default=10, ge=2)  # cluster_utils.py
    threshold: float = Field(
        default=0.1, ge=0, lt=1
    )  # γ above which a node is a member; cluster_utils.py
    max_components: int = Field(default=49, ge=1)  # cluster_utils.py (50, its end excluded)
    covariance: Literal["full", "tied", "diag", "spherical"] = "full"  # scikit-learn's default
    max_cluster_tokens: int | None = 3500  # cluster_utils.py
    seed: int = 224  # cluster_utils.py (its UMAP is not seeded)


def check(reducer: Reducer) -> None:
    """Raise `UserError` if the reducer's package is missing."""
    if reducer == "umap" and importlib.util.find_spec("umap") is None:
        raise UserError(
            "RAPTOR needs the package 'umap-learn': run 'pip install umap-learn', or set "
            "method.build.clustering.reducer=pca (not the published method)."
        )


def clusters(vectors: Floats, tokens: Sequence[int], settings: Clustering) -> list[list[int]]:
    """Return the clusters of (n, d) vectors as ascending positions; they may overlap.

    `tokens` are the lengths of the nodes' texts, for `max_cluster_tokens`.
    """
    from threadpoolctl import threadpool_limits

    with _one_at_a_time, threadpool_limits(1):
        return _limited(list(range(len(vectors))), np.asarray(vectors), tokens, settings)


def _limited(
    nodes: list[int], vectors: Floats, tokens: Sequence[int], settings: Clustering
) -> list[list[int]]:
    """Cluster `nodes`, and again whatever has too many tokens."""
    limit = settings.max_cluster_tokens
    found: list[list[int]] = []
    for part in _two_steps(vectors[nodes], settings):
        cluster = [nodes[i] for i in part]
        if limit is None or len(cluster) == 1 or sum(tokens[i] for i in cluster) <= limit:
            found.append(cluster)
        elif cluster == nodes:  # nodes that never separate would be clustered for ever
            found += in_order(cluster, tokens, limit)
        else:
            found += _limited(cluster, vectors, tokens, settings)
    return found


def in_order(cluster: Sequence[int], tokens: Sequence[int], limit: int) -> list[list[int]]:
    """Split a cluster in order into parts of at most `limit` tokens (or of one node)."""
    parts: list[list[int]] = []
    room = 0
    for node in cluster:
        if parts and tokens[node] <= room:
            parts[-1].append(node)
            room -= tokens[node]
        else:
            parts.append([node])
            room = limit - tokens[node]
    return parts


def _two_steps(vectors: Floats, settings: Clustering) -> list[list[int]]:
    """The global step over all nodes, the local step inside every global cluster."""
    n = len(vectors)
    if n <= SMALLEST:
        return [list(range(n))]
    neighbors = max(2, int(np.sqrt(n - 1)))
    reduced = reduce(vectors, neighbors, min(settings.dimension, n - 2), settings)
    found: list[list[int]] = []
    for group in soft_clusters(reduced, settings):
        if len(group) <= settings.dimension + 1:
            found.append(group)
            continue
        inside = vectors[group]
        local = reduce(inside, settings.local_neighbors, settings.dimension, settings)
        found += [[group[i] for i in part] for part in soft_clusters(local, settings)]
    return found


def reduce(vectors: Floats, neighbors: int, dimension: int, settings: Clustering) -> Floats:
    """Return (n, dimension) coordinates in which neighbours by cosine stay near."""
    if settings.reducer == "pca":
        from sklearn.decomposition import PCA

        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = (vectors / np.where(norms > 0, norms, 1)).astype(np.float64)
        if not np.ptp(unit, axis=0).any():  # equal vectors have no directions
            return np.zeros((len(unit), 1))
        components = min(dimension, *unit.shape)
        return np.asarray(PCA(components, svd_solver="full").fit_transform(unit))
    check("umap")
    import umap

    model = umap.UMAP(
        n_neighbors=neighbors,
        n_components=dimension,
        metric="cosine",
        random_state=settings.seed,
        n_jobs=1,
    )
    with warnings.catch_warnings(), _seeded_eigsh(settings.seed):
        warnings.simplefilter("ignore")  # tiny graphs: a random start in place of the spectral one
        return np.asarray(model.fit_transform(vectors))


@contextmanager
def _seeded_eigsh(seed: int) -> Iterator[None]:
    """Seed the eigenvectors that UMAP starts from.

    Where ARPACK meets an invariant subspace it draws a new vector, which recent versions of SciPy
    seed from the operating system unless told otherwise; UMAP tells them nothing.
    """
    import scipy.sparse.linalg as linalg

    eigsh = linalg.eigsh
    if "rng" in inspect.signature(eigsh).parameters:
        linalg.eigsh = partial(eigsh, rng=seed)
    try:
        yield
    finally:
        linalg.eigsh = eigsh


def bic(points: Floats, components: int, settings: Clustering) -> float:
    """Return BIC_k = p_k ln N − 2 ln L̂ of a mixture; infinite where it cannot be fitted."""
    model = _mixture(components, settings.seed, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal points: fewer distinct clusters than components
        try:
            return float(model.fit(points).bic(points))
        except ValueError:  # a component without spread in spite of regularisation
            return float("inf")


def best_components(points: Floats, settings: Clustering) -> int:
    """Return the number of components in 1 … min(50, N) − 1 with the lowest BIC."""
    most = min(settings.max_components, len(points) - 1)
    scores = [bic(points, k, settings) for k in range(1, most + 1)]
    return int(np.argmin(scores)) + 1


def soft_clusters(points: Floats, settings: Clustering) -> list[list[int]]:
    """Return each component's points with γ above the threshold, without empty components."""
    points = np.asarray(points, np.float64)
    model = _mixture(best_components(points, settings), REFIT_SEED, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal points: fewer distinct clusters than components
        try:
            gamma = model.fit(points).predict_proba(points)
        except ValueError:  # no mixture at all: one cluster
            return [list(range(len(points)))]
    return members(gamma, settings.threshold)


def members(gamma: Floats, threshold: float) -> list[list[int]]:
    """Return each component's members from (n, k) posteriors; a point may have several."""
    groups = [np.flatnonzero(column > threshold).tolist() for column in gamma.T]
    return [group for group in groups if group]


def _mixture(components: int, seed: int, settings: Clustering) -> Any:
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(components, covariance_type=settings.covariance, random_state=seed)
