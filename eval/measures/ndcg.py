"""NDCG with LongMemEval's discount, as in MemGAS's tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from eval.measures.ranking import RankingMeasure, ndcg


@dataclass(frozen=True)
class Ndcg(RankingMeasure):
    """The older form: DCG = rel_1 + Σ_{i≥2} rel_i / log2 i."""

    base_name: ClassVar[str] = "ndcg"
    heading: ClassVar[str] = "NDCG"
    detail: ClassVar[str] = "LongMemEval: ranks 1 and 2 weigh 1, rank i 1/log2 i"

    def rank(self, ranking: Sequence[str], gold: frozenset[str]) -> float:
        """Return NDCG; 0 where no ranked session is gold."""
        return ndcg(ranking, gold, self.k, lambda i: 1.0 if i == 1 else 1 / math.log2(i))


MEASURES = {"ndcg@k": Ndcg}
