"""NDCG in its usual form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from eval.measures.ranking import RankingMeasure, ndcg


@dataclass(frozen=True)
class NdcgStandard(RankingMeasure):
    """DCG = Σ rel_i / log2(i + 1)."""

    base_name: ClassVar[str] = "ndcg_standard"
    heading: ClassVar[str] = "NDCG"
    detail: ClassVar[str] = "rank i weighs 1/log2(i+1)"

    def rank(self, ranking: Sequence[str], gold: frozenset[str]) -> float:
        """Return NDCG; 0 where no ranked session is gold."""
        return ndcg(ranking, gold, self.k, lambda i: 1 / math.log2(i + 1))


MEASURES = {"ndcg_standard@k": NdcgStandard}
