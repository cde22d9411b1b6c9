"""Word pieces: counts and spans."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsys.encoders.source import Source
from memsys.encoders.tokens import WordPieces


@pytest.fixture(scope="module")
def pieces(bert) -> WordPieces:
    return WordPieces(Source(str(bert)))


def texts_of(text, spans):
    return [text[start:end] for start, end in spans]


def test_counts_are_before_truncation(pieces):
    assert pieces.special == 2
    found = pieces.pieces(["", "w1", "playing, plays", " ".join(["w1"] * 100)])
    assert [len(p) for p in found] == [0, 1, 5, 100]


def test_halves_of_surrogate_pairs_are_passed_over(pieces):
    assert pieces.pieces(["w1 \ud800 w2"]) == [[6, 7]]
    text = "\ud800 w1 w2"
    assert texts_of(text, pieces.split(text, 2)) == ["w1 w2"]


def test_windows(pieces):
    assert pieces.windows([10, 11, 12], 4) == [[2, 10, 11, 3], [2, 12, 3]]
    assert pieces.windows([], 4) == [[2, 3]]


def test_split_keeps_words_whole(pieces):
    text = "  w1 playing w2, plays."
    assert texts_of(text, pieces.split(text, 3)) == ["w1 playing", "w2,", "plays."]
    assert texts_of(text, pieces.split(text, 100)) == [text.strip()]
    assert pieces.split("", 3) == []
    assert pieces.split("   ", 3) == []


def test_a_word_longer_than_a_block_is_cut(pieces):
    assert texts_of("w1 playings w2", pieces.split("w1 playings w2", 2)) == [
        "w1", "playing", "s w2",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="at least one"):
        pieces.split("w1", 0)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    words=st.lists(st.sampled_from(["w1", "w22", "playing", "plays", ".", ",", "日", "é", "q"])),
    gap=st.sampled_from([" ", "  ", "\n"]),
    size=st.integers(3, 7),
)
def test_blocks_cover_all_words_in_order_and_fit(pieces, words, gap, size):
    text = gap.join(words)
    spans = pieces.split(text, size)
    assert all(0 <= s < e <= len(text) for s, e in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    blocks = texts_of(text, spans)
    assert "".join("".join(blocks).split()) == "".join(words)
    assert all(len(p) <= size for p in pieces.pieces(blocks))
    # no fewer blocks could do: two neighbours never fit into one
    lengths = [len(p) for p in pieces.pieces(blocks)]
    firsts = [len(p) for p in pieces.pieces([b.split()[0] for b in blocks])]
    assert all(a + b > size for a, b in zip(lengths, firsts[1:], strict=False))
