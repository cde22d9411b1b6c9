"""Marks: paired by question, flipped by conversation, Holm over the block."""

from __future__ import annotations

import random

import pytest

from eval.statistics import holm, minimum_detectable_difference, sign_flip_test
from eval.tables.marks import compare, least_p


def values(conversations: int, per: int, level: float, spread: float = 0.0, seed: int = 0):
    rng = random.Random(seed)
    return {
        (f"c{c}", i): level + spread * (rng.random() - 0.5)
        for c in range(conversations)
        for i in range(per)
    }


def shifted(base, by, spread=0.02, seed=1):
    rng = random.Random(seed)
    return {key: value + by + spread * (rng.random() - 0.5) for key, value in base.items()}


def test_rows_above_and_below_are_marked_and_equal_ones_are_not() -> None:
    base = values(10, 5, 0.5, 0.4)
    found = compare(
        {"ours": base, "up": shifted(base, 0.1), "down": shifted(base, -0.1), "same": dict(base)},
        "ours", "F1",
    )  # fmt: skip
    assert {label: row.mark for label, row in found.rows.items()} == {
        "up": "▲", "down": "▼", "same": "",
    }  # fmt: skip
    assert found.rows["up"].p == pytest.approx(2 / 1024)  # all ten conversations agree
    assert found.rows["up"].adjusted == pytest.approx(3 * 2 / 1024)
    assert found.rows["same"].adjusted == 1
    assert "above, below ours in F1" in found.footer[0]
    assert "Holm over 3 rows; 10 conversations, whose least p is 0.002" in found.footer[0]
    assert "minimum detectable difference" in found.footer[1]


def test_the_numbers_are_those_of_the_statistics() -> None:
    base = values(8, 4, 0.5, 0.4)
    rows = {"a": shifted(base, 0.01, 0.2, 2), "b": shifted(base, 0.03, 0.2, 3)}
    found = compare({"r": base, **rows}, "r", "F1").rows
    keys = sorted(base)
    clusters = [c for c, _ in keys]
    ps = []
    for label, of in rows.items():
        spread = [of[key] - base[key] for key in keys]
        ps.append(sign_flip_test(spread, clusters))
        assert found[label].difference == pytest.approx(100 * sum(spread) / len(spread))
        assert found[label].detectable == pytest.approx(
            100 * minimum_detectable_difference(spread, clusters, 0.975)
        )
    assert [row.adjusted for row in found.values()] == holm(ps)


def test_holm_takes_the_mark_away_that_a_single_comparison_would_have() -> None:
    base = values(7, 3, 0.5)
    many = {f"row{i}": shifted(base, 0.1, seed=i) for i in range(4)}
    alone = compare({"r": base, "row0": many["row0"]}, "r", "F1")
    assert alone.rows["row0"].mark == "▲" and alone.rows["row0"].p == 2 / 128
    together = compare({"r": base, **many}, "r", "F1")
    assert [row.mark for row in together.rows.values()] == [""] * 4  # 4 × 2/128 > 0.05
    assert any("nothing can be marked with 7 conversations" in line for line in together.footer)
    # no difference is large enough to be found then
    assert not any("minimum detectable" in line for line in together.footer)


@pytest.mark.parametrize(("conversations", "least"), [(2, 0.5), (10, 2 / 1024), (500, 1 / 10_001)])
def test_the_least_p_that_so_many_conversations_can_give(conversations, least) -> None:
    assert least_p(conversations) == pytest.approx(least)
    if conversations > 2:
        return
    base = values(conversations, 50, 0.5)
    found = compare({"r": base, "a": shifted(base, 0.3)}, "r", "F1").rows["a"]
    assert found.p == least and found.mark == ""


def test_one_conversation_gives_no_mark_and_says_why() -> None:
    base = values(1, 200, 0.5)
    found = compare({"r": base, "a": shifted(base, 0.3)}, "r", "F1")
    assert found.rows["a"].mark == ""
    assert found.footer == (
        "no row is marked against r: the questions are of one conversation, and how another "
        "conversation would turn out cannot be told from one",
    )


def test_only_questions_with_both_values_are_compared() -> None:
    base = values(10, 3, 0.5)
    part = {key: value + 0.2 for key, value in base.items() if key[1] < 2}
    found = compare({"r": base, "part": part, "none": {}}, "r", "F1")
    assert found.rows["part"].n == 20 and found.rows["part"].mark == "▲"
    assert "none" not in found.rows
    assert found.footer[-1] == "not compared, without a value: none"


def test_without_a_reference_nothing_is_compared() -> None:
    assert compare({"a": values(3, 2, 0.5)}, "r", "F1").footer == (
        "no row is compared: r has no F1 here",
    )
    assert "only one" in compare({"r": values(3, 2, 0.5)}, "r", "F1").footer[0]
