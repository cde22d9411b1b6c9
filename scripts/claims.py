"""Hold a paper's claims against runs.

    python scripts/claims.py --paper mgretrieval --profile embedded
    python scripts/claims.py --paper mgretrieval --no-run     (only from finished runs)

Without --paper: every ledger there is. The runs are those of the tables that the claims name; what
is there already costs nothing. Arguments of the form key=value are settings for every run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memsys.cli import FAILED_QUESTIONS, console, guarded
from memsys.errors import UserError, suggest


def main() -> int:
    """Judge the ledgers, print them, and write them into results/tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--paper", action="append", default=[], help="mgretrieval, memgas")
    parser.add_argument("--profile", default="embedded", help="embedded, paper, local")
    parser.add_argument("--no-run", action="store_true", help="only from finished runs")
    parser.add_argument("--parallel", type=int, default=16, help="runs at a time (default 16)")
    parser.add_argument("--out", type=Path, help="where to write (default results/tables)")
    options = parser.parse_intermixed_args()
    for setting in options.settings:
        if "=" not in setting:
            parser.error(f"'{setting}' should be of the form key=value")

    from eval.claims.spec import ledger_names, load_ledger
    from eval.outside import config_names

    known = config_names("profile")
    if options.profile not in known:
        raise UserError(
            f"There is no profile '{options.profile}'.{suggest(options.profile, known)}"
        )
    ledgers = [load_ledger(paper) for paper in options.paper or ledger_names()]

    from eval.claims.evidence import Shelf
    from eval.claims.ledger import judged
    from eval.claims.write import show_ledger, write_ledger
    from eval.command import resources, runner
    from eval.config import CONFIGS, results_folder, shown_path
    from eval.prices import PriceList
    from eval.progress import Board
    from eval.run import first_error
    from eval.tables.reproduce import Runs

    out = console()
    prices = PriceList.read(CONFIGS)
    found = []
    with Board("off" if options.no_run else "auto") as board:
        runs = Runs(resources(), board, parallel=options.parallel, ask=not options.no_run)
        shelf = Shelf(options.profile, runs, options.settings)
        try:
            found = [runner().run(judged(ledger, shelf, prices)) for ledger in ledgers]
        except BaseExceptionGroup as group:
            raise first_error(group) from group
    folder = options.out or results_folder(options.settings) / "tables"
    for ledger in found:
        show_ledger(ledger, out)
        for path in write_ledger(ledger, folder):
            out.print(f"written: {shown_path(path)}", highlight=False, soft_wrap=True)
    return FAILED_QUESTIONS if runs.totals.failed else 0


if __name__ == "__main__":
    guarded(main)
