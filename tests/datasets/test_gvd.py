from __future__ import annotations

from datetime import datetime

import pytest

from memsys.datasets.base import Rules
from memsys.datasets.gvd import GVD, unquoted
from memsys.errors import UserError

RULES = Rules(categories=["1", "2", "3", "4"])


def user(history, name="Mia"):
    return {
        "name": name,
        "summary": {},
        "personality": {},
        "overall_history": "",
        "history": history,
        "meta_information": {"name": name, "personality": "SECRET-PROFILE", "hobbies": "x"},
    }


@pytest.fixture
def load(save):
    def run(users, questions, **settings):
        folder = save(users, "en/memory_bank_en.json").parent.parent
        save(questions, "en/probing_questions_en.jsonl")
        return list(GVD(release="custom", path=folder, **settings).load(RULES))

    return run


@pytest.mark.data
@pytest.mark.parametrize(("language", "days"), [("en", 149), ("cn", 150)])
def test_real_counts(real, language, days):
    real("gvd/en/memory_bank_en.json")
    samples = list(GVD(language=language, sample="never").load(RULES))
    assert len(samples) == 15
    sessions = [s for x in samples for s in x.conversation.sessions]
    assert len(sessions) == days
    assert {int(s.id.removeprefix("day_")) for s in sessions} == set(range(1, 11))
    assert sum(len(s.turns) for s in sessions) == 2 * 566
    questions = [q for x in samples for q in x.questions]
    assert len(questions) == 100
    assert not any(q.has_evidence or q.reference for q in questions)
    assert not any(q.text.startswith('"') for q in questions)
    for sample in samples:
        # none lost to stray spaces: every user who is asked something has a history
        assert sample.conversation.sessions
        assert sample.conversation.id == sample.conversation.id.strip()
        dates = [s.date for s in sample.conversation.sessions]
        assert dates == sorted(dates)
        assert {d.year for d in dates} == {2023}


@pytest.mark.data
def test_real_users_stand_in_the_same_order(real):
    real("gvd/en/memory_bank_en.json")
    english = [x.conversation.id for x in GVD().load(RULES)]
    chinese = [x.conversation.id for x in GVD(language="cn").load(RULES)]
    counts = {7: 12, 6: 1, 5: 2}
    for language in ("en", "cn"):
        found = [len(x.questions) for x in GVD(language=language).load(RULES)]
        assert {n: found.count(n) for n in counts} == counts
    assert english[english.index("Roland")] == "Roland"
    assert chinese[english.index("Roland")] == "陈阳"
    assert chinese[english.index("Susan")] == "郑思雨"


@pytest.mark.data
def test_real_empty_day_and_broken_question(real):
    real("gvd/en/memory_bank_en.json")
    users = {x.conversation.id: x for x in GVD().load(RULES)}
    days = [s.id for s in users["John Zhang"].conversation.sessions]
    assert "day_9" not in days
    assert days[-1] == "day_10"
    assert users["Sunny"].questions[3].text.endswith("?")


def test_stray_spaces_in_names(load):
    day = {"2023-04-27": [{"query": "q", "response": "r"}]}
    (sample,) = load({" Mia ": user(day)}, '{"Mia": ["What?"]}\n\n')
    assert sample.conversation.id == "Mia"
    assert len(sample.questions) == 1
    assert [t.speaker for t in sample.conversation.sessions[0].turns] == ["Mia", "Assistant"]
    assert [t.role for t in sample.conversation.sessions[0].turns] == ["user", "assistant"]


def test_an_empty_day_is_no_session_and_keeps_the_others_order(load):
    history = {
        "2023-04-29": [{"query": "c", "response": "c"}],
        "2023-04-28": [],
        "2023-04-27": [{"query": "a", "response": "a"}, {"query": "b", "response": "b"}],
    }
    (sample,) = load({"Mia": user(history)}, '{"Mia": ["What?"]}')
    sessions = sample.conversation.sessions
    assert [s.id for s in sessions] == ["day_1", "day_3"]
    assert [s.date for s in sessions] == [datetime(2023, 4, 27), datetime(2023, 4, 29)]
    assert sessions[0].date_text == "27 April 2023"
    assert [t.id for t in sessions[0].turns] == [f"day_1:{n}" for n in (1, 2, 3, 4)]


def test_the_profile_stays_hidden(load):
    day = {"2023-04-27": [{"query": "q", "response": "r"}]}
    assert "SECRET" not in repr(load({"Mia": user(day)}, '{"Mia": ["What?"]}'))


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ('"What did I eat?"', "What did I eat?"),
        (' "I was happy.?" ', "I was happy.?"),
        ("“真的吗？”", "真的吗？"),
        ('Did I see "Heat"', 'Did I see "Heat"'),
        ('"Heat" or "Cold"', '"Heat" or "Cold"'),
        ("\"What's in 'Heat'?\"", "What's in 'Heat'?"),
        ('"', '"'),
    ],
)
def test_outer_quotes(raw, clean):
    assert unquoted(raw) == clean


def test_users_must_agree(load):
    with pytest.raises(UserError, match="disagree about the user 'Zoe'"):
        load({"Mia": user({})}, '{"Mia": ["a"], "Zoe": ["b"]}')


@pytest.mark.parametrize(
    ("users", "questions", "message"),
    [
        ([], "{}", "should be an object of users"),
        ({"Mia": {}}, "{}", "user Mia: the field 'history' is missing"),
        (
            {"Mia": user({"2023-04-27": [{"query": "q"}]})},
            '{"Mia": ["a"]}',
            "user Mia, 2023-04-27, exchange 1: the field 'response' is missing",
        ),
        ({"Mia": user({"April": []})}, '{"Mia": ["a"]}', "'April' is no date"),
        ({"Mia": user({})}, '{"Mia": ["a"]}\n{"Zo', "line 2 is not JSON"),
        ({"Mia": user({})}, '{"Mia": "a"}', "should be a list of strings"),
    ],
)
def test_faults(load, users, questions, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        load(users, questions)


@pytest.mark.parametrize(("language", "users"), [("en", 3), ("cn", 1)])
def test_the_sample(language, users):
    benchmark = GVD(sample="always", language=language)
    samples = list(benchmark.load(RULES))
    assert len(samples) == users
    assert all(3 <= len(x.conversation.sessions) <= 4 for x in samples)
    assert all(len(x.questions) == 3 for x in samples)
    assert not any(q.text.startswith('"') for x in samples for q in x.questions)
    assert not any(q.has_evidence or q.reference for x in samples for q in x.questions)
    assert benchmark.info().is_sample
