"""Differences with intervals: against formulas, against each other, and at their edges."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.claims.contrast import (
    combined,
    gain,
    jackknifed,
    mean,
    mean_gain,
    paired,
    relative_spread,
    unpaired,
)
from eval.claims.outcome import (
    FAILS,
    HOLDS,
    UNKNOWN,
    Contrast,
    Outcome,
    against,
    direction,
    not_below,
    of_parts,
    printed,
    within,
)
from eval.statistics import clustered_mean_interval


def values(seed: int, conversations: int = 6, questions: int = 8, shift: float = 0.0):
    draw = random.Random(seed)
    return {
        (f"c{c}", i): draw.random() + shift for c in range(conversations) for i in range(questions)
    }


def test_a_paired_difference_is_that_of_the_house_statistics() -> None:
    a, b = values(1, shift=0.2), values(2)
    found = paired(a, b)
    wanted = clustered_mean_interval([a[k] - b[k] for k in a], [k[0] for k in a])
    assert (found.value, found.low, found.high) == (wanted.mean, wanted.low, wanted.high)
    assert found.detectable is not None and found.detectable > 0


def test_only_shared_questions_are_compared() -> None:
    a, b = values(1), values(2)
    b.pop(("c0", 0))
    a.pop(("c1", 1))
    assert paired(a, b).n == 46
    with pytest.raises(ValueError, match="no question in common"):
        paired(a, {("elsewhere", 0): 1.0})


@given(st.integers(0, 10_000), st.integers(0, 10_000))
@settings(max_examples=30)
def test_a_gain_is_the_ratio_of_means_and_lies_in_its_interval(x: int, y: int) -> None:
    a, b = values(x, shift=0.5), values(y, shift=0.5)
    found = gain(a, b)
    ratio = sum(a.values()) / sum(b.values())
    assert found.value == pytest.approx(100 * (ratio - 1))
    assert found.low <= found.value <= found.high


def test_a_gain_of_exact_multiples_has_no_uncertainty() -> None:
    b = values(3, shift=0.1)
    found = gain({k: 1.25 * v for k, v in b.items()}, b)
    assert found.value == pytest.approx(25) and found.low == pytest.approx(25)
    with pytest.raises(ZeroDivisionError):
        gain(b, dict.fromkeys(b, 0.0))


def test_the_mean_of_gains_is_the_mean() -> None:
    pairs = [(values(1, shift=0.4), values(2)), (values(3, shift=0.1), values(4))]
    found = mean_gain(pairs)
    assert found.value == pytest.approx(sum(gain(*pair).value for pair in pairs) / 2)
    assert mean_gain(pairs[:1]) == gain(*pairs[0])


def test_a_combination_of_one_and_minus_one_is_the_paired_difference() -> None:
    a, b = values(1), values(2)
    assert combined([(1.0, a), (-1.0, b)]).value == pytest.approx(paired(a, b).value)


def test_of_the_same_questions_the_unpaired_difference_is_the_paired_one() -> None:
    a, b = values(1), values(2)
    one, other = unpaired(a, b), paired(a, b)
    assert one.value == pytest.approx(other.value)
    assert one.low == pytest.approx(other.low)


def test_different_questions_are_compared_by_conversation() -> None:
    a = {k: v for k, v in values(1, shift=1).items() if k[1] < 4}
    b = {k: v for k, v in values(1).items() if k[1] >= 4}
    found = unpaired(a, b)
    expected = sum(a.values()) / len(a) - sum(b.values()) / len(b)
    assert found.value == pytest.approx(expected) and found.low < found.value < found.high
    single = {k: v for k, v in a.items() if k[0] == "c0"}
    assert unpaired(single, single).low is None


def test_a_jackknifed_mean_is_the_clustered_one() -> None:
    a = values(5)
    found = jackknifed([a], lambda runs: sum(runs[0]) / len(runs[0]))
    wanted = clustered_mean_interval(list(a.values()), [k[0] for k in a])
    assert found.value == pytest.approx(wanted.mean)
    assert found.low == pytest.approx(wanted.low, rel=1e-9)  # equal clusters: the same variance
    assert jackknifed([{("c", 0): 1.0, ("c", 1): 2.0}], lambda r: sum(r[0])).low is None


def test_spread_is_relative_and_zero_at_a_zero_median() -> None:
    assert relative_spread([1, 2, 3, 4, 5]) == pytest.approx(2 / 3)
    assert relative_spread([10, 20, 30, 40, 50]) == pytest.approx(2 / 3)
    assert relative_spread([0, 0, 0, 5]) == 0


def test_one_question_has_no_interval_and_no_verdict() -> None:
    found = mean({("c", 0): 3.0})
    assert found.low is None
    assert direction(found)[0] == within(found, 1)[0] == not_below(found, 1)[0] == UNKNOWN
    assert against(found, 3.0) == ""
    assert printed(found) == "+3.00 (n = 1)"


@pytest.mark.parametrize(
    ("low", "high", "way", "flat", "floor"),
    [
        (0.1, 0.5, HOLDS, HOLDS, HOLDS),
        (-0.1, 0.5, UNKNOWN, HOLDS, HOLDS),
        (-0.5, -0.1, FAILS, HOLDS, HOLDS),
        (-0.1, 2.0, UNKNOWN, UNKNOWN, HOLDS),
        (1.1, 2.0, HOLDS, FAILS, HOLDS),
        (-2.0, -1.1, FAILS, FAILS, FAILS),
        (-2.0, 0.5, UNKNOWN, UNKNOWN, UNKNOWN),
        (0.0, 0.0, UNKNOWN, HOLDS, HOLDS),
    ],
)
def test_intervals_decide(low, high, way, flat, floor) -> None:
    found = Contrast((low + high) / 2, low, high, 10, "t", 0.7)
    assert (direction(found)[0], within(found, 1.0)[0], not_below(found, 1.0)[0]) == (
        way, flat, floor,
    )  # fmt: skip
    if direction(found)[0] == UNKNOWN:
        assert "below 0.70 would go unseen" in direction(found)[1]


def test_the_published_value_is_held_against_the_interval() -> None:
    found = Contrast(5.0, 4.0, 6.0, 10, "t")
    assert against(found, 4.0) == "published value inside ours"
    assert against(found, 6.1) == "published value outside ours"
    assert printed(found, " %") == "+5.00 % (+4.00 to +6.00; n = 10)"
    assert printed(found, sign=False) == "5.00 (4.00 to 6.00; n = 10)"


def test_one_failing_part_fails_a_claim_and_one_unknown_leaves_it_open() -> None:
    def of(*verdicts):
        return of_parts([Outcome("", "", verdict) for verdict in verdicts])

    assert of(HOLDS, HOLDS) == HOLDS
    assert of(HOLDS, UNKNOWN) == UNKNOWN
    assert of(HOLDS, UNKNOWN, FAILS) == FAILS
    assert of() == UNKNOWN
