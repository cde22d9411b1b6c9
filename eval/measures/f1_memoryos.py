"""MemoryOS's set F1."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from eval.measures.base import PairMeasure
from eval.measures.overlap import set_f1

_WORD = re.compile(r"\b\w+\b")


@lru_cache(maxsize=16_384)
def tokens(text: str) -> frozenset[str]:
    r"""Return the lower-cased `\b\w+\b` tokens."""
    return frozenset(_WORD.findall(text.lower()))


@dataclass(frozen=True)
class F1MemoryOS(PairMeasure):
    """F1 over sets of word-character tokens."""

    base_name: ClassVar[str] = "f1_memoryos"
    heading: ClassVar[str] = "F1"
    detail: ClassVar[str] = "MemoryOS: sets of word-character tokens"

    def score(self, prediction: str, reference: str) -> float:
        """Return F1; 0 where either side has no token."""
        return set_f1(tokens(prediction), tokens(reference))


MEASURES = {"f1_memoryos": F1MemoryOS}
