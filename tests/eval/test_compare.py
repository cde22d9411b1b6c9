"""Comparing two runs: differences by hand, flips, refusals by name, settings, costs, files."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eval.compare.paired import compare, costs_apart, measures_of_both, obstacles, settings_apart
from eval.compare.show import show, write_csv
from eval.measures.registry import parse, parse_all
from eval.prices import PriceList
from eval.runfolder import RunFolder, find_run, flat
from eval.statistics import minimum_detectable_difference, paired_comparison
from memsys.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
ANSWERS_A = ["red", "a green hive", "two", None, "the <b>bees</b>"]
ANSWERS_B = ["blue", "green", "two", "x", "wasps"]
GOLD = ["red", "green hive", "two", "x", "bees"]
F1 = parse("f1_squad")


def call(phase: str, tokens: int) -> dict[str, Any]:
    return {
        "phase": phase, "role": "main", "model": "m", "prompt_tokens": tokens,
        "completion_tokens": 1, "cached": False, "schema": False, "valid": None,
    }  # fmt: skip


def write_run(folder: Path, answers: list[str | None], tokens: int = 10) -> RunFolder:
    """Write a run of five questions in two conversations; a `None` answer is a failure."""
    folder.mkdir(parents=True)
    records = [
        {
            "run": folder.name, "conversation": "c1" if i < 3 else "c2", "index": i, "id": f"q{i}",
            "category": str(i % 2), "question": f"Question {i}?", "reference": GOLD[i],
            "evidence_turns": [], "evidence_sessions": ["s1"], "has_evidence": True,
            "answer": answer, "ranked_sessions": ["s1", "s2"], "context_tokens": 5, "rounds": 1,
            "trace": {}, "counts": {}, "calls": [call("question", tokens)], "seconds": 0.5,
            "error": "gave up" if answer is None else None,
        }
        for i, answer in enumerate(answers)
    ]  # fmt: skip
    build = {
        "conversation": "c1", "index": 0, "memory": "0", "units": 2, "seconds": 1.0, "calls": [],
        "counts": {},
    }  # fmt: skip
    info = {
        "name": "d", "title": "D", "release": "r", "licence": "", "is_sample": True, "cut": None,
        "version": 1, "metadata": "llm", "files": [{"name": "f", "size": 1, "sha256": "ab" * 32}],
    }  # fmt: skip
    manifest = {
        "run": folder.name, "dataset": "d", "method": folder.parent.name, "dataset_info": info,
        "identity": {
            "stage": "answer", "system": {"target": "x.Y", "build": {"k": 1}}, "ask": {"top_k": 3},
            "protocol": ["p", 1, {}], "answering": {"max_tokens": 9},
            "dataset": {"settings": {"captions": "all"}},
            "prompts": {"answering/short": "1234", "x/own": "5678"}, "models": {},
        },
        "judging": None, "judge_fingerprint": None, "finished": "now",
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    write_lines(folder / "records.jsonl", records)
    write_lines(folder / "builds.jsonl", [build])
    scores = {"mean": {"f1_squad": 0.5, "bleu_corpus": 0.1}, "versions": {"f1_squad": 1}}
    (folder / "scores.json").write_text(json.dumps(scores))
    return RunFolder(folder)


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def runs(tmp_path: Path) -> tuple[RunFolder, RunFolder]:
    base = tmp_path / "results" / "runs" / "d"
    return (
        write_run(base / "one" / "aaaa000011112222", ANSWERS_A, tokens=30),
        write_run(base / "two" / "bbbb000011112222", ANSWERS_B),
    )


def changed(run: RunFolder, **changes: Any) -> RunFolder:
    """Change dotted keys (`__` for a dot) of a run's manifest on disk; returns it read anew."""
    manifest = json.loads((run.path / "manifest.json").read_text())
    for key, value in changes.items():
        *path, last = key.split("__")
        place = manifest
        for step in path:
            place = place[step]
        place[last] = value
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    return RunFolder(run.path)


