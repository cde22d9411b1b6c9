"""Runs written by hand, with traces of every shape, over a small conversation of our own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from eval.report.reading import LoadedRun, find_runs, load_runs
from memsys.stores.memories import Build, MemoryStore
from memsys.stores.plain import dumps
from memsys.system import Memory, Unit

PLANTED = "<script>window.planted = 1</script><img src=x onerror='window.planted = 2'>"
CLOSING = "</script><script>window.planted = 3</script><!-- \u2028 \u2029 &amp; ]]>"


class Case:
    """Writes run folders, memories, tables and a LoCoMo-like file below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.stores = MemoryStore(self.results / "stores" / "memories")

    def conversation(self, planted: str = PLANTED) -> Path:
        """Write a file in LoCoMo's schema: two sessions, one of whose turns holds markup."""
        turns = [
            ("Ilse", f"D1:{i}", f"Remark number {i} about the windmill on the hill.")
            for i in range(1, 13)
        ]
        turns[4] = ("Bram", "D1:5", f"The key hangs behind the mill door. {planted}")
        content = {
            "sample_id": "mill",
            "conversation": {
                "speaker_a": "Ilse",
                "speaker_b": "Bram",
                "session_1_date_time": "9:05 am on 2 May, 2022",
                "session_1": [{"speaker": s, "dia_id": i, "text": t} for s, i, t in turns],
                "session_2_date_time": "4:30 pm on 9 May, 2022",
                "session_2": [
                    {"speaker": "Bram", "dia_id": "D2:1", "text": "We repainted the sails blue."},
                    {"speaker": "Ilse", "dia_id": "D2:2", "text": "Blue suits the old mill."},
                ],
            },
            "qa": [
                {
                    "question": "Where does the key hang?",
                    "answer": "behind the mill door",
                    "evidence": ["D1:5"],
                    "category": 4,
                }
            ],
        }
        path = self.folder / "locomo10.json"
        path.write_text(json.dumps([content]), encoding="utf-8")
        return path

    def manifest(self, method: str, data: Path | None, **changes: Any) -> dict[str, Any]:
        files = []
        if data is not None:
            digest = hashlib.sha256(data.read_bytes()).hexdigest()
            files = [{"name": data.name, "size": data.stat().st_size, "sha256": digest}]
        info = {
            "name": "locomo", "title": "LoCoMo-10", "release": "custom", "licence": "CC BY-NC 4.0",
            "is_sample": False, "cut": changes.get("cut"), "version": 1, "metadata": "llm",
            "files": files,
        }  # fmt: skip
        return {
            "run": changes.get("run", f"{method}-run"),
            "dataset": changes.get("dataset", "locomo"),
            "method": method,
            "project": {"version": "0", "commit": "abc"},
            "identity": {
                "stage": changes.get("stage", "answer"),
                "system": {"target": "x.Y", "version": 1, "build": changes.get("build", {})},
                "ask": changes.get("ask", {"top_k": 3}),
                "protocol": [changes.get("protocol", "memgas"), 1, {}],
                "dataset": {**info, "settings": {"release": "custom", "max_sessions": 1}},
                "prompts": {},
                "models": {"main": {"model": "little-model", "weights": "0123"}},
            },
            "dataset_info": info,
            "judge_fingerprint": changes.get("judge"),
            "configuration": {"dataset": {"path": None if data is None else str(data)}},
            "started": "2024-01-01T00:00:00+00:00",
            "finished": "2024-01-01T01:00:00+00:00",
        }

    def run(
        self,
        method: str,
        records: list[dict[str, Any]],
        *,
        values: list[dict[str, Any]] | None = None,
        builds: list[dict[str, Any]] | None = None,
        judgements: list[dict[str, Any]] | None = None,
        data: Path | None = None,
        **changes: Any,
    ) -> Path:
        """Write a run's folder with scores for `values`, one mapping a record."""
        manifest = self.manifest(method, data, **changes)
        folder = self.results / "runs" / "locomo" / method / manifest["run"]
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        self.lines(folder / "records.jsonl", records)
        self.lines(folder / "builds.jsonl", builds or [])
        if judgements:
            self.lines(folder / f"judgements-{changes['judge']}.jsonl", judgements)
        if values is not None:
            scores = scores_of(records, values)
            (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
        return folder

    @staticmethod
    def lines(path: Path, entries: list[dict[str, Any]]) -> None:
        path.write_bytes(b"".join(dumps(entry) + b"\n" for entry in entries))

    def memory(self, key: str, *units: Unit) -> dict[str, Any]:
        """Save a memory; returns the build's entry for `builds.jsonl`."""
        self.stores.put(key, Memory(tuple(units), ("session_1", "session_2")), Build(1.5, (), {}))
        return {
            "conversation": "mill", "index": 0, "memory": key, "units": len(units),
            "seconds": 1.5, "calls": [call(phase="build")], "counts": {},
        }  # fmt: skip


def scores_of(records: list[dict[str, Any]], values: list[dict[str, Any]]) -> dict[str, Any]:
    items = [{"id": r["id"], **v} for r, v in zip(records, values, strict=True)]
    names = list(dict.fromkeys(name for v in values for name in v))
    means: dict[str, Any] = {}
    for name in names:
        known = [v[name] for v in values if v.get(name) is not None]
        means[name] = sum(known) / len(known) if known else None
    counted = {name: {"n": len(items), "n_failed": 0, "n_excluded": 0} for name in names}
    interval = {name: {"low": 0.1, "high": 0.9, "method": "t(9)"} for name in names}
    by = {n: {"mean": means[n], "low": 0.1, "high": 0.9, "n": len(items)} for n in names}
    return {
        "items": items, "mean": means, "counts": counted, "intervals": interval,
        "by_category": {"4": by}, "unavailable": {"bertscore": "needs roberta-large"},
        "measures": {name: f"{name.upper()} (made up; n={len(items)})" for name in names},
    }  # fmt: skip


def call(**changes: Any) -> dict[str, Any]:
    return {
        "role": "main", "phase": "question", "model": "little-model", "prompt": "answering/x@12ab",
        "prompt_tokens": 100, "completion_tokens": 10, "estimated": False, "cached": False,
        "seconds": 0.5, "schema": False, "valid": None, **changes,
    }  # fmt: skip


def record(index: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "run": "r", "conversation": "mill", "id": f"mill_qa{index}", "index": index,
        "category": "4", "question": "Where does the key hang?", "reference": "behind the door",
        "evidence_turns": ["D1:5"], "evidence_sessions": ["session_1"], "has_evidence": True,
        "abstention": False, "adversarial": False, "extra": {}, "answer": "behind the door",
        "recalled": [["u1", 0.9], ["u2", 0.5]], "ranked_sessions": ["session_2", "session_1"],
        "context_tokens": 40, "rounds": 1, "trace": {}, "counts": {"context_tokens": 40},
        "calls": [call()], "seconds": 2.0, "error": None, **changes,
    }  # fmt: skip


PYRAMID = {
    "query_keywords": ["mill", "key"],
    "keywords_fallback": False,
    "vocabulary": 40,
    "vocabulary_shown": 40,
    "path": [
        {"level": 2, "keywords": ["mill", "key"], "size": 0, "new": 0},
        {"level": 1, "keywords": ["mill"], "size": 3, "new": 3},
        {"level": 1, "keywords": ["key"], "size": 1, "new": 1},
    ],
    "rounds": [
        {
            "round": 1, "level": 1, "keywords": ["mill"], "new": ["u1"], "new_count": 1,
            "shown": 1, "cut": 0, "memory_tokens": 12, "answer": "draft answer",
            "critical_memories": ["the key hangs there"], "sufficient": True, "fallback": False,
        }
    ],
    "stop": "sufficient", "visited": ["u1"], "visited_sessions": ["session_1"],
    "memory_tokens": 12, "memory_tokens_max": 12, "draft": "draft answer", "rewritten": True,
}  # fmt: skip
GRANULARITIES = {
    "propagation": "ppr",
    "entropies": {"session": 1.25, "turn": 0.5, "summary": 1.0, "keyword": 2.0},
    "weights": {"session": 0.2, "turn": 0.5, "summary": 0.2, "keyword": 0.1},
    "seeds": ["u1", "u2"],
    "edges": 12,
}
ROUTES = {
    "retrievals": [
        {"query": "where is the key", "shown": ["u1"], "mask": 1},
        {"query": "key behind the door", "shown": [], "mask": 1},
    ],
    "steps": [
        {"decision": "reflect", "action": "retrieve", "evidence": 1, "gaps": "which door",
         "retrieval_query": "door", "reasoning": "A door is mentioned."},
        {"decision": "answer", "action": "answer", "evidence": 1, "gaps": "",
         "retrieval_query": "", "reasoning": ""},
    ],
    "evidence": ["The key hangs there."], "gaps": "", "draft": "behind the door",
    "reranker": "no reranker",
}  # fmt: skip
FACTS = {
    "candidates": [["key", "hangs behind", "door"], ["sails", "are", "blue"]],
    "kept": [["key", "hangs behind", "door"]],
    "dense": False,
}
LAYERS = {"layers": [1, 0]}
OTHER = {"clarified": "which key?", "nested": {"deep": [{"a": 1, "b": None}]}, "flag": False}
TRACES = {
    "pyramid": PYRAMID, "granularity": GRANULARITIES, "routes": ROUTES, "facts": FACTS,
    "layers": LAYERS, "other": OTHER,
}  # fmt: skip


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def add_systems(case: Case, data: Path) -> None:
    """Write one run for each shape of trace: two questions; answers and judgements among them."""
    units = (
        Unit("u1", "The key hangs behind the mill door.", ("D1:5",), ("session_1",)),
        Unit("u2", f"Session one in short. {PLANTED}", (), ("session_1",)),
        Unit("u3", "The sails are blue.", ("D2:1",), ("session_2",)),
    )
    for number, (name, trace) in enumerate(TRACES.items()):
        build = case.memory(f"{number:02x}{'a' * 62}", *units)
        first = record(0, trace=trace, answer=f"behind the door {PLANTED}" if number == 0 else "no")
        second = record(
            1, trace=trace, question=f"What colour are the sails? {CLOSING}", category="2",
            evidence_turns=["D2:1", "D9:9"], evidence_sessions=["session_2"], answer="blue",
            recalled=[["u3", 1.0]], error="Timeout: no reply" if number == 2 else None,
        )  # fmt: skip
        verdict = {
            "conversation": "mill", "index": 0, "id": "mill_qa0", "judge": "strict",
            "verdicts": {"scores": {"correct": 1.0}, "model": "judge-model"}, "counts": {},
            "calls": [call(phase="judge", role="judge", schema=True, valid=False)], "error": None,
        }  # fmt: skip
        case.run(
            name, [first, second], builds=[build], judgements=[verdict], judge="j1", data=data,
            values=[{"f1": 1.0 if number == 0 else 0.25}, {"f1": None if number == 2 else 0.75}],
        )  # fmt: skip


@pytest.fixture
def systems(case: Case) -> Case:
    add_systems(case, case.conversation())
    return case


def loaded(case: Case) -> list[LoadedRun]:
    """Read all runs of a case, none of which may be left out."""
    runs, left_out = load_runs(find_runs([case.results / "runs"]))
    assert not left_out
    return runs
