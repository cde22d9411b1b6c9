"""ROUGE against worked values and the `rouge-score` package; long texts under a time limit."""

import random
import time

import pytest

from eval.measures.registry import parse
from eval.measures.rouge import Rouge, common_subsequence
from memsys.errors import UserError

SAME = None
TABLE = [
    ("the cats were running", "the cat was running", (0.5, 0, 0.5), (0.75, 0.333333, 0.75)),
    ("7 May 2023", "May 7, 2023", (1, 0, 0.666667), SAME),
    ("Caroline's book", "Carolines book", (0.4, 0, 0.4), (0.8, 0, 0.8)),
    ("cat", "cat", (1, 0, 1), SAME),
    ("café", "cafe", (0, 0, 0), SAME),
    ("猫", "猫", (0, 0, 0), SAME),
    ("", "cat", (0, 0, 0), SAME),
    ("...", "cat", (0, 0, 0), SAME),
    ("cat", "", (0, 0, 0), SAME),
]


@pytest.mark.parametrize(("prediction", "gold", "plain", "stemmed"), TABLE)
def test_worked_values(prediction, gold, plain, stemmed):
    for stem, expected in ((False, plain), (True, stemmed or plain)):
        found = [Rouge(v, stem).score(prediction, gold) for v in ("1", "2", "L")]
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("stem", [False, True])
def test_equals_rouge_score(stem):
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(
        ["rouge1", "rouge2", "rougeL"], use_stemmer=stem
    )
    rng = random.Random(5)
    text = "the cats were running İstanbul don't co-op 3.5 naïve walked easily relations a Über ß K"
    words = text.split()
    for _ in range(300):
        given = " ".join(rng.choices(words, k=rng.randint(0, 12)))
        wanted = " ".join(rng.choices(words, k=rng.randint(0, 12)))
        theirs = scorer.score(target=wanted, prediction=given)
        for variant in ("1", "2", "L"):
            ours = Rouge(variant, stem).score(given, wanted)
            assert ours == pytest.approx(theirs[f"rouge{variant}"].fmeasure)


def test_subsequence_against_the_textbook_recursion():
    rng = random.Random(1)
    for _ in range(200):
        a, b = (rng.choices("abcd", k=rng.randint(0, 20)) for _ in range(2))
        row = [0] * (len(b) + 1)
        for x in a:
            previous = row[:]
            for j, y in enumerate(b, 1):
                row[j] = previous[j - 1] + 1 if x == y else max(previous[j], row[j - 1])
        assert common_subsequence(a, b) == row[-1]


@pytest.mark.parametrize(
    "name",
    [
        "f1_locomo", "f1_squad", "f1_set", "f1_memoryos", "bleu1", "rouge1", "rouge2_stem",
        "rougeL", "rougeL_stem", "meteor_nowordnet", "subspan_em", "secom:f1_squad",
    ],
)  # fmt: skip
def test_ten_thousand_tokens_against_as_many(name):
    rng = random.Random(2)
    long = [" ".join(f"word{rng.randrange(900)}s" for _ in range(10_000)) for _ in range(2)]
    measure = parse(name)
    measure.score("warm", "up")
    start = time.process_time()
    value = measure.score(*long)
    assert time.process_time() - start < 3
    assert 0 <= value <= 1


def test_other_variants_are_refused():
    with pytest.raises(UserError, match="ROUGE-3"):
        Rouge("3")
