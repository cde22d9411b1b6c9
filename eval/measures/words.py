"""NLTK's English word tokens, with or without Punkt's sentence boundaries."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

Tokenise = Callable[[str], list[str]]


@cache
def tokeniser() -> tuple[str, Tokenise]:
    """Return which tokeniser this machine has, and the tokeniser.

    `punkt` is `nltk.word_tokenize`; `line`, where Punkt's data are missing, takes a text as one
    sentence, so that a full stop inside it stays on its word. Scores name the one in force.
    """
    import nltk  # lazy: NLTK takes seconds to import

    words: Tokenise = nltk.tokenize.NLTKWordTokenizer().tokenize
    try:
        nltk.tokenize.sent_tokenize("Is it here? It is.")
    except LookupError:
        return "line", words

    def punkt(text: str) -> list[str]:
        sentences: Any = nltk.tokenize.sent_tokenize(text)
        return [word for sentence in sentences for word in words(sentence)]

    return "punkt", punkt


@lru_cache(maxsize=16_384)
def word_tokens(text: str) -> tuple[str, ...]:
    """Return the word tokens of a text."""
    return tuple(tokeniser()[1](text))
