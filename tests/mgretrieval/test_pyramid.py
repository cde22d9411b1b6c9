from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mgretrieval_case import keywords_of

from memsys.mgretrieval.index import KeywordIndex
from memsys.mgretrieval.pyramid import levels, path, retrieve


def case_index() -> KeywordIndex:
    index = KeywordIndex()
    for item in range(1, 14):
        index.add(item, keywords_of(item))
    return index


CASE = ("James", "adventure", "book")


def test_worked_example() -> None:
    groups = path(case_index(), CASE)
    assert [(g.level, g.keywords, len(g.retrieved), len(g.new)) for g in groups] == [
        (3, ("James", "adventure", "book"), 3, 3),
        (2, ("James", "adventure"), 9, 6),
        (2, ("James", "book"), 4, 1),
        (2, ("adventure", "book"), 4, 1),
        (1, ("James",), 11, 1),
        (1, ("adventure",), 10, 0),
        (1, ("book",), 6, 1),
    ]
    assert [g.new for g in groups[2:5]] == [(10,), (11,), (12,)]
    assert groups[6].new == (13,)


def test_group_order_for_four_keywords() -> None:
    printed = " | ".join(" ".join("".join(g) for g in level) for level in levels("1234"))
    assert printed == "1234 | 123 124 134 234 | 12 13 14 23 24 34 | 1 2 3 4"


@pytest.mark.parametrize(("n", "groups"), [(1, 1), (2, 3), (3, 7), (4, 15), (5, 31), (6, 63)])
def test_number_of_groups(n: int, groups: int) -> None:
    assert sum(len(level) for level in levels("abcdef"[:n])) == groups
    assert len(path(KeywordIndex(), "abcdef"[:n])) == groups


def test_no_keywords_no_path() -> None:
    assert path(case_index(), ()) == ()
    assert retrieve(case_index(), ()) == ()


def test_size_asc_sorts_within_a_level_only_and_ties_by_rank() -> None:
    groups = path(case_index(), CASE, "size_asc")
    assert [g.keywords for g in groups] == [
        ("James", "adventure", "book"),
        ("James", "book"),
        ("adventure", "book"),
        ("James", "adventure"),
        ("book",),
        ("adventure",),
        ("James",),
    ]
    assert [len(g.new) for g in groups] == [3, 1, 1, 6, 1, 0, 1]


indices = st.lists(st.sets(st.sampled_from("abcde"), min_size=1), max_size=30)


@given(indices, st.sampled_from(["rank_lexicographic", "size_asc"]))
def test_properties_of_the_path(memories: list[set[str]], order: str) -> None:
    index = KeywordIndex()
    for item, keywords in enumerate(memories):
        index.add(item, sorted(keywords))
    query = [keyword for keyword in "abcd" if index.items(keyword)]
    groups = path(index, query, order)  # type: ignore[arg-type]
    for small, large in combinations(sorted(groups, key=lambda g: g.level), 2):
        if set(small.keywords) <= set(large.keywords):
            assert set(large.retrieved) <= set(small.retrieved)
    covered = [
        set().union(*(g.retrieved for g in groups if g.level == level))
        for level in range(len(query), 0, -1)
    ]
    assert all(upper <= lower for upper, lower in pairwise(covered))
    new = [item for g in groups for item in g.new]
    assert len(new) == len(set(new))  # redundant memory removal
    assert set(new) == {i for i, keywords in enumerate(memories) if keywords & set(query)}
    assert all(list(g.retrieved) == sorted(g.retrieved) for g in groups)
    assert len(groups) == 2 ** len(query) - 1
