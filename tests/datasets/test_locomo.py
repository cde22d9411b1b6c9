from __future__ import annotations

import json
import locale
from collections import Counter
from datetime import datetime

import pytest

from memsys.datasets import locomo_evidence
from memsys.datasets.base import Rules
from memsys.datasets.dates import locomo_date
from memsys.datasets.files import known_release
from memsys.datasets.locomo import NOT_MENTIONED, LoCoMo
from memsys.errors import UserError

OPEN = Rules(category5="trap")
MEMGAS = Rules(evidence="memgas", category5="trap")


def turn(dia_id, speaker="Ana", text="hello", **more):
    return {"speaker": speaker, "dia_id": dia_id, "text": text, **more}


def question(category=4, evidence=("D1:1",), answer="yes", text="Really?", **more):
    return {
        "question": text,
        "answer": answer,
        "evidence": list(evidence),
        "category": category,
        **more,
    }


def record(sessions=1, qa=(), turns=2, name="conv-1"):
    conversation = {"speaker_a": "Ana", "speaker_b": "Ben"}
    for n in range(1, sessions + 1):
        conversation[f"session_{n}_date_time"] = f"1:00 pm on {n} May, 2023"
        conversation[f"session_{n}"] = [
            turn(f"D{n}:{t}", "Ana" if t % 2 else "Ben") for t in range(1, turns + 1)
        ]
    summaries = {f"session_{n}_summary": f"Summary {n}." for n in range(1, sessions + 1)}
    return {
        "sample_id": name,
        "conversation": conversation,
        "qa": list(qa),
        "observation": {"session_1_observation": {"Ana": [["OBSERVATION-WORDS", "D1:1"]]}},
        "session_summary": summaries,
        "event_summary": {"events_session_1": {"Ana": ["EVENT-WORDS"], "date": "1 May, 2023"}},
    }


@pytest.fixture
def load(save):
    def run(records, rules=OPEN, **settings):
        path = save(records if isinstance(records, list) else [records])
        return list(LoCoMo(release="custom", path=path, **settings).load(rules))

    return run


# ------------------------------------------------------------------ the real file


@pytest.mark.data
def test_real_counts(real):
    real("locomo/locomo10.json")
    samples = list(LoCoMo(sample="never").load(MEMGAS))
    sessions = [s for sample in samples for s in sample.conversation.sessions]
    turns = [t for s in sessions for t in s.turns]
    questions = [q for sample in samples for q in sample.questions]
    assert (len(samples), len(sessions), len(turns), len(questions)) == (10, 272, 5882, 1986)
    by_category = Counter(q.category for q in questions)
    assert [by_category[c] for c in "12345"] == [282, 321, 96, 841, 446]
    assert sum(t.caption is not None for t in turns) == 1226
    assert len({q.key for q in questions}) == len({(q.conversation, q.id) for q in questions})
    assert all(
        s.id == f"session_{i}" for x in samples for i, s in enumerate(x.conversation.sessions, 1)
    )
    for sample in samples:
        dates = [s.date for s in sample.conversation.sessions]
        assert dates == sorted(set(dates))
        ids = [t.id for s in sample.conversation.sessions for t in s.turns]
        assert len(ids) == len(set(ids))


@pytest.mark.data
@pytest.mark.parametrize(("captions", "count"), [("all", 1226), ("with_url", 910), ("none", 0)])
def test_real_captions(real, captions, count):
    real("locomo/locomo10.json")
    samples = LoCoMo(captions=captions).load(OPEN)
    turns = (t for x in samples for s in x.conversation.sessions for t in s.turns)
    assert sum(t.caption is not None for t in turns) == count


@pytest.mark.data
def test_real_evidence_after_repair(real):
    real("locomo/locomo10.json")
    questions = [q for sample in LoCoMo().load(OPEN) for q in sample.questions]
    without = [q for q in questions if not q.has_evidence]
    assert len(questions) - len(without) == 1982
    assert [(q.conversation, q.index, q.category) for q in without] == [
        ("conv-26", 30, "3"),
        ("conv-26", 46, "3"),
        ("conv-50", 39, "3"),
        ("conv-50", 42, "3"),
    ]
    gold = Counter(min(len(q.evidence_sessions), 5) for q in questions)
    assert gold == {1: 1650, 2: 206, 3: 67, 4: 35, 5: 24, 0: 4}
    four = [q for sample in LoCoMo().load(Rules()) for q in sample.questions]
    assert len(four) == 1540
    assert sum(q.has_evidence for q in four) == 1536


