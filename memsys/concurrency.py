"""Where CPU-heavy work runs: beside the event loop, never on it."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class TurnLock:
    """A mutual exclusion that is given in the order of asking, so that nobody starves."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._held = False

    def acquire(self) -> None:
        """Wait for this thread's turn."""
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()

    def release(self) -> None:
        """Pass the turn on to the one that has waited longest."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


HEAVY = TurnLock()
"""One model at a time on the CPU: held around a forward pass of an encoder or a chat model.

Two models that compute at once on the same cores spin against each other's threads and fall to a
tenth of their speed; taking turns costs nothing.
"""


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, os.cpu_count() or 1), thread_name_prefix="memsys-compute")


async def compute(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` in a worker thread and return its result; the ledger's account goes along."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        _workers(), lambda: context.run(lambda: work(*args, **kwargs))
    )
