from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsys.llm.limits import AdaptiveLimit, Gate, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_no_more_than_the_limit_are_inside():
    limit = AdaptiveLimit(most=3, start=3)
    inside = most = 0

    async def call() -> None:
        nonlocal inside, most
        async with limit.slot():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    await asyncio.gather(*(call() for _ in range(20)))
    assert most == 3 and limit.in_flight == 0


async def test_a_cancelled_wait_loses_no_place():
    limit = AdaptiveLimit(most=1, start=1)
    async with limit.slot():
        waits = [asyncio.create_task(_enter(limit)) for _ in range(3)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await asyncio.sleep(0)
    assert await asyncio.wait_for(asyncio.gather(*waits[1:]), 1) == [True, True]
    assert limit.in_flight == 0


async def test_a_place_given_to_a_cancelled_wait_is_passed_on():
    limit = AdaptiveLimit(most=1, start=1)
    async with limit.slot():
        first = asyncio.create_task(_enter(limit))
        second = asyncio.create_task(_enter(limit))
        await asyncio.sleep(0)
    first.cancel()  # its place was assigned a moment ago
    assert await asyncio.wait_for(second, 1)
    assert limit.in_flight == 0


async def _enter(limit: AdaptiveLimit) -> bool:
    async with limit.slot():
        return True


def test_growth_doubles_a_round_until_the_first_cut_and_is_gentle_after_it():
    clock = Clock()
    limit = AdaptiveLimit(most=128, start=8, clock=clock)
    for _ in range(8):
        limit.succeeded()
    assert limit.limit == 16
    clock.now += 1
    limit.limited(taken=clock.now)
    assert limit.limit == 8
    for _ in range(8):
        limit.succeeded()
    assert limit.limit == 8  # 8 + 8 × 1/8.5 or so: a little under one more
    limit.succeeded()
    assert limit.limit == 9
    assert [(c.limit, c.cause) for c in limit.history] == [
        (8, "start"), (16, "grow"), (8, "cut"), (9, "grow"),
    ]  # fmt: skip


def test_calls_under_way_together_cut_once_and_never_below_one():
    clock = Clock()
    limit = AdaptiveLimit(most=64, start=64, clock=clock)
    taken = clock.now
    clock.now += 1
    for _ in range(64):
        limit.limited(taken)
    assert limit.limit == 32
    for _ in range(20):
        clock.now += 1
        limit.limited(clock.now)
        clock.now += 1
    assert limit.limit == 1


def test_no_growth_beyond_the_most():
    limit = AdaptiveLimit(most=5, start=32)
    for _ in range(50):
        limit.succeeded()
    assert limit.limit == 5 and len(limit.history) == 1


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.floats(0, 9), st.floats(0, 0.4)), min_size=1, max_size=150),
)
def test_no_minute_holds_more_than_its_share(share, times):
    clock = Clock()
    pace = Pace(share, clock=clock)
    sent = []
    for idle, late in times:
        clock.now += idle
        clock.now += pace.wait() + late  # a timer never fires early, but often late
        pace.use(1)
        sent.append(clock.now)
    for start in sent:
        assert sum(start <= t < start + 60 for t in sent) <= share


def test_being_late_costs_little_throughput():
    clock = Clock()
    pace = Pace(6000, clock=clock)  # one each 10 ms
    for _ in range(1000):
        clock.now += pace.wait() + 0.004
        pace.use(1)
    assert clock.now - 100 < 10.2


def test_a_refund_never_reaches_further_back_than_the_credit():
    clock = Clock()
    pace = Pace(60, credit=0.0, clock=clock)
    pace.use(10)
    assert pace.wait() == pytest.approx(10.1)
    pace.refund(1000)
    assert pace.wait() == 0
    pace.use(1)
    assert pace.wait() == pytest.approx(1.01)
    free = Pace(None, clock=clock)
    free.use(10**9)
    assert free.wait() == 0


async def test_turns_are_taken_in_the_order_of_asking():
    gate, order = Gate((Pace(60_000), Pace(None))), []

    async def take(i: int) -> None:
        await gate.enter((1, 1))
        order.append(i)

    await asyncio.gather(*(take(i) for i in range(50)))
    assert order == list(range(50))


async def test_silence_holds_back_those_who_wait_for_their_turn_already():
    clock, slept = Clock(), []
    gate = Gate((Pace(60, clock=clock),), clock=clock)
    gate.paces[0].use(1)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            gate.silence(30)  # a rate limit arrives meanwhile
        clock.now += seconds

    await gate.enter((1,), sleep)
    assert clock.now == pytest.approx(130)
    # those who come next are spread again, and do not go out in one burst
    await gate.enter((1,), sleep)
    assert clock.now >= 130.5


async def test_a_closed_gate_lets_everyone_go():
    gate = Gate((Pace(None),))
    gate.silence(1000)
    await asyncio.wait_for(gate.enter((1,), closed=lambda: True), 1)
