"""A benchmark's own session annotations, for runs without a chat model (`metadata=dataset`).

Summaries are the benchmark's; keywords are a fixed TF-IDF recipe that stands in for an LLM's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sklearn.feature_extraction.text import TfidfVectorizer

from memsys.dialogue import Session, SessionNotes
from memsys.rendering import session_text

KEYWORDS = 20
"""Words per session."""


def tfidf_keywords(sessions: Sequence[Session]) -> list[str]:
    """Return each session's 20 best TF-IDF words, joined by `; `.

    The vectorizer is fitted on the session texts of one conversation; ties go to the word that
    comes later in the vocabulary, as `argsort()[::-1]` leaves them.
    """
    vectorizer = TfidfVectorizer(stop_words="english")
    weights = vectorizer.fit_transform([session_text(session) for session in sessions]).toarray()
    words = vectorizer.get_feature_names_out()
    return ["; ".join(words[i] for i in row.argsort()[::-1][:KEYWORDS]) for row in weights]


def with_notes(sessions: Sequence[Session], summaries: Sequence[str]) -> tuple[Session, ...]:
    """Return the sessions with their summary and keywords attached."""
    return tuple(
        replace(session, notes=SessionNotes(summary=summary, keywords=keywords))
        for session, summary, keywords in zip(
            sessions, summaries, tfidf_keywords(sessions), strict=True
        )
    )