@pytest.mark.data
def test_real_evidence_repairs_item_by_item(real):
    repairs = json.loads(real("locomo/evidence_repairs.json").read_text())["items"]
    questions = {q.key: q for sample in LoCoMo().load(OPEN) for q in sample.questions}
    for item in repairs:
        found = questions[item["sample_id"], item["qa_index"]]
        assert list(found.evidence_turns) == item["repaired"], item
    raw = json.loads(real("locomo/locomo10.json").read_text())
    changed = {
        (sample["sample_id"], index)
        for sample in raw
        for index, qa in enumerate(sample["qa"])
        if list(questions[sample["sample_id"], index].evidence_turns) != qa["evidence"]
    }
    listed = {(i["sample_id"], i["qa_index"]) for i in repairs if i["raw"] != i["repaired"]}
    assert changed == listed
    assert len(changed) == 10


@pytest.mark.data
def test_real_evidence_as_memgas_reads_it(real):
    real("locomo/locomo10.json")
    samples = list(LoCoMo().load(MEMGAS))
    questions = {q.key: q for sample in samples for q in sample.questions}
    empty = [key for key, q in questions.items() if not q.evidence_sessions]
    assert empty == [
        ("conv-26", 30),
        ("conv-26", 37),
        ("conv-26", 46),
        ("conv-49", 31),
        ("conv-49", 38),
        ("conv-49", 46),
        ("conv-50", 39),
        ("conv-50", 42),
    ]
    assert all(q.has_evidence for q in questions.values())
    known = {x.conversation.id: {s.id for s in x.conversation.sessions} for x in samples}
    unreachable = [k for k, q in questions.items() if set(q.evidence_sessions) - known[k[0]]]
    assert unreachable == [("conv-43", 18)]
    assert "session_" in questions["conv-43", 18].evidence_sessions
    assert "session_4" in questions["conv-47", 38].evidence_sessions
    # DATASETS: the best possible all-or-nothing recall
    for k, best in ((3, 97.03), (5, 99.35), (10, 99.90)):
        reachable = sum(
            len(q.evidence_sessions) <= k and key not in unreachable for key, q in questions.items()
        )
        assert round(100 * reachable / 1986, 2) == best


@pytest.mark.data
def test_real_adversarial_gold(real):
    real("locomo/locomo10.json")
    questions = {q.key: q for x in LoCoMo().load(MEMGAS) for q in x.questions}
    adversarial = [q for q in questions.values() if q.adversarial]
    assert len(adversarial) == 446
    assert all(q.reference == q.trap and q.trap for q in adversarial)
    for index in (167, 178):
        found = questions["conv-26", index]
        assert (found.reference, found.extra["answer"]) == ("Yes", "No")


@pytest.mark.data
def test_real_numeric_answers_are_text(real):
    real("locomo/locomo10.json")
    questions = {q.key: q for x in LoCoMo().load(OPEN) for q in x.questions}
    numbers = {i: questions["conv-26", i].reference for i in (1, 26, 49, 72, 40, 75)}
    assert numbers == {1: "2022", 26: "2022", 49: "2022", 72: "2022", 40: "2", 75: "3"}
    spaced = questions["conv-30", 37].reference
    assert spaced == spaced.strip()


@pytest.mark.data
def test_real_audit(real):
    real("locomo/label_audit/errors.json")
    audited = [q for x in LoCoMo(labels="audited").load(Rules()) for q in x.questions]
    by_category = Counter(q.category for q in audited)
    assert [by_category[c] for c in "1234"] == [282 - 28, 321 - 26, 96 - 9, 841 - 36]
    corrected = [q for q in audited if "audit" in q.extra]
    assert len(corrected) == 57
    original = {q.key: q for x in LoCoMo().load(Rules()) for q in x.questions}
    assert len(original) == 1540
    assert sum(q.evidence_turns != original[q.key].evidence_turns for q in corrected) >= 50


@pytest.mark.data
def test_real_notes(real):
    real("locomo/locomo10.json")
    sessions = [
        s
        for x in LoCoMo(metadata="dataset", max_conversations=1).load(OPEN)
        for s in x.conversation.sessions
    ]
    assert all(s.notes.summary and s.notes.keywords.count("; ") == 19 for s in sessions)


@pytest.mark.data
def test_real_file_altered_by_one_byte_is_refused(real, tmp_path):
    content = bytearray(real("locomo/locomo10.json").read_bytes())
    content[1000] ^= 1
    copy = tmp_path / "locomo10.json"
    copy.write_bytes(content)
    with pytest.raises(UserError, match="sha256") as error:
        list(LoCoMo(path=copy).load(OPEN))
    assert str(copy) in str(error.value)


