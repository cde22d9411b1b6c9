"""Tiny finished runs on disk, with records made up for the figures' tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.figures.data import RunData, read_run
from eval.tables.spec import Block, Row


def record(index: int, conversation: str = "c1", **changes: Any) -> dict[str, Any]:
    """One answered question; `tokens` and `calls` of the main model, `steps` of its rounds."""
    steps: Sequence[int] = changes.pop("steps", ())
    main: Sequence[int] = changes.pop("main", ())
    made = {
        "run": "r", "conversation": conversation, "id": f"{conversation}_q{index}",
        "index": index, "category": "1", "question": "Q?", "reference": "red car",
        "evidence_turns": [], "evidence_sessions": ["s1"], "has_evidence": True,
        "abstention": False, "adversarial": False, "extra": {}, "answer": "red car",
        "recalled": [], "ranked_sessions": ["s1", "s2", "s3", "s4"], "context": None,
        "context_tokens": sum(steps) or 100, "rounds": len(steps) or 1,
        "trace": {"rounds": [{"memory_tokens": s} for s in steps]} if steps else {},
        "counts": {}, "seconds": 1.0, "error": None,
        "calls": [
            {"role": "main", "phase": "question", "model": "m", "prompt_tokens": t,
             "completion_tokens": 1}
            for t in main
        ],
    }  # fmt: skip
    return made | changes


class Bench:
    """Writes runs under a folder and reads them as figures do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made = 0

    def folder(
        self, records: Sequence[Mapping[str, Any]], verdicts: Mapping[int, float | None] | None,
        *, ask: Mapping[str, Any] | None = None, cut: str | None = None, sample: bool = False,
    ) -> Path:  # fmt: skip
        self.made += 1
        folder = self.root / "results" / "runs" / "locomo" / "system" / f"{self.made:04}"
        folder.mkdir(parents=True)
        manifest = {
            "run": "r", "dataset": "locomo", "method": "system", "needs": [],
            "dataset_info": {"is_sample": sample, "release": "official", "cut": cut,
                             "metadata": "llm"},
            "identity": {"models": {"main": {"model": "m"}}, "prompts": {"p": "1"},
                         "dataset": {"settings": {}}, "stage": "answer"},
            "configuration": {"prompts": {"dir": None}, "failed_as": "excluded",
                              "method": {"ask": dict(ask or {})}},
            "judging": {"model": {"model": "j"}} if verdicts is not None else None,
            "judge_fingerprint": "abc" if verdicts is not None else None,
        }  # fmt: skip
        (folder / "manifest.json").write_text(json.dumps(manifest))
        lines = "".join(json.dumps(r) + "\n" for r in records)
        (folder / "records.jsonl").write_text(lines)
        if verdicts is not None:
            judged = [
                {"conversation": r["conversation"], "index": r["index"], "judge": "memgas",
                 "calls": [], "counts": {}, "verdicts": verdict_of(verdicts.get(r["index"]))}
                for r in records
            ]  # fmt: skip
            text = "".join(json.dumps(j) + "\n" for j in judged)
            (folder / "judgements-abc.jsonl").write_text(text)
        return folder

    def data(
        self, label: str, records: Sequence[Mapping[str, Any]],
        verdicts: Mapping[int, float | None] | None = None, block: str = "LoCoMo",
        row: Mapping[str, Any] | None = None, **settings: Any,
    ) -> RunData:  # fmt: skip
        folder = self.folder(records, verdicts, **settings)
        described = Row(**{"label": label, "method": "memgas", **(row or {})})
        of = Block(label=block, dataset="locomo", setting={"main": "m"})
        return read_run(of, described, folder, self.root)

    def missing(self, label: str, reason: str, block: str = "LoCoMo") -> RunData:
        return RunData(
            Block(label=block, dataset="locomo"), Row(label=label, method="memgas"), reason=reason
        )


def verdict_of(value: float | None) -> dict[str, Any]:
    scores = None if value is None else {"correct": value}
    return {"scores": scores, "model": "j", "prompt": "p"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def question() -> Callable[..., dict[str, Any]]:
    return record
