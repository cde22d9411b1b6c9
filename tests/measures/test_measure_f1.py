"""Token F1 in its five variants, to the digits of the specification's table."""

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.measures.f1_locomo import F1Locomo, locomo_category
from eval.measures.item import Item
from eval.measures.postprocess import secom_strip
from eval.measures.registry import parse

TABLE = [
    ("The red car, and a blue bike.", "red car", 4, 0.6667, 0.5714, 0.4444, 0.4444),
    ("She was running marathons", "run marathon", 4, 0.6667, 0, 0, 0),
    ("2022", 2022, 2, 1, 1, 1, 1),
    ("2022.", "2022", 2, 1, 1, 1, 1),
    ("1,000 dollars", "1000 dollars", 4, 1, 1, 0.4, 0.4),
    ("7 May 2023", "May 7, 2023", 2, 1, 1, 1, 1),
    ("painting, hiking", "hiking, swimming, painting", 1, 0.6667, 0.8, 0.8, 0.8),
    ("painting and hiking", "painting, hiking", 1, 0.6667, 0.8, 0.8, 0.8),
    ("cat", "cat, cat", 1, 1, 0.6667, 1, 1),
    ("Yes", "Yes; because she likes it", 3, 1, 0.3333, 0, 0.3333),
    ("Yes, because she likes it", "Yes; because she likes it", 3, 0.3333, 1, 0.8, 1),
    ("No information available.", "Paris", 5, 1, 0, 0, 0),
    ("It is not mentioned in the conversation", "Paris", 5, 1, 0, 0, 0),
    ("She went to Paris", "Paris", 5, 0, 0.4, 0.4, 0.4),
    ("the cat the cat sat", "the cat", 4, 0.5, 0.5, 0.8, 0.8),
    ("red,blue", "red, blue", 4, 0, 0, 1, 1),
    ("Caroline's book", "Carolines book", 4, 1, 1, 0.5, 0.4),
    ("Caroline’s book", "Carolines book", 4, 0.5, 0.5, 0.5, 0.4),
    ("Café Río", "café río", 4, 1, 1, 1, 1),
    ("Café Río", "cafe rio", 4, 0, 0, 0, 0),
    ("猫が好き", "猫が好き", 4, 1, 1, 1, 1),
    ("the", "the", 4, 0, 0, 1, 1),
    ("", "red car", 4, 0, 0, 0, 0),
    ("...", "red car", 4, 0, 0, 0, 0),
    ("red car", "", 4, 0, 0, 0, 0),
    ("", "", 4, 0, 0, 0, 0),
    (None, "red car", 4, 0, 0, 0, 0),
    ("red\ncar", "red car", 4, 1, 1, 1, 1),
]
NAMES = ["f1_locomo", "f1_squad", "f1_set", "f1_memoryos"]


@pytest.mark.parametrize("row", TABLE, ids=[f"{r[0]!r}-{r[1]!r}"[:40] for r in TABLE])
def test_worked_values(row):
    prediction, gold, category, *expected = row
    line = {"id": 1, "answer": prediction, "reference": gold, "category": category}
    item = Item.of(line)
    found = [parse(name).per_item([item])[0] for name in NAMES]
    assert found == pytest.approx(expected, abs=5e-5)


def one(name, answer, reference, category=""):
    return parse(name).per_item([Item("1", "", answer, reference, category)])[0]


@pytest.mark.parametrize(
    ("prediction", "stripped"),
    [
        ("Dog", ""),
        ("no", ""),
        ("Yes", "Y"),
        ("Paris", "Par"),
        ("Seattle.", "Seattle."),
        ("Alice went to Boston", "lice went to Bos"),
        ("Business Administration", "Business Administrati"),
        ("2 days", "2 day"),
        ("The tattoo", "The "),
        (None, ""),
        ("42.\n[human]: more?\nQ: x", "42."),
        ("42.\nQuestion: x\n[human]: y 7.", "42."),
        ("42.\nQ: x\nQuestion: 7.", "42."),
    ],
)
def test_secom_post_processing(prediction, stripped):
    assert secom_strip(prediction) == stripped


def test_the_secom_prefix_changes_the_answer_and_never_the_reference():
    assert one("f1_squad", "Paris", "Paris") == 1
    assert one("secom:f1_squad", "Paris", "Paris") == 0
    assert one("secom:f1_squad", "Paris", "Par") == 1


def test_subspan_em():
    assert one("subspan_em", "It was the Red  car!", "a red car") == 1
    assert one("subspan_em", "party", "art") == 1  # characters, not words
    assert one("subspan_em", "blue", "red") == 0
    assert one("subspan_em", "blue", "") == 1


@pytest.mark.parametrize(
    ("category", "code"),
    [("1", 1), ("multi-hop", 1), ("Single_Hop", 4), ("adversarial", 5), ("probing", None),
     ("", None), ("6", None)],
)  # fmt: skip
def test_category_names(category, code):
    assert locomo_category(category) == code


def test_adversarial_questions_need_no_reference_but_an_answer():
    adversarial = Item("1", answer="Not mentioned, sorry", category="5")
    plain = Item("2", answer="x", category="4")
    unasked = Item("3", category="5", asked=False)
    assert F1Locomo().per_item([adversarial, plain, unasked]) == [1.0, None, None]


def test_multi_hop_keeps_empty_parts_of_the_reference():
    assert one("f1_locomo", "cat", "cat,", "1") == 0.5


words = st.text(
    alphabet=string.ascii_letters + string.punctuation + " \n’é猫0123456789", max_size=60
)


@given(words, words)
def test_f1_is_symmetric_bounded_and_blind_to_order(a, b):
    for name in ["f1_squad", "f1_set", "f1_memoryos"]:
        value = one(name, a, b)
        assert value == pytest.approx(one(name, b, a))
        assert 0 <= value <= 1
    shuffled = " ".join(reversed(a.split()))
    assert one("f1_set", shuffled, b) == pytest.approx(one("f1_set", a, b))


@given(words, words)
def test_squad_f1_against_a_direct_computation(a, b):
    def clean(text):
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        return re.sub(r"\b(?:a|an|the)\b", " ", text).split()

    left, right = clean(a), clean(b)
    common = sum((Counter(left) & Counter(right)).values())
    expected = 2 * common / (len(left) + len(right)) if common else 0
    assert one("f1_squad", a, b) == pytest.approx(expected)
