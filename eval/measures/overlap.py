"""F1 of two bags of tokens, the kernel of every token F1 and of ROUGE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable


def f_measure(common: int, predicted: int, wanted: int) -> float:
    """Return 2PR/(P+R) for P = common/predicted and R = common/wanted; 0 without overlap."""
    if not common:
        return 0.0
    precision, recall = common / predicted, common / wanted
    return 2 * precision * recall / (precision + recall)


def multiset_f1(prediction: Iterable[Hashable], reference: Iterable[Hashable]) -> float:
    """Return F1 over token multisets."""
    left, right = Counter(prediction), Counter(reference)
    return f_measure((left & right).total(), left.total(), right.total())


def set_f1(prediction: Iterable[Hashable], reference: Iterable[Hashable]) -> float:
    """Return F1 over token sets."""
    left, right = set(prediction), set(reference)
    return f_measure(len(left & right), len(left), len(right))
