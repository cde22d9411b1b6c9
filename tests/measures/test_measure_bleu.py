"""Corpus BLEU-4 from counts and sentence BLEU-1, against worked values and the references."""

import math
import random

import pytest

from eval.measures.bleu1 import Bleu1
from eval.measures.bleu_corpus import BleuCorpus, pair_counts
from eval.measures.item import Item
from eval.measures.mteval import tokens_13a
from eval.measures.words import tokeniser, word_tokens
from eval.scoring import aggregate

BLEU = BleuCorpus()
CASES = [
    (
        ["The cat sat on the mat.", "He lives in New York City now."],
        ["The cat sat on the mat.", "He lives in New York."],
        (13, 10, 8, 6, 15, 13, 11, 9), 0.754013,
    ),
    (["the cat sat on the mat"], ["The Cat sat on the mat"], (4, 3, 2, 1, 6, 5, 4, 3), 0.508133),
    (["The cat sat"], ["The cat sat"], (3, 2, 1, 0, 3, 2, 1, 0), 0),
    (
        ["7 May 2023", "the cat is on the mat"], ["7 May 2023", "the cat sat on the mat"],
        (8, 5, 2, 0, 9, 7, 5, 3), 0,
    ),
]  # fmt: skip
TEXT = (
    "the a cat Cat sat on mat. in New York, 7 May 2023. 1,000 3.5 well-known 2-3 don't U.S. 'tis "
    '"yes" &amp; &lt;b&gt; <skipped> (x) $50 50% co- café 猫 … – re: a/b x@y #1 [z] {q} ~ ` ^ \\ '
    "-\n \n"
)
WORDS = TEXT.split(" ")


def corpus(predictions, references):
    rows = [pair_counts(p, r) for p, r in zip(predictions, references, strict=True)]
    return tuple(map(sum, zip(*rows, strict=True)))


@pytest.mark.parametrize(("predictions", "references", "counts", "bleu"), CASES)
def test_corpus_bleu_worked(predictions, references, counts, bleu):
    total = corpus(predictions, references)
    assert total[:8] == counts
    assert BLEU.from_counts(total) == pytest.approx(bleu, abs=1e-6)


def texts(seed, n):
    rng = random.Random(seed)
    made = [" ".join(rng.choices(WORDS, k=rng.randint(0, 14))) for _ in range(n)]
    pairs = [(t, " ".join(w for w in t.split(" ") if rng.random() < 0.8)) for t in made]
    # sacrebleu strips line ends before it tokenises; the original (`evaluate`) does not
    return [p.strip() for p, _ in pairs], [r.strip() + " end" for _, r in pairs]


@pytest.mark.parametrize("seed", range(40))
def test_corpus_bleu_equals_sacrebleu(seed):
    sacrebleu = pytest.importorskip("sacrebleu")
    predictions, references = texts(seed, 12)
    theirs = sacrebleu.corpus_bleu(
        predictions, [references], smooth_method="none", tokenize="13a", force=True
    )
    assert BLEU.from_counts(corpus(predictions, references)) == pytest.approx(theirs.score / 100)


def test_13a_tokens():
    assert tokens_13a("It cost 1,000.50, in 2023.") == (
        "It", "cost", "1,000.50", ",", "in", "2023", ".",
    )  # fmt: skip
    assert tokens_13a("2-3 well-known don't") == ("2", "-", "3", "well-known", "don't")
    assert tokens_13a("a &lt;b&gt; com-\nplete") == ("a", "<", "b", ">", "complete")


def items_of(seed, n):
    predictions, references = texts(seed, n)
    return [
        Item(str(i), answer=p, reference=r, conversation=str(i % 5), category=str(i % 3))
        for i, (p, r) in enumerate(zip(predictions, references, strict=True))
    ]


def test_shards_give_the_corpus():
    items = items_of(3, 200)
    whole = corpus([i.answer for i in items], [i.reference for i in items])
    shards = [items[k::7] for k in range(7)]
    summed = tuple(
        sum(column)
        for column in zip(
            *(corpus([i.answer for i in s], [i.reference for i in s]) for s in shards), strict=True
        )
    )
    assert summed == whole
    assert aggregate(BLEU, items).mean == BLEU.from_counts(whole)
    by_item = [aggregate(BLEU, [i]).mean for i in items]
    assert abs(sum(by_item) / len(by_item) - BLEU.from_counts(whole)) > 0.05  # no mean of means


def test_empty_answers_and_failures():
    assert BLEU.from_counts(corpus(["", ""], ["a b", "c"])) == 0
    assert BLEU.per_item([Item("1", answer="a", reference="a")]) == [None]
    items = [
        *items_of(1, 30),
        Item("x", reference="a b " * 200, failed=True),
        Item("y", answer="z"),
    ]
    left_out, zero = aggregate(BLEU, items), aggregate(BLEU, items, "zero")
    assert (left_out.n, left_out.n_failed, left_out.n_excluded) == (30, 1, 1)
    assert (zero.n, zero.n_failed, zero.n_excluded) == (31, 1, 1)
    assert zero.mean < left_out.mean  # 400 reference tokens against none


def test_the_brevity_penalty_looks_at_the_corpus():
    total = corpus(["a b c d e", "x"], ["a b c d e", "x y"])
    assert BLEU.from_counts(total) == pytest.approx(math.exp(1 - 7 / 6))


@pytest.mark.parametrize(
    ("prediction", "gold", "value"),
    [
        ("in may 2023", "7 may 2023", 0.666667),
        ("may", "7 may 2023", 0.135335),
        ("foo", "bar", 0),
        ("the the the", "the cat", 0.333333),
        ("The cat sat.", "the cat sat on the mat", 0.454898),
        ("7 May 2023", "7 May 2023", 1),
        ("don't know", "do not know", 0.666667),
        ("$50", "50", 0.5),
        ("...", "red car", 0),
        ("", "red car", 0),
        ("   ", "red car", 0),
        ("red car", "", 0),
    ],
)
def test_bleu1_worked(prediction, gold, value):
    assert Bleu1().score(prediction, gold) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_bleu1_equals_nltk(seed):
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smooth = SmoothingFunction().method1
    for prediction, reference in zip(*texts(seed, 20), strict=True):
        given, wanted = word_tokens(prediction.lower()), word_tokens(reference.lower())
        theirs = (
            sentence_bleu([wanted], given, weights=(1, 0, 0, 0), smoothing_function=smooth)
            if given
            else 0
        )
        assert Bleu1().score(prediction, reference) == pytest.approx(theirs)


def test_the_tokeniser_in_force_is_recorded():
    name, tokenise = tokeniser()
    found = tokenise("he left. she came.")
    assert name in ("punkt", "line")
    assert ("left." in found) == (name == "line")
    assert Bleu1().resources() == {"tokenizer": name}
    assert f"tokenizer: {name}" in Bleu1().describe([], 3)


def test_word_tokens_with_punkt(monkeypatch):
    """With Punkt's data, sentences are split first."""
    import nltk

    monkeypatch.setattr(
        nltk.tokenize, "sent_tokenize", lambda text: [s + "." for s in text.split(". ")]
    )
    tokeniser.cache_clear()
    try:
        name, tokenise = tokeniser()
        assert name == "punkt"
        assert tokenise("he left. ok")[:3] == ["he", "left", "."]
    finally:
        tokeniser.cache_clear()
