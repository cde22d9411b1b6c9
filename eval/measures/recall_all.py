"""Recall as MemGAS's tables have it: all gold sessions found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from eval.measures.ranking import RankingMeasure


@dataclass(frozen=True)
class RecallAll(RankingMeasure):
    """1 if *all* gold sessions are among the first `k` (`recall_all` of LongMemEval's code)."""

    base_name: ClassVar[str] = "recall_all"
    heading: ClassVar[str] = "Recall"
    detail: ClassVar[str] = "all gold sessions"
    lattice: ClassVar[bool] = True

    def rank(self, ranking: Sequence[str], gold: frozenset[str]) -> float:
        """Return 1 if every gold session is among the first `k`, and for an empty gold set."""
        return float(gold <= set(ranking[: self.k]))


MEASURES = {"recall_all@k": RecallAll}
