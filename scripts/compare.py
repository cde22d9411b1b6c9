"""Compare two runs question by question: differences, wins, flips, settings, costs.

    python scripts/compare.py RUN_A RUN_B
    python scripts/compare.py locomo/memgas locomo/mgretrieval --measure f1_squad --csv flips.csv

A run is its folder, or the end of its name: a method, dataset/method, or the beginning of its
fingerprint. Runs that differ in data, questions, gold answers, answer prompt, judge or measure
are refused, unless --anyway is given.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memsys.cli import console, guarded
from memsys.errors import UserError


def main() -> int:
    """Find the runs, refuse what is no comparison, compare, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a", metavar="RUN_A")
    parser.add_argument("b", metavar="RUN_B")
    parser.add_argument(
        "--measure",
        metavar="a,b,…",
        help="the first one decides what is listed as flipped (default: what both were scored by)",
    )
    parser.add_argument("--anyway", action="store_true", help="compare what should not be compared")
    parser.add_argument("--flips", type=int, default=10, metavar="N", help="list N of each kind")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write one line a question")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where runs/ is (results)")
    arguments = parser.parse_args()

    from eval.compare.paired import compare, measures_of_both, obstacles
    from eval.compare.show import show, write_csv
    from eval.config import CONFIGS, ROOT
    from eval.measures.registry import parse_all
    from eval.prices import PriceList
    from eval.runfolder import find_run

    results = arguments.results or ROOT / "results"
    a, b = find_run(arguments.a, results), find_run(arguments.b, results)
    measures = parse_all(arguments.measure) if arguments.measure else measures_of_both(a, b)
    found = obstacles(a, b, measures)
    out = console()
    if found and not arguments.anyway:
        raise UserError(
            "\n  ".join(["These runs are no comparison of two systems:", *found])
            + "\nGive --anyway to compare the questions that both have."
        )
    for sentence in found:
        out.print(f"[yellow]not alike:[/yellow] {sentence}", highlight=False, soft_wrap=True)
    paired = [compare(a, b, measure) for measure in measures]
    show(a, b, paired, PriceList.read(CONFIGS), out, arguments.flips)
    if arguments.csv is not None:
        write_csv(paired, arguments.csv)
        out.print(f"written: {arguments.csv}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    guarded(main)