# ------------------------------------------------------------------ evidence


TURNS = {"D8:6", "D9:17", "D9:1", "D4:4", "D11:26", "D30:5", "D1:18", "D1:20", "D4:5"}


@pytest.mark.parametrize(
    ("raw", "turns"),
    [
        ([], ()),
        (["D8:6; D9:17"], ("D8:6", "D9:17")),
        (["D9:1 D4:4"], ("D9:1", "D4:4")),
        (["D:11:26"], ("D11:26",)),
        (["D30:05"], ("D30:5",)),
        (["D1:18", "D", "D1:20"], ("D1:18", "D1:20")),
        (["D4:5", "D4:5", "D9:1"], ("D4:5", "D9:1")),
        (["D4:36"], ()),
    ],
)
def test_repair_rule(raw, turns):
    evidence = locomo_evidence.repaired(raw, TURNS)
    assert evidence.turns == turns
    assert evidence.counts == bool(turns)
    assert set(evidence.sessions) == {f"session_{t[1:].split(':')[0]}" for t in turns}


@pytest.mark.parametrize(
    ("raw", "sessions"),
    [
        ([], ()),
        (["D8:6; D9:17"], ()),
        (["D9:1 D4:4 D4:6"], ()),
        (["D1:18", "D", "D1:20"], ("session_1",)),
        (["D:11:26", "D2:7"], ("session_", "session_2")),
        (["D4:36"], ("session_4",)),
        (["D30:05"], ("session_30",)),
    ],
)
def test_memgas_reading(raw, sessions):
    evidence = locomo_evidence.memgas(raw)
    assert evidence.sessions == sessions
    assert evidence.counts


# ------------------------------------------------------------------ the loader


def test_sessions_are_lists_in_numeric_order(load):
    content = record(sessions=11)
    content["conversation"]["session_12_date_time"] = "1:00 pm on 12 May, 2023"
    content["conversation"]["session_13"] = "no list"
    (sample,) = load(content)
    assert [s.id for s in sample.conversation.sessions] == [f"session_{n}" for n in range(1, 12)]


def test_annotations_never_leave_the_loader(load):
    shown = repr(load(record(sessions=2, qa=[question()])))
    assert "WORDS" not in shown
    assert "Summary 1." not in shown
    noted = load(record(sessions=2, qa=[question()]), metadata="dataset")
    assert [s.notes.summary for s in noted[0].conversation.sessions] == ["Summary 1.", "Summary 2."]
    assert "WORDS" not in repr(noted)


def test_search_words_of_images_are_never_read(load):
    content = record()
    content["conversation"]["session_1"][0] |= {
        "blip_caption": "a car",
        "query": "SECRET-MODEL",
        "re-download": True,
    }
    assert "SECRET" not in repr(load(content))


@pytest.mark.parametrize(
    ("captions", "seen"), [("all", ["a", "b"]), ("with_url", ["b"]), ("none", [])]
)
def test_caption_policy(load, captions, seen):
    content = record()
    first, second = content["conversation"]["session_1"]
    first["blip_caption"] = "a"
    second |= {"blip_caption": "b", "img_url": ["https://images.example/b.jpg"]}
    (sample,) = load(content, captions=captions)
    turns = sample.conversation.sessions[0].turns
    assert [t.caption for t in turns if t.caption] == seen


def test_repeated_questions_keep_their_own_place(load):
    (sample,) = load(record(qa=[question(), question(), question(text="Other?")]))
    assert [q.index for q in sample.questions] == [0, 1, 2]
    assert len({q.id for q in sample.questions}) == 3


def test_index_is_the_position_in_the_file(load):
    trap = question(5, adversarial_answer="no")
    del trap["answer"]
    (sample,) = load(record(qa=[trap, question(1), trap, question(2)]), Rules())
    assert [q.index for q in sample.questions] == [1, 3]


def test_category_names():
    assert LoCoMo.CATEGORY_NAMES == {
        "1": "multi-hop",
        "2": "temporal",
        "3": "open-domain",
        "4": "single-hop",
        "5": "adversarial",
    }


def test_category5_modes(load):
    item = question(5, adversarial_answer="the trap")
    del item["answer"]
    content = record(qa=[item, question(4)])
    assert [q.category for q in load(content, Rules())[0].questions] == ["4"]
    trapped = load(content, OPEN)[0].questions[0]
    assert (trapped.reference, trapped.trap, trapped.adversarial) == ("the trap", "the trap", True)
    assert trapped.text == "Really?"
    choice = load(content, Rules(category5="official"))[0].questions[0]
    assert choice.reference == NOT_MENTIONED
    assert {choice.extra["choice_a"], choice.extra["choice_b"]} == {NOT_MENTIONED, "the trap"}
    assert f"(a) {choice.extra['choice_a']} (b) {choice.extra['choice_b']}" in choice.text
    assert choice.extra["plain_question"] == "Really?"


