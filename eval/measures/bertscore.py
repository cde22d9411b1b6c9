"""BERTScore (Zhang et al., 2020): greedy matching of contextual token vectors."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from eval.measures.base import TextMeasure
from eval.measures.item import Item

MODEL, LAYER = "roberta-large", 17
MENDS = (
    "BERTScore needs roberta-large (1.4 GB), which is not on this machine: run "
    "`hf download roberta-large`, or set MEMSYS_BERTSCORE_MODEL to its folder"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenVectors:
    """One text: vectors (tokens, d) and a weight a token; special tokens weigh 0."""

    vectors: NDArray[np.float32]
    weights: NDArray[np.float32]


class TokenEmbedder(Protocol):
    """Turns texts that are not empty into token vectors."""

    def embed(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return one entry a text, in order."""

    def __hash__(self) -> int:
        """Known scores are kept by embedder."""


def greedy_match(given: TokenVectors, wanted: TokenVectors) -> tuple[float, float, float]:
    """Return P, R and F of the cosine similarities, each token matched to its nearest.

    P is the weighted mean over the answer's tokens, R over the reference's; F = 2PR/(P+R), or 0.
    """
    similarity = _unit(given.vectors) @ _unit(wanted.vectors).T
    if not (given.weights.any() and wanted.weights.any()):
        return 0.0, 0.0, 0.0
    precision = float(np.average(similarity.max(axis=1), weights=given.weights))
    recall = float(np.average(similarity.max(axis=0), weights=wanted.weights))
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = vectors / np.maximum(norms, 1e-12)
    return scaled


@dataclass(frozen=True)
class BertScore(TextMeasure):
    """F of roberta-large's 17th layer, no idf weights, not rescaled; corpus score = mean.

    An empty answer or reference scores 0 and is counted in a warning. `embedder` stands in for
    the model in tests and is no part of the measure's identity.
    """

    embedder: TokenEmbedder | None = field(default=None, compare=False, repr=False)

    base_name: ClassVar[str] = "bertscore"
    heading: ClassVar[str] = "BERTScore"
    detail: ClassVar[str] = f"F, {MODEL} layer {LAYER}, no idf, not rescaled"

    def unavailable(self) -> str | None:
        """Return how to get the model, where it is missing."""
        return None if self.embedder is not None or model_folder() else MENDS

    def per_item(self, items: Sequence[Item]) -> list[float | None]:
        """Score all items together: each text is embedded once, each pair matched once."""
        pairs = [
            None
            if item.failed or not self.expects(item)
            else (self.prediction(item).strip(), (item.reference or "").strip())
            for item in items
        ]
        known = _pair_cache(self.embedder or _model())
        new = {pair for pair in pairs if pair is not None and all(pair)} - known.keys()
        known.update(self._match(sorted(new)))
        empty = sum(pair is not None and not all(pair) for pair in pairs)
        if empty:
            _log.warning("BERTScore: %d empty answers or references score 0.", empty)
        return [None if pair is None else known[pair] if all(pair) else 0.0 for pair in pairs]

    def _match(self, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
        embedder = self.embedder or _model()
        scores = {}
        # blocks by length keep both the padding and the vectors in memory small
        by_length = sorted(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
        for start in range(0, len(by_length), 256):
            block = by_length[start : start + 256]
            texts = list(dict.fromkeys(text for pair in block for text in pair))
            vectors = dict(zip(texts, embedder.embed(texts), strict=True))
            for given, wanted in block:
                scores[given, wanted] = greedy_match(vectors[given], vectors[wanted])[2]
        return scores


@cache
def _pair_cache(embedder: TokenEmbedder) -> dict[tuple[str, str], float]:
    """Return the scores already known under this embedder."""
    return {}


@cache
def _model() -> TokenEmbedder:
    from eval.measures.models.roberta import RobertaEmbedder  # lazy: torch and transformers

    return RobertaEmbedder(model_folder() or MODEL, LAYER)


def model_folder() -> str | None:
    """Return the folder of roberta-large on this machine, or `None`; nothing is downloaded."""
    named = os.environ.get("MEMSYS_BERTSCORE_MODEL")
    if named:
        folder = Path(named).expanduser()
        return str(folder) if _is_complete(folder) else None
    from huggingface_hub import try_to_load_from_cache  # lazy: slow to import

    for name in (MODEL, f"FacebookAI/{MODEL}"):
        found = try_to_load_from_cache(name, "config.json")
        if isinstance(found, str) and _is_complete(Path(found).parent):
            return str(Path(found).parent)
    return None


def _is_complete(folder: Path) -> bool:
    weights = ("model.safetensors", "pytorch_model.bin")
    return (folder / "config.json").is_file() and any((folder / w).is_file() for w in weights)


MEASURES = {"bertscore": BertScore}
