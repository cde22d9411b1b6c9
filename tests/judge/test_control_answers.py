"""Control answers: made by rule, wrong where they must be wrong, right where they must be right."""

import pytest

from eval.judge.control_answers import (
    CONTROLS,
    control_answers,
    off_by_one,
    paraphrase,
    usable,
    vague,
    wrong_entity,
)
from memsys.dialogue import Question


def question(index=0, reference="blue", category="4", text="What colour is the hive?", **more):
    return Question("c", index, f"c-{index}", text, category, reference=reference, **more)


def pairs(*questions):
    return [(q, q.reference or "") for q in questions]


@pytest.mark.parametrize(
    ("reference", "shifted"),
    [
        ("7 May 2023", "8 May 2023"), ("31 December 2022", "1 January 2023"),
        ("May 7, 2023", "May 8, 2023"), ("2024-02-28", "2024-02-29"),
        ("the week before 9 June 2023", "the week before 10 June 2023"),
        ("June 2023", "July 2023"), ("December, 2022", "January 2023"), ("2022", "2023"),
        ("four years", "five years"), ("Twelve", "thirteen"), ("3 children", "4 children"),
        ("blue", None), ("about 2.5 miles", None), ("at 10:30", None),
        ("31 February 2023", "31 March 2023"),  # no date, but a month with its year
    ],
)  # fmt: skip
def test_off_by_one(reference, shifted):
    assert off_by_one(reference) == shifted


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("7 May 2023", "That would be May 7, 2023."),
        ("May 7, 2023", "That would be 7 May 2023."),
        ("2023-05-07", "That would be 7 May 2023."),
        ("3 children", "That would be three children."),
        ("four years", "That would be 4 years."),
        ("pottery, camping, swimming", "That would be camping, swimming and pottery."),
        ("bees and goats", "That would be goats and bees."),
        ("2022", "That would be 2022."),
        ("blue.", "That would be blue."),
        (
            "She wanted to leave home and the others did not mind",
            "That would be She wanted to leave home and the others did not mind.",
        ),
    ],
)
def test_paraphrase(reference, said):
    assert paraphrase(reference) == said


def test_wrong_entity_prefers_the_next_of_the_category_and_shares_no_word():
    own = question(1, "the blue hive")
    others = pairs(
        question(0, "green"), own, question(2, "a hive", "4"), question(3, "red", "2"),
        question(4, "yellow"),
    )  # fmt: skip
    assert wrong_entity(own, others) == "yellow"  # 2 shares a word, 3 is of another category
    assert wrong_entity(own, others[:2]) == "green"  # after the last comes the first
    assert wrong_entity(own, pairs(own, question(3, "red", "2"))) == "red"
    assert wrong_entity(own, pairs(own)) is None
    assert wrong_entity(own, pairs(own, question(5, " "))) is None


@pytest.mark.parametrize("word", ["When", "Where", "Who", "How many", "How long", "How", "Why"])
def test_vague_answers_fit_the_question_and_say_nothing(word):
    said = vague(f"{word} did the bees swarm?")
    assert said != vague("What is it?")
    assert not any(character.isdigit() for character in said)


def test_all_controls_in_their_order():
    made = control_answers(question(0, "4 hives"), pairs(question(1, "red")))
    assert list(made) == list(CONTROLS)
    assert made["reference"] == "4 hives"
    assert made["empty"] == ""
    assert list(control_answers(question(0, None), pairs(question(1, "red")))) == [
        "wrong_entity", "vague", "empty",
    ]  # fmt: skip
    assert "off_by_one" not in control_answers(question(), [])


def test_only_references_that_are_answers_are_used():
    assert usable(question())
    for odd in ({"abstention": True}, {"adversarial": True}, {"reference": " "},
                {"reference": None}, {"category": "single-session-preference"}):  # fmt: skip
        assert not usable(question(**odd))
