"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin, 2004) with the conventions of the `rouge-score` package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import ClassVar, Literal

from eval.measures.base import PairMeasure
from eval.measures.normalise import porter
from eval.measures.overlap import f_measure, multiset_f1
from memsys.errors import UserError

_TOKEN = re.compile(r"[a-z0-9]+")


@lru_cache(maxsize=16_384)
def tokens(text: str, stemmed: bool) -> tuple[str, ...]:
    """Return runs of `[a-z0-9]` of the lower-cased text; stems of those over 3 characters."""
    words = _TOKEN.findall(text.lower())
    return tuple(porter(w) if len(w) > 3 else w for w in words) if stemmed else tuple(words)


@dataclass(frozen=True)
class Rouge(PairMeasure):
    """F-measure of common n-grams (`1`, `2`) or of the longest common subsequence (`L`).

    Non-Latin text has no tokens and scores 0; so does ROUGE-2 of a one-word reference.
    """

    variant: Literal["1", "2", "L"]
    stemmed: bool = False

    base_name: ClassVar[str] = "rouge"

    def __post_init__(self) -> None:
        """Refuse other variants."""
        super().__post_init__()
        if self.variant not in ("1", "2", "L"):
            raise UserError(f"There is no measure ROUGE-{self.variant} here: only 1, 2 and L.")

    @property
    def short_name(self) -> str:
        """The name without its prefix."""
        return f"rouge{self.variant}{'_stem' if self.stemmed else ''}"

    @property
    def label(self) -> str:
        """What papers print over the column."""
        return f"ROUGE-{self.variant}"

    @property
    def convention(self) -> str:
        """The convention on stems."""
        return f"F-measure, {'Porter stems' if self.stemmed else 'no stems'}, mean over questions"

    def score(self, prediction: str, reference: str) -> float:
        """Return the F-measure; 0 where either side has no token."""
        given, wanted = tokens(prediction, self.stemmed), tokens(reference, self.stemmed)
        if self.variant == "L":
            common = common_subsequence(given, wanted)
            return f_measure(common, len(given), len(wanted))
        if self.variant == "1":
            return multiset_f1(given, wanted)
        return multiset_f1(pairwise(given), pairwise(wanted))


def common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    Bit-parallel over `left`: each step of `right` is a few operations on one long integer, so
    that texts of 10,000 tokens take well under a second.
    """
    places: Counter[str] = Counter()
    for i, word in enumerate(left):
        places[word] |= 1 << i
    full = (1 << len(left)) - 1
    row = full  # a zero bit at i: the subsequence grew with left[i]
    for word in right:
        hits = places.get(word, 0)
        if hits:
            met = row & hits
            row = ((row + met) | (row - met)) & full
    return len(left) - row.bit_count()


MEASURES = {
    f"rouge{variant}{'_stem' if stemmed else ''}": partial(Rouge, variant, stemmed)
    for variant in ("1", "2", "L")
    for stemmed in (False, True)
}
