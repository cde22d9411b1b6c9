"""An embedding model without weights, for benches and tests of the machinery: words as hashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from doubles import word_spans

from memsys.encoders.local import Similarity
from memsys.encoders.protocol import Kind, Vectors


class HashingModel:
    """Every word has a fixed random vector; a text is the mean of its words' vectors."""

    def __init__(self, dimension: int = 16) -> None:
        self.name = "hashing"
        self.dimension = dimension
        self.limit = 512
        self.similarity: Similarity = "cosine"

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"model": "hashing", "dimension": self.dimension}

    def load(self) -> None: ...

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) + 2 for text in texts]

    def split(self, text: str, tokens: int) -> list[tuple[int, int]]:
        return word_spans(text, tokens)

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        rows = [np.mean([self._word(w) for w in re.findall(r"\w+", t) or [""]], 0) for t in texts]
        return np.array(rows, np.float32).reshape(-1, self.dimension)

    def _word(self, word: str) -> Vectors:
        digest = hashlib.sha256(word.lower().encode()).digest()
        seed = int.from_bytes(digest[:8], "big")
        return np.random.default_rng(seed).standard_normal(self.dimension).astype(np.float32)
