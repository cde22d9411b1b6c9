"""SIGKILL, again and again: what was paid for is kept, and the outcome is as if undisturbed.

    python scripts/bench/kills.py [--kills 200] [--questions 300]

Four systems answer invented questions with a scripted server; their processes are killed at random
moments and started anew. The server counts what is asked twice.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import arena

SYSTEMS = ["full", "rag", "memgas", "mgretrieval"]
IN_FLIGHT = 8


def main() -> int:
    """Run undisturbed, run killed, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = arena.write_conversations(folder / "talks.json", 6, arguments.questions)
        runs = arena.Runs(data)
        options = ("--mark", "--latency", "0.02")
        with arena.server(*options) as url:
            bench = Bench(folder / "whole", runs, url)
            for system in SYSTEMS:
                bench.undisturbed(system)
            each = bench.calls
            calls = arena.stats(url)["by_content"]
        whole = arena.outcome(folder / "whole")
        with arena.server(*options) as url:
            bench = Bench(folder / "killed", runs, url)
            per_system = _split(arguments.kills, arguments.seed)
            for system, kills in zip(SYSTEMS, per_system, strict=True):
                dice = random.Random(f"{arguments.seed}/{system}")
                bench.killed(system, kills, each[system], dice)
            seen = arena.stats(url)
        return _report(arguments, bench, calls, seen, whole, time.monotonic() - began)


def _split(kills: int, seed: int) -> list[int]:
    """Spread the kills over the systems."""
    dice = random.Random(seed)
    order = dice.sample(range(len(SYSTEMS)), len(SYSTEMS))
    return [kills // len(SYSTEMS) + (i in order[: kills % len(SYSTEMS)]) for i in range(4)]


class Bench:
    """Starts runs in one results folder, kills some, and keeps count."""

    def __init__(self, folder: Path, runs: arena.Runs, url: str) -> None:
        self.folder, self.runs, self.url = folder, runs, url
        folder.mkdir()
        self.calls: dict[str, int] = {}
        self.kills = self.lost = self.most_lost = self.asked_again = self.while_starting = 0
        self.committed: Counter[str] = Counter()  # content hash → times asked when it was stored

    def start(self, system: str) -> int:
        """Start a run of `system`."""
        llm = {"base_url": self.url, "concurrency": IN_FLIGHT, "backoff_s": 0.05}
        return self.runs.start([[f"method={system}", "concurrency.questions=6"]], self.folder, llm)

    def undisturbed(self, system: str) -> None:
        """Let a run come to its end, and count its calls."""
        before = arena.stats(self.url)["requests"]
        arena.wait(self.start(system), self.folder)
        self.calls[system] = arena.stats(self.url)["requests"] - before

    def killed(self, system: str, kills: int, calls: int, dice: random.Random) -> None:
        """Kill a run of `calls` calls so often, at random calls or while it starts; then finish."""
        first = len(self.committed)
        for left in range(kills, 0, -1):
            # together the lives come to most of the run; each goes a little further than planned
            mean = 0.8 * (calls - len(self.committed) + first) / (left + 1) - 1
            after = int(dice.uniform(0, 2 * max(0.0, mean))) if dice.random() < 0.9 else 0
            before = arena.stats(self.url)
            pid = self.start(system)
            self._wait(pid, before, after, 60.0 if after else dice.uniform(0, 1.0))
            time.sleep(dice.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._account(before["requests"])
        arena.wait(self.start(system), self.folder)
        self._account(None)

    def _wait(self, pid: int, before: dict[str, Any], after: int, seconds: float) -> None:
        """Wait for `after` more answers; for none, until the first call, or so many seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                raise SystemExit("a run finished before it could be killed: ask more questions")
            seen = arena.stats(self.url)
            if seen["answered"] - before["answered"] >= max(after, 1):
                return
            if not after and seen["requests"] > before["requests"]:
                return
            time.sleep(0.004)

    def _account(self, before: int | None) -> None:
        """Note what was lost by a kill, and that nothing stored was asked again."""
        while (seen := arena.stats(self.url))["now"]:
            time.sleep(0.005)
        stored = self._stored()
        asked: dict[str, int] = seen["by_content"]
        self.asked_again += sum(asked[mark] > times for mark, times in self.committed.items())
        fresh = stored - self.committed.keys()
        if before is not None:
            requests = seen["requests"] - before
            self.kills += 1
            self.while_starting += requests == 0
            self.lost += requests - len(fresh)
            self.most_lost = max(self.most_lost, requests - len(fresh))
        self.committed |= {mark: asked[mark] for mark in fresh}

    def _stored(self) -> set[str]:
        from memsys.stores.segments import SegmentStore

        store = SegmentStore(self.folder / "stores" / "replies")
        return {store.get(key)["model"].split()[-1] for key in store.keys()}  # noqa: SIM118


def _report(
    arguments: argparse.Namespace,
    bench: Bench,
    calls: dict[str, int],
    seen: dict[str, Any],
    whole: dict[str, Any],
    seconds: float,
) -> int:
    from memsys.stores.survey import verify

    killed = arena.outcome(bench.folder)
    health = verify(bench.folder / "stores")
    damaged = sum(found.damaged for found in health.values())
    questions = sum(len(v) for k, v in whole.items() if k.endswith("/records.jsonl"))
    repeats = seen["requests"] - len(seen["by_content"])
    differing = [name for name in whole if whole[name] != killed.get(name)]
    leaks = arena.leaks(bench.folder)
    for name in differing[:5]:
        print(f"differs: {name}")
    return arena.table(
        f"{bench.kills} SIGKILLs over {questions} questions of {len(SYSTEMS)} systems",
        [
            ("kills before the first call of a life", str(bench.while_starting), None),
            ("calls of the undisturbed runs", f"{sum(calls.values()):,}", None),
            ("different calls, killed against undisturbed",
             f"{len(seen['by_content']):,}", set(seen["by_content"]) == set(calls)),
            ("stored replies that were asked again", str(bench.asked_again),
             bench.asked_again == 0),
            ("calls made more than once", str(repeats), repeats <= bench.lost),
            ("calls in flight at the kills", str(bench.lost), None),
            (f"most in flight at one kill (limit {IN_FLIGHT})", str(bench.most_lost),
             bench.most_lost <= IN_FLIGHT),
            ("files of records and scores that differ", f"{len(differing)} of {len(whole)}",
             not differing and killed.keys() == whole.keys()),
            ("damaged records in the stores", str(damaged), damaged == 0),
            ("bytes of torn tails and drafts, ignored",
             str(sum(h.torn for h in health.values())), None),
            ("files that hold the key", str(len(leaks)), not leaks),
            ("seconds", f"{seconds:.0f}", None),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
