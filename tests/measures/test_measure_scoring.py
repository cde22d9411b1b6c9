"""Aggregation: weighted means, categories, failures, permutation invariance, the output's shape."""

import json
import random

import pytest

from eval.measures.item import Item
from eval.measures.registry import parse_all
from eval.scoring import aggregate, default_measures, score

SIZES = {"1": 282, "2": 321, "3": 96, "4": 841}


def exact(category, rate, n, start=0):
    """n items of which `rate` are answered rightly, in ten conversations."""
    right = round(rate * n)
    return [
        Item(f"{category}-{i}", answer="x" if i < right else "y", reference="x", category=category,
             conversation=str(i % 10))
        for i in range(start, start + n)
    ]  # fmt: skip


def test_the_weighted_average_is_the_mean_over_all_questions():
    means = {"1": 0.40, "2": 0.50, "3": 0.30, "4": 0.60}
    published = sum(SIZES[c] * 100 * m for c, m in means.items()) / sum(SIZES.values())
    assert published == pytest.approx(52.383117, abs=1e-6)
    items = [item for c, m in means.items() for item in exact(c, m, SIZES[c])]
    plain = score(items, ["f1_squad"]).plain()
    by_category = {c: of["f1_squad"] for c, of in plain["by_category"].items()}
    assert {c: found["n"] for c, found in by_category.items()} == SIZES
    weighted = sum(found["n"] * found["mean"] for found in by_category.values()) / 1540
    assert plain["mean"]["f1_squad"] == pytest.approx(weighted)


def mixed(seed=0):
    rng = random.Random(seed)
    words = ["the", "cat", "sat", "on", "a", "mat", "in", "may", "2023", "paris", "réal", "猫"]
    return [
        Item(
            str(i),
            answer=rng.choice([None, " ".join(rng.choices(words, k=rng.randint(0, 9)))]),
            reference=" ".join(rng.choices(words, k=5)),
            category=str(rng.randint(1, 5)),
            conversation=str(i % 7),
            ranked_sessions=tuple(rng.sample("ABCDEF", 6)),
            evidence_sessions=tuple(rng.sample("ABCDEF", 2)),
            has_evidence=True,
            failed=rng.random() < 0.1,
        )
        for i in range(150)
    ]


NAMES = ["f1_locomo", "f1_squad", "secom:f1_set", "bleu_corpus", "secom:bleu_corpus", "bleu1",
         "rouge1", "rougeL_stem", "meteor_nowordnet", "recall_all@3", "ndcg@3"]  # fmt: skip


@pytest.mark.parametrize("failed_as", ["excluded", "zero"])
def test_order_of_items_changes_nothing(failed_as):
    items = mixed()
    shuffled = random.Random(9).sample(items, len(items))
    one, other = (score(i, NAMES, failed_as).plain() for i in (items, shuffled))
    assert one["counts"] == other["counts"]
    for name in NAMES:
        assert one["mean"][name] == pytest.approx(other["mean"][name])
        for key in ("low", "high"):
            assert one["intervals"][name][key] == pytest.approx(other["intervals"][name][key])
    by_id = {row["id"]: row for row in other["items"]}
    assert all(row == by_id[row["id"]] for row in one["items"])


def test_failures_are_left_out_or_zero():
    items = [*exact("1", 1, 3), Item("f", reference="x", failed=True), Item("g", failed=True)]
    left_out, zero = (aggregate_of(items, how) for how in ("excluded", "zero"))
    assert (left_out.mean, left_out.n, left_out.n_failed, left_out.n_excluded) == (1.0, 3, 1, 1)
    assert (zero.mean, zero.n, zero.n_failed, zero.n_excluded) == (0.75, 4, 1, 1)


def aggregate_of(items, how):
    from eval.measures.registry import parse

    return aggregate(parse("f1_squad"), items, how)


def test_shape_of_the_output():
    items = [*mixed(), Item("no gold", answer="x")]
    plain = score(items, ["f1_squad", "bleu_corpus", "recall_all@3"]).plain()
    assert list(plain)[:3] == ["items", "mean", "counts"]
    assert list(plain["items"][0]) == ["id", "f1_squad", "recall_all@3"]
    assert plain["items"][-1] == {"id": "no gold", "f1_squad": None, "recall_all@3": None}
    assert set(plain["mean"]) == {"f1_squad", "bleu_corpus", "recall_all@3"}
    assert plain["counts"]["f1_squad"]["n_excluded"] == 1
    assert plain["by_category"].keys() == {"1", "2", "3", "4", "5"}
    assert plain["versions"] == {"f1_squad": 1, "bleu_corpus": 1, "recall_all@3": 1}
    assert plain["intervals"]["bleu_corpus"]["method"].startswith("none: ")  # no common 4-gram
    interval = plain["intervals"]["f1_squad"]
    assert 0 <= interval["low"] <= plain["mean"]["f1_squad"] <= interval["high"] <= 1
    json.dumps(plain, allow_nan=False)


