"""The budget: never passed, nothing lost, and the message says how to go on."""

from __future__ import annotations

import asyncio

import pytest
from fakes import FakeBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from served import end, run_command, serve, start, table_command

from eval.budget import (
    BUDGET_REACHED,
    Budget,
    BudgetError,
    Meter,
    MeteredBackend,
    Spent,
    check_prices,
    sweep_size,
)
from eval.command import carry_out
from eval.config import CONFIGS
from eval.prices import Price, PriceList
from eval.progress import Board
from eval.records import read_records
from eval.stopping import Brake, Stopped
from memsys.errors import ChatFailure
from memsys.llm.chat import Message, Request

PRICES = PriceList({"fake": Price(input=1.0, output=2.0, date="2024-01-01", source="a test")})


def metered(budget: Budget, delay: float = 0.0) -> tuple[MeteredBackend, Meter, Brake]:
    brake = Brake()
    meter = Meter(brake)
    meter.budget, meter.prices = budget, PRICES
    return MeteredBackend(FakeBackend(delay=delay), brake, meter), meter, brake


def request(words: int, reply: int = 5) -> Request:
    return Request((Message("user", " ".join(["word"] * words)),), reply)


async def spend(backend: MeteredBackend, calls: list[Request]) -> int:
    done = await asyncio.gather(*(backend.complete(r) for r in calls), return_exceptions=True)
    assert all(isinstance(r, Stopped) for r in done if isinstance(r, BaseException))
    return sum(not isinstance(r, BaseException) for r in done)


async def test_calls_stop_exactly_at_the_budget_however_many_are_in_flight() -> None:
    backend, meter, brake = metered(Budget(calls=7), delay=0.01)
    assert await spend(backend, [request(i) for i in range(1, 30)]) == 7
    assert meter.used.calls == 7
    assert brake.status == BUDGET_REACHED
    assert "budget.calls=7" in brake.message and "larger budget" in brake.message


async def test_a_call_that_may_fit_waits_for_those_in_flight() -> None:
    # each call may take 10 + 1 + 90 tokens and takes 10 + 1: all ten fit, though no two at once
    backend, meter, brake = metered(Budget(tokens=201), delay=0.005)
    assert await spend(backend, [request(10, reply=90) for _ in range(10)]) == 10
    assert meter.used.tokens == 110
    assert not brake.pressed


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(0, 400))
def test_tokens_and_money_are_never_passed(sizes: list[int], limit: int) -> None:
    async def check() -> None:
        for budget in (Budget(tokens=limit), Budget(usd=limit / 1e6)):
            backend, meter, brake = metered(budget)
            done = await spend(backend, [request(size) for size in sizes])
            assert meter.used.over(budget) is None
            assert brake.pressed == (done < len(sizes))
            assert meter._aside == Spent(0, 0, pytest.approx(0.0))

    asyncio.run(check())


async def test_a_failed_call_counts_as_its_prompt_and_a_budget_of_nothing_makes_no_call() -> None:
    backend, meter, _ = metered(Budget(tokens=1000))
    FakeBackend.failing.add("word")
    try:
        with pytest.raises(ChatFailure):
            await backend.complete(request(12))
    finally:
        FakeBackend.failing.clear()
    assert (meter.used.calls, meter.used.tokens) == (1, 12)
    backend, meter, _ = metered(Budget(calls=0))
    with pytest.raises(Stopped):
        await backend.complete(request(1))
    assert meter.used == Spent()


async def test_prompts_longer_than_counted_raise_what_is_set_aside_for_the_next() -> None:
    backend, meter, _ = metered(Budget(tokens=70))
    backend._backend.message_tokens = lambda messages: 10  # type: ignore[method-assign]

    async def twice_as_long(request: Request):
        reply = await FakeBackend().complete(request)
        return type(reply)(reply.text, type(reply.usage)(20, 1), 0.0)

    backend._backend.complete = twice_as_long  # type: ignore[method-assign]
    done = [await asyncio.gather(backend.complete(request(1)), return_exceptions=True)
            for _ in range(4)]  # fmt: skip
    # 21 + 21 used; the third could take 10 × 2 + 1 + 5 = 26 and fits in 70, the fourth does not
    assert meter.used.tokens == 63
    assert isinstance(done[3][0], Stopped)


async def test_a_model_without_a_price_is_refused_before_the_run(bench) -> None:
    with pytest.raises(BudgetError, match=r"no price for fake.*prices\.local\.yaml"):
        await carry_out(bench.spec("budget.usd=1"), Board("off"))
    assert not FakeBackend.requests
    check_prices(Budget(tokens=5), ["fake"], PriceList({}), CONFIGS)


async def test_a_run_stops_at_its_budget_and_goes_on_with_a_larger_one(bench, plain) -> None:
    whole = await bench.run(f"paths.results={bench.folder}-whole")
    FakeBackend.requests.clear()
    total = sum(len(r["calls"]) for r in [*whole.records, *whole.builds])
    spec = bench.spec("budget.calls=12")
    with pytest.raises(Stopped) as stopped:
        await carry_out(spec, Board("off"))
    assert stopped.value.exit_status == BUDGET_REACHED
    assert len(FakeBackend.requests) == 12
    kept = read_records(spec.folder / "records.jsonl")
    assert not any(record["error"] for record in kept)
    open_ = len(whole.records) - len(kept)
    assert f"{len(kept)} questions were answered" in str(stopped.value)
    assert f"{open_} remain" in str(stopped.value)
    assert not (spec.folder / "scores.json").exists(), "part of a run is no run"
    assert bench.spec().fingerprint == spec.fingerprint
    done = await carry_out(bench.spec(f"budget.calls={total}"), Board("off"))
    assert plain(done) == plain(whole)
    assert len(FakeBackend.requests) <= total, "what was stored is not asked again"


async def test_stored_replies_cost_nothing(bench) -> None:
    await bench.run()
    done = await carry_out(bench.spec("resume=false", "budget.calls=0"), Board("off"))
    assert done.asked and not done.failed


def test_jobs_that_run_apart_share_the_budget_out() -> None:
    assert Budget(usd=1.0, calls=10).split(4) == Budget(usd=0.25, calls=2)
    assert sweep_size(["method.ask.depth=2,3,4", "method=rag,full", "stage=answer"]) == 6


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_budget_is_the_whole_commands_in_a_table_and_a_sweep(tmp_path) -> None:
    for command in (
        table_command, lambda *a: run_command(*a, "-m", "protocol.answer_max_tokens=20,21,22")
    ):  # fmt: skip
        results = tmp_path / str(command is table_command)
        with serve() as server:
            code, out, err = end(start([*command(server, results), "budget.calls=9"]))
            assert code == BUDGET_REACHED, err
            assert server.stats.requests == 9
            assert "stopped: The budget ends here" in err and "Traceback" not in err
            assert "written" not in out
