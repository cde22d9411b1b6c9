"""A run on the synthetic LoCoMo sample with a fake model and system, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeBackend, Notebook

from eval.config import RunConfig, compose
from eval.judging import Judging
from eval.prices import PriceList
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished, run
from eval.spec import RunSpec

FAKE = {"_target_": "fakes.FakeBackend"}
NOTEBOOK = {"_target_": "fakes.Notebook", "build": {"style": "short"}, "ask": {"top_k": 2}}


class Bench:
    """Makes specs and runs them; everything is written under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def spec(self, *overrides: str, **changes: Any) -> RunSpec:
        """Compose a run; `changes` replace whole sections (`method`, `llm`)."""
        base = ["method=rag", "protocol=mgretrieval", "dataset.sample=always", "progress=off"]
        composed = compose([*base, f"paths.results={self.folder}", *overrides])
        values = {
            **composed.values,
            "llm": {"main": FAKE, "auxiliary": FAKE, "judge": FAKE},
            "method": NOTEBOOK,
            **changes,
        }
        choices = {**composed.choices, "method": "notebook"}
        return RunSpec.of(RunConfig(values, choices), Resources(), self.folder)

    async def run(self, *overrides: str, **changes: Any) -> Finished:
        spec = self.spec(*overrides, **changes)
        return await run(spec, PriceList({}), Board("off"), Judging.of(spec))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    FakeBackend.requests.clear()
    FakeBackend.failing.clear()
    Notebook.queries.clear()
    yield Bench(tmp_path / "results")


@pytest.fixture
def plain() -> Callable[[Finished], list[dict[str, Any]]]:
    """A run's records without what may differ between equal runs: seconds and `cached`."""

    def strip(finished: Finished) -> list[dict[str, Any]]:
        found = []
        for record in finished.records:
            calls = [
                {k: v for k, v in c.items() if k not in ("seconds", "cached")}
                for c in record["calls"]
            ]
            found.append({**record, "calls": calls, "seconds": 0})
        return found

    return strip
