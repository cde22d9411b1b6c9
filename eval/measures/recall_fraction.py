"""Recall in the sense of information retrieval: the share of gold found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from eval.measures.ranking import RankingMeasure


@dataclass(frozen=True)
class RecallFraction(RankingMeasure):
    """The share of the gold sessions among the first `k`."""

    base_name: ClassVar[str] = "recall_fraction"
    heading: ClassVar[str] = "Recall"
    detail: ClassVar[str] = "fraction of the gold sessions"

    def rank(self, ranking: Sequence[str], gold: frozenset[str]) -> float | None:
        """Return |first k ∩ gold| / |gold|; `None` for an empty gold set."""
        return len(gold.intersection(ranking[: self.k])) / len(gold) if gold else None


MEASURES = {"recall_fraction@k": RecallFraction}
