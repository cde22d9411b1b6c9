"""All benches, one after another, as one table.

    python scripts/bench/all.py [--full] [--only NAME ...] [--write docs/performance.md]

Each bench runs in a process of its own. `--write` puts the tables between the marks of their size
in a page, so that every figure there comes from here; tables of benches that did not run stay.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from rows import Row, markdown

HERE = Path(__file__).resolve().parent
BENCHES = {
    "engine": "The engine keeps the endpoint busy",
    "graph": "MemGAS at scale",
    "encoders": "Encoders",
    "chat": "The in-process chat model",
    "scoring": "Scoring and start-up",
}
SIZES = {False: "quick", True: "full"}
MARKS = "<!-- {size} bench: from here -->", "<!-- {size} bench: to here -->"


def measured(name: str, full: bool) -> list[Row]:
    """Run one bench; a bench that breaks is a row that does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(out)]
        done = subprocess.run(command + ["--full"] * full, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
            return [
                {
                    "case": f"{name}: broke",
                    "ours": None,
                    "reference": None,
                    "unit": "",
                    "ratio": None,
                    "bar": 0,
                    "holds": False,
                }
            ]
        rows: list[Row] = json.loads(out.read_text(encoding="utf-8"))
        return rows


def machine() -> str:
    """Describe this machine in a line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    import torch

    cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    gpu = ", ".join(cards) or "no GPU"
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores of {model}, {gpu}, Python {platform.python_version()}"


def write(page: Path, size: str, parts: dict[str, str]) -> None:
    """Put the tables of some benches between the marks of their size in a page."""
    start, end = (mark.format(size=size) for mark in MARKS)
    old = page.read_text(encoding="utf-8")
    head, _, rest = old.partition(start)
    inside, mark, tail = rest.partition(end)
    if not mark:
        raise SystemExit(f"error: {page} lacks the marks {start} and {end}.")
    there = {part.partition("\n")[0]: part.strip() for part in inside.split("### ")[1:]}
    kept = {name: f"### {there[title]}" for name, title in BENCHES.items() if title in there}
    kept |= parts
    text = "\n\n".join(kept[name] for name in BENCHES if name in kept)
    page.write_text(f"{head}{start}\n\n{text}\n\n{end}{tail}", encoding="utf-8")


def main() -> int:
    """Measure and print; the exit status is 1 if a bar does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="all sizes, more repeats")
    parser.add_argument("--only", nargs="+", choices=list(BENCHES), default=list(BENCHES))
    parser.add_argument("--write", type=Path, help="a page with the marks")
    options = parser.parse_args()
    size, began, worst = SIZES[options.full], time.perf_counter(), 0
    parts: dict[str, str] = {}
    for name in options.only:
        start = time.perf_counter()
        rows = measured(name, options.full)
        minutes = (time.perf_counter() - start) / 60
        said = f"Measured {date.today()} in {minutes:.1f} minutes on {machine()}."
        parts[name] = f"### {BENCHES[name]}\n\n{said}\n\n{markdown(rows)}"
        print(f"\n{parts[name]}", flush=True)
        worst = max(worst, int(any(not r["holds"] for r in rows)))
    print(f"\n{size}: {(time.perf_counter() - began) / 60:.1f} minutes in all")
    if options.write:
        write(options.write, size, parts)
    return worst


if __name__ == "__main__":
    sys.exit(main())
