"""10,000 calls to a server of which every fifth goes wrong: nothing lost, no limit passed.

    python scripts/bench/faults.py [--quick] [--calls 10000] [--rpm 4800]

One system answers invented questions, first from a faultless server, then from one that fails in
eight ways. Then three systems that share prompts run at once, in one process and in three. The
server counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import arena

KINDS = ("429", "500", "503", "reset", "slow", "truncated", "empty", "model")
SHARING = ("keyword", "summary", "combination")
TIMEOUT, STALL = 2.0, 3.0  # seconds: of the client's patience, and of a slow body's pause
CREDIT = 0.5  # seconds by which a late call lets the next one follow sooner (memsys.llm.limits)


def main() -> int:
    """Run the three parts and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.2, help="of the calls that go wrong")
    parser.add_argument("--rpm", type=int, default=4800, help="requests a minute that are allowed")
    parser.add_argument("--window", type=float, default=60.0, help="seconds over which to count")
    parser.add_argument("--quick", action="store_true", help="1,000 calls, counted over 5 s")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.calls, arguments.window = 1000, 5.0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = _faults(arguments, folder) + _sharing(folder)
        leaks = arena.leaks(folder)
    rows += [
        ("files that hold the key", str(len(leaks)), not leaks),
        ("seconds", f"{time.monotonic() - began:.0f}", None),
    ]
    return arena.table(f"{arguments.calls:,} calls, {arguments.share:.0%} faults", rows)


def _faults(arguments: argparse.Namespace, folder: Path) -> list[arena.Row]:
    runs = arena.Runs(arena.write_conversations(folder / "talks.json", 10, arguments.calls))
    system = ["method=full", "concurrency.questions=64"]
    good, bad = folder / "good", folder / "bad"
    with arena.server() as url:
        arena.wait(runs.start([system], _made(good), {"base_url": url}), good)
        undisturbed = arena.stats(url)
    _say(f"{undisturbed['requests']:,} calls without a fault")
    faults = ",".join(f"{kind}={arguments.share / len(KINDS)}" for kind in KINDS)
    settings: dict[str, Any] = {
        "requests_per_minute": arguments.rpm,
        "timeout_s": TIMEOUT,
        "max_retries": 2,
        "backoff_s": 0.05,
    }
    options = ("--faults", faults, "--window", str(arguments.window), "--stall", str(STALL))
    with arena.server(*options) as url:
        settings["base_url"] = url
        began = time.monotonic()
        arena.wait(runs.start([system], _made(bad), settings), bad, allowed=(0, 3))
        failed = sum(bool(record["error"]) for record in _records(bad))
        recorded = len(_records(bad))
        between = arena.stats(url)
        _say(f"{between['requests']:,} requests with faults, {failed} questions failed")
        # the same command again asks what failed, and nothing else
        settings["max_retries"] = 8
        arena.wait(runs.start([system], bad, settings), bad)
        minutes = (time.monotonic() - began) / 60
        seen = arena.stats(url)
    whole, ours = arena.outcome(good), arena.outcome(bad)
    allowed = int(arguments.rpm * (arguments.window + CREDIT) / 60.6) + 1
    if arguments.window >= 60:
        allowed = int(arguments.rpm * arguments.window / 60)
    injected = sum(seen["faults"].values())
    # an answer that comes while this machine is busy may find that nobody waits any more
    repeats = {call: times - 1 for call, times in seen["answered_by_content"].items()}
    late = sum(min(times, seen["untaken"].get(call, 0)) for call, times in repeats.items())
    again = sum(repeats.values()) - late
    return [
        ("requests that the server saw", f"{seen['requests']:,}", None),
        ("of them faults", f"{injected:,}", injected > 0.8 * arguments.share * arguments.calls),
        ("kinds of fault met", f"{len(seen['faults'])} of {len(KINDS)}",
         len(seen["faults"]) == len(KINDS)),
        ("questions answered or with a recorded error", f"{recorded:,}",
         recorded == arguments.calls),
        ("failed at first (two retries)", str(failed), failed > 0 or arguments.calls < 5000),
        ("failed after the same command again", str(sum(bool(r["error"]) for r in _records(bad))),
         not any(r["error"] for r in _records(bad))),
        ("calls answered again, since nobody waited any more", str(late),
         late <= arguments.calls / 1000),
        ("calls asked again though their answer had been taken", str(again), again == 0),
        ("calls of the second command", f"{seen['requests'] - between['requests']:,}",
         seen["requests"] - between["requests"] <= 3 * failed + 5),
        ("records and scores equal to the faultless run's",
         f"{sum(whole[n] == ours.get(n) for n in whole)} of {len(whole)}", whole == ours),
        (f"most requests in any {arguments.window:g} s (allowed {allowed:,})",
         f"{seen['most_per_window']:,}", seen["most_per_window"] <= allowed),
        ("requests a minute on average", f"{seen['requests'] / minutes:,.0f}", None),
        ("different calls", f"{len(seen['by_content']):,}",
         set(seen["by_content"]) == set(undisturbed["by_content"])),
    ]  # fmt: skip


def _sharing(folder: Path) -> list[arena.Row]:
    runs = arena.Runs(arena.write_conversations(folder / "shared.json", 4, 40))
    systems = [[f"method={name}"] for name in SHARING]
    rows: list[arena.Row] = []
    for label, groups in (("one process", [systems]), ("three processes", [[s] for s in systems])):
        results = _made(folder / label.replace(" ", "-"))
        with arena.server("--latency", "0.1") as url:
            pids = [runs.start(group, results, {"base_url": url}) for group in groups]
            for pid in pids:
                arena.wait(pid, results)
            seen = arena.stats(url)
        total = sum(len(record["calls"]) for record in _records(results, "builds.jsonl"))
        total += sum(len(record["calls"]) for record in _records(results))
        text = f"three systems in {label}: calls wanted, made, repeated"
        repeated = seen["requests"] - len(seen["by_content"])
        rows.append((text, f"{total}, {seen['requests']}, {repeated}", repeated == 0))
    return rows


def _say(text: str) -> None:
    print(f"  … {text}", file=sys.stderr, flush=True)


def _records(results: Path, name: str = "records.jsonl") -> list[dict[str, Any]]:
    from eval.records import read_records

    return [record for path in (results / "runs").rglob(name) for record in read_records(path)]


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
