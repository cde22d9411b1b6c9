"""A-Mem's set F1, which MemR3 and (inferred) MGRetrieval use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from eval.measures.base import PairMeasure
from eval.measures.overlap import set_f1

_STOPS = str.maketrans(dict.fromkeys(".,!?", " "))


@lru_cache(maxsize=16_384)
def tokens(text: str) -> frozenset[str]:
    """Lower-case, replace `.` `,` `!` `?` by spaces, split; other punctuation stays."""
    return frozenset(text.lower().translate(_STOPS).split())


@dataclass(frozen=True)
class F1Set(PairMeasure):
    """F1 over token sets, articles kept, no stems."""

    base_name: ClassVar[str] = "f1_set"
    heading: ClassVar[str] = "F1"
    detail: ClassVar[str] = "A-Mem: token sets, articles kept, no stems"

    def score(self, prediction: str, reference: str) -> float:
        """Return F1; 0 where either side has no token."""
        return set_f1(tokens(prediction), tokens(reference))


MEASURES = {"f1_set": F1Set}
