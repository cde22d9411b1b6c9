"""Invented runs on disk: any quality, length and cost, ten conversations of twelve questions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.claims.evidence import Shelf
from memsys.errors import UserError

CONVERSATIONS = 10
QUESTIONS = 12
UNITS = 6


def luck(conversation: int, index: int, salt: str = "") -> float:
    """Return a question's fixed number in [0, 1): a run of quality q is right where it is below."""
    return random.Random(f"{salt}{conversation}/{index}").random()


def call(role: str, phase: str, tokens: int, model: str = "gpt-4o") -> dict[str, Any]:
    return {
        "role": role, "phase": phase, "model": model, "prompt": "p", "prompt_tokens": tokens,
        "completion_tokens": 0, "estimated": False, "cached": False, "seconds": 0.1,
        "schema": False, "valid": None,
    }  # fmt: skip


def traced(rounds: int, stop: str = "sufficient", new: Sequence[int] = (3, 6, 1)) -> dict[str, Any]:
    path = [{"level": level, "keywords": [], "size": 9, "new": 1} for level in (3, 2, 2, 1)]
    steps, start = [], 0
    for r in range(1, rounds + 1):
        count = new[r - 1] if r <= len(new) else 1
        ids = [f"u{start + i}" for i in range(count)]
        start += count
        steps.append(
            {"round": r, "level": 3, "new": ids, "new_count": count,
             "critical_memories": ["a", "b"], "sufficient": r == rounds and stop == "sufficient"}
        )  # fmt: skip
    return {"query_keywords": ["x", "y", "z"], "path": path, "rounds": steps, "stop": stop}


class World:
    """Runs by the overrides that set them apart; `folder` finds them as a table's runs are."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: dict[tuple[str, ...], Path] = {}
        self.asked: list[Sequence[str]] = []

    def add(
        self,
        method: str,
        *overrides: str,
        quality: float = 0.5,
        main: str = "Qwen2.5-14B-Instruct",
        tokens: float = 1000,
        build_main: int = 0,
        rounds: int = 1,
        context: Any = 100,
        cut: str | None = None,
        seconds: float | None = None,
        salt: str = "",
        changes: Mapping[tuple[int, int], Mapping[str, Any]] | None = None,
        retries: int = 0,
    ) -> Path:
        """Write one run."""
        folder = self.root / "runs" / "locomo" / method / f"{len(self.made):016d}"
        folder.mkdir(parents=True)
        records, builds, timing = [], [], []
        for c in range(CONVERSATIONS):
            name = f"conv-{40 + c}"
            calls = [call("auxiliary", "build", 500, "gpt-4o-mini") for _ in range(2 * UNITS)]
            calls += [call("main", "build", build_main)] * bool(build_main)
            calls += [call("auxiliary", "build", 500, "gpt-4o-mini")] * (retries if c == 0 else 0)
            counts = {"mgretrieval.extract:retried": retries} if c == 0 and retries else {}
            builds.append(
                {"conversation": name, "index": 0, "units": UNITS, "seconds": 1.0,
                 "calls": calls, "counts": counts}
            )  # fmt: skip
            for i in range(QUESTIONS):
                right = luck(c, i, salt) < quality
                length = context(c, i) if callable(context) else context
                own = 1 + (i % rounds)
                calls = [call("main", "question", int(tokens))]
                calls.append(call("auxiliary", "question", 800, "gpt-4o-mini"))
                record = {
                    "run": "r", "conversation": name, "id": f"{name}_{i}", "index": i,
                    "category": "2", "question": "When?", "reference": "26 April 2022",
                    "evidence_turns": [f"D1:{i}"], "evidence_sessions": ["s1"],
                    "has_evidence": True, "answer": "April 26, 2022" if right else "no idea",
                    "recalled": [], "ranked_sessions": ["s1"], "context_tokens": length,
                    "rounds": own, "trace": traced(own), "counts": {}, "calls": calls,
                    "seconds": 1.0, "error": None,
                }  # fmt: skip
                record |= (changes or {}).get((c, i), {})
                records.append(record)
                if seconds is not None and i < 2:
                    own_time = seconds * (1 + 0.1 * luck(c, i, "time"))
                    timing.append(
                        {"conversation": name, "index": i, "seconds": own_time, "calls": [],
                         "error": None}
                    )  # fmt: skip
        for stem, lines in (("records", records), ("builds", builds), ("timing", timing)):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / f"{stem}.jsonl").write_text(text, encoding="utf-8")
        (folder / "manifest.json").write_text(json.dumps(manifest(method, main, cut)))
        self.made[(method, *sorted(overrides))] = folder
        return folder

    async def folder(self, overrides: Sequence[str]) -> Path:
        """Return the run whose method and distinguishing overrides these are."""
        self.asked.append(overrides)
        method = next(o.removeprefix("method=") for o in overrides if o.startswith("method="))
        apart = [o for o in overrides if o.startswith(("method.", "llm@"))]
        key = (method, *sorted(apart))
        if key not in self.made:
            raise UserError("not run yet in this setting")
        return self.made[key]

    def shelf(self, profile: str = "paper") -> Shelf:
        """Return the evidence of this world in a profile."""
        return Shelf(profile, self)


def manifest(method: str, main: str, cut: str | None) -> dict[str, Any]:
    return {
        "run": "r", "dataset": "locomo", "method": method, "finished": True,
        "dataset_info": {"is_sample": False, "release": "official", "cut": cut, "metadata": "llm"},
        "identity": {
            "stage": "answer", "protocol": ["mgretrieval", 1],
            "models": {"main": {"model": main}, "auxiliary": {"model": "gpt-4o-mini"}},
            "prompts": {"p": "1"}, "dataset": {"settings": {}},
        },
        "configuration": {"prompts": {"dir": None}, "failed_as": "excluded"},
        "judging": None, "judge_fingerprint": None,
    }  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def trace() -> Callable[..., dict[str, Any]]:
    """Make traces of questions."""
    return traced
