import math

import numpy as np
import pytest

from memsys.retrieval.bm25 import Bm25Index, words

TEXTS = ["the boat and the cello", "a cello, a cello!", "nothing here", ""]


def by_formula(query, texts, k1=1.5, b=0.75):
    docs = [words(t) for t in texts]
    average = sum(map(len, docs)) / len(docs)
    scores = []
    for doc in docs:
        score = 0.0
        for word in words(query):
            df = sum(word in d for d in docs)
            tf = doc.count(word)
            if tf:
                idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
                score += idf * tf / (tf + k1 * (1 - b + b * len(doc) / average))
        scores.append(score)
    return scores


@pytest.mark.parametrize("query", ["cello", "The BOAT", "cello cello boat", "piano", "", "a the"])
def test_scores_follow_lucenes_formula(query) -> None:
    index = Bm25Index.build(TEXTS)
    np.testing.assert_allclose(index.scores(query), by_formula(query, TEXTS), rtol=1e-5)


def test_parameters_count() -> None:
    index = Bm25Index.build(TEXTS, k1=0.5, b=0.0)
    expected = by_formula("cello", TEXTS, 0.5, 0.0)
    np.testing.assert_allclose(index.scores("cello"), expected, rtol=1e-5)
    assert expected != by_formula("cello", TEXTS)


def test_saved_and_loaded_it_scores_the_same() -> None:
    index = Bm25Index.build(TEXTS)
    loaded = Bm25Index.load(index.arrays(), list(index.vocabulary), len(TEXTS))
    np.testing.assert_array_equal(loaded.scores("the cello"), index.scores("the cello"))


@pytest.mark.parametrize("texts", [[], [""], ["", "?!"]])
def test_texts_without_words(texts) -> None:
    assert Bm25Index.build(texts).scores("cello").tolist() == [0.0] * len(texts)
