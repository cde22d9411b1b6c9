"""The two answer normalisations in use, and Porter stems; each text is tokenised once."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from functools import cache, lru_cache

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only: “ ” ’ – stay
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ARTICLES_AND = re.compile(r"\b(a|an|the|and)\b")


@lru_cache(maxsize=16_384)
def squad_tokens(text: str) -> tuple[str, ...]:
    """Lower-case, delete ASCII punctuation, drop *a, an, the*, split on whitespace."""
    return tuple(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


@lru_cache(maxsize=16_384)
def locomo_tokens(text: str) -> tuple[str, ...]:
    """As `squad_tokens`, but drop *and* too, and Porter-stem every token."""
    plain = text.lower().translate(_NO_PUNCTUATION)
    return tuple(porter(token) for token in _ARTICLES_AND.sub(" ", plain).split())


@lru_cache(maxsize=262_144)
def porter(word: str) -> str:
    """Return NLTK's Porter stem in its default mode."""
    return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer  # lazy: NLTK takes a second to import

    stem: Callable[[str], str] = PorterStemmer().stem
    return stem
