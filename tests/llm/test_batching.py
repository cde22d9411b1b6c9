from __future__ import annotations

import asyncio
import threading

import pytest
import torch

from memsys.errors import ChatFailure
from memsys.llm.batching import Batcher
from memsys.llm.decoding import Task


class Counting:
    """A decoder that writes 1, 2, 3, … and notes what it was asked."""

    def __init__(self, rows: int = 4) -> None:
        self.rows = rows
        self.tasks: list[Task] = []
        self.most = 0
        self.admitted: list[list[int]] = []
        self.fail: list[BaseException] = []
        self.gate = threading.Event()
        self.gate.set()

    @property
    def active(self) -> int:
        return len(self.tasks)

    def fits(self, task: Task) -> bool:
        return len(self.tasks) < self.rows

    def _pass(self) -> None:
        assert self.gate.wait(10)
        if self.fail:
            raise self.fail.pop()

    def admit(self, task: Task) -> bool:
        self._pass()
        self.admitted.append(task.prompt)
        self.tasks.append(task)
        self.most = max(self.most, len(self.tasks))
        return False

    def step(self) -> list[Task]:
        self._pass()
        for task in self.tasks:
            task.written.append(len(task.written) + 1)
            if len(task.written) >= task.limit:
                task.finish = "length"
        complete = [t for t in self.tasks if t.finish]
        self.tasks = [t for t in self.tasks if not t.finish]
        return complete

    def retreat(self) -> list[Task]:
        self.rows = max(1, self.rows // 2)
        return self.abandon()

    def abandon(self) -> list[Task]:
        tasks, self.tasks = self.tasks, []
        return tasks


async def test_concurrent_replies_share_batches_and_all_end():
    fake = Counting()
    batcher = Batcher(fake)
    tasks = [Task([i], 1 + i % 5) for i in range(30)]
    done = await asyncio.gather(*(batcher.write(task) for task in tasks))
    assert done == tasks
    assert [t.written for t in tasks] == [list(range(1, 2 + i % 5)) for i in range(30)]
    assert fake.most == 4
    await asyncio.to_thread(batcher.close)


async def test_prompts_alike_are_read_in_a_row(monkeypatch):
    monkeypatch.setattr("memsys.llm.batching.GATHER", 0.3)  # all are there, on any machine
    fake = Counting(rows=1)
    batcher = Batcher(fake)
    order = [[2, 1], [1, 1], [2, 2], [1, 2], [2, 1, 5]]
    await asyncio.gather(*(batcher.write(Task(p, 1)) for p in order))
    assert fake.admitted == sorted(order)
    await asyncio.to_thread(batcher.close)


async def test_out_of_memory_halves_the_batch_and_loses_no_reply():
    fake = Counting()
    batcher = Batcher(fake)
    fake.fail = [torch.OutOfMemoryError("full")]
    tasks = [Task([i], 4) for i in range(6)]
    await asyncio.gather(*(batcher.write(task) for task in tasks))
    assert all(t.written == [1, 2, 3, 4] for t in tasks)
    assert fake.rows == 2
    await asyncio.to_thread(batcher.close)


async def test_a_prompt_that_never_fits_fails_alone():
    fake = Counting(rows=1)
    batcher = Batcher(fake)
    fake.fail = [torch.OutOfMemoryError("full")]
    with pytest.raises(ChatFailure, match="memory"):
        await batcher.write(Task([1], 4))
    assert (await batcher.write(Task([2], 1))).written == [1]
    await asyncio.to_thread(batcher.close)


async def test_an_error_fails_the_replies_that_ran_and_no_others():
    fake = Counting(rows=2)
    batcher = Batcher(fake)
    running = [asyncio.create_task(batcher.write(Task([i], 10**9))) for i in range(2)]
    await asyncio.sleep(0.05)
    fake.fail = [RuntimeError("broken")]
    results = await asyncio.gather(*running, return_exceptions=True)
    assert {type(r) for r in results} == {RuntimeError}
    assert (await batcher.write(Task([9], 1))).written == [1]
    await asyncio.to_thread(batcher.close)
    with pytest.raises(ChatFailure, match="closed"):
        await batcher.write(Task([1], 1))


async def test_a_cancelled_call_that_waits_is_never_started():
    fake = Counting(rows=1)
    fake.gate.clear()
    batcher = Batcher(fake)
    first = asyncio.create_task(batcher.write(Task([1], 1)))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(batcher.write(Task([2], 1)))
    await asyncio.sleep(0.05)
    second.cancel()
    await asyncio.sleep(0)
    fake.gate.set()
    await first
    assert (await batcher.write(Task([3], 1))).written == [1]
    assert fake.admitted == [[1], [3]]
    await asyncio.to_thread(batcher.close)


async def test_closing_fails_what_still_runs():
    fake = Counting()
    batcher = Batcher(fake)
    call = asyncio.create_task(batcher.write(Task([1], 10**9)))
    await asyncio.sleep(0.05)
    await asyncio.to_thread(batcher.close)
    with pytest.raises(ChatFailure, match="closed"):
        await call
