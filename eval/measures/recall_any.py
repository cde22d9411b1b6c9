"""Any gold session found; elsewhere called hit rate or Success@k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from eval.measures.ranking import RankingMeasure


@dataclass(frozen=True)
class RecallAny(RankingMeasure):
    """1 if *any* gold session is among the first `k` (`recall_any` of LongMemEval's code)."""

    base_name: ClassVar[str] = "recall_any"
    heading: ClassVar[str] = "Recall"
    detail: ClassVar[str] = "any gold session"
    lattice: ClassVar[bool] = True

    def rank(self, ranking: Sequence[str], gold: frozenset[str]) -> float:
        """Return 1 if the first `k` hold a gold session; 0 for an empty gold set."""
        return float(not gold.isdisjoint(ranking[: self.k]))


MEASURES = {"recall_any@k": RecallAny}
