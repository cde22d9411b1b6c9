"""HippoRAG 2's graph and its Personalized PageRank (§3).

Nodes are the phrases (subjects and objects of triples), then the passages. Edges are undirected
and weighted; parallel edges add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from baselines.hipporag2.extraction import Triple
from memsys.encoders.protocol import Vectors
from memsys.llm import ledger
from memsys.retrieval.pagerank import personalized_pagerank, transition
from memsys.retrieval.vector_index import VectorIndex

EdgeMode = Literal["official", "merged"]
SeedRule = Literal["mean", "last"]
Pairs = dict[tuple[int, int], float]
AT_ONCE = 256  # phrases looked up together: (256, n) cosines at a time


def unit_rows(vectors: Vectors) -> Vectors:
    """Scale (n, d) vectors to length 1; zero vectors stay."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), np.float32)


def min_max(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return mm(v) = (v − min)/(max − min), all ones where all values are equal."""
    v = np.asarray(values, np.float64)
    if not len(v) or v.max() == v.min():
        return np.ones(len(v))
    return np.asarray((v - v.min()) / (v.max() - v.min()))


def phrases_of(triples: Sequence[Triple]) -> list[str]:
    """Return the distinct subjects and objects in order of appearance."""
    return list(dict.fromkeys(phrase for s, _, o in triples for phrase in (s, o)))


def relation_pairs(passages: Sequence[Sequence[Triple]], index: dict[str, int]) -> Pairs:
    """Each triple adds 1 to (subject, object) and 1 to (object, subject); no self-loops."""
    pairs: Pairs = {}
    for s, _, o in (triple for triples in passages for triple in triples):
        for pair in ((index[s], index[o]), (index[o], index[s])):
            if pair[0] != pair[1]:
                pairs[pair] = pairs.get(pair, 0.0) + 1
    return pairs


def synonym_pairs(
    phrases: Sequence[str], vectors: Vectors, threshold: float, looked_at: int, kept: int
) -> Pairs:
    """Pair each phrase of more than two letters or digits with its near-synonyms, by cosine.

    Of its `looked_at` nearest phrases (itself among them) those with a cosine of at least
    `threshold` are kept, at most `kept`.
    """
    pairs: Pairs = {}
    asking = [i for i, phrase in enumerate(phrases) if sum(c.isalnum() for c in phrase) > 2]
    unit = unit_rows(vectors)
    index = VectorIndex(unit)  # all phrases against all: the one pool here that grows large
    for start in range(0, len(asking), AT_ONCE):
        some = asking[start : start + AT_ONCE]
        for i, found, cosines in zip(some, *index.search(unit[some], looked_at), strict=True):
            near = (cosines >= threshold) & (found != i)
            pairs |= {
                (i, int(j)): float(cosine)
                for j, cosine in zip(found[near][:kept], cosines[near][:kept], strict=True)
            }
    return pairs


def build_edges(
    passages: Sequence[Sequence[Triple]],
    phrases: Sequence[str],
    synonyms: Pairs,
    mode: EdgeMode,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (m, 2) edges and their (m,) weights.

    A synonym's weight replaces the relation weight of the same ordered pair. `official` keeps
    (a, b) and (b, a) as two parallel edges, `merged` makes one of them, with the larger weight.
    """
    index = {phrase: i for i, phrase in enumerate(phrases)}
    pairs = relation_pairs(passages, index)
    for i, triples in enumerate(passages):
        for phrase in phrases_of(triples):
            pairs[len(phrases) + i, index[phrase]] = 1.0
    ledger.count("hipporag2.graph:synonym_over_relation", len(pairs.keys() & synonyms.keys()))
    pairs.update(synonyms)
    if mode == "merged":
        single: Pairs = {}
        for (a, b), weight in pairs.items():
            key = min(a, b), max(a, b)
            single[key] = max(weight, single.get(key, 0.0))
        pairs = single
    edges = np.array(list(pairs), np.int64).reshape(-1, 2)
    return edges, np.array(list(pairs.values()), np.float64)


def phrase_seeds(
    kept: Sequence[tuple[Triple, float]],
    phrases: Sequence[str],
    passages_with: Sequence[int],
    rule: SeedRule,
    top: int,
) -> NDArray[np.float64]:
    """Return the restart weight of every phrase.

    `kept` are the recognised triples with their scores a_t, best first; `passages_with` is |P(x)|
    of each phrase x. `mean`: w_x is the mean of a_t / |P(x)|, and the `top` largest stay. `last`:
    w_x is a_t / |P(x)| of x's lowest triple, and the `top` phrases of the largest mean a_t stay.
    """
    index = {phrase: i for i, phrase in enumerate(phrases)}
    scores: dict[int, list[float]] = {}
    for (s, _, o), score in kept:
        for phrase in dict.fromkeys((s, o)):
            scores.setdefault(index[phrase], []).append(score)
    means = {x: float(np.mean(a)) for x, a in scores.items()}
    if rule == "mean":
        weights = {x: mean / passages_with[x] for x, mean in means.items()}
        order = weights
    else:
        weights = {x: a[-1] / passages_with[x] for x, a in scores.items()}
        order = means
    seeds = np.zeros(len(phrases))
    for x in sorted(order, key=lambda x: -order[x])[:top]:
        seeds[x] = weights[x]
    return seeds


def rank_nodes(
    edges: NDArray[np.int64],
    weights: NDArray[np.float64],
    seeds: NDArray[np.float64],
    damping: float,
) -> NDArray[np.float64]:
    """Return π of every node, from seeds over phrases and passages; negative seeds count as 0."""
    matrix = transition(edges, len(seeds), weights)
    return np.asarray(personalized_pagerank(matrix, seeds.clip(0)[None], damping)[0])
