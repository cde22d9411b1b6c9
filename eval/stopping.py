"""Stopping on purpose: a signal or a spent budget ends the work between two calls, never in one.

A pressed `Brake` lets nothing new begin. Calls in flight are finished and stored, questions whose
last call is in flight are recorded, and only then does the command end. A second signal ends it
at once; what was finished is on the disk by then.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from memsys.errors import MemsysError

GRACE = 30.0
"""Seconds that calls in flight are given after a signal; they are stored if they come in time."""

R = TypeVar("R")


class Stopped(MemsysError):
    """The command ends early and in order: everything finished is kept."""

    def __init__(self, message: str, status: int) -> None:
        """Say why and how to go on; `status` is the exit status of the command."""
        super().__init__(message)
        self.exit_status = status


class Brake:
    """One for a process: whoever presses it stops every run, each after its calls in flight."""

    def __init__(self, grace: float = GRACE) -> None:
        """After a signal, wait at most `grace` seconds for calls in flight."""
        self.grace = grace
        self.status = 0
        self.bounded = False
        self._why = self._how = ""
        self._working = self._flying = 0
        self._answered = self._done = self._of = 0
        self._more = False
        self.spent: Callable[[], str] = lambda: ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events: set[asyncio.Event] = set()

    @property
    def pressed(self) -> bool:
        """Whether nothing new may begin."""
        return bool(self.status)

    @property
    def working(self) -> bool:
        """Whether any run is going on."""
        return self._working > 0

    def press(self, why: str, how: str, status: int, *, bounded: bool = False) -> None:
        """Stop everything; the first reason stands. May be called from a signal handler.

        `why` and `how` (to go on) are sentences for the user; `bounded` limits the wait for calls
        in flight.
        """
        if self.pressed:
            return
        self._why, self._how, self.status, self.bounded = why, how, status, bounded
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def check(self) -> None:
        """Raise `Stopped` if nothing new may begin."""
        if self.pressed:
            raise Stopped(self.message, self.status)

    async def clear(self) -> None:
        """Wait for leave to make a call: at once, or never.

        Raises `Stopped` once the brake is pressed, but not before the calls in flight have ended:
        a system that is told earlier would cancel its own other calls, which are paid for.
        """
        if self.pressed:
            await self._until(lambda: not self._flying)
            self.check()

    @contextmanager
    def flight(self) -> Iterator[None]:
        """Make one call inside."""
        self._flying += 1
        try:
            yield
        finally:
            self._flying -= 1
            self._wake()

    @contextmanager
    def ashore(self) -> Iterator[None]:
        """Wait for something inside a flight; meanwhile it is none, and nobody waits for it."""
        self._flying -= 1
        self._wake()
        try:
            yield
        finally:
            self._flying += 1

    async def landed(self, seconds: float) -> None:
        """Wait for the calls in flight, so many seconds at most."""
        await self._until(lambda: not self._flying, seconds)

    def note(self, answered: int, done: int, of: int, *, more: bool = False) -> None:
        """Take down how far a run is.

        `answered` questions by this command, `done` of `of` in all; `more` if some were not
        looked at.
        """
        self._answered += answered
        self._done += done
        self._of += of
        self._more |= more

    @property
    def message(self) -> str:
        """Why the command ends, what was done and spent, and how to go on."""
        return f"{self._why} {self.account} {self._how}"

    @property
    def account(self) -> str:
        """What the runs of this command have come to, in one sentence."""
        of = f"{'more than ' if self._more else ''}{self._of:,}"
        done = f"{self._done:,} of {of} questions of the runs that were begun are done"
        spent = f" for {self.spent()}" if self.spent() else ""
        return f"{done}, {self._answered:,} by this command{spent}; everything finished is kept."

    async def hold(self, work: Coroutine[Any, Any, R]) -> R:
        """Do one run's work under this brake.

        Once pressed, waits until every other run and every call has ended as well, so that none
        of them is cancelled by the first one's `Stopped`; then raises it.
        """
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work)
        self._working += 1
        try:
            return await self._watched(task)
        except Stopped:
            self._working -= 1
            self._wake()
            try:
                await self._until(lambda: not self._working and not self._flying)
            finally:
                self._working += 1
            raise Stopped(self.message, self.status) from None
        finally:
            self._working -= 1
            self._wake()
            if not task.done():
                task.cancel()
            # an error that came after the waiting had ended is taken note of, not printed
            await asyncio.gather(task, return_exceptions=True)

    async def _watched(self, task: asyncio.Task[R]) -> R:
        while not task.done() and not (self.pressed and self.bounded):
            change = asyncio.ensure_future(self._change())
            try:
                await asyncio.wait({task, change}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
        done, _ = await asyncio.wait({task}, timeout=self.grace)
        if not done:
            self.check()
        return await task

    async def _until(self, holds: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until something holds, or for some seconds; after a signal at most the grace."""
        if seconds is None and self.bounded:
            seconds = self.grace
        end = None if seconds is None else asyncio.get_running_loop().time() + seconds
        while not holds():
            try:
                async with asyncio.timeout_at(end):
                    await self._change()
            except TimeoutError:
                return

    async def _change(self) -> None:
        event = asyncio.Event()
        self._events.add(event)
        try:
            await event.wait()
        finally:
            self._events.discard(event)

    def _wake(self) -> None:
        for event in self._events:
            event.set()


def command(*more: str) -> str:
    """Return the command that this process was started with, other settings put in or added.

    A password in an address is left out.
    """
    words = [Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]]
    for setting in more:
        name = setting.partition("=")[0]
        words = [word for word in words if word.partition("=")[0] != name] + [setting]
    return re.sub(r"(://)[^/@\s]+@", r"\1…@", shlex.join(words))


def listen(brake: Brake) -> None:
    """Let Ctrl-C and SIGTERM press the brake: once to finish what is in flight, twice to end now.

    Between runs, where nothing is in flight, the first one ends the command.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _handler(brake))


def _handler(brake: Brake) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        status = 128 + number
        if brake.pressed:
            restore = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides the cursor
            _say(f"{restore}stopped at once: everything finished is kept; to go on: {command()}\n")
            os._exit(status)
        if not brake.working:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            sys.exit(status)
        brake.press(
            "Interrupted.",
            f"The same command goes on from there: {command()}",
            status,
            bounded=True,
        )
        _say(
            "\nstopping: nothing new is begun, calls in flight are finished "
            f"(at most {brake.grace:.0f} s); once more to stop at once\n"
        )

    return handle


def _say(text: str) -> None:
    # straight to the descriptor: a signal may have come in the middle of a print
    os.write(2, text.encode())
