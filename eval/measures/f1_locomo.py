"""LoCoMo's official F1 (Maharana et al., 2024; `task_eval/evaluation.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eval.measures.base import PairMeasure
from eval.measures.item import Item
from eval.measures.normalise import locomo_tokens
from eval.measures.overlap import multiset_f1

_CODES = {"multi-hop": 1, "temporal": 2, "open-domain": 3, "single-hop": 4, "adversarial": 5}
_DECLINES = ("no information available", "not mentioned")


def locomo_category(category: str) -> int | None:
    """Return LoCoMo's category code for a code or a name; `None` for anything else."""
    name = category.strip().lower().replace("_", "-").replace(" ", "-")
    if name in {"1", "2", "3", "4", "5"}:
        return int(name)
    return _CODES.get(name)


@dataclass(frozen=True)
class F1Locomo(PairMeasure):
    """Token F1 with Porter stems and a rule for each category.

    1 multi-hop: mean over the reference's comma parts of the best F1 over the answer's parts;
    3 open-domain: the reference ends at its first `;`; 5 adversarial: 1 if the answer declines,
    whatever the reference; all else plain F1.
    """

    base_name: ClassVar[str] = "f1_locomo"
    heading: ClassVar[str] = "F1"
    detail: ClassVar[str] = "LoCoMo: token multisets, Porter stems, category rules"

    def expects(self, item: Item) -> bool:
        """Adversarial questions need no reference."""
        if locomo_category(item.category) == 5:
            return item.asked or item.failed
        return super().expects(item)

    def value(self, item: Item) -> float:
        """Score one item by the rule of its category."""
        prediction, reference = self.prediction(item), item.reference or ""
        match locomo_category(item.category):
            case 1:
                return self.parts(prediction, reference)
            case 3:
                return self.score(prediction, reference.partition(";")[0])
            case 5:
                return float(any(words in prediction.lower() for words in _DECLINES))
            case _:
                return self.score(prediction, reference)

    def score(self, prediction: str, reference: str) -> float:
        """Return plain F1."""
        return multiset_f1(locomo_tokens(prediction), locomo_tokens(reference))

    def parts(self, prediction: str, reference: str) -> float:
        """Return the mean over the reference's parts of the best F1 over the answer's parts."""
        given = list(dict.fromkeys(part.strip() for part in prediction.split(",")))
        wanted = [part.strip() for part in reference.split(",")]
        return sum(max(self.score(p, gold) for p in given) for gold in wanted) / len(wanted)


MEASURES = {"f1_locomo": F1Locomo}
