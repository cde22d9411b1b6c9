"""What a person sees while a run goes on: done, rate, cost so far, time left."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from eval.prices import PriceList
from memsys.llm.ledger import Account

_TICK = 1.0  # seconds
_PLAIN_EVERY = 30.0  # seconds between lines where there is no terminal


class Board:
    """Where progress is shown: bars on a terminal, a line now and then elsewhere, or nothing.

    Several runs may go on at once, each with a bar of its own.
    """

    def __init__(self, mode: str = "auto", console: Console | None = None) -> None:
        """Show progress by `mode`: `auto`, `plain` or `off`."""
        self.console = console or Console(stderr=True)
        self.silent = mode == "off"
        self.bars: Progress | None = None
        if mode == "auto" and sys.stderr.isatty():
            self.bars = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[detail]}"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )

    def __enter__(self) -> Board:
        if self.bars is not None:
            self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bars is not None:
            self.bars.stop()


class RunProgress:
    """The progress of one run on a board."""

    def __init__(self, title: str, prices: PriceList, board: Board) -> None:
        """Show progress under `title`, with money from `prices`."""
        self._title = title
        self._prices = prices
        self._board = board
        self._task = board.bars.add_task(title, total=None, detail="") if board.bars else None
        self._total = self._done = self._reused = 0
        self._failed = self._paid_calls = self._cached_calls = 0
        self._dollars: float | None = 0.0
        self._builds: list[Account] = []
        self._start = self._last_line = time.monotonic()

    def close(self) -> None:
        """Take the run off the board."""
        if self._board.bars is not None and self._task is not None:
            self._board.bars.remove_task(self._task)

    def watch(self, account: Account, *, open_: bool) -> None:
        """Show the calls of a build while it goes on; `open_=False` when it has ended."""
        if open_:
            self._builds.append(account)
        else:
            self._builds.remove(account)
        self._show()

    async def tick(self) -> None:
        """Keep what is shown alive while nothing finishes; runs until it is cancelled."""
        while True:
            await asyncio.sleep(_TICK)
            self._show()

    def expect(self, questions: int, reused: int = 0) -> None:
        """Add questions to the total; `reused` of them were answered by an earlier run."""
        self._total += questions
        self._done += reused
        self._reused += reused
        self._show()

    def calls(self, calls: Iterable[Mapping[str, Any]]) -> None:
        """Enter chat calls: cached ones cost nothing now."""
        for call in calls:
            if call["cached"]:
                self._cached_calls += 1
                continue
            self._paid_calls += 1
            cost = self._prices.cost([call])
            if cost is None or self._dollars is None:
                self._dollars = None
            else:
                self._dollars += cost
        self._show()

    def answered(self, failed: bool) -> None:
        """Enter one finished question."""
        self._done += 1
        self._failed += failed
        self._show()

    @property
    def detail(self) -> str:
        """Rate, calls and money so far, in one short line."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        rate = (self._done - self._reused) / seconds
        parts = [f"{rate:.1f} q/s" if rate >= 0.1 else f"{rate * 60:.1f} q/min"]
        if self._builds:
            calls = sum(len(account.calls) for account in self._builds)
            parts.append(f"building {len(self._builds)} ({calls} calls)")
        parts.append(f"{self._paid_calls} calls (+{self._cached_calls} stored)")
        if self._dollars is None:
            parts.append("cost unknown: no price for a model")
        else:
            parts.append(f"${self._dollars:.2f}")
        if self._failed:
            parts.append(f"{self._failed} failed")
        return " · ".join(parts)

    def _show(self) -> None:
        bars, task = self._board.bars, self._task
        if bars is not None and task is not None:
            bars.update(task, total=self._total, completed=self._done, detail=self.detail)
            return
        now = time.monotonic()
        if self._board.silent or now - self._last_line < _PLAIN_EVERY:
            return
        self._last_line = now
        fresh = self._done - self._reused
        left = (self._total - self._done) * (now - self._start) / fresh if fresh else None
        eta = f" · {left:.0f} s left" if left is not None else ""
        self._board.console.print(
            f"{self._title}: {self._done}/{self._total} · {self.detail}{eta}",
            highlight=False,
            soft_wrap=True,
        )
