"""Run folders made by hand, so that tests of tables and costs need no run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.records import Record
from eval.scoring import score
from eval.summary import costs, items_of


def call(
    phase: str,
    role: str = "main",
    tokens: tuple[int, int] = (10, 1),
    model: str = "m",
    **more: Any,
) -> dict[str, Any]:
    """One call of the ledger, with its prompt and completion tokens."""
    return {
        "role": role,
        "phase": phase,
        "model": model,
        "prompt": "p@0",
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "estimated": False,
        "cached": False,
        "seconds": 0.5,
        "schema": False,
        "valid": None,
        **more,
    }


def record(conversation: str, index: int, **more: Any) -> Record:
    """One answered question; by default its only session is found and its answer is right."""
    return {
        "run": "f" * 16,
        "conversation": conversation,
        "id": f"{conversation}_q{index}",
        "index": index,
        "category": "1",
        "question": "Where?",
        "reference": "Lima",
        "evidence_turns": [],
        "evidence_sessions": ["s1"],
        "has_evidence": True,
        "answer": "Lima",
        "recalled": [],
        "ranked_sessions": ["s1", "s2", "s3", "s4"],
        "context_tokens": 0,
        "rounds": 1,
        "trace": {},
        "counts": {},
        "calls": [],
        "seconds": 1.0,
        "error": None,
        **more,
    }


def build(conversation: str, units: int, seconds: float, *calls: Mapping[str, Any]) -> Record:
    """The memory of one conversation."""
    return {
        "conversation": conversation,
        "index": 0,
        "units": units,
        "seconds": seconds,
        "calls": list(calls),
        "counts": {},
    }


def manifest(**changes: Any) -> dict[str, Any]:
    """A manifest as far as tables read it."""
    info = {"is_sample": False, "release": "official", "cut": None, "metadata": "llm"}
    return {
        "dataset_info": info | {k: v for k, v in changes.items() if k in info},
        "identity": {
            "models": {"encoder": {"model": changes.get("encoder", "facebook/contriever")}},
            "prompts": {},
            "dataset": {"settings": {}},
        },
        "configuration": {"prompts": {"dir": None}, "failed_as": "excluded"},
        "judging": None,
        "judge_fingerprint": changes.get("judge_fingerprint"),
        "finished": "2024-01-01T01:00:00+00:00",
    }


def write_run(
    folder: Path,
    records: Sequence[Record],
    *,
    builds: Sequence[Record] = (),
    judgements: Sequence[Record] = (),
    timing: Sequence[Record] = (),
    measures: Sequence[str] | None = None,
    **changes: Any,
) -> Path:
    """Write a run's files; `scores.json` too, where `measures` says by what."""
    folder.mkdir(parents=True)
    if judgements:
        changes["judge_fingerprint"] = "abc"
    files = {"records": records, "builds": builds, "judgements-abc": judgements, "timing": timing}
    for stem, entries in files.items():
        if entries or stem == "records":
            lines = "".join(json.dumps(entry) + "\n" for entry in entries)
            (folder / f"{stem}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "manifest.json").write_text(json.dumps(manifest(**changes)), encoding="utf-8")
    if measures is not None:
        plain = score(items_of(records, judgements), measures).plain()
        plain["costs"] = costs(records, builds, judgements)
        (folder / "scores.json").write_text(json.dumps(plain), encoding="utf-8")
    return folder
