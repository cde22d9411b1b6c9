"""The keyword index: vocabulary V and the map idx from a keyword to its memories (§3.1)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=1 << 16)
def normal_form(keyword: str) -> str:
    """Return the key under which a keyword is stored: NFKC, case-folded, inner space collapsed."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", keyword).casefold())
    return _SPACE.sub(" ", folded).strip()


def distinct(keywords: Iterable[str]) -> list[str]:
    """Return keywords on one line each, without those whose normal form was there before."""
    first: dict[str, str] = {}
    for keyword in keywords:
        first.setdefault(normal_form(keyword), _SPACE.sub(" ", keyword).strip())
    return list(first.values())


class KeywordIndex:
    """V and idx of one conversation, in the order in which keywords were first seen.

    Memories are named by their position in time. A keyword is shown in its first-seen form.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        """Start empty, or from what `plain` returned; the given state is not changed."""
        self._surface: dict[str, str] = {}
        self._items: dict[str, list[int]] = {}
        for surface, items in (state or {}).get("index", ()):
            key = normal_form(surface)
            self._surface[key] = surface
            self._items[key] = list(items)

    def plain(self) -> dict[str, Any]:
        """Return the index as JSON values: `index`, a list of [keyword, positions]."""
        return {"index": [[self._surface[key], items] for key, items in self._items.items()]}

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """V: every keyword in its first-seen form, oldest first."""
        return tuple(self._surface.values())

    def find(self, keyword: str) -> str | None:
        """Return the vocabulary entry with this keyword's normal form, if there is one."""
        return self._surface.get(normal_form(keyword))

    def items(self, keyword: str) -> tuple[int, ...]:
        """Return idx(keyword): positions of its memories in time order."""
        return tuple(self._items.get(normal_form(keyword), ()))

    def add(self, item: int, keywords: Iterable[str]) -> list[str]:
        """Put a memory under its keywords and return K(m), in first-seen form, without repeats."""
        fresh = distinct(keywords)
        for keyword in fresh:
            self._surface.setdefault(normal_form(keyword), keyword)
            self._items.setdefault(normal_form(keyword), []).append(item)
        return [self._surface[normal_form(keyword)] for keyword in fresh]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The vocabulary entries that a prompt shows, and the size of the whole vocabulary."""

    entries: tuple[str, ...]
    vocabulary: int

    @property
    def truncated(self) -> bool:
        """Whether some entries had to be left out."""
        return len(self.entries) < self.vocabulary


def candidates(
    index: KeywordIndex, text: str, budget: int, tokens: Callable[[str], int]
) -> Candidates:
    """Return the whole vocabulary while it fits `budget` tokens, else the likeliest entries of it.

    Entries that share letters with `text` get the first half of the budget, best overlap first;
    the most frequent entries get the rest (both of our choice: the paper does not say).
    """
    vocabulary = index.vocabulary
    costs = {entry: tokens(entry) for entry in vocabulary}
    if sum(costs.values()) <= budget:
        return Candidates(vocabulary, len(vocabulary))
    grams = _trigrams(normal_form(text))
    overlap = {entry: _containment(entry, grams) for entry in vocabulary}
    by_overlap = sorted((e for e in vocabulary if overlap[e] > 0), key=lambda e: -overlap[e])
    by_frequency = sorted(vocabulary, key=lambda e: -len(index.items(e)))
    chosen: set[str] = set()
    spent = _take(by_overlap, costs, budget / 2, chosen, 0)
    _take(by_frequency, costs, budget, chosen, spent)
    return Candidates(tuple(e for e in vocabulary if e in chosen), len(vocabulary))


def _take(
    entries: Sequence[str], costs: Mapping[str, int], limit: float, chosen: set[str], spent: int
) -> int:
    for entry in entries:
        if entry not in chosen and spent + costs[entry] <= limit:
            chosen.add(entry)
            spent += costs[entry]
    return spent


def _containment(entry: str, grams: frozenset[str]) -> float:
    own = _trigrams(normal_form(entry))
    return len(own & grams) / len(own) if own else 0.0


@lru_cache(maxsize=1 << 14)
def _trigrams(text: str) -> frozenset[str]:
    padded = [f" {word} " for word in _WORD.findall(text)]
    return frozenset(word[i : i + 3] for word in padded for i in range(len(word) - 2))
