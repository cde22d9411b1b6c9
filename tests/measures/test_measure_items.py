"""Reading items: records, plain lines, JSON lists, judgements, and clear refusals."""

import json

import pytest

from eval.measures.item import Item
from eval.measures.reading import read_items
from eval.scoring import score
from memsys.errors import UserError


def write(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def record(index, answer="a", **more):
    return {
        "run": "f", "conversation": "c1", "id": f"c1-{index}", "index": index, "category": "1",
        "question": "q", "reference": "a", "evidence_sessions": [], "answer": answer,
        "ranked_sessions": ["s1"], "error": None, **more,
    }  # fmt: skip


def test_plain_lines(tmp_path):
    path = write(
        tmp_path / "x.jsonl",
        {"id": 7, "question": "q", "answer": None, "reference": 2022},
        {"id": "b", "answer": "two\nlines\u2028here", "reference": 2.5, "category": 5,
         "ranked_sessions": ["s1", 2], "evidence_sessions": []},
        {"id": "c", "reference": "x"},
    )  # fmt: skip
    first, second, third = read_items(path)
    assert (first.id, first.answer, first.reference, first.asked) == ("7", None, "2022", True)
    assert (first.has_evidence, first.conversation) == (False, "7")
    assert second.answer == "two\nlines\u2028here"
    assert second.reference == "2.5"
    assert second.ranked_sessions == ("s1", "2")
    assert second.has_evidence
    assert not third.asked


def test_raw_line_separators_inside_strings(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": 1, "answer": "a\u2028b\u0085c", "reference": "a"}\n', encoding="utf-8")
    assert read_items(path)[0].answer == "a\u2028b\u0085c"


def test_a_json_list_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('\ufeff\n[{"id": 1, "answer": "é"},\n {"id": 2}]', encoding="utf-8")
    assert [i.id for i in read_items(path)] == ["1", "2"]


def test_a_run_folder_with_resumed_records_and_judgements(tmp_path):
    failed = record(1, None, error="ChatFailure: timeout")
    records = write(tmp_path / "records.jsonl", record(0), failed, record(1, "later"), record(2))
    with records.open("a") as file:
        file.write('{"run": "f", "conv')  # torn by a kill
    verdict = {"scores": {"correct": 1.0}}
    judgement = {"conversation": "c1", "judge": "memgas", "verdicts": verdict}
    write(tmp_path / "judgements-0a.1-of-2.jsonl", {**judgement, "index": 0})
    write(tmp_path / "judgements-0a.2-of-2.jsonl", {**judgement, "index": 1, "verdicts": {}})
    items = read_items(tmp_path)
    assert [i.answer for i in items] == ["a", "later", "a"]
    assert not items[1].failed
    assert items == read_items(records)
    assert [i.judgements for i in items] == [{"memgas": verdict}, {"memgas": {}}, {}]
    counted = score(items, ["judge_memgas"]).plain()
    assert counted["counts"]["judge_memgas"] == {"n": 1, "n_failed": 0, "n_excluded": 2}
    other = write(tmp_path / "judgements-1b.jsonl", {**judgement, "index": 0})
    with pytest.raises(UserError, match="--judgements"):
        read_items(tmp_path)
    assert read_items(tmp_path, other)[0].judgements == {"memgas": verdict}


def test_shards_of_a_run_are_read_together(tmp_path):
    write(tmp_path / "records.1-of-2.jsonl", record(0))
    write(tmp_path / "records.2-of-2.jsonl", record(1))
    assert [i.id for i in read_items(tmp_path)] == ["c1-0", "c1-1"]


def test_a_retrieval_run_has_no_answers_and_a_failure_is_none():
    assert not Item.of(record(0, None)).asked
    failed = Item.of(record(0, None, error="ChatFailure"))
    assert failed.failed
    empty = Item.of(record(0, ""))
    found = score([Item.of(record(0, None)), failed, empty], ["f1_squad"]).plain()
    assert [row["f1_squad"] for row in found["items"]] == [None, None, 0.0]
    assert found["counts"]["f1_squad"] == {"n": 1, "n_failed": 1, "n_excluded": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"id": 1}\n{"id": 2,}\n', r"x\.jsonl, line 2: malformed JSON"),
        ('{"id": 1}\n\n{"id": 2', r"x\.jsonl, line 3: malformed JSON"),
        ('{"answer": "a"}', r"line 1: there is no 'id'"),
        ('{"id": 1, "answer": ["a"]}', r"line 1: 'answer' must be a text or a number"),
        ('{"id": 1, "ranked_sessions": "s1"}', r"line 1: 'ranked_sessions' must be a list of ids"),
        ('{"id": 1, "evidence_sessions": [null]}', r"line 1: 'evidence_sessions' must be"),
        ('{"id": 1, "judgements": [1]}', r"line 1: 'judgements' must be an object"),
        ("3\n", r"line 1: expected a JSON object"),
        ("[1, 2]", r"entry 1: expected a JSON object"),
        ('[{"id": 1},', r"x\.jsonl: malformed JSON"),
        ("", r"holds no items"),
        ("[]", r"holds no items"),
        (b"\xff\xfe{}", r"not UTF-8"),
        ("[" * 100_000, r"malformed JSON"),
    ],
)
def test_refusals_name_file_and_line(tmp_path, content, words):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=words):
        read_items(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_items(tmp_path / "no.jsonl")
    with pytest.raises(UserError, match=r"without records\.jsonl"):
        read_items(tmp_path)