def test_corpus_bleu_of_a_category_is_recomputed():
    items = [
        Item("1", answer="a b c d e f", reference="a b c d e f", category="x", conversation="1"),
        Item("2", answer="a b c d e g", reference="a b c d z y", category="y", conversation="2"),
    ]
    plain = score(items, ["bleu_corpus"]).plain()
    found = [plain["by_category"][c]["bleu_corpus"]["mean"] for c in "xy"]
    assert found == [
        aggregate_bleu(items[:1]),
        aggregate_bleu(items[1:]),
    ]
    assert plain["mean"]["bleu_corpus"] != pytest.approx(sum(found) / 2, abs=1e-3)


def aggregate_bleu(items):
    return score(items, ["bleu_corpus"]).plain()["mean"]["bleu_corpus"]


def test_nothing_to_score():
    plain = score([Item("1", answer="x")], ["f1_squad", "bleu_corpus", "ndcg@3"]).plain()
    assert set(plain["mean"].values()) == {None}
    assert plain["intervals"]["f1_squad"]["low"] is None


def test_defaults_follow_the_file():
    ranked = Item("1", ranked_sessions=("A",), evidence_sessions=("A",), has_evidence=True)
    assert {m.needs for m in default_measures([Item("1", answer="a", reference="b")])} == {"answer"}
    assert {m.needs for m in default_measures([ranked])} == {"ranking"}
    judged = Item("1", answer="a", judgements={"gvd": {"scores": None}})
    assert [m.name for m in default_measures([judged])] == [
        "judge_gvd_acc", "judge_gvd_cohe", "judge_gvd_corr",
    ]  # fmt: skip


@pytest.mark.slow
def test_all_lexical_measures_of_locomos_size_are_quick():
    import time

    rng = random.Random(3)
    words = [f"word{i}" for i in range(3000)]
    items = [
        Item(str(i), answer=" ".join(rng.choices(words, k=20)) + ".",
             reference=" ".join(rng.choices(words, k=6)), category=str(i % 5 + 1),
             conversation=str(i % 10))
        for i in range(1986)
    ]  # fmt: skip
    names = [f"{prefix}{n}" for prefix in ("", "secom:") for n in
             ("f1_locomo", "f1_squad", "f1_set", "f1_memoryos", "subspan_em", "bleu_corpus",
              "bleu1", "rouge1", "rouge2", "rougeL", "rouge1_stem", "rouge2_stem", "rougeL_stem",
              "meteor_nowordnet")]  # fmt: skip
    start = time.process_time()
    score(items, names)
    assert time.process_time() - start < 20  # bar: 10 s on a quiet machine


def corpus(values, reference="x"):
    return [
        Item(f"q{i}", answer=answer, reference=reference, category="1", conversation=conversation)
        for i, (conversation, answer) in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "measure", "why"),
    [
        ([("a", "x"), ("a", "x"), ("b", "x")], "f1_squad", "all questions have the same value"),
        ([("a", "x"), ("a", "x")], "f1_squad", "all questions have the same value"),
        (
            [("a", "x"), ("a", "y"), ("b", "y"), ("b", "x")],
            "f1_squad",
            "all conversations have the same mean",
        ),
        ([("a", "x")], "f1_squad", "a single question"),
        (
            [("a", "y"), ("b", "z w")],
            "bleu_corpus",
            "leaving out any one conversation changes nothing",
        ),
        ([("a", "y"), ("a", "z w")], "bleu_corpus", "leaving out any one question changes nothing"),
    ],
)
def test_without_spread_there_is_no_interval_and_the_reason_is_said(values, measure, why):
    found = score(corpus(values), [measure]).plain()
    expected = {"low": None, "high": None, "level": 0.95, "method": f"none: {why}"}
    assert found["intervals"][measure] == expected
    assert found["mean"][measure] is not None
    assert found["by_category"]["1"][measure]["method"] == f"none: {why}"


def test_corpus_measures_have_a_jackknife_interval():
    said = "the mill stood on the hill"
    found = mean_of(corpus([("a", said), ("b", f"{said} above the quay")], said), "bleu_corpus")
    assert found.method == "t(1), delete-one-conversation jackknife"
    assert found.low < found.mean < found.high


def test_equal_values_that_do_not_add_up_exactly_are_still_equal():
    thirds = [("a", "x y z t u")] * 3 + [("b", "x y z t u")] * 7  # F1 is 1/3: sums are inexact
    items = corpus(thirds)
    found = mean_of(items, "f1_squad")
    assert (found.low, found.method) == (None, "none: all questions have the same value")
    mixed_values = corpus([*thirds, ("b", "x")])
    assert mean_of(mixed_values, "f1_squad").low is not None


def mean_of(items, name):
    (measure,) = parse_all(name)
    return aggregate(measure, items)
