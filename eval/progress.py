"""What a person sees while a run goes on: done, rate, cost so far, time left."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
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
        self.bars: Progress | None = None
        self._silent = mode == "off"
        self._runs: list[RunProgress] = []
        self._all: list[RunProgress] = []
        self._last_line = time.monotonic()
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

    def add(self, run: RunProgress) -> None:
        """Take a run in."""
        self._runs.append(run)
        self._all.append(run)

    def remove(self, run: RunProgress) -> None:
        """Leave a finished run out."""
        self._runs.remove(run)

    def numbers(self) -> dict[str, float]:
        """Return how far all runs of this command are, ended ones too; any thread may ask."""
        runs = list(self._all)
        found: dict[str, float] = {
            "runs": len(runs),
            "done": sum(run.done for run in runs),
            "total": sum(run.total for run in runs),
            "failed": sum(run.failed for run in runs),
            "calls": sum(run.paid_calls + run.build_calls for run in runs),
            "stored_calls": sum(run.cached_calls for run in runs),
        }
        dollars = [run.dollars for run in runs]
        if None not in dollars:
            found["usd"] = sum(known or 0.0 for known in dollars)
        return found

    def line(self) -> None:
        """Where there are no bars, print a line now and then: one for all runs that go on."""
        now = time.monotonic()
        if self._silent or now - self._last_line < _PLAIN_EVERY:
            return
        self._last_line = now
        one = len(self._runs) == 1
        text = self._runs[0].text if one else _sum_up(self._runs)
        self.console.print(text, highlight=False, soft_wrap=True)

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
        board.add(self)
        self.total = self.done = self._reused = 0
        self.failed = self.paid_calls = self.cached_calls = 0
        self.dollars: float | None = 0.0
        self._builds: list[Account] = []
        self._start = time.monotonic()

    def close(self) -> None:
        """Take the run off the board."""
        if self._board.bars is not None and self._task is not None:
            self._board.bars.remove_task(self._task)
        self._board.remove(self)

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
        self.total += questions
        self.done += reused
        self._reused += reused
        self._show()

    def calls(self, calls: Iterable[Mapping[str, Any]]) -> None:
        """Enter chat calls: cached ones cost nothing now."""
        for call in calls:
            if call["cached"]:
                self.cached_calls += 1
                continue
            self.paid_calls += 1
            cost = self._prices.cost([call])
            if cost is None or self.dollars is None:
                self.dollars = None
            else:
                self.dollars += cost
        self._show()

    def answered(self, failed: bool) -> None:
        """Enter one finished question."""
        self.done += 1
        self.failed += failed
        self._show()

    @property
    def detail(self) -> str:
        """Rate, calls and money so far, in one short line."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        rate = (self.done - self._reused) / seconds
        parts = [f"{rate:.1f} q/s" if rate >= 0.1 else f"{rate * 60:.1f} q/min"]
        if self._builds:
            parts.append(f"building {len(self._builds)} ({self.build_calls} calls)")
        parts.append(f"{self.paid_calls} calls (+{self.cached_calls} stored)")
        if self.dollars is None:
            parts.append("cost unknown: no price for a model")
        else:
            parts.append(f"${self.dollars:.2f}")
        if self.failed:
            parts.append(f"{self.failed} failed")
        return " · ".join(parts)

    @property
    def text(self) -> str:
        """The run in one line: done, rate, cost so far, time left."""
        fresh = self.done - self._reused
        seconds = time.monotonic() - self._start
        left = f" · {(self.total - self.done) * seconds / fresh:.0f} s left" if fresh else ""
        return f"{self._title}: {self.done}/{self.total} · {self.detail}{left}"

    @property
    def build_calls(self) -> int:
        """Chat calls of the builds that go on now."""
        return sum(len(account.calls) for account in self._builds)

    def _show(self) -> None:
        bars, task = self._board.bars, self._task
        if bars is not None and task is not None:
            bars.update(task, total=self.total, completed=self.done, detail=self.detail)
        else:
            self._board.line()


def _sum_up(runs: Sequence[RunProgress]) -> str:
    done, total = sum(run.done for run in runs), sum(run.total for run in runs)
    calls = sum(run.paid_calls + run.build_calls for run in runs)
    failed = sum(run.failed for run in runs)
    tail = f" · {failed} failed" if failed else ""
    return f"{len(runs)} runs: {done}/{total} questions · {calls} chat calls{tail}"
