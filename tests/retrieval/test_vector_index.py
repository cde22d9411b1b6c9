import sys

import numpy as np
import pytest

from memsys.errors import UserError
from memsys.retrieval.vector_index import VectorIndex, similarities, unit_rows


def test_dot_and_cosine_order_differently() -> None:  # dense.md §9
    documents, query = np.array([[2, 0], [0.9, 0.9]]), np.array([[1, 0.8]])
    assert similarities(documents, query)[0] == pytest.approx([2.0, 1.62], abs=1e-6)
    assert similarities(documents, query, "cosine")[0] == pytest.approx(
        [0.780869, 0.993884], abs=1e-6
    )


def test_a_zero_vector_has_cosine_zero() -> None:
    assert similarities(np.zeros((1, 3)), np.ones((1, 3)), "cosine").tolist() == [[0.0]]
    assert unit_rows(np.array([[3, 4], [0, 0]])).tolist() == pytest.approx(
        np.array([[0.6, 0.8], [0, 0]])
    )


def test_a_query_has_the_same_numbers_in_any_batch() -> None:
    random = np.random.default_rng(0)
    vectors, queries = random.normal(size=(37, 48)), random.normal(size=(9, 48))
    together = similarities(vectors, queries)
    for row, query in zip(together, queries):
        np.testing.assert_array_equal(row, similarities(vectors, query[None])[0])


@pytest.mark.parametrize("backend", ["numpy", "faiss"])
def test_search_is_exact_with_ties_by_index(backend) -> None:
    if backend == "faiss":
        pytest.importorskip("faiss")
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0.5, 0.5]], np.float32)
    found, scores = VectorIndex(vectors, backend).search(np.array([[1, 0], [0, 2]]), 3)
    assert found[0].tolist() == [0, 2, 3] and found[1].tolist()[:2] == [1, 3]
    assert scores[0].tolist() == [1, 1, 0.5]
    found, scores = VectorIndex(vectors, backend).search([[1, 1]], 99)
    assert found.shape == scores.shape == (1, 4)


def test_faiss_and_numpy_agree() -> None:
    pytest.importorskip("faiss")
    random = np.random.default_rng(1)
    vectors, queries = random.normal(size=(500, 16)), random.normal(size=(7, 16))
    ours, theirs = (VectorIndex(vectors, b).search(queries, 10) for b in ("numpy", "faiss"))
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)


def test_faiss_is_taken_from_a_pools_size_on(monkeypatch) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr("memsys.retrieval.vector_index.POOLED", 50)
    vectors = np.random.default_rng(2).normal(size=(50, 8))
    assert VectorIndex(vectors)._cpu is not None
    assert VectorIndex(vectors[:49])._cpu is VectorIndex(vectors, "numpy")._cpu is None
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert VectorIndex(vectors)._cpu is None  # without faiss, NumPy serves any size


class Card:
    """faiss as it is on a machine with a GPU, as far as the index uses it."""

    def __init__(self, real) -> None:
        self.IndexFlatIP, self.StandardGpuResources = real.IndexFlatIP, object
        self.asked: list[int] = []

    def get_num_gpus(self) -> int:
        return 1

    def index_cpu_to_gpu(self, resources, device, index):
        card = self

        class OnCard:
            def search(self, queries, k):
                card.asked.append(k)
                return index.search(queries, k)

        return OnCard()


def test_a_gpu_searches_as_far_as_it_can(monkeypatch) -> None:
    card = Card(pytest.importorskip("faiss"))
    monkeypatch.setitem(sys.modules, "faiss", card)
    monkeypatch.setattr("memsys.retrieval.vector_index.GPU_NEAREST", 7)
    vectors = np.random.default_rng(3).normal(size=(60, 8))
    index = VectorIndex(vectors, "faiss")
    for k in (7, 8):
        expected = VectorIndex(vectors, "numpy").search(vectors[:5], k)
        np.testing.assert_array_equal(index.search(vectors[:5], k)[0], expected[0])
    assert card.asked == [7]


@pytest.mark.gpu
def test_a_real_gpu_finds_the_same() -> None:
    faiss = pytest.importorskip("faiss")
    if not getattr(faiss, "get_num_gpus", int)():
        pytest.skip("faiss sees no CUDA device (the extra 'faiss-gpu')")
    vectors = np.random.default_rng(4).normal(size=(5000, 32))
    ours, theirs = (VectorIndex(vectors, b).search(vectors[:40], 10) for b in ("numpy", "faiss"))
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)


def test_missing_faiss_is_said_plainly(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match="faiss-cpu"):
        VectorIndex(np.zeros((1, 2)), "faiss")
