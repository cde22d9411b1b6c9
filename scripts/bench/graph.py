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
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
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


def row(
    case: str, ours: float, reference: float | None = None, bar: float | None = None
) -> dict[str, Any]:
    """Return one row, in seconds: `bar` is the least speed-up, or our most where alone."""
    ratio = None if reference is None else reference / ours
    holds = bar is None or (ours <= bar if ratio is None else ratio >= bar)
    return {
        "case": case,
        "ours": ours,
        "reference": reference,
        "unit": "s",
        "ratio": ratio,
        "bar": bar,
        "holds": holds,
    }


def exact(case: str, difference: float, bar: float) -> dict[str, Any]:
    """Return a row about a difference that must not exceed `bar`."""
    return row(case, difference, None, bar) | {"unit": ""}


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
        row(f"graph of {sessions:,} sessions, beside scikit-learn", ours, reference, bar),
        exact(f"share of {len(expected):,} edges that differ", different, 0.005),
        row(f"one more session for {sessions:,}", insertion),
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
        row(f"{case}, beside networkx", ours, reference, bar),
        exact("largest difference of a node's mass", float(np.abs(mine - theirs).max()), 1e-10),
    ]
    if importlib.util.find_spec("igraph") is not None:
        reference, _ = seconds(lambda: by_igraph(edges, size, restarts), 1)
        rows.append(row(f"{case}, beside igraph", ours, reference, bar))
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
    return row(case, spent * LARGE / measured, None, 300)


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
    parser.add_argument("--full", action="store_true", help="to 2,000 sessions")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    options = parser.parse_args()
    rows = run(options.full)
    print("| case | ours | reference | ratio | bar | holds |\n|---|---|---|---|---|---|")
    for r in rows:
        cells = [
            "" if r[k] is None else f"{r[k]:,.3g}" for k in ("ours", "reference", "ratio", "bar")
        ]
        print(f"| {r['case']} | {' | '.join(cells)} | {'yes' if r['holds'] else 'no'} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
