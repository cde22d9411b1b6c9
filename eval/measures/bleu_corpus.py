"""Corpus BLEU-4 (Papineni et al., 2002), as MemGAS's tables have it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from eval.measures.base import CorpusMeasure, Counts, TextMeasure
from eval.measures.item import Item
from eval.measures.mteval import tokens_13a

ORDER = 4


@lru_cache(maxsize=16_384)
def pair_counts(prediction: str, reference: str) -> Counts:
    """Return ten counts: 4 clipped matches, 4 totals, the answer's and the reference's length."""
    given, wanted = tokens_13a(prediction), tokens_13a(reference)
    matches, totals = [], []
    for n in range(1, ORDER + 1):
        common = Counter(_grams(given, n)) & Counter(_grams(wanted, n))
        matches.append(common.total())
        totals.append(max(0, len(given) - n + 1))
    return *matches, *totals, len(given), len(wanted)


def _grams(tokens: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    return zip(*(tokens[i:] for i in range(n)), strict=False)


@dataclass(frozen=True)
class BleuCorpus(TextMeasure, CorpusMeasure):
    """Geometric mean of clipped 1- to 4-gram precisions over the corpus, times brevity penalty.

    No smoothing: 0 as soon as one order has no match. Equals
    `sacrebleu.corpus_bleu(smooth_method="none", tokenize="13a")` / 100.
    """

    base_name: ClassVar[str] = "bleu_corpus"
    heading: ClassVar[str] = "BLEU"
    detail: ClassVar[str] = "corpus BLEU-4, 13a tokens, case-sensitive, no smoothing"

    def counts(self, items: Sequence[Item]) -> list[Counts | None]:
        """Return the ten counts of each answered item with a reference."""
        return [
            None
            if item.failed or not self.expects(item)
            else pair_counts(self.prediction(item), item.reference or "")
            for item in items
        ]

    def empty_counts(self, item: Item) -> Counts:
        """Return the counts of an empty answer."""
        return pair_counts("", item.reference or "")

    def from_counts(self, total: Counts) -> float:
        """Return BLEU for summed counts; 0 where all answers are empty."""
        matches, totals = total[:ORDER], total[ORDER : 2 * ORDER]
        given, wanted = total[2 * ORDER :]
        if not all(matches):
            return 0.0
        logs = sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / ORDER
        penalty = 0.0 if given > wanted else 1 - wanted / given
        return math.exp(logs + penalty)


MEASURES = {"bleu_corpus": BleuCorpus}
