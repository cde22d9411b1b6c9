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
