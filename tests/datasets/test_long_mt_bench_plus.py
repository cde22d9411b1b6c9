from __future__ import annotations

import json

import pytest

from memsys.datasets import mt_bench_parts
from memsys.datasets.base import Rules
from memsys.datasets.long_mt_bench_plus import LongMTBenchPlus, parse_exchange, without_answer_tag
from memsys.errors import UserError

RULES = Rules()


def record(name=0, sessions=(("[human]: a\n[bot]: b",),), questions=("Q?",), answers=("A",)):
    return {
        "conversation_id": name,
        "sessions": [list(s) for s in sessions],
        "turns": [],
        "questions": list(questions),
        "answers": list(answers),
    }


@pytest.fixture
def load(save):
    def run(records, name="file.json", **settings):
        path = save(records, name)
        benchmark = LongMTBenchPlus(release="custom", path=path, **settings)
        return list(benchmark.load(RULES))

    return run


@pytest.mark.parametrize(
    ("text", "human", "bot"),
    [
        ("<Turn 3>: [human]: hi there\n[bot]: hello\nyou", "hi there", "hello\nyou"),
        ("[human]: hi there\n[bot]: hello\nyou", "hi there", "hello\nyou"),
        # the first [human]: and the first [bot]: after it
        ("[human]: hi\n[bot]: print('[bot]: x [human]: y')", "hi", "print('[bot]: x [human]: y')"),
        ("[human]: alone", "alone", None),
        ("[human]: alone\n[bot]:", "alone", None),
        ("<Turn 10>: [human]: <|endoftext|> {json: 1}\n[bot]: ok", "<|endoftext|> {json: 1}", "ok"),
    ],
)
def test_exchange(text, human, bot):
    assert parse_exchange(text) == (human, bot)


def test_no_dates_and_no_evidence(load):
    (sample,) = load([record()])
    session, question = sample.conversation.sessions[0], sample.questions[0]
    assert session.date is None
    assert session.date_text == ""
    assert question.date is None
    assert not question.has_evidence
    assert question.evidence_sessions == ()
    assert [(t.id, t.role, t.text) for t in session.turns] == [
        ("session_1:1", "user", "a"),
        ("session_1:2", "assistant", "b"),
    ]


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("Answer: Newer wrens", "Newer wrens"),
        ("  Answer:\nyes", "yes"),
        # a strip of the characters A, n, s, w, e, r would eat these
        ("sewer answers", "sewer answers"),
        ("The Answer: 42", "The Answer: 42"),
    ],
)
def test_answer_tag(load, raw, clean):
    assert without_answer_tag(raw) == clean
    (sample,) = load([record(answers=[raw])])
    question = sample.questions[0]
    assert question.reference == clean
    assert question.extra.get("raw_answer", clean) == (raw if raw != clean else clean)


def test_repeated_texts_stay_apart(load):
    samples = load([record(0, questions=["Q?", "Q?"], answers=["a", "b"]), record(1)])
    keys = [q.key for x in samples for q in x.questions]
    assert keys == [("0", 0), ("0", 1), ("1", 0)]
    assert [q.reference for q in samples[0].questions] == ["a", "b"]


def test_json_lines_are_read_too(load):
    lines = "\n".join(json.dumps(record(i)) for i in range(3))
    assert len(load(lines, "file.jsonl")) == 3


@pytest.mark.parametrize("name", ["Long-MT-Bench-Plus.json", "LongMTBench+.json"])
def test_both_file_names_in_use_are_found(save, monkeypatch, tmp_path, name):
    save([record()] * 11, f"long_mt_bench_plus/{name}")
    monkeypatch.setenv("MEMSYS_DATA", str(tmp_path))
    info = LongMTBenchPlus(sample="never").info()
    assert info.release == "official"
    assert len(info.files[0].sha256) == 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": []}, "1 questions and 0 answers"),
        ({"sessions": [["hello"]]}, r"session 1, exchange 1: an exchange should begin"),
        ({"sessions": [[3]]}, "session 1, exchange 1: expected a string"),
        ({"sessions": ["x"]}, "session 1: expected a list of exchanges"),
        ({"questions": [1]}, "the field 'questions' holds a int"),
    ],
)
def test_faults(load, change, message):
    with pytest.raises(UserError, match=message) as error:
        load([record(), record(1) | change])
    assert str(error.value).startswith("file.json, record 2 (1)")


def dialogue(turns, reply=""):
    messages = []
    for n in range(turns):
        info = "retrospection-Q" if n == turns - 1 else f"stem-1-{n}"
        messages.append({"from": "human", "value": f"turn {n}", "turn-info": info})
        messages.append({"from": "chatbot", "value": reply})
    return {"id": "x", "conversations": messages, "type": "retrospection"}


def test_rebuild_takes_five_dialogues_and_their_probes():
    rebuilt = mt_bench_parts.rebuild([dialogue(3, "ok") for _ in range(12)], "file")
    assert [len(r["sessions"]) for r in rebuilt.records] == [5, 5, 2]
    assert rebuilt.records[0]["questions"] == ["turn 2"] * 5
    assert rebuilt.records[0]["sessions"][0] == [
        "[human]: turn 0\n[bot]: ok",
        "[human]: turn 1\n[bot]: ok",
    ]
    assert (rebuilt.exchanges, rebuilt.missing_replies) == (24, 0)


def test_rebuild_refuses_a_dialogue_without_a_probe():
    broken = dialogue(3)
    broken["conversations"][-2]["turn-info"] = "stem-1-2"
    with pytest.raises(UserError, match="file, dialogue 2: its last human turn"):
        mt_bench_parts.rebuild([dialogue(2), broken], "file")


@pytest.mark.data
def test_rebuild_of_the_real_parts_says_what_is_missing(real, caplog):
    path = real("long_mt_bench_plus/mtbenchplus.json")
    benchmark = LongMTBenchPlus(release="rebuilt", path=path)
    samples = list(benchmark.load(RULES))
    exchanges = [sum(len(s.turns) for s in x.conversation.sessions) for x in samples]
    assert exchanges == [69, 66, 67, 63, 73, 63, 62, 69, 65, 68, 55]
    assert sum(len(x.conversation.sessions) for x in samples) == 54
    assert sum(len(x.questions) for x in samples) == 54
    assert "720 have no assistant reply" in caplog.text
    assert benchmark.info().label == "rebuilt file"


@pytest.mark.data
def test_rebuilt_sessions_match_secoms_example(real):
    sessions = json.loads(real("long_mt_bench_plus/secom_example.json").read_text())
    parts = json.loads(real("long_mt_bench_plus/mtbenchplus.json").read_text())
    first = mt_bench_parts.rebuild(parts[:5], "parts").records[0]["sessions"]
    theirs = [[parse_exchange(text)[0] for text in session] for session in sessions]
    ours = [[parse_exchange(text)[0] for text in session] for session in first]
    assert [len(s) for s in theirs] == [len(s) for s in ours] == [14, 14, 13, 13, 15]
    pairs = [(a, b) for x, y in zip(theirs, ours, strict=True) for a, b in zip(x, y, strict=True)]
    assert sum(a == b for a, b in pairs) == 68


def test_the_sample():
    samples = list(LongMTBenchPlus(sample="always").load(RULES))
    assert [len(x.conversation.sessions) for x in samples] == [5, 4]
    assert [len(x.questions) for x in samples] == [3, 2]
    assert all(not q.reference.startswith("Answer:") for x in samples for q in x.questions)
