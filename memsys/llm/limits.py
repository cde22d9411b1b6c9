"""How hard an endpoint may be pressed: calls in flight, requests and tokens a minute."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the concurrency limit: seconds since the start, the new limit, the cause."""

    seconds: float
    limit: int
    cause: str


@dataclass
class AdaptiveLimit:
    """Calls in flight, adapted to what the server bears.

    Starts at `start` and grows by one a success, which doubles it every round trip, up to `most`.
    A rate-limit answer halves it, once for all the calls that were under way together; from then
    on it grows by one a round trip. Nothing but rate limits cuts it: errors and slow answers say
    little about load.
    """

    most: int
    start: int = 32  # 128 in flight are reached within two answers
    clock: Clock = time.monotonic
    history: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._limit = float(min(self.start, self.most))
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._cut_at: float | None = None
        self.in_flight = 0
        self._note("start")

    @property
    def limit(self) -> int:
        """How many calls may be in flight now."""
        return int(self._limit)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a free place and hold it; yields the time at which it was taken."""
        await self._enter()
        try:
            yield self.clock()
        finally:
            self.in_flight -= 1
            self._wake()

    def succeeded(self) -> None:
        """A call was answered."""
        if self._limit < self.most:
            before = self.limit
            self._limit += 1.0 if self._cut_at is None else 1.0 / self._limit
            if self.limit != before:
                self._note("grow")
            self._wake()

    def limited(self, taken: float) -> None:
        """A call that took its place at `taken` was turned away with a rate limit."""
        if self._cut_at is None or taken > self._cut_at:
            self._cut_at = self.clock()
            self._limit = max(1.0, self._limit // 2)
            self._note("cut")

    def _note(self, cause: str) -> None:
        change = Change(self.clock() - self._began, self.limit, cause)
        # a long climb is one entry: its last step
        if cause == "grow" and self.history[-1].cause == "grow":
            self.history[-1] = change
        else:
            self.history.append(change)

    async def _enter(self) -> None:
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.in_flight -= 1  # the place came together with the cancellation
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


@dataclass
class Pace:
    """At most `per_minute` units in any minute, evenly spaced; `None` sets no pace.

    A unit that comes late, because the program was busy, lets the next follow sooner by at most
    `credit` seconds; the one per cent of slack pays for that.
    """

    per_minute: float | None
    credit: float = 0.5
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._next = self.clock()

    def wait(self) -> float:
        """Return the seconds until more may be used."""
        return 0.0 if self.per_minute is None else max(0.0, self._next - self.clock())

    def use(self, units: float) -> None:
        """Note that `units` are used now."""
        if self.per_minute is not None:
            start = max(self._next, self.clock() - self.credit)
            self._next = start + units * 60.6 / self.per_minute

    def refund(self, units: float) -> None:
        """Give back noted units that turned out not to be used."""
        if self.per_minute is not None and units > 0:
            earlier = self._next - units * 60.6 / self.per_minute
            self._next = max(self.clock() - self.credit, earlier)


@dataclass
class Gate:
    """Lets calls through one by one: at the paces, and never while the server wants silence."""

    paces: tuple[Pace, ...]
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._quiet_until = 0.0
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def silence(self, seconds: float) -> None:
        """Let nothing through for so many seconds."""
        self._quiet_until = max(self._quiet_until, self.clock() + seconds)

    async def enter(
        self,
        units: tuple[float, ...],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        closed: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait for this caller's turn, in the order of asking, and use `units` of each pace.

        Waits no longer once `closed` is true.
        """
        async with self._turn():
            while not closed() and (seconds := self._wait()) > 0:
                await sleep(seconds)
            for pace, count in zip(self.paces, units, strict=True):
                pace.use(count)

    def _wait(self) -> float:
        silence = self._quiet_until - self.clock()
        return max(silence, *(pace.wait() for pace in self.paces))

    def _turn(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = loop, asyncio.Lock()
        return self._turns[1]


@dataclass(eq=False)
class Traffic:
    """How hard a served model is pressed, by all that ask it in this process together."""

    limit: AdaptiveLimit
    spend: Pace
    gate: Gate


_TRAFFIC: WeakValueDictionary[tuple[Any, ...], Traffic] = WeakValueDictionary()


def traffic_of(
    concurrency: int, requests: float | None, tokens: float | None, *model: str
) -> Traffic:
    """Return the limits of a model of a server; the same for all that name it alike.

    `requests` and `tokens` are per minute, `model` is all that names it and its account.
    """
    key = (concurrency, requests, tokens, *model)
    found = _TRAFFIC.get(key)
    if found is None:
        spend = Pace(tokens)
        found = Traffic(AdaptiveLimit(concurrency), spend, Gate((Pace(requests), spend)))
        _TRAFFIC[key] = found
    return found
