"""`scripts/score.py`: JSON alone on standard output, one sentence on bad input, quick help."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "score.py"


def run(*arguments, **more):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", **more,
    )  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "answers.jsonl"
    lines = [
        {"id": "a", "question": "q", "answer": "The red car, and a blue bike.",
         "reference": "red car", "category": 4, "ranked_sessions": list("ABCDEF"),
         "evidence_sessions": ["B", "C"]},
        {"id": "b_abs", "question": "q", "answer": None, "reference": 2022, "category": 2,
         "ranked_sessions": list("ABCDEF"), "evidence_sessions": []},
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_scores_go_to_standard_output_alone(file):
    done = run(file, "--dataset", "locomo", "--measures", "f1_locomo,bleu_corpus,ndcg@3")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["items"] == [
        {"id": "a", "f1_locomo": pytest.approx(2 / 3), "ndcg@3": pytest.approx(0.815465, abs=1e-6)},
        {"id": "b_abs", "f1_locomo": 0.0, "ndcg@3": 0.0},
    ]
    assert found["mean"]["f1_locomo"] == pytest.approx(1 / 3)
    assert found["counts"]["f1_locomo"]["n"] == 2
    assert found["dataset"] == "locomo"


def test_out_and_longmemevals_abstention(file, tmp_path):
    out = tmp_path / "scores.json"
    done = run(
        file, "--dataset", "longmemeval_s", "--measures", "recall_all@3,f1_set", "--out", out
    )
    assert (done.returncode, done.stdout) == (0, "")
    found = json.loads(out.read_text())
    assert found["counts"]["recall_all@3"]["n"] == 1
    assert found["counts"]["f1_set"]["n"] == 2
    assert found["measures"]["recall_all@3"] == "Recall@3 (all gold sessions; k/1)"


def test_default_measures(file):
    found = json.loads(run(file).stdout)
    assert {"f1_squad", "bleu_corpus", "recall_all@3"} <= found["mean"].keys()


def test_bad_input_is_one_sentence_and_status_2(file, tmp_path):
    for arguments, words in [
        ([file, "--measures", "f1_squd"], "Did you mean 'f1_squad'?"),
        ([tmp_path / "none.jsonl"], "cannot be read"),
        ([file, "--out", tmp_path / "no" / "x.json"], "cannot be written"),
        ([file, "--measures", "f1_set", "--failed-as", "nothing"], "invalid choice"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr


def write(path, *lines):
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_an_unknown_benchmark_is_named_with_the_nearest(file):
    done = run(file, "--dataset", "locomoo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--dataset locomoo: there is no such benchmark. Did you mean 'locomo'?" in done.stderr
    for known in ("LoCoMo", "longmemeval-s", "longmemeval", "gvd"):
        assert run(file, "--dataset", known, "--measures", "f1_set").returncode == 0


def test_ids_that_stand_twice_are_named(tmp_path):
    line = {"id": "a", "answer": "x", "reference": "y"}
    twice = write(tmp_path / "twice.jsonl", line, {**line, "id": 7}, line, {**line, "id": "7"})
    done = run(twice)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'a' (line 1, line 3); '7' (line 2, line 4)" in done.stderr
    apart = [{**line, "conversation": c} for c in ("one", "two")]
    assert run(write(tmp_path / "apart.jsonl", *apart), "--measures", "f1_set").returncode == 0
    many = [{**line, "id": str(i % 9)} for i in range(18)]
    assert "and 4 more" in run(write(tmp_path / "many.jsonl", *many)).stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"answer": True}, "line 1: 'answer' must be a text or a number, not true."),
        ({"reference": False}, "'reference' must be a text or a number, not false"),
        ({"id": True}, "'id' must be a text or a number, not true"),
        ({"ranked_sessions": ["A", True]}, "'ranked_sessions' must be a list of ids"),
        ({"has_evidence": 1}, "'has_evidence' must be true or false"),
        ({"has_evidence": "false"}, "'has_evidence' must be true or false"),
        (
            {"judgements": {"memgas": {"scores": {"correct": True}}}},
            "score 'correct' of judge 'memgas' must be a number, not true",
        ),
        ({"judgements": {"memgas": {"scores": 1}}}, "must hold an object of 'scores'"),
        ({"judgements": {"memgas": True}}, "must hold an object of 'scores'"),
    ],
)
def test_true_does_not_pass_for_1(tmp_path, more, words):
    line = {"id": "a", "answer": "1", "reference": "1"} | more
    done = run(write(tmp_path / "x.jsonl", line))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_without_gold_words_stand_instead_of_numbers(tmp_path):
    file = write(tmp_path / "gvd.jsonl", {"id": "a", "answer": "x"}, {"id": "b", "answer": "y"})
    done = run(file, "--dataset", "gvd")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no reference answers, no gold sessions and no verdicts" in done.stderr
    assert "judge" in done.stderr
    asked = run(file, "--measures", "f1_set,recall_all@3,judge_memgas")
    assert asked.returncode == 0
    found = json.loads(asked.stdout)
    assert found["mean"] == {"f1_set": None, "recall_all@3": None, "judge_memgas": None}
    words = found["unavailable"]
    assert words["f1_set"].startswith("none of the 2 questions has an answer and a reference")
    assert words["recall_all@3"].endswith("has a ranking of sessions and gold sessions")
    assert words["judge_memgas"].endswith("has a verdict of this judge")
    assert f"f1_set: {words['f1_set']}" in asked.stderr


def test_help_is_quick_and_loads_nothing_heavy():
    best = min(_timed_help() for _ in range(3))
    assert best < 1.0
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(SCRIPT), "--help"], capture_output=True, text=True
    )
    for heavy in ("torch", "transformers", "nltk", "scipy", "numpy", "rouge_score"):
        assert f" {heavy}\n" not in done.stderr


def _timed_help():
    start = time.perf_counter()
    done = run("--help")
    assert done.returncode == 0
    assert "FILE" in done.stdout
    return time.perf_counter() - start
