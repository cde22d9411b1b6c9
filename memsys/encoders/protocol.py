"""What an encoder and a reranker are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["passage", "query"]
"""Some encoders put different prefixes before passages and queries."""

Vectors = NDArray[np.float32]


class EmbeddingModel(Protocol):
    """A model that embeds one batch of texts, synchronously and without a cache."""

    @property
    def name(self) -> str:
        """The encoder's config name or model id."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that defines a vector: model, revision or weights hash, pooling, prefix, window,
        normalisation, dtype; as JSON.
        """

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return each text's length in word pieces, special tokens included, before truncation."""

    @property
    def limit(self) -> int:
        """The window in word pieces, special tokens included."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Return float32 vectors of shape (n, dimension), in the order of `texts`."""


class Encoder(Protocol):
    """What a memory system sees: any number of texts, deduplicated, batched and stored."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    async def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return float32 vectors of shape (n, dimension), in the order of `texts`."""

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return each text's length in word pieces, special tokens included, before truncation."""

    def split(self, text: str, tokens: int) -> list[tuple[int, int]]:
        """Return character spans of consecutive blocks of at most `tokens` word pieces."""


class Reranker(Protocol):
    """Scores texts against a query with a cross-encoder."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score a text; higher is closer."""
