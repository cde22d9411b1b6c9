"""A sweep over MGRetrieval's rounds or depth pays for nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes import FakeBackend

from eval.config import compose
from memsys.llm.chat import Reply, Request, Usage


class Doubter(FakeBackend):
    """Reads keywords off the text, and never finds its memories sufficient."""

    async def complete(self, request: Request) -> Reply:
        FakeBackend.requests.append(request)
        said = request.messages[-1].content
        wanted = (request.schema or {}).get("properties", {})
        if "sufficient" in wanted:
            text = json.dumps({"sufficient": False, "critical_memories": [], "answer": said[-9:]})
        elif "keywords" in wanted:
            found = [word for word in said.lower().split() if len(word) > 4 and word.isalpha()]
            text = json.dumps({"keywords": list(dict.fromkeys(found))[:60]})
        elif wanted:
            text = json.dumps({name: [] for name in wanted})
        else:
            text = f"rewritten {said[-20:]}"
        return Reply(text, Usage(self.message_tokens(request.messages), 1), 0.01, model=self.name)


def calls(finished: Any, phase: str, role: str, *, fresh: bool) -> int:
    source = finished.builds if phase == "build" else finished.records
    return sum(
        call["role"] == role and not (fresh and call["cached"])
        for entry in source
        for call in entry["calls"]
    )


@pytest.fixture
def mgretrieval(bench, monkeypatch):
    monkeypatch.setattr("fakes.Doubter", Doubter, raising=False)
    backend = {"_target_": "fakes.Doubter"}
    method = compose(["method=mgretrieval", "protocol=mgretrieval"]).values["method"]
    cut = ["dataset.max_conversations=1", "dataset.limit=4"]

    async def run(**ask: Any):
        mine = {**method, "ask": {**method["ask"], **ask}}
        llm = dict.fromkeys(("main", "auxiliary", "judge"), backend)
        return await bench.run(*cut, method=mine, llm=llm)

    return run


async def test_smaller_r_after_r_5_pays_for_rewrites_alone(mgretrieval) -> None:
    whole = await mgretrieval(max_rounds=5)
    rounds = [record["rounds"] for record in whole.records]
    assert max(rounds) == 5, "the fixture really walks"
    for r in (1, 2, 3, 4):
        shorter = await mgretrieval(max_rounds=r)
        assert [record["rounds"] for record in shorter.records] == [min(r, n) for n in rounds]
        paid = calls(shorter, "question", "main", fresh=True)
        assert paid <= len(rounds), "at most one rewrite a question"
        assert shorter.built == 0
        assert calls(shorter, "question", "auxiliary", fresh=True) == 0


async def test_a_sweep_over_depth_builds_once(mgretrieval) -> None:
    first = await mgretrieval(depth=2)
    assert first.built == 1 and calls(first, "build", "auxiliary", fresh=True) > 0
    for depth in (3, 4, 5, 6):
        assert (await mgretrieval(depth=depth)).built == 0
