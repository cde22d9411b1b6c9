"""SeCom's sub-span match: the answer holds the reference, character for character."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eval.measures.base import PairMeasure
from eval.measures.normalise import squad_tokens


@dataclass(frozen=True)
class SubspanEM(PairMeasure):
    """1 if the SQuAD-normalised reference is a substring of the normalised answer.

    A substring of the text, so that `art` is found in `party`; an empty reference gives 1.
    """

    base_name: ClassVar[str] = "subspan_em"
    heading: ClassVar[str] = "Sub-span EM"
    detail: ClassVar[str] = "SQuAD-normalised reference inside the answer"
    lattice: ClassVar[bool] = True

    def score(self, prediction: str, reference: str) -> float:
        """Return 1 or 0."""
        return float(" ".join(squad_tokens(reference)) in " ".join(squad_tokens(prediction)))


MEASURES = {"subspan_em": SubspanEM}
