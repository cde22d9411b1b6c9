"""Memory nodes: every session at four granularities (Eq. 2), one vector each.

Node order is session by session: node 4i + g is session i at granularity g.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memsys.dialogue import Session
from memsys.encoders.protocol import Encoder, Vectors
from memsys.memgas.metadata import Metadata
from memsys.rendering import pair_text, session_text, turn_pairs
from memsys.system import Unit

GRANULARITIES = ("session", "turn", "summary", "keyword")
G = len(GRANULARITIES)


def units_of(session: Session, metadata: Metadata) -> list[Unit]:
    """Return a session's four units, `"{session_id}-{granularity}"`."""
    text = session_text(session)
    turns = tuple(turn.id for turn in session.turns)
    texts = {
        "session": text,
        "turn": text,  # the turn node stands for all of the session's turn pairs
        "summary": metadata.summary,
        "keyword": metadata.keywords,
    }
    return [
        Unit(f"{session.id}-{g}", texts[g], turns, (session.id,), {"date": session.date_text})
        for g in GRANULARITIES
    ]


async def embed(
    sessions: Sequence[Session], metadata: Sequence[Metadata], encoder: Encoder
) -> dict[str, NDArray[Any]]:
    """Embed new sessions with one call to the encoder.

    Returns (n, d) vectors for each granularity, the (P, d) vectors of all turn `pairs` in order,
    and `pair_counts` (n,). A session's turn vector is the mean of its pairs, not renormalised;
    zero without turns. An empty text is embedded as a space.
    """
    pairs = [[pair_text(span) for span in turn_pairs(session)] for session in sessions]
    texts = [
        *(session_text(session) for session in sessions),
        *(m.summary for m in metadata),
        *(m.keywords for m in metadata),
        *(pair for of_session in pairs for pair in of_session),
    ]
    vectors = await encoder.encode([text or " " for text in texts], kind="passage")
    n = len(sessions)
    counts = np.array([len(of_session) for of_session in pairs], np.int64)
    pair_vectors = vectors[3 * n :]
    return {
        "session": vectors[:n],
        "turn": pooled_means(pair_vectors, counts),
        "summary": vectors[n : 2 * n],
        "keyword": vectors[2 * n : 3 * n],
        "pairs": pair_vectors,
        "pair_counts": counts,
    }


def pooled_means(pieces: NDArray[Any], counts: NDArray[Any]) -> Vectors:
    """Average consecutive pieces: (P, d) vectors and (n,) counts give (n, d) means.

    Nothing averages to the zero vector.
    """
    means = np.zeros((len(counts), pieces.shape[1]), np.float32)
    for i, (start, stop) in enumerate(_spans(counts)):
        if stop > start:
            means[i] = pieces[start:stop].mean(axis=0, dtype=np.float64)
    return means


def pooled_maxima(scores: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return the best score among each session's pieces: (P,) to (n,); 0 without pieces."""
    return np.array([scores[a:b].max() if b > a else 0.0 for a, b in _spans(counts)], np.float64)


def _spans(counts: NDArray[Any]) -> list[tuple[int, int]]:
    ends = np.cumsum(counts).tolist()
    return list(zip([0, *ends], ends, strict=False))


def interleave(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Put (n, d) arrays, one a granularity, into node order: (4n, d)."""
    return np.stack(arrays, axis=1).reshape(-1, arrays[0].shape[1])
