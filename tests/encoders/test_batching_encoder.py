"""The batching encoder: dedupe, batches across callers, store, failures, counts."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time

import numpy as np
import pytest

from memsys import concurrency
from memsys.encoders.pooled import TransformersEncoder
from memsys.encoders.service import BatchingEncoder
from memsys.llm import ledger
from memsys.stores.vectors import VectorStore


class Model:
    """An embedding model made of hashes, which notes its batches."""

    name = "hashes"
    dimension = 4
    limit = 5

    def __init__(self, similarity="dot", prefix="", seconds=0.0):
        self.similarity = similarity
        self.prefix = prefix
        self.seconds = seconds
        self.batches: list[tuple[str, list[str]]] = []
        self.loads = 0
        self.running = 0

    @property
    def identity(self):
        return {"model": "hashes", "query_prefix": self.prefix, "passage_prefix": ""}

    def load(self):
        self.loads += 1

    def token_counts(self, texts):
        return [len(text.split()) + 2 for text in texts]

    def split(self, text, tokens):
        return [(0, len(text))]

    def vector(self, text, kind):
        seen = (self.prefix if kind == "query" else "") + text
        digest = hashlib.sha256(seen.encode("utf-8", "surrogatepass")).digest()
        return np.frombuffer(digest[:4], np.uint8) + np.float32(1)

    def embed(self, texts, kind):
        assert threading.current_thread() is not threading.main_thread()
        self.running += 1
        assert self.running == 1
        self.batches.append((kind, list(texts)))
        time.sleep(self.seconds)
        if any("bad" in text for text in texts):
            self.running -= 1
            raise RuntimeError("cannot embed this")
        self.running -= 1
        return np.array([self.vector(text, kind) for text in texts], np.float32)

    @property
    def texts(self):
        return [text for _, batch in self.batches for text in batch]


def expected(model, texts, kind="passage"):
    return np.array([model.vector(text, kind) for text in texts], np.float32)


async def test_order_duplicates_and_kinds():
    model = Model()
    encoder = BatchingEncoder(model)
    texts = ["a", "b", "a", "", "c", "b"]
    assert (await encoder.encode(texts) == expected(model, texts)).all()
    assert sorted(model.texts) == ["", "a", "b", "c"]
    assert (await encoder.encode([])).shape == (0, 4)
    assert encoder.dimension == 4
    assert encoder.token_counts(["x y"]) == [4]
    assert encoder.split("x y", 3) == [(0, 3)]


async def test_longest_texts_come_first():
    model = Model()
    await BatchingEncoder(model).encode(["a", "a b c", "a b", "a b c d"])
    assert model.batches == [("passage", ["a b c d", "a b c", "a b", "a"])]


async def test_concurrent_callers_share_batches_and_texts():
    model = Model(seconds=0.05)
    encoder = BatchingEncoder(model)
    lists = [[f"q{i}", "shared", f"q{i + 1}"] for i in range(100)]
    results = await asyncio.gather(*(encoder.encode(texts, kind="query") for texts in lists))
    for texts, vectors in zip(lists, results, strict=True):
        assert (vectors == expected(model, texts)).all()
    assert len(model.batches) <= 4
    assert len(model.texts) < 202 + 20  # without a store a late caller may come after the batch
    assert encoder.stats()["unique"] == 102


async def test_in_flight_texts_are_embedded_once(tmp_path):
    model = Model(seconds=0.1)
    encoder = BatchingEncoder(model, VectorStore(tmp_path))
    first = asyncio.create_task(encoder.encode(["a", "b"]))
    await asyncio.sleep(0.05)
    assert model.batches  # the first call is being embedded
    second, third = await asyncio.gather(encoder.encode(["b", "c"]), encoder.encode(["c", "a"]))
    assert (second == expected(model, ["b", "c"])).all()
    assert (third == expected(model, ["c", "a"])).all()
    assert (await first == expected(model, ["a", "b"])).all()
    assert sorted(model.texts) == ["a", "b", "c"]


async def test_waiting_leaves_the_event_loop_free():
    encoder = BatchingEncoder(Model(seconds=0.5))
    task = asyncio.create_task(encoder.encode(["a"]))
    pauses = []
    while not task.done():
        started = time.perf_counter()
        await asyncio.sleep(0.005)
        pauses.append(time.perf_counter() - started)
    assert len(pauses) > 5
    assert sorted(pauses)[len(pauses) // 2] < 0.1


async def test_the_model_waits_for_its_turn():
    model = Model()
    encoder = BatchingEncoder(model)
    with concurrency.HEAVY:
        task = asyncio.create_task(encoder.encode(["a"]))
        await asyncio.sleep(0.1)
        assert not model.batches
    await task
    assert model.texts == ["a"]


async def test_other_models_get_their_turn_within_a_long_batch(monkeypatch):
    monkeypatch.setattr("memsys.encoders.service._TURN_TOKENS", 10)
    model = Model()
    texts = ["a", "b", "a b c d e f", "a b c d e", "c", "d", "e"]  # 5, 5 (cut), then 3 each
    vectors = await BatchingEncoder(model).encode(texts)
    assert (vectors == expected(model, texts)).all()
    assert [batch for _, batch in model.batches] == [
        ["a b c d e f", "a b c d e"], ["a", "b", "c"], ["d", "e"],
    ]  # fmt: skip


async def test_stored_vectors_are_the_fresh_ones_to_the_last_bit(bert, tmp_path):
    def encoder():
        model = TransformersEncoder(str(bert), "mean", False, 64)
        return BatchingEncoder(model, VectorStore(tmp_path))

    texts = ["w1 w2", "w3", "playing w4 w5 w6", "w1 w2", "\ud800 w7"]
    first = encoder()
    fresh = await first.encode(texts)
    again = await first.encode(texts[::-1])
    later = encoder()
    cached = await later.encode(texts)
    assert (cached == fresh).all() and (again[::-1] == fresh).all()
    assert later.stats()["embedded"] == 0 and later.stats()["from_store"] == 4
    assert not later.model._loaded  # a warm run needs no weights
    plain = TransformersEncoder(str(bert), "mean", False, 64).embed(texts[:4], "passage")
    assert np.abs(plain - fresh[:4]).max() < 1e-5


async def test_another_encoder_has_another_shelf(bert, tmp_path):
    store = VectorStore(tmp_path)
    mean = BatchingEncoder(TransformersEncoder(str(bert), "mean", False, 64), store)
    cls = BatchingEncoder(TransformersEncoder(str(bert), "cls", False, 64), store)
    first, second = await mean.encode(["w1 w2"]), await cls.encode(["w1 w2"])
    assert np.abs(first - second).max() > 1e-2
    assert cls.stats()["embedded"] == 1


async def test_kinds_share_vectors_unless_their_prefixes_differ(tmp_path):
    same, other = Model(), Model(prefix="query: ")
    for model, embedded in ((same, 1), (other, 2)):
        encoder = BatchingEncoder(model, VectorStore(tmp_path))
        passage = await encoder.encode(["a"], kind="passage")
        query = await encoder.encode(["a"], kind="query")
        assert (query == expected(model, ["a"], "query")).all()
        assert (query == passage).all() == (embedded == 1)
        assert len(model.texts) == embedded


async def test_cosine_gives_unit_vectors_and_the_store_keeps_the_models(tmp_path):
    """dense.md §9: a first by dot product (2.0, 1.62), b first by cosine (0.780869, 0.993884)."""
    table = {"a": (2.0, 0.0), "b": (0.9, 0.9), "q": (1.0, 0.8)}

    class Table(Model):
        dimension = 2

        def vector(self, text, kind):
            return np.array(table[text], np.float32)

    scores = {}
    for similarity in ("dot", "cosine", "dot"):
        encoder = BatchingEncoder(Table(similarity), VectorStore(tmp_path))
        documents, query = await encoder.encode(["a", "b"]), await encoder.encode(["q"])
        scores[similarity] = documents @ query[0]
    assert scores["dot"] == pytest.approx([2.0, 1.62])
    assert scores["cosine"] == pytest.approx([0.780869, 0.993884], abs=1e-6)


async def test_a_failure_reaches_its_callers_and_no_others(tmp_path):
    model = Model()
    encoder = BatchingEncoder(model, VectorStore(tmp_path))
    with pytest.raises(RuntimeError, match="cannot embed"):
        await encoder.encode(["a", "bad"])
    assert (await encoder.encode(["a"]) == expected(model, ["a"])).all()
    results = await asyncio.gather(
        encoder.encode(["bad"]), encoder.encode(["bad", "a"]), return_exceptions=True
    )
    assert all(isinstance(result, RuntimeError) for result in results)
    assert encoder.stats()["embedded"] == 1


async def test_a_caller_that_gives_up_disturbs_nobody(tmp_path):
    model = Model(seconds=0.1)
    encoder = BatchingEncoder(model, VectorStore(tmp_path))
    patient = asyncio.create_task(encoder.encode(["a", "b"]))
    hasty = asyncio.create_task(encoder.encode(["a", "c"]))
    await asyncio.sleep(0.05)
    hasty.cancel()
    assert (await patient == expected(model, ["a", "b"])).all()
    assert (await encoder.encode(["c"]) == expected(model, ["c"])).all()
    with pytest.raises(asyncio.CancelledError):
        await hasty


async def test_queries_overtake_passages():
    model = Model(seconds=0.02)
    encoder = BatchingEncoder(model)
    passages = asyncio.create_task(encoder.encode([f"p{i}" for i in range(2000)]))
    while not model.batches:  # the worker has begun
        await asyncio.sleep(0.001)
    await encoder.encode(["q"], kind="query")
    assert not passages.done()
    await passages
    kinds = [kind for kind, _ in model.batches]
    assert kinds[0] == "passage" and kinds.index("query") < len(kinds) - 1
    assert max(len(batch) for _, batch in model.batches) <= 512


def test_one_encoder_serves_several_event_loops(tmp_path):
    model = Model()
    encoder = BatchingEncoder(model, VectorStore(tmp_path))
    for text in ("a", "b", "a"):
        assert (asyncio.run(encoder.encode([text])) == expected(model, [text])).all()
    assert model.texts == ["a", "b"]


async def test_stats_are_the_same_from_the_store(tmp_path):
    shares = ("texts", "unique", "tokens", "truncated_share", "tokens_dropped_share")
    seen = []
    for _ in range(2):
        encoder = BatchingEncoder(Model(), VectorStore(tmp_path))
        # lengths 3, 5, 6, 10 with special tokens; the window holds 5
        await encoder.encode(["a", "a b c", "a b c d", "a b c d e f g h", "a"])
        seen.append(encoder.stats())
    assert [seen[0][k] for k in shares] == [5, 4, 24, 0.5, 6 / 24]
    assert [seen[1][k] for k in shares] == [seen[0][k] for k in shares]
    assert [s["embedded"] for s in seen] == [4, 0]
    assert [s["from_store"] for s in seen] == [0, 4]
    assert [s["tokens_embedded"] for s in seen] == [3 + 5 + 5 + 5, 0]
    assert seen[0]["seconds"] > 0 == seen[1]["seconds"]
    empty = BatchingEncoder(Model()).stats()
    assert (empty["texts"], empty["truncated_share"]) == (0, 0.0)


async def test_texts_beyond_the_window_are_counted_for_whoever_asks(tmp_path):
    texts = ["a", "a b c", "a b c d", "a b c d e f g h", "a b c d"]  # the window holds 3 words
    for store in (None, VectorStore(tmp_path), VectorStore(tmp_path)):
        encoder = BatchingEncoder(Model(), store)
        for _ in range(2):  # embedded, then known or embedded again
            with ledger.scope("build") as account:
                await encoder.encode(texts)
            assert account.counts == {"encoder.texts": 5, "encoder.texts_cut": 3}
    with ledger.scope("question") as account:
        await encoder.encode(["a"])
    assert account.counts == {"encoder.texts": 1}


async def test_without_a_store_nothing_is_kept():
    model = Model()
    encoder = BatchingEncoder(model)
    await encoder.encode(["a"])
    await encoder.encode(["a"])
    assert model.texts == ["a", "a"]


async def test_the_worker_ends_when_idle_and_starts_again(monkeypatch):
    monkeypatch.setattr("memsys.encoders.service._IDLE_SECONDS", 0.05)
    encoder = BatchingEncoder(Model())
    await encoder.encode(["a"])
    await asyncio.sleep(0.3)
    assert encoder._worker is None
    await encoder.encode(["b"])
