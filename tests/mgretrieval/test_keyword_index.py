import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsys.mgretrieval.index import KeywordIndex, candidates, distinct, normal_form


@pytest.mark.parametrize(
    ("keyword", "key"),
    [
        ("  Adventure \n Book ", "adventure book"),
        ("ＪＡＭＥＳ", "james"),
        ("Straße", "strasse"),
        ("ﬁlm", "film"),
        ("İ", "i̇"),
    ],
)
def test_normal_form(keyword: str, key: str) -> None:
    assert normal_form(keyword) == key


@given(st.text())
def test_normal_form_is_stable(keyword: str) -> None:
    assert normal_form(normal_form(keyword)) == normal_form(keyword)


def test_the_first_seen_form_is_shown_and_a_memory_is_filed_once() -> None:
    index = KeywordIndex()
    assert index.add(0, ["James", "Book", "JAMES"]) == ["James", "Book"]
    assert index.add(1, ["book", "cello"]) == ["Book", "cello"]
    assert index.vocabulary == ("James", "Book", "cello")
    assert index.items("BOOK") == (0, 1)
    assert index.items("unheard") == ()
    assert index.find(" book ") == "Book"
    assert index.find("books") is None


def test_distinct_keeps_the_order_of_first_occurrence() -> None:
    assert distinct(["a", "b", "A", "c", "B"]) == ["a", "b", "c"]
    assert distinct(["two\nlines"]) == ["two lines"]


def test_the_index_survives_json_and_growing_it_leaves_the_stored_one_alone() -> None:
    index = KeywordIndex()
    index.add(0, ["James", "book"])
    state = json.loads(json.dumps(index.plain()))
    grown = KeywordIndex(state)
    grown.add(1, ["book"])
    assert grown.items("book") == (0, 1)
    assert state == {"index": [["James", [0]], ["book", [0]]]}


def filled() -> KeywordIndex:
    index = KeywordIndex()
    for item, keywords in enumerate(
        [["rare"], ["common", "violin"], ["common", "violins"], ["common", "music"], ["music"]]
    ):
        index.add(item, keywords)
    return index


def test_the_whole_vocabulary_is_shown_while_it_fits() -> None:
    shown = candidates(filled(), "violin", 5, lambda entry: 1)
    assert shown.entries == ("rare", "common", "violin", "violins", "music")
    assert not shown.truncated


def test_else_overlap_takes_half_of_the_budget_and_frequency_the_rest() -> None:
    shown = candidates(filled(), "my violin", 3, lambda entry: 1)
    # half of 3 holds one overlapping entry: the exact one; then common (3 memories), music (2)
    assert shown.entries == ("common", "violin", "music")
    assert shown.truncated and shown.vocabulary == 5


def test_a_part_of_a_word_is_not_a_full_overlap() -> None:
    index = KeywordIndex()
    index.add(0, ["art", "party"])
    assert candidates(index, "a big party", 2, {"art": 1, "party": 1}.__getitem__).entries == (
        "art",
        "party",
    )
    assert candidates(index, "a big party", 2, {"art": 2, "party": 1}.__getitem__).entries == (
        "party",
    )


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3), max_size=8),
    st.integers(0, 12),
)
def test_candidates_never_exceed_the_budget(items: list[list[str]], budget: int) -> None:
    index = KeywordIndex()
    for item, keywords in enumerate(items):
        index.add(item, keywords)
    shown = candidates(index, "a c", budget, lambda entry: 2)
    assert 2 * len(shown.entries) <= budget
    assert set(shown.entries) <= set(index.vocabulary)
    assert shown.truncated == (2 * len(index.vocabulary) > budget)