def test_the_official_choice_is_in_seeded_random_order(load):
    items = [question(5, adversarial_answer=f"trap {i}") for i in range(60)]
    content = record(qa=items)

    def order(seed):
        rules = Rules(category5="official", seed=seed)
        return [q.extra["choice_a"] == NOT_MENTIONED for q in load(content, rules)[0].questions]

    assert order(0) == order(0)
    assert order(0) != order(1)
    assert 15 < sum(order(0)) < 45


def test_answers_are_text(load):
    items = [question(answer=2022), question(answer=" two \n", text="Really? ")]
    (sample,) = load(record(qa=items))
    assert [q.text for q in sample.questions] == ["Really?", "Really?"]
    assert [q.reference for q in sample.questions] == ["2022", "two"]


def test_categories_filter(load):
    content = record(qa=[question(c) for c in (1, 2, 3, 4)])
    assert [q.category for q in load(content, Rules(categories=[1, 3]))[0].questions] == ["1", "3"]
    with pytest.raises(UserError, match="no category '9'"):
        load(content, Rules(categories=["1", "9"]))


def test_metadata_keywords_break_ties_by_the_alphabet(load):
    content = record(sessions=1)
    words = [f"word{c}" for c in "abcdefghijklmnopqrstuvwxy"]
    content["conversation"]["session_1"] = [turn("D1:1", text=" ".join(words))]
    (sample,) = load(content, metadata="dataset")
    keywords = sample.conversation.sessions[0].notes.keywords.split("; ")
    assert keywords == sorted([*words, "ana"])[:20]


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56)),
        ("12:06 am on 11 November, 2022", datetime(2022, 11, 11, 0, 6)),
        ("12:30 pm on 1 January, 2022", datetime(2022, 1, 1, 12, 30)),
    ],
)
def test_dates(text, date):
    assert locomo_date(text, "here") == date


def test_dates_do_not_follow_the_locale(monkeypatch):
    monkeypatch.setattr(locale, "nl_langinfo", lambda *_: "", raising=False)
    assert locomo_date("1:56 pm on 8 May, 2023", "here").month == 5
    for wrong in ("1:56 pm on 8 Mai, 2023", "13:56 pm on 8 May, 2023", "1:56 pm on 31 June, 2023"):
        with pytest.raises(UserError, match="here: "):
            locomo_date(wrong, "here")


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda r: r.pop("sample_id"), "sample 1: the field 'sample_id' is missing"),
        (lambda r: r["qa"][0].pop("evidence"), "question 0: the field 'evidence' is missing"),
        (lambda r: r["qa"][0].update(category=None), "question 0: the field 'category'"),
        (
            lambda r: r["conversation"].pop("session_1_date_time"),
            "session_1: the field 'session_1_date_time' is missing",
        ),
        (
            lambda r: r["conversation"]["session_1"][1].pop("text"),
            "session_1, turn 2: the field 'text' is missing",
        ),
    ],
)
def test_a_fault_names_file_and_place(load, break_it, message):
    content = record(qa=[question()])
    break_it(content)
    with pytest.raises(UserError) as error:
        load(content)
    assert message in str(error.value)
    assert str(error.value).startswith("file.json, sample 1")


def test_the_audit_covers_the_official_file_only(load):
    with pytest.raises(UserError, match="official LoCoMo file only"):
        load(record(), labels="audited")


# ------------------------------------------------------------------ the sample


def test_the_sample(no_data):
    benchmark = LoCoMo(sample="always")
    samples = list(benchmark.load(OPEN))
    assert len(samples) == 2
    assert [len(x.conversation.sessions) for x in samples] == [8, 8]
    assert all(len(s.turns) == 12 for x in samples for s in x.conversation.sessions)
    questions = [q for x in samples for q in x.questions]
    assert Counter(q.category for q in questions) == dict.fromkeys("12345", 4)
    assert sum(q.has_evidence for q in questions) == 19
    ids = {t.id for x in samples for s in x.conversation.sessions for t in s.turns}
    assert all(set(q.evidence_turns) <= ids for q in questions)
    assert benchmark.info().label == "synthetic sample"
    assert known_release(benchmark.info().files[0].sha256, benchmark.source) is None
    list(LoCoMo(sample="always", metadata="dataset").load(OPEN))
