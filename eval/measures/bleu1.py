"""Sentence BLEU-1, as A-Mem and MGRetrieval report it; not to be mixed with corpus BLEU."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from eval.measures.base import PairMeasure
from eval.measures.words import tokeniser, word_tokens


@dataclass(frozen=True)
class Bleu1(PairMeasure):
    """Brevity penalty times clipped unigram precision, then the mean over questions.

    Equals NLTK's `sentence_bleu` with weights (1, 0, 0, 0) and smoothing method 1, which with
    unigrams never smooths.
    """

    base_name: ClassVar[str] = "bleu1"
    heading: ClassVar[str] = "BLEU-1"
    detail: ClassVar[str] = "mean of sentence BLEU-1, lower-cased NLTK word tokens"

    def resources(self) -> dict[str, str]:
        """Return which sentence splitter stood before the word tokeniser."""
        return {"tokenizer": tokeniser()[0]}

    def score(self, prediction: str, reference: str) -> float:
        """Return BLEU-1; 0 without a matching token."""
        given, wanted = word_tokens(prediction.lower()), word_tokens(reference.lower())
        matches = (Counter(given) & Counter(wanted)).total()
        if not matches:
            return 0.0
        penalty = 1.0 if len(given) > len(wanted) else math.exp(1 - len(wanted) / len(given))
        return penalty * matches / len(given)


MEASURES = {"bleu1": Bleu1}
