"""Write one self-contained HTML file about runs: tables, figures, costs, every question.

    python scripts/report.py                         # every run below results/runs
    python scripts/report.py results/runs/locomo/memgas results/runs/locomo/mgretrieval
    python scripts/report.py --no-text --out results/report-public.html

Open the file from disk: it needs no server and loads nothing from any network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memsys.cli import guarded


def main() -> int:
    """Build the report of the named runs, or of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="FOLDER", help="runs, or folders that hold runs"
    )
    parser.add_argument("--all", action="store_true", help="every run of --results (the default)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: RESULTS/report.html")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="where runs, tables and figures lie (default: results of this checkout)",
    )
    parser.add_argument(
        "--stores",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a further folder of stores, for the texts of memories",
    )
    parser.add_argument(
        "--no-text",
        action="store_true",
        help="leave conversation text out (several benchmarks may not be passed on)",
    )
    arguments = parser.parse_args()
    if arguments.all and arguments.runs:
        parser.error("name folders, or --all, not both")

    from eval.config import ROOT
    from eval.report.build import build_report

    results = arguments.results or ROOT / "results"
    built = build_report(
        arguments.runs or [results / "runs"],
        arguments.out or results / "report.html",
        results=results,
        stores=arguments.stores,
        text=not arguments.no_text,
    )
    for reason in built.left_out:
        print(f"left out: {reason}")
    print(f"{built.runs} runs, {built.questions:,} questions, {built.size / 1e6:.1f} MB")
    print(f"written: {built.path}")
    if not arguments.no_text:
        print("it may quote benchmark conversations: see its footer before passing it on")
    return 0


if __name__ == "__main__":
    guarded(main)
