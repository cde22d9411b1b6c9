"""The gate between runs: several together, never two on one place, one alone for times."""

from __future__ import annotations

import asyncio

from eval.tables.gate import Gate


async def test_at_most_so_many_go_on_together_and_one_on_a_place() -> None:
    gate, going, most, places = Gate(3), set(), 0, []

    async def work(name: int, place: str) -> None:
        nonlocal most
        async with gate.together(place):
            assert place not in places
            places.append(place)
            going.add(name)
            most = max(most, len(going))
            await asyncio.sleep(0.002)
            going.discard(name)
            places.remove(place)

    await asyncio.gather(*(work(i, f"p{i % 6}") for i in range(12)))
    assert most == 3


async def test_who_measures_times_is_alone() -> None:
    gate, together, alone = Gate(4), 0, 0

    async def work() -> None:
        nonlocal together
        async with gate.together(object()):
            assert not alone
            together += 1
            await asyncio.sleep(0.002)
            together -= 1

    async def measure() -> None:
        nonlocal alone
        async with gate.alone():
            assert not together and not alone
            alone += 1
            await asyncio.sleep(0.004)
            alone -= 1

    first = [work() for _ in range(6)]
    await asyncio.gather(*first, measure(), work(), measure(), *(work() for _ in range(6)))


async def test_a_failure_opens_the_gate_again() -> None:
    gate = Gate(1)
    for make in (lambda: gate.together("p"), gate.alone):
        try:
            async with make():
                raise ValueError
        except ValueError:
            pass
    async with asyncio.timeout(1), gate.alone():
        pass
    async with asyncio.timeout(1), gate.together("p"):
        pass
