"""RAPTOR's tree (§3): summaries of soft clusters, layer upon layer, and its two searches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from baselines.raptor.clustering import Clustering, clusters
from memsys.concurrency import compute
from memsys.encoders.protocol import Encoder, Vectors
from memsys.retrieval.ranking import descending
from memsys.system import Unit

Summarise = Callable[[Sequence[str]], Awaitable[str]]


async def grow(
    leaves: Sequence[Unit],
    encoder: Encoder,
    summarise: Summarise,
    count: Callable[[str], int],
    layers: int,
    settings: Clustering,
) -> tuple[list[Unit], Vectors]:
    """Return all nodes, leaves first, and their vectors.

    Growth stops after `layers` layers of summaries, or at a layer of at most d + 1 nodes.
    """
    layer = list(leaves)
    vectors = await encoder.encode([unit.text for unit in layer])
    nodes, rows = list(layer), [vectors]
    for depth in range(1, layers + 1):
        if len(layer) <= settings.dimension + 1:
            break
        tokens = [int(unit.fields["tokens"]) for unit in layer]
        groups = await compute(clusters, vectors, tokens, settings)
        children = [[layer[i] for i in group] for group in groups]
        texts = await asyncio.gather(*(summarise([u.text for u in c]) for c in children))
        layer = [
            _parent(f"summary{depth}-{i}", text, depth, of, count(text))
            for i, (text, of) in enumerate(zip(texts, children, strict=True))
        ]
        vectors = await encoder.encode([unit.text or " " for unit in layer])
        nodes += layer
        rows.append(vectors)
    return nodes, np.concatenate(rows)


def _parent(name: str, text: str, layer: int, children: Sequence[Unit], tokens: int) -> Unit:
    turns = dict.fromkeys(turn for child in children for turn in child.turns)
    sessions = dict.fromkeys(session for child in children for session in child.sessions)
    fields = {"layer": layer, "children": [child.id for child in children], "tokens": tokens}
    return Unit(name, text, tuple(turns), tuple(sessions), fields)


def cosines(vectors: Vectors, query: Vectors) -> NDArray[np.float64]:
    """Return the cosine of each (n, d) vector with the query."""
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    dots = (vectors @ query).astype(np.float64)
    return np.asarray(np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0))


def collapsed(
    scores: NDArray[np.float64], tokens: Sequence[int], top_k: int | None, max_tokens: int | None
) -> list[int]:
    """Search all nodes at once: take the best until one does not fit; later ones are not tried."""
    taken: list[int] = []
    used = 0
    for i in descending(scores)[:top_k]:
        used += tokens[i]
        if max_tokens is not None and used > max_tokens:
            break
        taken.append(int(i))
    return taken


def traverse(nodes: Sequence[Unit], scores: NDArray[np.float64], keep: int) -> list[int]:
    """Walk down from the top layer, keeping the `keep` nearest among the children of the kept."""
    position = {unit.id: i for i, unit in enumerate(nodes)}
    top = max(unit.fields["layer"] for unit in nodes)
    candidates = [i for i, unit in enumerate(nodes) if unit.fields["layer"] == top]
    taken: list[int] = []
    while candidates:
        nearest = [candidates[i] for i in descending(scores[candidates])[:keep]]
        taken += nearest
        children = (child for i in nearest for child in nodes[i].fields["children"])
        candidates = [position[child] for child in dict.fromkeys(children)]
    return taken
