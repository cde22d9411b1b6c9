"""What a run would cost with sharing does not hang on which of its replies were stored already."""

from __future__ import annotations

from fakes import FakeBackend

from eval.costs import costs_of
from eval.prices import PriceList


async def test_a_run_tells_the_same_of_calls_that_were_made_and_of_stored_ones(bench) -> None:
    first = await bench.run()
    made = len(FakeBackend.requests)
    again = await bench.run("resume=false")
    for finished in (first, again):
        found = costs_of(finished.records, finished.builds, [], [], PriceList({}))
        assert found.value("all.all.distinct_calls", "run") == made
        assert found.value("all.all.calls", "run") >= made
    assert len(FakeBackend.requests) == made