def test_differences_by_hand(runs) -> None:
    found = compare(*runs, F1)
    # A: 1, 1, 1, failed, 0; B: 0, 2/3, 1, 1, 0 (articles are dropped; "<b>bees</b>" is no word)
    assert [q.difference for q in found.questions] == pytest.approx([1, 1 / 3, 0, None, 0])
    assert (found.n, found.failed_a, found.failed_b) == (4, 1, 0)
    assert (found.mean_a, found.mean_b) == pytest.approx((3 / 4, (2 / 3 + 1) / 4))
    expected = paired_comparison([1, 1, 1, 0], [0, 2 / 3, 1, 0], ["c1", "c1", "c1", "c2"])
    assert found.found == expected
    assert (expected.wins, expected.losses, expected.ties) == (2, 0, 2)
    detectable = minimum_detectable_difference([1, 1 / 3, 0, 0], ["c1", "c1", "c1", "c2"])
    assert found.detectable == pytest.approx(detectable)
    assert [q.id for q in found.flips("A")] == ["q0"]
    assert found.flips("B") == []
    assert {name: one.difference.n for name, one in found.by_category.items()} == {"0": 3, "1": 1}


def test_turned_round_the_signs_turn(runs) -> None:
    one, other = compare(*runs, F1), compare(*runs[::-1], F1)
    assert one.found and other.found
    assert one.found.difference.mean == -other.found.difference.mean
    assert (one.found.wins, one.found.losses) == (other.found.losses, other.found.wins)
    assert one.found.p == other.found.p
    assert [q.id for q in other.flips("B")] == ["q0"]


def test_a_corpus_measure_is_compared_as_a_whole(runs) -> None:
    found = compare(*runs, parse("bleu_corpus"))
    assert found.found is not None
    assert found.mean_a is not None and found.mean_b is not None
    assert found.found.difference.mean == pytest.approx(found.mean_a - found.mean_b)
    assert "jackknife" in found.found.difference.method
    assert found.flips("A") == []
    assert found.n == 4


def test_like_runs_meet_no_obstacle(runs) -> None:
    a, b = runs
    assert obstacles(a, b, parse_all("f1_squad,recall_all@3,bleu_corpus")) == []
    changed(a, identity__ask__top_k=5, identity__system__target="z.Z")
    assert obstacles(RunFolder(a.path), b, [F1]) == [], "systems may differ: that is the point"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dataset_info__release": "other"}, "The dataset's release differs: other | r."),
        ({"dataset_info__files": [{"name": "g", "sha256": "cd" * 32}]}, "g (cdcdcdcd) | f (abab"),
        ({"dataset_info__cut": "first 2 conversations"}, "cut differs: first 2 conversations | "),
        ({"dataset_info__version": 2}, "loader version differs: 2 | 1"),
        ({"identity__dataset__settings__captions": "none"}, "setting 'captions' differs: none | a"),
        ({"identity__stage": "retrieve"}, "The stage differs: retrieve | answer."),
        ({"identity__prompts": {"answering/short": "9"}}, "answering/short@9 | answering/short@1"),
        ({"identity__answering__max_tokens": 10}, "most tokens of an answer differ: 10 | 9"),
    ],
)
def test_each_obstacle_is_named(runs, change, words) -> None:
    a, b = runs
    found = obstacles(changed(a, **change), b, [F1])
    assert len(found) == 1, found
    assert words in found[0]


def test_questions_and_gold_that_differ_are_counted(runs) -> None:
    a, b = runs
    records = a.records
    write_lines(a.path / "records.jsonl", records[:4])
    assert obstacles(RunFolder(a.path), b, [F1]) == [
        "The questions asked differ: 4 | 5, of which 4 are the same."
    ]
    other = [{**r, "reference": "z", "evidence_sessions": []} for r in records[:2]] + records[2:]
    write_lines(a.path / "records.jsonl", other)
    assert obstacles(RunFolder(a.path), b, [F1]) == [
        "The reference answers of 2 questions differ (protocol p | p).",
        "The gold sessions of 2 questions differ (protocol p | p).",
    ]


def test_the_judge_matters_to_judged_measures_alone(runs) -> None:
    a, b = runs
    a = changed(a, judging={"model": {"model": "m1"}}, judge_fingerprint="0")
    assert obstacles(a, b, [F1]) == []
    found = obstacles(a, b, [parse("judge_memgas")])
    assert found == ["The judge differs in model.model: m1 | none."]


def test_scores_by_another_version_of_the_measure_are_an_obstacle(runs) -> None:
    a, b = runs
    (a.path / "scores.json").write_text(json.dumps({"mean": {}, "versions": {"f1_squad": 7}}))
    [found] = obstacles(RunFolder(a.path), b, [F1])
    assert "version 7 | 1" in found


def test_default_measures(runs) -> None:
    a, b = runs
    assert [m.name for m in measures_of_both(a, b)] == ["f1_squad", "bleu_corpus"]
    (a.path / "scores.json").unlink()
    assert "f1_squad" in [m.name for m in measures_of_both(RunFolder(a.path), b)]


