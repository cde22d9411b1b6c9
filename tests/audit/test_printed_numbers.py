"""Arithmetic on printed numbers: exact, to the digit."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.audit.numbers import (
    Printed,
    can_tell,
    count_behind,
    denominators,
    neighbours,
    quotient_range,
    shown,
)


def printed(text: str) -> Printed:
    found = Printed.of(text)
    assert found is not None
    return found


def test_what_is_no_number_is_none() -> None:
    assert [Printed.of(text) for text in ("yes", "", "2;3;4", "26 April 2022")] == [None] * 4


def test_digits_are_kept_as_printed() -> None:
    assert printed("3.10").digits == 2
    assert printed("200").unit == 1
    assert printed("3.10").fits(Fraction("3.095")) and printed("3.10").fits(Fraction("3.105"))
    assert not printed("3.10").fits(Fraction("3.1051"))


def test_the_papers_impossible_cell_and_its_neighbours() -> None:
    assert count_behind(printed("41.07"), 1986) is None
    assert neighbours(printed("41.07"), 1986) == ("41.04", "41.09")
    assert count_behind(printed("40.08"), 1986) == 796


def test_a_cell_of_a_smaller_number_of_questions() -> None:
    assert count_behind(printed("67.44"), 288) is None
    fitting = denominators(printed("67.44"), 288)
    assert (fitting[0], fitting[-1]) == (43, 258)
    assert count_behind(printed("67.44"), 258) == 174


@given(n=st.integers(1, 3000), data=st.data())
def test_every_fraction_is_found_possible(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    text = shown(Fraction(100 * k, n)).replace(",", "")
    found = count_behind(printed(text), n)
    assert found is not None
    if can_tell(printed(text), n):
        assert found == k


@given(n=st.integers(2, 2000), cents=st.integers(0, 10_000))
def test_possible_or_between_two_neighbours(n: int, cents: int) -> None:
    number = printed(f"{cents / 100:.2f}")
    if count_behind(number, n) is None:
        low, high = (Fraction(text) for text in neighbours(number, n))
        assert low < number.value < high


def test_a_large_denominator_tells_nothing() -> None:
    assert can_tell(printed("41.07"), 1986)
    assert not can_tell(printed("41.07"), 10_000)
    assert not can_tell(printed("41"), 100)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(Fraction(1, 8), 2, "0.13"), (Fraction(-1, 8), 1, "-0.1"), (Fraction(43373), 0, "43,373"),
     (Fraction(-1, 1000), 2, "0.00"), (10753611, 0, "10,753,611")],
)  # fmt: skip
def test_numbers_are_shown_with_halves_up(value, digits, expected) -> None:
    assert shown(value, digits) == expected


def test_a_quotient_of_rounded_numbers_is_a_range() -> None:
    low, high = quotient_range(printed("106.2"), printed("52.9"))
    assert (shown(low), shown(high)) == ("200.47", "201.04")
