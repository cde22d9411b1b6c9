"""What all measures of a session ranking share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from eval.measures.base import ItemMeasure, Need
from eval.measures.item import Item
from memsys.errors import UserError


@dataclass(frozen=True)
class RankingMeasure(ItemMeasure):
    """A measure of the first `k` sessions of a complete ranking."""

    k: int

    needs: ClassVar[Need] = "ranking"
    base_name: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse a cutoff below 1."""
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise UserError(f"{self.base_name}@k needs a whole number k of at least 1.")

    @property
    def name(self) -> str:
        """The short name, such as `recall_all@3`."""
        return f"{self.base_name}@{self.k}"

    @property
    def label(self) -> str:
        """What papers print over the column, such as `Recall@3`."""
        return f"{self.heading}@{self.k}"

    def expects(self, item: Item) -> bool:
        """Whether the question counts in retrieval measures and its evidence is known."""
        return item.has_evidence and item.evidence_sessions is not None

    def value(self, item: Item) -> float | None:
        """Score the item's ranking; `None` for a system that cannot rank sessions."""
        if item.ranked_sessions is None:
            return None
        return self.rank(item.ranked_sessions, frozenset(item.evidence_sessions or ()))

    @abstractmethod
    def rank(self, ranking: Sequence[str], gold: frozenset[str]) -> float | None:
        """Score a ranking, best first, against the ids of the gold sessions."""


def ndcg(
    ranking: Sequence[str], gold: frozenset[str], k: int, discount: Callable[[int], float]
) -> float:
    """Return DCG / ideal DCG over the first `k` ranks; `discount` takes a rank from 1.

    Relevance is counted over the ranked items, as LongMemEval's code does: the ranking is the
    corpus, an id that it holds twice counts twice, and gold that it lacks is not in the ideal.
    """
    relevant = [item in gold for item in ranking]
    ideal = math.fsum(discount(rank) for rank in range(1, min(k, sum(relevant)) + 1))
    gained = math.fsum(discount(rank) for rank, hit in enumerate(relevant[:k], 1) if hit)
    return gained / ideal if ideal else 0.0
