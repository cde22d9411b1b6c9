"""One worker thread that decodes whatever replies are asked for at the time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from dataclasses import dataclass

from memsys.concurrency import HEAVY
from memsys.errors import ChatFailure
from memsys.llm.decoding import Decoder, Task

GATHER = 0.004
"""Seconds that an idle worker waits for company, so that prompts alike are read in a row."""


@dataclass(eq=False)
class _Job:
    task: Task
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Task]
    abandoned: bool = False


class Batcher:
    """Replies asked for concurrently run in one batch; one may join or leave at every token."""

    def __init__(self, decoder: Decoder) -> None:
        """Decode with `decoder`, which no other thread may use."""
        self._decoder = decoder
        self._change = threading.Condition()
        self._waiting: deque[_Job] = deque()
        self._running: dict[Task, _Job] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    async def write(self, task: Task) -> Task:
        """Have a reply written; returns the task, complete.

        Raises `ChatFailure` if the model cannot write it.
        """
        loop = asyncio.get_running_loop()
        job = _Job(task, loop, loop.create_future())
        with self._change:
            if self._closed:
                raise ChatFailure("The in-process model is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="memsys-chat", daemon=True)
                self._thread.start()
            self._waiting.append(job)
            self._change.notify()
        try:
            return await job.future
        except asyncio.CancelledError:
            job.abandoned = True
            raise

    def close(self) -> None:
        """Stop after the current token; replies still running fail."""
        with self._change:
            self._closed = True
            self._change.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _work(self) -> None:
        while self._gather(self._decoder):
            try:
                self._advance(self._decoder)
            except Exception as error:
                # whatever it was, the replies that were running are lost, the others are not
                self._decoder.abandon()
                self._fail(list(self._running), error)
        with self._change:
            waiting = {job.task: job for job in self._waiting}
            self._waiting.clear()
        self._running.update(waiting)
        self._fail(list(self._running), ChatFailure("The in-process model was closed."))

    def _gather(self, decoder: Decoder) -> bool:
        """Wait until there is something to do; `False` once closed."""
        with self._change:
            if not decoder.active:
                while not self._waiting and not self._closed:
                    self._change.wait()
                self._change.release()
                time.sleep(GATHER)
                self._change.acquire()
            # neighbours in this order share the longest beginnings, and then are alike in length
            ordered = sorted(self._waiting, key=lambda job: job.task.prompt)
            self._waiting = deque(ordered)
            return not self._closed

    def _advance(self, decoder: Decoder) -> None:
        while job := self._next(decoder):
            self._running[job.task] = job
            self._guarded(decoder, job.task)
        if decoder.active:
            self._guarded(decoder, None)

    def _next(self, decoder: Decoder) -> _Job | None:
        with self._change:
            while self._waiting:
                if self._waiting[0].abandoned:
                    self._waiting.popleft()
                elif decoder.fits(self._waiting[0].task):
                    return self._waiting.popleft()
                else:
                    return None
        return None

    def _guarded(self, decoder: Decoder, new: Task | None) -> None:
        """Read a new prompt, or make one step with the running replies.

        Where memory runs out, all go back to the queue, and half as many run at once.
        """
        import torch

        try:
            with HEAVY:
                complete = decoder.step() if new is None else [new] if decoder.admit(new) else []
        except torch.OutOfMemoryError:
            alone = decoder.rows == 1
            tasks = decoder.retreat()
            back = tasks if new is None or new in tasks else [*tasks, new]
            if alone:
                self._fail(back, ChatFailure("Not enough memory for a single reply."))
                return
            with self._change:
                self._waiting.extendleft(reversed([self._running.pop(task) for task in back]))
            return
        for task in complete:
            self._finish(task)

    def _finish(self, task: Task) -> None:
        job = self._running.pop(task)
        job.loop.call_soon_threadsafe(_resolve, job.future, task, None)

    def _fail(self, tasks: list[Task], error: Exception) -> None:
        for task in tasks:
            job = self._running.pop(task)
            job.loop.call_soon_threadsafe(_resolve, job.future, None, error)


def _resolve(future: asyncio.Future[Task], task: Task | None, error: Exception | None) -> None:
    if future.done():
        return
    if task is not None:
        future.set_result(task)
    else:
        future.set_exception(error or ChatFailure("No reply."))
