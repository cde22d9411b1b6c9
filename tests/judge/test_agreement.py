"""Krippendorff's α: by hand, against the `krippendorff` package, and over a judge's samples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.agreement import krippendorff, of_verdicts
from eval.judge.base import Sample, Verdict
from eval.measures.item import Item
from eval.measures.registry import parse
from eval.scoring import score

LEVELS = ("nominal", "ordinal", "interval")


def test_two_raters_by_hand():
    # coincidences: 00 → 4, 11 → 2, 01 and 10 → 1 each; n = 8, n0 = 5, n1 = 3
    ratings = [(0, 0), (0, 0), (1, 1), (0, 1)]
    found = krippendorff(ratings)
    assert found.alpha == pytest.approx(1 - 7 * 2 / (2 * 5 * 3))
    assert (found.units, found.pairable) == (4, 8)
    assert krippendorff(ratings, "interval").alpha == pytest.approx(found.alpha)


def test_what_cannot_be_paired_says_nothing():
    ratings = [(0, 0, None), (1, 1, 1), (None, 1, None), (0, None, 1)]
    assert krippendorff(ratings) == krippendorff([r for r in ratings if r != (None, 1, None)])


def test_bounds():
    assert krippendorff([(0, 0), (1, 1), (0.5, 0.5)]).alpha == 1
    assert krippendorff([(0, 1), (1, 0)]).alpha < 0
    same = krippendorff([(1, 1), (1, 1)])
    assert same.alpha is None
    assert "undefined" in same.words()
    assert krippendorff([]).alpha is None


def test_levels_differ_where_distance_matters():
    near, far = [(0, 0.5), (1, 1), (0, 0)], [(0, 1), (0.5, 0.5), (0, 0)]
    for level in ("ordinal", "interval"):
        assert krippendorff(near, level).alpha > krippendorff(far, level).alpha


units = st.lists(
    st.lists(st.sampled_from([None, 0.0, 0.5, 1.0, 3.0]), min_size=3, max_size=3),
    min_size=2,
    max_size=12,
)


@settings(deadline=None, max_examples=50)
@given(units)
def test_equals_the_package(ratings):
    package = pytest.importorskip("krippendorff", reason="needs the dev extra's krippendorff")
    known = [[v for v in unit if v is not None] for unit in ratings]
    values = {v for unit in known if len(unit) > 1 for v in unit}
    for level in LEVELS:
        found = krippendorff(ratings, level).alpha
        if len(values) < 2:
            assert found is None
            continue
        columns = [[float("nan") if v is None else v for v in rater] for rater in zip(*ratings)]
        theirs = package.alpha(reliability_data=columns, level_of_measurement=level)
        assert found == pytest.approx(theirs, abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(units)
def test_the_order_of_raters_and_units_does_not_matter(ratings):
    turned = [unit[::-1] for unit in ratings[::-1]]
    for level in LEVELS:
        one, other = krippendorff(ratings, level).alpha, krippendorff(turned, level).alpha
        assert (one is None and other is None) or one == pytest.approx(other)


def verdict(*values, combine="mean", name="correct"):
    samples = tuple(Sample(None if v is None else {name: v}, "", 1, "m") for v in values)
    return Verdict(samples, "judge/x@0", combine).plain()


@pytest.mark.parametrize(
    ("values", "mean", "majority"),
    [
        ((1, 1, 0), 2 / 3, 1), ((1, 0), 0.5, 0), ((0, 1), 0.5, 0), ((1, None, None), 1, 1),
        ((0.5, 0.5, 1), 2 / 3, 0.5), ((0, 0.5, 1), 0.5, 0),
    ],
)  # fmt: skip
def test_combining_samples(values, mean, majority):
    assert verdict(*values)["scores"]["correct"] == pytest.approx(mean)
    assert verdict(*values, combine="majority")["scores"]["correct"] == majority


def test_no_sample_no_verdict():
    assert verdict(None, None, combine="majority")["scores"] is None


def test_alpha_stands_in_the_scores_and_in_the_definition():
    ratings = [(0, 0), (0, 0), (1, 1), (0, 1)]
    items = [
        Item(str(i), answer="x", judgements={"memgas": verdict(*pair)})
        for i, pair in enumerate(ratings)
    ]
    plain = score(items, ["judge_memgas"]).plain()
    alpha = krippendorff(ratings).alpha
    assert plain["agreement"] == {
        "judge_memgas": {"alpha": alpha, "level": "nominal", "units": 4, "ratings": 8}
    }
    assert (
        f"mean of 2 verdicts, Krippendorff's α {alpha:.2f} (nominal)"
        in (plain["measures"]["judge_memgas"])
    )


def test_a_single_verdict_has_no_agreement():
    item = Item("1", answer="x", judgements={"memgas": verdict(1)})
    plain = score([item], ["judge_memgas"]).plain()
    assert plain["agreement"] == {}
    assert "Krippendorff" not in plain["measures"]["judge_memgas"]
    assert of_verdicts([], "correct", "nominal") is None


def test_graded_scores_are_ordinal():
    items = [
        Item("1", answer="x", judgements={"gvd": verdict(0, 0.5, name="corr")}),
        Item("2", answer="x", judgements={"gvd": verdict(1, 1, name="corr")}),
    ]
    assert parse("judge_gvd_corr").agreement(items).level == "ordinal"
    assert parse("judge_gvd_acc").agreement(items).units == 0
