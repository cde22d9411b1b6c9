"""The keyword pyramid and the retrieval path through it (MGRetrieval §3.2). Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from memsys.mgretrieval.index import KeywordIndex

GroupOrder = Literal["rank_lexicographic", "size_asc"]
"""Order of the groups of one level; the levels themselves always go from n down to 1."""


@dataclass(frozen=True, slots=True)
class Group:
    """A keyword group P of level |P|: what it retrieves, and what of that is new on the path.

    `retrieved` is R = s(P); `new` is N = R without all that earlier groups of the path retrieved
    (redundant memory removal). Both are positions in time order.
    """

    keywords: tuple[str, ...]
    retrieved: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def level(self) -> int:
        """The pyramid level, i.e. the number of keywords."""
        return len(self.keywords)


def levels(keywords: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return levels n … 1: all i-element subsets of the query keywords, by keyword rank."""
    return [list(combinations(keywords, i)) for i in range(len(keywords), 0, -1)]


def retrieve(index: KeywordIndex, group: Sequence[str]) -> tuple[int, ...]:
    """Return s(P): the memories that hold every keyword of the group, in time order.

    A ⊆ B implies s(B) ⊆ s(A), so a level covers all that the level above it retrieved.
    """
    sets = [set(index.items(keyword)) for keyword in group]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


def path(
    index: KeywordIndex, keywords: Sequence[str], order: GroupOrder = "rank_lexicographic"
) -> tuple[Group, ...]:
    """Return all 2^n - 1 groups, level by level from the top, with what each adds.

    `size_asc` puts a level's smaller retrievals first, ties by keyword rank.
    """
    seen: set[int] = set()
    groups: list[Group] = []
    for level in levels(keywords):
        retrieved = [(group, retrieve(index, group)) for group in level]
        if order == "size_asc":
            retrieved.sort(key=lambda pair: len(pair[1]))
        for group, items in retrieved:
            groups.append(Group(group, items, tuple(i for i in items if i not in seen)))
            seen.update(items)
    return tuple(groups)
