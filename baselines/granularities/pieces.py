"""What is embedded of each session: one text, its turn pairs, or windows over a long text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from baselines.granularities.settings import GranularityBuild
from memsys.dialogue import Session
from memsys.encoders.protocol import Encoder, Vectors
from memsys.memgas.metadata import Metadata
from memsys.memgas.nodes import pooled_maxima, pooled_means
from memsys.rendering import Span, pair_text, session_text, turn_pairs
from memsys.retrieval.vector_index import Similarity, similarities


@dataclass(frozen=True, slots=True)
class Pieces:
    """One session in the index: the text that stands for it, and what of it is embedded.

    `pairs` are its turn pairs at turn granularity, else empty.
    """

    text: str
    embedded: tuple[str, ...]
    pairs: tuple[Span, ...] = ()


def pieces_of(
    session: Session, about: Metadata, build: GranularityBuild, encoder: Encoder
) -> Pieces:
    """Return the pieces of a session; an empty text is embedded as a space."""
    if build.roles == "user":
        spoken = tuple(t for t in session.turns if t.role in (None, "user"))
        session = replace(session, turns=spoken)
    text = {
        "session": lambda: session_text(session),
        "turn": lambda: session_text(session),
        "summary": lambda: about.summary,
        "keyword": lambda: about.keywords,
        # summary and keywords first: always inside the encoder's window
        "combination": lambda: f"{about.summary} {about.keywords} {session_text(session)}",
    }[build.granularity]()
    if build.granularity == "turn":
        pairs = tuple(turn_pairs(session))
        return Pieces(text, tuple(pair_text(pair) for pair in pairs), pairs)
    if build.long_text == "truncate" or not text:
        return Pieces(text, (text or " ",))
    spans = encoder.split(text, build.chunk_tokens)
    return Pieces(text, tuple(text[start:stop] for start, stop in spans))


def session_scores(
    pieces: NDArray[np.float32],
    counts: NDArray[np.int64],
    queries: Vectors,
    *,
    pooling: str,
    similarity: Similarity,
) -> NDArray[np.float64]:
    """Return the score of each session for each query, (q, n).

    `mean` compares the query with the mean vector of a session's pieces, which is not
    renormalised; `max` takes the best piece. A session without pieces scores 0.
    """
    if pooling == "max":
        best = [pooled_maxima(row, counts) for row in similarities(pieces, queries, similarity)]
        return np.array(best, np.float64)
    return similarities(pooled_means(pieces, counts), queries, similarity).astype(np.float64)


def session_spans(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return where each session's pieces begin and end."""
    ends = np.cumsum(counts).tolist()
    return list(zip([0, *ends], ends, strict=False))
