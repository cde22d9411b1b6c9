"""The engine keeps the endpoint busy: throughput, CPU and memory of a run against a fixed delay.

    python scripts/bench/engine.py [--full] [--json FILE]

A whole run (FULL on synthetic dialogues, one call a question) against a server of its own process
that answers after a fixed delay. References: the most that c calls in flight can do (c / delay),
the bare `openai` client on the same server where that is beyond 128 calls a second, and the
sequential loop of most published scripts. Throughput is measured by the server, from the first
call's arrival to the last answer: over 80 answers in each place the start (32 calls, then twice as
many) and the end (answers that no call follows) take 2 per cent of it. CPU a call is the process's
own time, from a fifth of the calls on to the last; that of the whole run (imports, data, scores and
records, too) is shown beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rows import exact, finish, row

HERE = Path(__file__).resolve().parent
QUICK = ((0.5, 16, 40), (0.5, 64, 80), (0.2, 64, 40))
FULL = tuple((d, c, 80 if c > 16 else 40) for d in (0.2, 0.5, 1.0) for c in (1, 16, 64, 128))
"""Seconds an answer, calls in flight, answers one after another in each place."""
CEILING = 128.0  # calls a second up to which the delay alone must be the limit


class Server:
    """The server's process."""

    def __init__(self, delay: float) -> None:
        """Start it and wait for its address."""
        command = [sys.executable, str(HERE / "server.py"), "--delay", str(delay)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON answer of a path."""
        with urllib.request.urlopen(f"{self.url}/{path}") as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found


def dialogues(folder: Path, questions: int, each: int = 50) -> Path:
    """Write a file in LoCoMo's schema: conversations of three turns and `each` questions."""
    samples = []
    for number in range(-(-questions // each)):
        asked = [
            {
                "question": f"What did Ana do on day {i} of month {number}?",
                "answer": "yes",
                "evidence": ["D1:1"],
                "category": 4,
            }
            for i in range(min(each, questions - number * each))
        ]
        turns = [
            {"speaker": who, "dia_id": f"D1:{i}", "text": f"I walked {i * 3 + number} miles today."}
            for i, who in enumerate(("Ana", "Bo", "Ana"), 1)
        ]
        conversation = {
            "speaker_a": "Ana",
            "speaker_b": "Bo",
            "session_1_date_time": "1:00 pm on 1 May, 2023",
            "session_1": turns,
        }
        samples.append(
            {
                "sample_id": f"bench-{number}",
                "conversation": conversation,
                "qa": asked,
                "observation": {},
                "session_summary": {},
                "event_summary": {},
            }
        )
    path = folder / "locomo10.json"
    path.write_text(json.dumps(samples), encoding="utf-8")
    return path


async def harness(url: str, concurrency: int, questions: int) -> dict[str, float]:
    """Carry out a run; returns what was watched meanwhile."""
    from eval.command import carry_out
    from eval.config import ROOT, compose
    from eval.progress import Board
    from eval.resources import Resources
    from eval.spec import RunSpec

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = dialogues(folder, questions)
        resources = Resources()
        spec = RunSpec.of(
            compose(
                [
                    "method=full",
                    "protocol=mgretrieval",
                    f"dataset.path={data}",
                    "dataset.release=custom",
                    "llm@llm.main=vllm",
                    f"llm.main.base_url={url}",
                    "llm.main.model=bench",
                    f"llm.main.concurrency={concurrency}",
                    "measures=[f1_set]",
                    f"paths.results={folder / 'results'}",
                ]
            ),
            resources,
            ROOT,
        )
        with Board("off") as board:
            done = lambda: int(board.numbers()["done"])  # noqa: E731
            async with Watch(done, questions) as watch:
                finished = await carry_out(spec, board)
        await resources.close()
        assert finished.failed == 0 and finished.paid_calls == questions
        return watch.found()


class Watch:
    """CPU and resident memory of this process as calls are answered."""

    def __init__(self, done: Callable[[], int], calls: int) -> None:
        """`done` returns how many of the `calls` have been answered."""
        self._done, self._calls = done, calls
        self._marks: list[tuple[int, float, float]] = []

    async def __aenter__(self) -> Watch:
        self._began = time.process_time()
        self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        self._spent = time.process_time() - self._began

    async def _look(self) -> None:
        while not self._marks or self._marks[-1][0] < self._calls:
            await asyncio.sleep(0.05)
            self._marks.append((self._done(), time.process_time(), resident()))

    def found(self) -> dict[str, float]:
        """Return CPU seconds a call and of the whole, and how memory grew with the calls."""
        later = [mark for mark in self._marks if mark[0] >= self._calls / 5]
        (first, start, _), (last, end, _) = later[0], later[-1]
        a_call = (end - start) / max(last - first, 1)
        memory = np.polyfit([m[0] for m in later], [m[2] for m in later], 1)[0] if later[4:] else 0
        return {"cpu": a_call, "whole": self._spent, "kib_a_question": 1024 * float(memory)}


def resident() -> float:
    """Return this process's resident memory now, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def bare(url: str, concurrency: int, questions: int) -> dict[str, float]:
    """Make the same number of calls with the bare client; returns what `harness` does."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    places = asyncio.Semaphore(concurrency)
    text = "Ana: I walked 3 miles today. Bo: I walked 6 miles today. What did Ana do? " * 5

    done = 0

    async def call(i: int) -> None:
        nonlocal done
        async with places:
            await client.chat.completions.create(
                model="bench",
                messages=[{"role": "user", "content": f"{text}{i}"}],
                max_tokens=96,
                temperature=0,
            )
            done += 1

    async with Watch(lambda: done, questions) as watch:
        await asyncio.gather(*(call(i) for i in range(questions)))
    await client.close()
    return watch.found()


def measured(who: str, server: Server, concurrency: int, questions: int) -> dict[str, float]:
    """Run one side in a process of its own and return what it and the server measured."""
    server.get("reset")
    command = [sys.executable, __file__, "--one", who, server.url, str(concurrency), str(questions)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    seen = server.get("stats")
    assert seen["answered"] >= questions and seen["most_at_once"] <= concurrency
    found["rate"] = seen["answered"] / seen["seconds"]
    return found


def case(delay: float, concurrency: int, rounds: int) -> list[dict[str, Any]]:
    """Compare the harness with what the delay allows, and with the bare client."""
    bound = concurrency / delay
    questions = concurrency * rounds
    name = f"{concurrency} calls in flight, {1000 * delay:.0f} ms an answer"
    with Server(delay) as server:
        ours = measured("harness", server, concurrency, questions)
        theirs = measured("bare", server, concurrency, questions)
    rows = []
    if bound <= CEILING:
        rows.append(row(f"{name}: of c / delay", ours["rate"], bound, "calls/s", 0.95))
        rows.append(row(f"{name}: the bare client's share", theirs["rate"], bound, "calls/s", None))
    else:
        case_ = f"{name}: of the bare client"
        rows.append(row(case_, ours["rate"], theirs["rate"], "calls/s", 0.90))
    if questions >= 500:
        mine, its = (1000 * side["cpu"] for side in (ours, theirs))
        rows.append(
            row(f"{name}: CPU a call beside the bare client's", mine, its, "ms", None, more=False)
        )
        rows.append(exact(f"{name}: CPU a call above the bare client's", mine - its, 1.0, "ms"))
        rows.append(row(f"{name}: CPU of the whole run", ours["whole"], None, "s", None))
    return rows


def sequential(delay: float, concurrency: int) -> dict[str, Any]:
    """Compare with the loop that waits for each answer before the next question."""
    with Server(delay) as server:
        ours = measured("harness", server, concurrency, concurrency * 40)
        loop = measured("bare", server, 1, 20)
    name = f"{concurrency} calls in flight against one after another"
    return row(name, ours["rate"], loop["rate"], "calls/s", 0.9 * concurrency)


def memory(questions: int = 5000) -> dict[str, Any]:
    """Measure how resident memory grows with the questions asked."""
    with Server(0.05) as server:
        ours = measured("harness", server, 64, questions)
    name = f"memory a question, over {questions:,}"
    return exact(name, ours["kib_a_question"], 16.0, "KiB")


def run(full: bool = False) -> list[dict[str, Any]]:
    """Return the rows of all cases."""
    rows = [found for one in (FULL if full else QUICK) for found in case(*one)]
    return [*rows, sequential(0.2, 16), memory()]


def main() -> None:
    """Measure and print; `--one` is one side in its own process."""
    if sys.argv[1:2] == ["--one"]:
        who, url, concurrency, questions = sys.argv[2:]
        side = {"harness": harness, "bare": bare}[who]
        print(json.dumps(asyncio.run(side(url, int(concurrency), int(questions)))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    finish(run, parser)


if __name__ == "__main__":
    main()
