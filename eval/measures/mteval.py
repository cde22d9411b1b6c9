"""The mteval-13a tokeniser of BLEU, on one line of text."""

from __future__ import annotations

import re
from functools import lru_cache

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_RULES = (
    # ASCII punctuation stands alone, but for the apostrophe, the hyphen, and what follows here
    (re.compile(r"([!-&(-+/:-@\[-`{-~])"), r" \1 "),
    # a full stop or comma stays only between digits
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    # a hyphen after a digit stands alone
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


@lru_cache(maxsize=16_384)
def tokens_13a(text: str) -> tuple[str, ...]:
    """Return case-sensitive 13a tokens; hyphens at line ends join their lines."""
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    text = f" {text} "
    for pattern, spaced in _RULES:
        text = pattern.sub(spaced, text)
    return tuple(text.split())