def test_no_question_in_common(runs) -> None:
    a, b = runs
    write_lines(a.path / "records.jsonl", [{**r, "index": 99 + r["index"]} for r in a.records])
    with pytest.raises(UserError, match="no question in common"):
        compare(RunFolder(a.path), b, F1)


def test_settings_and_costs(runs) -> None:
    a, b = runs
    a = changed(a, identity__ask__top_k=5, identity__ask__extra=True)
    assert settings_apart(a, b) == [("ask.extra", True, "–"), ("ask.top_k", 5, 3)]
    costs = {name: (first, second) for name, first, second in costs_apart(a, b, PriceList({}))}
    assert costs["asking: tokens"] == (31, 11)
    assert costs["building: calls"] == (0, 0)
    assert costs["judging: calls"] == ("not judged", "not judged")
    assert costs["US dollars, all phases"][0] == "no price for m"


def test_what_is_printed_is_data_not_markup(runs) -> None:
    a, b = runs
    records = [{**r, "question": "Is [bold]this[/bold] kept?"} for r in a.records]
    write_lines(a.path / "records.jsonl", records)
    a = RunFolder(a.path)
    console = Console(record=True, width=100)
    show(a, b, [compare(a, b, F1)], PriceList({}), console, flips=5)
    text = console.export_text()
    assert "1 questions that A got and B did not" in text
    assert "q0  [0]  1.00 | 0.00  Is [bold]this[/bold] kept?" in text
    assert "failed and left out: 1 of A, 0 of B" in text
    assert "2/0/2" in text


def test_a_difference_without_spread_has_no_interval_and_says_so(runs) -> None:
    console = Console(record=True, width=100)
    a = runs[0]
    show(a, a, [compare(a, a, F1)], PriceList({}), console, flips=5)
    text = console.export_text()
    assert "+0.00" in text and "± 0.00" not in text
    assert "no ±: the difference is the same everywhere" in text


def test_the_file_holds_ids_and_no_text(runs, tmp_path: Path) -> None:
    write_csv([compare(*runs, F1)], tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_text()
    assert "Question" not in text
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["id"] for row in rows] == [f"q{i}" for i in range(5)]
    assert (rows[0]["difference"], rows[0]["flip"], rows[3]["a"]) == ("1", "A", "")


def test_runs_are_found_by_the_end_of_their_names(runs, tmp_path: Path) -> None:
    a, b = runs
    results = tmp_path / "results"
    for name in (str(a.path), "one", "d/one", "aaaa", "one/aaaa0000", "d/one/aaaa000011112222"):
        assert find_run(name, results).path == a.path
    with pytest.raises(UserError, match="Did you mean 'one'"):
        find_run("onne", results)
    with pytest.raises(UserError, match="no manifest.json"):
        (tmp_path / "records.jsonl").touch()
        find_run(str(tmp_path), results)
    write_run(b.path.parent / "cccc000011112222", ANSWERS_B)
    with pytest.raises(UserError, match=r"any of 2 runs(.|\n)*d/two/bbbb"):
        find_run("two", results)


def test_shards_are_read_together(runs) -> None:
    a, _ = runs
    records = a.records
    write_lines(a.path / "records.1-of-2.jsonl", [{**records[0], "answer": "late"}, records[4]])
    write_lines(a.path / "records.jsonl", records[:4])
    found = RunFolder(a.path).records
    assert len(found) == 5
    assert found[0]["answer"] == "red"


def test_flat() -> None:
    assert flat({"a": {"b": 1, "c": {}}, "d": [1]}) == {"a.b": 1, "d": [1]}


def test_the_command(runs, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "scripts/compare.py", *arguments, "--results", tmp_path / "results"],
            capture_output=True, text=True, cwd=ROOT, timeout=60,
        )  # fmt: skip

    done = run("one", "two", "--csv", str(tmp_path / "flips.csv"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "flips.csv").is_file()
    changed(runs[0], dataset_info__release="other")
    refused = run("one", "two")
    assert refused.returncode == 2
    assert "release differs: other | r" in refused.stderr
    assert "--anyway" in refused.stderr
    assert refused.stdout == ""
    forced = run("one", "two", "--anyway", "--measure", "f1_squad")
    assert forced.returncode == 0
    assert "not alike: The dataset's release differs" in forced.stdout
