"""The encoder that memory systems see: deduplicated, stored, and batched across callers.

One worker thread embeds. While it is busy, the texts of all other callers gather; it then takes
them together, so that a hundred concurrent questions cost a few batches. A text is embedded
once, however many callers ask for it at the same time. Only what comes out of the store is the
same to the last bit from run to run: a vector's last digits depend on its batch (below 1e-5).
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from memsys import concurrency
from memsys.encoders.local import Similarity, unit
from memsys.encoders.protocol import EmbeddingModel, Kind, Vectors
from memsys.llm import ledger
from memsys.stores.shards import Key
from memsys.stores.vectors import VectorStore

_GATHER_SECONDS = 0.002  # lets callers of the same moment share the first batch
_IDLE_SECONDS = 1.0  # the worker thread then ends; the next call starts another
_SLICE = 512  # texts embedded, stored and handed out at a time

_TURN_TOKENS = 32_768  # word pieces embedded before another model may have its turn


class SplittingModel(EmbeddingModel, Protocol):
    """An embedding model that can also split texts, and be loaded ahead of its first use."""

    @property
    def similarity(self) -> Similarity:
        """How vectors are to be compared."""

    def split(self, text: str, tokens: int) -> list[tuple[int, int]]:
        """Return character spans of consecutive blocks of at most `tokens` word pieces."""

    def load(self) -> None:
        """Load the weights, if they are not loaded yet."""


@dataclass
class _Call:
    """One `encode` that waits for texts to be embedded."""

    missing: set[Key]
    found: dict[Key, Vectors] = field(default_factory=dict)
    done: Future[None] = field(default_factory=Future)


@dataclass
class _Counts:
    texts: int = 0
    from_store: int = 0
    embedded: int = 0
    tokens_embedded: int = 0
    seconds: float = 0.0
    lengths: dict[Key, int] = field(default_factory=dict)  # of every different text asked for


class BatchingEncoder:
    """Encodes through a vector store with one embedding model (protocol `Encoder`).

    With `similarity` cosine the vectors that systems get have length 1, so that systems
    everywhere score by dot product; the store keeps them as the model makes them.
    """

    def __init__(self, model: SplittingModel, store: VectorStore | None = None) -> None:
        """Use `model`; without a `store`, every call embeds anew (as timing needs it)."""
        self.model = model
        self._store = store
        # where queries and passages have different prefixes, they are different texts
        prefixes = (model.identity.get("query_prefix"), model.identity.get("passage_prefix"))
        self._kinds_differ = prefixes[0] != prefixes[1]
        self._shelf = store.shelf(model.identity, model.dimension) if store is not None else None
        self._state = threading.Condition()
        self._queue: dict[Kind, dict[Key, str]] = {"query": {}, "passage": {}}
        self._waiting: dict[Key, list[_Call]] = {}
        self._worker: threading.Thread | None = None
        self._counts = _Counts()

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.model.dimension

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return each text's length in word pieces, special tokens included, before truncation."""
        return self.model.token_counts(texts)

    def split(self, text: str, tokens: int) -> list[tuple[int, int]]:
        """Return character spans of consecutive blocks of at most `tokens` word pieces."""
        return self.model.split(text, tokens)

    async def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return float32 vectors of shape (n, dimension), in the order of `texts`.

        Counts the texts, and those longer than the model's window, on the open account. Raises
        whatever the model raises for one of these texts' batches.
        """
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        keys, found, call = await concurrency.compute(self._look_up, list(texts), kind)
        if call is not None:
            await asyncio.wrap_future(call.done)
            found |= call.found
        self._account_for(keys)
        vectors = np.stack([found[key] for key in keys])
        return unit(vectors) if self.model.similarity == "cosine" else vectors

    def stats(self) -> dict[str, Any]:
        """Return what the manifest keeps: how much was asked, embedded, cut, and how long it took.

        `truncated_share` and `tokens_dropped_share` are over all different texts asked for,
        whether they came from the store or not; `seconds` is the model's time.
        """
        with self._state:
            counts = self._counts
            lengths = np.array(list(counts.lengths.values()), np.int64)
            total = int(lengths.sum())
            dropped = int(np.maximum(lengths - self.model.limit, 0).sum())
            return {
                "texts": counts.texts,
                "unique": len(lengths),
                "from_store": counts.from_store,
                "embedded": counts.embedded,
                "tokens": total,
                "tokens_embedded": counts.tokens_embedded,
                "truncated_share": float((lengths > self.model.limit).mean()) if total else 0.0,
                "tokens_dropped_share": dropped / total if total else 0.0,
                "damaged_rows": self._shelf.damaged if self._shelf is not None else 0,
                "seconds": counts.seconds,
            }

    def _account_for(self, keys: Sequence[Key]) -> None:
        with self._state:
            lengths = [self._counts.lengths.get(key, 0) for key in keys]
        ledger.count("encoder.texts", len(keys))
        ledger.count("encoder.texts_cut", sum(length > self.model.limit for length in lengths))

    def _look_up(
        self, texts: list[str], kind: Kind
    ) -> tuple[list[Key], dict[Key, Vectors], _Call | None]:
        """Find what is stored; queue the rest, unless it is in flight already."""
        keys = [self._key(text, kind) for text in texts]
        stored = self._shelf.lookup(keys) if self._shelf is not None else {}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in stored}
        with self._state:
            self._counts.texts += len(texts)
            self._counts.from_store += len(stored)
            self._counts.lengths.update({key: tokens for key, (_, tokens) in stored.items()})
            found = {key: vector for key, (vector, _) in stored.items()}
            if not missing:
                return keys, found, None
            call = _Call(set(missing))
            call.done.set_running_or_notify_cancel()  # a caller that gives up cancels nothing
            for key, text in missing.items():
                if key in self._waiting:
                    self._waiting[key].append(call)
                else:
                    self._waiting[key] = [call]
                    self._queue[kind][key] = text
            if self._worker is None:
                self._worker = threading.Thread(
                    target=self._work, name="memsys-encoder", daemon=True
                )
                self._worker.start()
            self._state.notify()
        return keys, found, call

    def _work(self) -> None:
        """Embed whatever is queued until nothing has come for a while."""
        while True:
            with self._state:
                self._state.wait_for(lambda: any(self._queue.values()), _IDLE_SECONDS)
                if not any(self._queue.values()):
                    self._worker = None
                    return
            time.sleep(_GATHER_SECONDS)
            kind, batch = self._take()
            try:
                vectors = self._embed(batch, kind)
            except BaseException as error:
                self._hand_out(batch, error)
            else:
                self._hand_out(vectors, None)

    def _take(self) -> tuple[Kind, dict[Key, str]]:
        """Take queries first (they are short, and somebody waits), else the oldest passages."""
        with self._state:
            kind: Kind = "query" if self._queue["query"] else "passage"
            queue = self._queue[kind]
            keys = list(queue)[:_SLICE]
            return kind, {key: queue.pop(key) for key in keys}

    def _embed(self, batch: dict[Key, str], kind: Kind) -> dict[Key, Vectors]:
        # a call may have been queued just as another one's vectors reached the store
        shelved = self._shelf.lookup(batch) if self._shelf is not None else {}
        stored = {key: vector for key, (vector, _) in shelved.items()}
        with self._state:
            self._counts.lengths.update({key: tokens for key, (_, tokens) in shelved.items()})
        fresh = [(key, text) for key, text in batch.items() if key not in stored]
        if not fresh:
            return stored
        keys, texts = [key for key, _ in fresh], [text for _, text in fresh]
        self.model.load()
        started = time.perf_counter()
        tokens = self.model.token_counts(texts)
        order = sorted(range(len(texts)), key=lambda i: -tokens[i])
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for turn in self._turns(order, tokens):
            with concurrency.HEAVY:
                vectors[turn] = self.model.embed([texts[i] for i in turn], kind)
        seconds = time.perf_counter() - started
        if self._shelf is not None:
            self._shelf.put(keys, vectors, tokens)
        with self._state:
            self._counts.embedded += len(texts)
            self._counts.tokens_embedded += sum(min(n, self.model.limit) for n in tokens)
            self._counts.seconds += seconds
            self._counts.lengths.update(zip(keys, tokens, strict=True))
        return stored | dict(zip(keys, vectors, strict=True))

    def _turns(self, order: Sequence[int], tokens: Sequence[int]) -> Iterator[list[int]]:
        """Cut `order` so that another model on these cores never waits long for its turn."""
        turn: list[int] = []
        size = 0
        for i in order:
            length = min(tokens[i], self.model.limit)
            if turn and size + length > _TURN_TOKENS:
                yield turn
                turn, size = [], 0
            turn.append(i)
            size += length
        yield turn

    def _hand_out(self, batch: dict[Key, Any], error: BaseException | None) -> None:
        """Give each vector (or the error) to all calls that wait for it."""
        finished: list[_Call] = []
        with self._state:
            for key, vector in batch.items():
                for call in self._waiting.pop(key):
                    call.missing.discard(key)
                    if error is None:
                        call.found[key] = vector
                    if (error or not call.missing) and call not in finished:
                        finished.append(call)
        for call in finished:
            if call.done.done():
                continue
            if error is None:
                call.done.set_result(None)
            else:
                call.done.set_exception(error)

    def _key(self, text: str, kind: Kind) -> Key:
        label = kind if self._kinds_differ else ""
        return hashlib.sha256(f"{label}\0{text}".encode("utf-8", "surrogatepass")).digest()
