"""Okapi BM25 over a fixed list of texts, indexed by the library `bm25s`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Return the lower-cased words of a text; no stop list, no stemmer."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Bm25Index:
    """Word scores of n texts, stored by word: plain arrays that a memory can hold.

    Word w has the scores `values[starts[w]:starts[w + 1]]` in the texts `texts[…]` of that slice.
    """

    vocabulary: Mapping[str, int]
    values: NDArray[np.float32]
    texts: NDArray[np.int32]
    starts: NDArray[np.int64]
    size: int

    @classmethod
    def build(cls, texts: Sequence[str], k1: float = 1.5, b: float = 0.75) -> Bm25Index:
        """Index `texts` with BM25 in Lucene's form."""
        import bm25s

        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(w, len(vocabulary)) for w in words(t)] for t in texts]
        if not vocabulary:
            empty = np.zeros(0, np.float32)
            return cls({}, empty, np.zeros(0, np.int32), np.zeros(1, np.int64), len(texts))
        model = bm25s.BM25(k1=k1, b=b, method="lucene")
        model.index((ids, vocabulary), show_progress=False, create_empty_token=False)
        columns = model.scores
        return cls(
            vocabulary,
            np.asarray(columns["data"], np.float32),
            np.asarray(columns["indices"], np.int32),
            np.asarray(columns["indptr"], np.int64),
            len(texts),
        )

    @classmethod
    def load(
        cls, arrays: Mapping[str, NDArray[Any]], vocabulary: Sequence[str], size: int
    ) -> Bm25Index:
        """Take an index over `size` texts back from `arrays()` and its words in order."""
        return cls(
            {word: w for w, word in enumerate(vocabulary)},
            arrays["bm25_values"],
            arrays["bm25_texts"],
            arrays["bm25_starts"],
            size,
        )

    def scores(self, query: str) -> NDArray[np.float64]:
        """Return one score a text, shape (n,); a word that occurs twice counts twice."""
        scores = np.zeros(self.size)
        for word in words(query):
            w = self.vocabulary.get(word)
            if w is not None:
                part = slice(self.starts[w], self.starts[w + 1])
                scores[self.texts[part]] += self.values[part]
        return scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers, for a memory's arrays; the vocabulary goes with its state."""
        return {"bm25_values": self.values, "bm25_texts": self.texts, "bm25_starts": self.starts}
