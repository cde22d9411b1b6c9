"""Draw figures: run what they need, or draw them from runs that are there.

    python scripts/figure.py memgas-5-alpha memgas-5-lambda --profile embedded
    python scripts/figure.py --paper mgretrieval --number 3 --profile paper
    python scripts/figure.py --list

Writes results/figures/NAME-PROFILE.{csv,svg,png}. Further arguments of the form key=value are
settings for every run (see scripts/run.py --help).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memsys.cli import FAILED_QUESTIONS, console, guarded


def main() -> int:
    """Draw the named figures, or all of a paper."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="FIGURE|KEY=VALUE")
    parser.add_argument("--paper", action="append", default=[], help="memgas, mgretrieval, ours")
    parser.add_argument("--number", help="which of the paper's figures; default: all")
    parser.add_argument("--profile", default="embedded", help="embedded, paper, local")
    parser.add_argument("--no-run", action="store_true", help="only draw from finished runs")
    parser.add_argument("--no-draw", action="store_true", help="write the data alone")
    parser.add_argument("--out", type=Path, help="where to write (default results/figures)")
    parser.add_argument("--parallel", type=int, default=16, help="runs at a time (default 16)")
    parser.add_argument("--list", action="store_true", help="list the figures there are")
    arguments = parser.parse_intermixed_args()

    from eval.config import names_and_settings, results_folder, shown_path
    from eval.figures.spec import figure_names, find_figures, load_figure

    if arguments.list:
        for name in figure_names():
            print(f"{name:<24} {load_figure(name).title}")
        return 0
    names, extra = names_and_settings(arguments.names)
    for paper in arguments.paper:
        names += find_figures(paper, arguments.number)
    if not names:
        parser.error("name a figure (--list shows all), or --paper")
    for name in names:
        load_figure(name)

    from eval.figures.style import reasons, styled

    if not arguments.no_draw:
        with styled():  # without matplotlib this ends here, before anything is run
            pass

    from eval.command import resources, runner
    from eval.figures.make import make_figure
    from eval.progress import Board
    from eval.run import first_error
    from eval.tables.reproduce import Runs
    from eval.tracking import follow_command, split_settings

    tracking, extra = split_settings(extra)
    results, profile = results_folder(extra), arguments.profile
    out = console()
    folder = arguments.out or results / "figures"
    undrawn = 0
    with (
        Board("auto") as board,
        follow_command(tracking, "figure", names, profile, extra, results, board) as following,
    ):
        runs = Runs(resources(), board, parallel=arguments.parallel, ask=not arguments.no_run)
        for name in names:
            making = make_figure(name, profile, extra, runs, folder, draw=not arguments.no_draw)
            try:
                made = runner().run(making)
            except BaseExceptionGroup as group:
                raise first_error(group) from group
            following.figure(name, profile, folder)
            paths = ", ".join(shown_path(path) for path in made.written)
            out.print(f"{name}: written {paths}", highlight=False, soft_wrap=True)
            for reason in reasons(made.points):
                out.print(f"  left out: {reason}", highlight=False, soft_wrap=True)
            if made.undrawn and not arguments.no_draw:
                undrawn += 1
                out.print("  nothing to draw", style="bold", highlight=False)
    totals = runs.totals
    out.print(
        f"{totals.runs} runs: {totals.asked} questions asked, {totals.failed} failed; "
        f"{totals.paid_calls} chat calls made, {totals.stored_calls} from the store",
        highlight=False,
        soft_wrap=True,
    )
    if undrawn:
        out.print(f"{undrawn} figures could not be drawn here; the reasons are above")
    return FAILED_QUESTIONS if totals.failed else 0


if __name__ == "__main__":
    guarded(main)
