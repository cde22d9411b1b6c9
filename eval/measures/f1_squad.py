"""SQuAD's token F1, as MemGAS and SeCom use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eval.measures.base import PairMeasure
from eval.measures.normalise import squad_tokens
from eval.measures.overlap import multiset_f1


@dataclass(frozen=True)
class F1Squad(PairMeasure):
    """F1 over token multisets without punctuation and articles; no stems, no category rules."""

    base_name: ClassVar[str] = "f1_squad"
    heading: ClassVar[str] = "F1"
    detail: ClassVar[str] = "SQuAD: token multisets, no articles, no stems"

    def score(self, prediction: str, reference: str) -> float:
        """Return F1; 0 where either side has no token."""
        return multiset_f1(squad_tokens(prediction), squad_tokens(reference))


MEASURES = {"f1_squad": F1Squad}
