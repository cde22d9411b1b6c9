from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsys.datasets.base import Rules
from memsys.datasets.cut import Cut, Sample, first_sessions, round_robin
from memsys.datasets.gvd import GVD
from memsys.datasets.locomo import LoCoMo
from memsys.dialogue import Conversation, Question, Session, Turn

RULES = Rules(category5="trap")


def make(name="c", sessions=3, questions=()):
    return Sample(
        Conversation(
            name,
            tuple(
                Session(f"session_{n}", (Turn(f"D{n}:1", "Ana", "hi"),))
                for n in range(1, sessions + 1)
            ),
        ),
        tuple(
            Question(name, i, f"q{i}", "?", category, evidence_sessions=tuple(gold))
            for i, (category, gold) in enumerate(questions)
        ),
    )


def indices(sample):
    return [q.index for q in sample.questions]


def test_only_questions_whose_evidence_lies_wholly_inside():
    sample = make(
        questions=[
            ("1", ["session_1"]),
            ("1", ["session_1", "session_3"]),
            ("2", ["session_2"]),
            ("3", []),
            ("4", ["session_"]),
        ]
    )
    cut = first_sessions(sample, 2)
    assert [s.id for s in cut.conversation.sessions] == ["session_1", "session_2"]
    assert indices(cut) == [0, 2]
    assert first_sessions(sample, None) is sample


def test_without_any_evidence_all_questions_stay():
    assert indices(first_sessions(make(questions=[("a", []), ("a", [])]), 1)) == [0, 1]


def test_round_robin_over_categories():
    sample = make(questions=[(c, ["session_1"]) for c in ("1", "1", "1", "2", "2", "3")])
    assert [q.index for q in round_robin(sample.questions, 4)] == [0, 1, 3, 5]
    assert [q.index for q in round_robin(sample.questions, 99)] == [0, 1, 2, 3, 4, 5]


@given(st.lists(st.sampled_from("12345"), max_size=30), st.integers(1, 30))
def test_round_robin_is_fair_and_ordered(categories, count):
    questions = make(questions=[(c, ["session_1"]) for c in categories]).questions
    chosen = round_robin(questions, count)
    assert len(chosen) == min(count, len(questions))
    assert [q.index for q in chosen] == sorted(q.index for q in chosen)
    taken = {c: sum(q.category == c for q in chosen) for c in set(categories)}
    for category, number in taken.items():
        if number < categories.count(category):
            # one that has questions left is at most one behind
            assert number >= max(taken.values()) - 1


def samples(count=4, questions=6):
    for n in range(count):
        yield make(f"c{n}", questions=[(str(i % 2), ["session_1"]) for i in range(questions)])


@pytest.mark.parametrize(
    ("cut", "counts"),
    [
        (Cut(), [6, 6, 6, 6]),
        (Cut(max_conversations=2), [6, 6]),
        (Cut(limit=8), [6, 2]),
        (Cut(max_conversations=2, limit=8), [4, 4]),
        (Cut(max_conversations=4, limit=5), [2, 1, 1, 1]),
        (Cut(max_conversations=9, limit=100), [6, 6, 6, 6]),
    ],
)
def test_limits(cut, counts):
    assert [len(x.questions) for x in cut.apply(samples())] == counts


def test_the_stream_is_not_read_further_than_needed():
    seen = []

    def watched():
        for sample in samples():
            seen.append(sample.conversation.id)
            yield sample

    list(Cut(limit=6).apply(watched()))
    assert seen == ["c0"]


def test_a_conversation_left_without_questions_is_left_out_of_a_cut_only():
    empty = [make("a"), make("b", questions=[("1", ["session_1"])])]
    assert [x.conversation.id for x in Cut(limit=9).apply(iter(empty))] == ["b"]
    assert [x.conversation.id for x in Cut().apply(iter(empty))] == ["a", "b"]


def test_a_cut_says_what_it_is():
    assert LoCoMo(sample="always").info().cut is None
    cut = LoCoMo(sample="always", max_conversations=1, max_sessions=2, limit=3)
    assert cut.info().cut == (
        "first 1 conversations, first 2 sessions of each, at most 3 questions"
    )
    assert cut.info().plain()["cut"] == cut.info().cut


def test_a_cut_of_the_sample():
    found = list(LoCoMo(sample="always", max_sessions=3, limit=5).load(RULES))
    assert [len(x.conversation.sessions) for x in found] == [3]
    inside = {s.id for s in found[0].conversation.sessions}
    assert all(inside.issuperset(q.evidence_sessions) for q in found[0].questions)
    assert [q.category for q in found[0].questions] == ["2", "2", "3", "4", "5"]
    assert len(list(GVD(sample="always", max_sessions=1, limit=4).load(RULES))) == 2
