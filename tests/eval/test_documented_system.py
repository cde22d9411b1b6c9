"""The worked example of docs/add-a-system.md runs as it is printed there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import yaml

from memsys.system import MemorySystem

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(language: str) -> list[str]:
    text = (DOCS / "add-a-system.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


async def test_the_documented_system_runs_from_the_docs_alone(bench, monkeypatch) -> None:
    code, config = blocks("python")[0], yaml.safe_load(blocks("yaml")[0])
    module = types.ModuleType("bookends_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "docs/add-a-system.md", "exec"), module.__dict__)
    assert issubclass(module.Bookends, MemorySystem)
    config["_target_"] = f"{module.__name__}.Bookends"
    answered = await bench.run(method=config)
    assert answered.failed == 0
    assert all(record["answer"] for record in answered.records)
    ranked = await bench.run("stage=retrieve", method=config)
    sessions = {len(record["ranked_sessions"]) for record in ranked.records}
    assert sessions == {8}, "every session of the sample is ranked"
