"""METEOR (Banerjee and Lavie, 2005) as NLTK computes it, with α = 0.9, β = 3, γ = 0.5."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from eval.measures.base import PairMeasure
from eval.measures.normalise import porter
from eval.measures.wordnet import MENDS, find_wordnet, synonyms

Words = dict[int, str]
"""Words that are still unmatched, by position."""

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5


def match(given: Words, wanted: Words, alike: Callable[[str], Iterable[str]]) -> dict[int, int]:
    """Match words from the last to the first, each to the last free word it is `alike` to.

    Matched words are taken out of `given` and `wanted`. Returns positions given → wanted.
    """
    places: dict[str, list[int]] = {}
    for place, word in wanted.items():
        places.setdefault(word, []).append(place)
    found = {}
    for place in sorted(given, reverse=True):
        if not places:
            break
        free = [(places[word][-1], word) for word in alike(given[place]) if word in places]
        if free:
            last, word = max(free)
            places[word].pop()
            if not places[word]:
                del places[word]
            found[place] = last
            del given[place], wanted[last]
    return found


@dataclass(frozen=True)
class Meteor(PairMeasure):
    """Matches exact words, then Porter stems, then WordNet synonyms of whitespace tokens.

    Punctuation sticks to words; synonyms are looked up for stems (`automobil`), as NLTK does;
    two equal one-word texts score 0.5, being one chunk for one match.
    """

    wordnet: bool = True

    base_name: ClassVar[str] = "meteor"
    heading: ClassVar[str] = "METEOR"

    @property
    def short_name(self) -> str:
        """The name without its prefix."""
        return "meteor" if self.wordnet else "meteor_nowordnet"

    @property
    def convention(self) -> str:
        """The stages of matching."""
        stages = "words, stems, WordNet synonyms" if self.wordnet else "words and stems only"
        return f"NLTK: whitespace tokens; {stages}"

    def unavailable(self) -> str | None:
        """Return how to get WordNet, where it is missing and needed."""
        return MENDS if self.wordnet and find_wordnet() is None else None

    def resources(self) -> dict[str, str]:
        """Return whether WordNet was used, and which."""
        found = find_wordnet() if self.wordnet else None
        return {"wordnet": found.source if found else "false"}

    def score(self, prediction: str, reference: str) -> float:
        """Return METEOR; 0 without a match."""
        given: Words = dict(enumerate(prediction.lower().split()))
        wanted: Words = dict(enumerate(reference.lower().split()))
        sizes = len(given), len(wanted)
        found = match(given, wanted, lambda word: (word,))
        for words in (given, wanted):
            words.update({place: porter(word) for place, word in words.items()})
        found |= match(given, wanted, lambda word: (word,))
        if self.wordnet:
            found |= match(given, wanted, lambda word: synonyms(word) | {word})
        if not found:
            return 0.0
        matches = len(found)
        precision, recall = matches / sizes[0], matches / sizes[1]
        mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
        joined = sum(found.get(place + 1) == other + 1 for place, other in found.items())
        penalty = GAMMA * ((matches - joined) / matches) ** BETA
        return float((1 - penalty) * mean)


MEASURES = {"meteor": Meteor, "meteor_nowordnet": partial(Meteor, wordnet=False)}
