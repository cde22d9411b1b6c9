"""A benchmark's own session annotations, for runs without a chat model (`metadata=dataset`).

Summaries are the benchmark's; keywords are a fixed TF-IDF recipe that stands in for an LLM's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memsys.dialogue import Session, SessionNotes

KEYWORDS = 20
"""Words per session."""


def tfidf_keywords(sessions: Sequence[Session]) -> list[str]:
    """Return each session's 20 best TF-IDF words, joined by `; `.

    The vectorizer is fitted on the session texts of one conversation, captions without their
    label (its words would rank as keywords of every session with an image). Ties go to the word
    that comes first in the alphabet: numpy's default sort would leave them to the processor.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # takes seconds to import

    vectorizer = TfidfVectorizer(stop_words="english")
    weights = vectorizer.fit_transform([_words(session) for session in sessions]).toarray()
    words = vectorizer.get_feature_names_out()
    best = np.argsort(-weights, axis=1, kind="stable")[:, :KEYWORDS]
    return ["; ".join(words[i] for i in row) for row in best]


def _words(session: Session) -> str:
    lines = [f"[{t.speaker}]: {t.text}\n{t.caption or ''}" for t in session.turns]
    return "\n".join(lines)


def with_notes(sessions: Sequence[Session], summaries: Sequence[str]) -> tuple[Session, ...]:
    """Return the sessions with their summary and keywords attached."""
    return tuple(
        replace(session, notes=SessionNotes(summary=summary, keywords=keywords))
        for session, summary, keywords in zip(
            sessions, summaries, tfidf_keywords(sessions), strict=True
        )
    )
