"""Recall and NDCG: the specification's table, the lattice, and what counts at all."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.measures.item import Item
from eval.measures.registry import parse
from eval.scoring import aggregate, score
from memsys.errors import UserError

NAMES = ["recall_any", "recall_all", "recall_fraction", "ndcg", "ndcg_standard"]
TABLE = [
    ("A", 3, 1, 1, 1, 1, 1),
    ("C", 3, 1, 1, 1, 0.630930, 0.5),
    ("BC", 3, 1, 1, 1, 0.815465, 0.693426),
    ("AF", 3, 1, 0, 0.5, 0.5, 0.613147),
    ("BE", 5, 1, 1, 1, 0.715338, 0.624051),
    ("ABCDE", 3, 1, 0, 0.6, 1, 1),
    ("D", 3, 0, 0, 0, 0, 0),
    ("", 3, 0, 1, None, 0, 0),
    ("Z", 3, 0, 0, 0, 0, 0),
    ("B", 2, 1, 1, 1, 1, 0.630930),
]


def item(gold, ranking="ABCDEF", **more):
    ranked = None if ranking is None else tuple(ranking)
    return Item(
        "1", ranked_sessions=ranked, evidence_sessions=tuple(gold), has_evidence=True, **more
    )


@pytest.mark.parametrize("row", TABLE, ids=[f"{r[0]}@{r[1]}" for r in TABLE])
def test_worked_values(row):
    gold, k, *expected = row
    for name, value in zip(NAMES, expected, strict=True):
        found = parse(f"{name}@{k}").per_item([item(gold)])[0]
        assert found is None if value is None else found == pytest.approx(value, abs=1e-6), name


def test_a_doubled_id_counts_twice():
    assert parse("ndcg@3").per_item([item("A", "ABA")]) == [
        pytest.approx((1 + 1 / 1.584962500721156) / 2)
    ]


def test_what_does_not_count():
    unranked = item("A", ranking=None)
    no_gold = Item("2", ranked_sessions=("A",), evidence_sessions=(), has_evidence=False)
    unknown = Item("3", ranked_sessions=("A",))
    failed = item("A", failed=True)
    found = aggregate(parse("recall_all@3"), [unranked, no_gold, unknown, failed, item("A")])
    assert (found.mean, found.n, found.n_failed, found.n_excluded) == (1.0, 1, 1, 3)
    zero = aggregate(parse("recall_all@3"), [failed, item("A")], "zero")
    assert (zero.mean, zero.n, zero.n_failed) == (0.5, 2, 1)


@given(
    st.permutations("ABCDEFGH"),
    st.sets(st.sampled_from("ABCDEFGHZ"), min_size=1),
    st.integers(1, 9),
)
def test_order_of_the_conventions(ranking, gold, k):
    one = item(sorted(gold), ranking)
    found = {n: parse(f"{n}@{k}").per_item([one])[0] for n in NAMES}
    assert found["recall_all"] <= found["recall_fraction"] <= found["recall_any"]
    assert 0 <= found["ndcg"] <= found["recall_any"]
    wider = {n: parse(f"{n}@{k + 1}").per_item([one])[0] for n in NAMES[:3]}
    assert all(wider[n] >= found[n] for n in NAMES[:3])


def test_every_recall_is_a_multiple_of_one_over_the_denominator():
    rng = random.Random(0)
    items = [
        item(rng.sample("ABCDEFGH", rng.randint(0, 3)), rng.sample("ABCDEFGH", 8))
        for _ in range(1986)
    ]
    for name in ("recall_all@3", "recall_any@3"):
        measure = parse(name)
        assert measure.lattice
        mean = aggregate(measure, items).mean
        assert Fraction(mean).limit_denominator(1986) == Fraction(round(mean * 1986), 1986)
        assert mean == pytest.approx(round(mean * 1986) / 1986, abs=1e-12)
    assert not parse("recall_fraction@3").lattice
    titles = score(items, ["recall_all@3", "ndcg@3"]).plain()["measures"]
    assert titles["recall_all@3"] == "Recall@3 (all gold sessions; k/1986)"
    assert titles["ndcg@3"].endswith("; n=1986)")


@pytest.mark.parametrize("name", ["recall_all@0", "ndcg@-1", "ndcg@x", "ndcg@", "recall_any@1.5"])
def test_bad_cutoffs(name):
    with pytest.raises(UserError):
        parse(name)
