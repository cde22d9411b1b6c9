"""The budget: never passed, nothing lost, and the message says how to go on."""

from __future__ import annotations

import asyncio

import pytest
from fakes import FakeBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from openai_server import OpenAIServer
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
from memsys.llm.chat import Backend, Message, Request
from memsys.llm.endpoint import Endpoint

PRICES = PriceList({"fake": Price(input=1.0, output=2.0, date="2024-01-01", source="a test")})


@pytest.fixture(autouse=True)
def key(monkeypatch) -> None:
    monkeypatch.setenv("BUDGET_KEY", "k")


def metered(budget: Budget, backend: Backend | None = None) -> tuple[MeteredBackend, Meter, Brake]:
    brake = Brake()
    meter = Meter(brake)
    meter.budget, meter.prices = budget, PRICES
    return MeteredBackend(backend or FakeBackend(), brake, meter), meter, brake


def request(words: int, reply: int = 5) -> Request:
    return Request((Message("user", " ".join(["word"] * words)),), reply)


async def spend(backend: MeteredBackend, calls: list[Request]) -> int:
    done = await asyncio.gather(*(backend.complete(r) for r in calls), return_exceptions=True)
    assert all(isinstance(r, Stopped) for r in done if isinstance(r, BaseException))
    return sum(not isinstance(r, BaseException) for r in done)


async def test_calls_stop_exactly_at_the_budget_however_many_are_in_flight() -> None:
    backend, meter, brake = metered(Budget(calls=7), FakeBackend(delay=0.01))
    assert await spend(backend, [request(i) for i in range(1, 30)]) == 7
    assert meter.used.calls == 7
    assert brake.status == BUDGET_REACHED
    assert "budget.calls=7" in brake.message and "larger budget" in brake.message


async def test_a_call_that_may_fit_waits_for_those_in_flight() -> None:
    # each call may take 10 + 1 + 90 tokens and takes 10 + 1: all ten fit, though no two at once
    backend, meter, brake = metered(Budget(tokens=201), FakeBackend(delay=0.005))
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
    told = str(stopped.value)
    assert f"{len(kept)} of {len(kept) + open_} questions of the runs that were begun" in told
    assert f"{len(kept)} by this command for 12 calls" in told
    assert told.endswith("budget.calls=24"), "a command that goes on"
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


def metered_endpoint(
    server: OpenAIServer, budget: Budget, **manners: int
) -> tuple[MeteredBackend, Meter, Brake]:
    endpoint = Endpoint(
        "test-model", base_url=server.base_url, api_key_env="BUDGET_KEY", backoff_s=0.001, **manners
    )
    return metered(budget, endpoint)


FAULTY = {"truncated": 0.1, "empty": 0.1, "model": 0.1, "500": 0.1, "429": 0.1, "reset": 0.1}


@pytest.mark.parametrize("seed", range(3))
async def test_tries_that_are_billed_in_vain_count_and_the_budget_holds(seed: int) -> None:
    limit = 4000
    async with OpenAIServer(faults=FAULTY, seed=seed, latency=0.002, key="k") as server:
        backend, meter, brake = metered_endpoint(
            server, Budget(tokens=limit), concurrency=8, max_retries=12
        )
        calls = [Request((Message("user", f"word {i} " * 20),), 12) for i in range(120)]
        most = max(backend.most(r, backend.message_tokens(r.messages)).tokens for r in calls)
        done = await asyncio.gather(*(backend.complete(r) for r in calls), return_exceptions=True)
        await backend.close()
    assert all(isinstance(r, Stopped) for r in done if isinstance(r, BaseException)), done
    assert brake.pressed and "budget.tokens=4000" in brake.message
    assert meter._aside == Spent(0, 0, pytest.approx(0.0))
    billed = server.stats.billed
    assert server.stats.tokens < billed, "some answers were of no use"
    assert billed <= meter.used.tokens <= limit
    assert meter.used.tokens > limit - most, "nothing stops before it must"


async def test_a_try_whose_answer_is_lost_counts_for_the_most_it_may_have_cost() -> None:
    async with OpenAIServer(faults={"truncated": 1.0}, key="k") as server:
        backend, meter, _ = metered_endpoint(server, Budget(), max_retries=2)
        with pytest.raises(ChatFailure, match="3 times"):
            await backend.complete(request(10, reply=50))
        once = backend.most(request(10, reply=50), backend.message_tokens(request(10).messages))
        assert meter.used == once + once + once
        meter.budget = Budget(tokens=4 * once.tokens)
        with pytest.raises(Stopped):
            await backend.complete(request(10, reply=50))
        await backend.close()
    assert server.stats.requests == 4, "the fifth could have passed the budget"


async def test_an_answer_by_another_model_is_spent_as_the_server_tells() -> None:
    async with OpenAIServer(faults={"model": 1.0}, key="k") as server:
        backend, meter, _ = metered_endpoint(server, Budget(calls=5), max_retries=1)
        with pytest.raises(ChatFailure):
            await backend.complete(request(10))
        await backend.close()
    assert (meter.used.calls, meter.used.tokens) == (2, server.stats.billed)
