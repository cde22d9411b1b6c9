"""MemGAS at scale: the association graph and PageRank, beside the loops that they replace.

    python scripts/bench/graph.py [--full] [--json FILE]

On random unit vectors, all sides with one BLAS thread: the batched mixtures beside one
scikit-learn fit a node; Personalized PageRank of 50 questions at once beside one networkx (and,
where it is installed, igraph) call a question; one more session for a graph that is there; the
graphs of LongMemEval-m, 500 conversations of 500 sessions, extrapolated.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rows import exact, finish, row
from threadpoolctl import threadpool_limits

from memsys.memgas.graph import new_edges
from memsys.memgas.propagation import seeds
from memsys.memgas.settings import Association
from memsys.retrieval.pagerank import personalized_pagerank, transition
from memsys.retrieval.vector_index import unit_rows

QUICK = (25, 100, 250, 500)
FULL = (25, 50, 100, 250, 500, 1000, 2000)
QUESTIONS = 50
ALPHA = 15
DAMPING = 0.1
DIMENSION = 768
LARGE = 500  # sessions of a LongMemEval-m conversation, and how many conversations there are


def seconds(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the median time of some runs, and the last result."""
    times, result = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return statistics.median(times), result


def nodes(sessions: int, seed: int = 0) -> Any:
    """Return random unit vectors for four nodes a session."""
    random = np.random.default_rng([sessions, seed])
    return unit_rows(random.normal(size=(4 * sessions, DIMENSION)))


def graphs(sessions: int, bar: float | None) -> tuple[list[dict[str, Any]], Any, float]:
    """Compare building one graph; also return its edges, and the time of one insertion."""
    vectors = nodes(sessions)
    ours, edges = seconds(lambda: new_edges(vectors, 0, Association()))
    reference, expected = seconds(lambda: new_edges(vectors, 0, Association(gmm="sklearn")), 1)
    insertion, _ = seconds(lambda: new_edges(vectors, sessions - 1, Association()), 15)
    different = len(set(map(tuple, edges)) ^ set(map(tuple, expected))) / max(1, len(expected))
    rows = [
        row(
            f"graph of {sessions:,} sessions, beside scikit-learn",
            ours,
            reference,
            "s",
            bar,
            more=False,
        ),
        exact(f"share of {len(expected):,} edges that differ", different, 0.005),
        row(f"one more session for {sessions:,}", insertion, None, "s", None, more=False),
    ]
    return rows, edges, insertion


def pageranks(sessions: int, edges: Any, bar: float | None) -> list[dict[str, Any]]:
    """Compare the PageRanks of 50 questions."""
    size, vectors = 4 * sessions, nodes(sessions)
    queries = unit_rows(np.random.default_rng(1).normal(size=(QUESTIONS, DIMENSION)))
    restarts = np.stack([seeds(vectors @ query, ALPHA) for query in queries])

    def at_once() -> Any:
        return personalized_pagerank(transition(edges, size), restarts, DAMPING)

    ours, mine = seconds(at_once, 5)
    reference, theirs = seconds(lambda: by_networkx(edges, size, restarts), 1)
    case = f"{QUESTIONS} PageRanks on {sessions:,} sessions"
    rows = [
        row(f"{case}, beside networkx", ours, reference, "s", bar, more=False),
        exact("largest difference of a node's mass", float(np.abs(mine - theirs).max()), 1e-10),
    ]
    if importlib.util.find_spec("igraph") is not None:
        reference, _ = seconds(lambda: by_igraph(edges, size, restarts), 1)
        rows.append(row(f"{case}, beside igraph", ours, reference, "s", bar, more=False))
    return rows


def by_networkx(edges: Any, size: int, restarts: Any) -> Any:
    """One call a question, tight enough for stable ranks."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(edges.tolist())
    rows = []
    for restart in restarts:
        wanted = {i: float(v) for i, v in enumerate(restart)}
        found = nx.pagerank(graph, DAMPING, personalization=wanted, tol=1e-12, max_iter=1000)
        rows.append([found[i] for i in range(size)])
    return np.array(rows)


def by_igraph(edges: Any, size: int, restarts: Any) -> Any:
    """One call a question, as the official code does it."""
    import igraph

    graph = igraph.Graph(n=size, edges=edges.tolist())
    rank = graph.personalized_pagerank
    return [rank(damping=DAMPING, reset=list(r), implementation="prpack") for r in restarts]


def many_graphs(measured: int) -> dict[str, Any]:
    """Time some graphs of LongMemEval-m's size and extrapolate to all of them."""
    sets = [nodes(LARGE, seed) for seed in range(measured)]
    spent, _ = seconds(lambda: [new_edges(vectors, 0, Association()) for vectors in sets], 1)
    case = f"{LARGE} graphs of {LARGE} sessions, extrapolated from {measured}"
    return row(case, spent * LARGE / measured, None, "s", 300, more=False)


def run(full: bool = False) -> list[dict[str, Any]]:
    """Return the rows of all cases: case, ours, reference, unit, ratio, bar, holds."""
    rows, insertions = [], []
    sizes = FULL if full else QUICK
    with threadpool_limits(1):
        new_edges(nodes(12), 0, Association(gmm="sklearn"))  # imports and first calls
        for sessions in sizes:
            bar = 10 if sessions >= LARGE else None
            made, edges, insertion = graphs(sessions, bar)
            insertions.append(insertion)
            rows += [*made, *pageranks(sessions, edges, bar)]
        slope = np.polyfit(np.log(sizes), np.log(insertions), 1)[0]
        rows.append(exact("insertion grows as n to the power of", float(slope), 1.2))
        rows.append(many_graphs(50 if full else 5))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    finish(run, parser)


if __name__ == "__main__":
    main()
